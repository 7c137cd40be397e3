//! Sealing: values that only this cluster can read. Anyone with write access to Redis can store any
//! bytes under any key; only a value that this cluster sealed, for this purpose and under this key,
//! opens.
//!
//! A sealed value is a version, a random salt, and AES-256-GCM of the rest. Every value has its own
//! key, derived from the salt, so nonces cannot repeat however many values are sealed: a cluster
//! keeps one secret for its whole life.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;

/// The layout of a sealed value.
const VERSION: u8 = 1;
const SALT_BYTES: usize = 24;
const HEAD_BYTES: usize = 1 + SALT_BYTES;

/// What a value is for. A value that was sealed for another purpose does not open.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Task,
    Mail,
    /// The answer to mail.
    Answer,
    /// The state of a parked execution.
    Context,
    /// A worker's sign of life.
    Presence,
    /// A token that a worker is to stop.
    Cancel,
}

/// What a key is derived for, in the order of [`Purpose`].
const CONTEXTS: [&str; 6] = [
    "waypost 2026-11 redis task",
    "waypost 2026-11 redis mail",
    "waypost 2026-11 redis answer",
    "waypost 2026-11 redis context",
    "waypost 2026-11 redis presence",
    "waypost 2026-11 redis cancel",
];

/// Holds secrets, and is therefore not printable.
pub(crate) struct Sealer {
    keys: [[u8; 32]; CONTEXTS.len()],
    digests: [u8; 32],
}

impl Sealer {
    /// From the secret that all instances of a cluster share.
    pub(crate) fn new(cluster_key: &[u8; 32]) -> Self {
        Self {
            keys: CONTEXTS.map(|context| blake3::derive_key(context, cluster_key)),
            digests: blake3::derive_key("waypost 2026-11 redis digest", cluster_key),
        }
    }

    /// Seals a value for a place: the key it is stored under, and whatever else it belongs to.
    pub(crate) fn seal(&self, purpose: Purpose, place: &[u8], value: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(HEAD_BYTES + value.len() + AES_256_GCM.tag_len());
        sealed.resize(HEAD_BYTES, VERSION);
        rand::fill(&mut sealed[1..]).expect("the system has randomness");
        let key = self.key(purpose, &sealed[1..]);
        let mut body = value.to_vec();
        key.seal_in_place_append_tag(nonce(), Aad::from(place), &mut body)
            .expect("values are far below the limit of the cipher");
        sealed.extend_from_slice(&body);
        sealed
    }

    /// Opens a value that was sealed for this purpose and place, and no other.
    pub(crate) fn open(&self, purpose: Purpose, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (head, body) = sealed.split_at_checked(HEAD_BYTES)?;
        let (version, salt) = head.split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut body = body.to_vec();
        let opened = self.key(purpose, salt).open_in_place(nonce(), Aad::from(place), &mut body);
        let bytes = opened.ok()?.len();
        body.truncate(bytes);
        Some(body)
    }

    /// A short name that does not reveal its parts, equal on all instances of a cluster.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.digests);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    fn key(&self, purpose: Purpose, salt: &[u8]) -> LessSafeKey {
        let key = blake3::keyed_hash(&self.keys[purpose as usize], salt);
        LessSafeKey::new(
            UnboundKey::new(&AES_256_GCM, key.as_bytes()).expect("a digest is as long as a key"),
        )
    }
}

/// A key is used once, so its one nonce may be anything.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_for_this_place_opens() {
        let sealer = Sealer::new(&[7; 32]);
        let sealed = sealer.seal(Purpose::Task, b"key", b"value");
        assert_eq!(sealer.open(Purpose::Task, b"key", &sealed).as_deref(), Some(&b"value"[..]));
        assert_eq!(sealer.open(Purpose::Task, b"other", &sealed), None);
        assert_eq!(sealer.open(Purpose::Mail, b"key", &sealed), None);
        assert_eq!(Sealer::new(&[8; 32]).open(Purpose::Task, b"key", &sealed), None);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert_eq!(sealer.open(Purpose::Task, b"key", &forged), None, "byte {at}");
            assert_eq!(sealer.open(Purpose::Task, b"key", &sealed[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn the_same_value_never_looks_the_same() {
        let sealer = Sealer::new(&[7; 32]);
        let seal = || sealer.seal(Purpose::Context, b"k", b"");
        assert_ne!(seal(), seal());
        assert!(!seal().windows(5).any(|window| window == b"value"));
    }

    #[test]
    fn digests_tell_parts_apart() {
        let sealer = Sealer::new(&[7; 32]);
        assert_ne!(sealer.digest(&[b"ab", b"c"]), sealer.digest(&[b"a", b"bc"]));
        assert_eq!(sealer.digest(&[b"a"]), Sealer::new(&[7; 32]).digest(&[b"a"]));
        assert_ne!(sealer.digest(&[b"a"]), Sealer::new(&[8; 32]).digest(&[b"a"]));
    }
}
