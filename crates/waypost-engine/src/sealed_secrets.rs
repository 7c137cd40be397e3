//! Secrets sealed to the public key of a remote worker: HPKE (RFC 9180) in base mode, with
//! DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305.
//!
//! ```text
//!   info = "waypost secrets 1"
//!   aad  = token LF attempt LF execution LF node
//! ```
//!
//! So nothing between the instance and the worker can read the values, and a sealed text opens only
//! for the delivery that it was made for. The key pair is the worker's alone: it makes one at its start
//! and sends the public half with each poll.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_CHACHA20_POLY1305 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke, HpkePrivateKey, HpkePublicKey};
use waypost_core::id::{ExecutionId, Token};

const INFO: &[u8] = b"waypost secrets 1";

/// Bytes of a public key.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// Ends the name of a queue whose tasks have secrets; no handler's name can have a `+`.
const QUEUE_SUFFIX: &str = "+secrets";

/// The queue in which the tasks of a handler wait that have secrets. Only workers with a public key take
/// from it, through an instance that can seal: neither a worker without a key nor an older instance
/// can take such a task, and none stands in the way of other tasks.
pub fn secrets_queue(handler: &str) -> Arc<str> {
    format!("{handler}{QUEUE_SUFFIX}").into()
}

/// The handler whose tasks wait in a queue.
pub fn handler_of(queue: &str) -> &str {
    queue.strip_suffix(QUEUE_SUFFIX).unwrap_or(queue)
}

/// Is it a queue of tasks with secrets?
pub fn is_secrets_queue(queue: &str) -> bool {
    queue.ends_with(QUEUE_SUFFIX)
}

/// The public key of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey(pub [u8; PUBLIC_KEY_BYTES]);

impl fmt::Display for PublicKey {
    /// In base64.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_STANDARD.encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| SealError::BadKey)?;
        bytes.try_into().map(Self).map_err(|_| SealError::BadKey)
    }
}

/// The delivery that a sealed text is for.
#[derive(Clone, Copy, Debug)]
pub struct SealedFor<'a> {
    pub execution: &'a ExecutionId,
    pub node: &'a str,
    pub attempt: u32,
    pub token: Token,
}

impl SealedFor<'_> {
    fn bytes(&self) -> Vec<u8> {
        let Self { execution, node, attempt, token } = self;
        // The last part alone could have a line feed in it, so that no two deliveries are equal.
        format!("{token}\n{attempt}\n{execution}\n{node}").into_bytes()
    }
}

/// A text that only one worker can open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedText {
    /// The encapsulated key.
    pub enc: Vec<u8>,
    pub ciphertext: Vec<u8>,
}

/// Why a text cannot be sealed or opened. Says nothing about its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    #[error("the public key is not a point that a secret can be sealed to")]
    BadKey,
    #[error("the secrets were not sealed to this worker's key for this delivery, or were changed")]
    Broken,
}

impl PublicKey {
    /// Seals a text for one delivery.
    pub fn seal(&self, of: &SealedFor<'_>, text: &[u8]) -> Result<SealedText, SealError> {
        let to = HpkePublicKey(self.0.to_vec());
        let sealed = SUITE.seal(INFO, &of.bytes(), text, &to).map_err(|_| SealError::BadKey)?;
        let (EncapsulatedSecret(enc), ciphertext) = sealed;
        Ok(SealedText { enc, ciphertext })
    }
}

/// The key pair of a worker.
pub struct WorkerKeys {
    public: PublicKey,
    private: HpkePrivateKey,
}

impl fmt::Debug for WorkerKeys {
    /// Without the private half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerKeys").field("public", &self.public).finish_non_exhaustive()
    }
}

impl WorkerKeys {
    /// A new key pair.
    pub fn generate() -> Result<Self, SealError> {
        let (HpkePublicKey(public), private) =
            SUITE.generate_key_pair().map_err(|_| SealError::BadKey)?;
        let public = <[u8; PUBLIC_KEY_BYTES]>::try_from(public).map_err(|_| SealError::BadKey)?;
        Ok(Self { public: PublicKey(public), private })
    }

    /// The half that others may have.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Opens what was sealed to this worker for this delivery.
    pub fn open(&self, of: &SealedFor<'_>, sealed: &SealedText) -> Result<Vec<u8>, SealError> {
        let enc = EncapsulatedSecret(sealed.enc.clone());
        let opened = SUITE.open(&enc, INFO, &of.bytes(), &sealed.ciphertext, &self.private);
        opened.map_err(|_| SealError::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_text_opens_with_its_key_for_its_delivery_and_no_other() {
        let [keys, other] = [1, 2].map(|_| WorkerKeys::generate().unwrap());
        let [one, two] = ["exe_1", "exe_2"].map(|id| ExecutionId(id.into()));
        let of = |execution, node, attempt, token| SealedFor {
            execution,
            node,
            attempt,
            token: Token(token),
        };
        let right = of(&one, "a", 1, 7);
        let sealed = keys.public().seal(&right, b"canary").unwrap();
        assert_eq!(keys.open(&right, &sealed).unwrap(), b"canary");
        assert!(!sealed.ciphertext.windows(6).any(|part| part == b"canary"));
        assert_eq!(other.open(&right, &sealed), Err(SealError::Broken));
        for wrong in
            [of(&two, "a", 1, 7), of(&one, "b", 1, 7), of(&one, "a", 2, 7), of(&one, "a", 1, 8)]
        {
            assert_eq!(keys.open(&wrong, &sealed), Err(SealError::Broken), "{wrong:?}");
        }
        for at in 0..sealed.ciphertext.len() {
            let mut changed = sealed.clone();
            changed.ciphertext[at] ^= 1;
            assert_eq!(keys.open(&right, &changed), Err(SealError::Broken), "byte {at}");
        }
        let again = keys.public().seal(&right, b"canary").unwrap();
        assert_ne!(again, sealed, "each has a key of its own");
        assert!(!format!("{keys:?}").contains("private"));
    }

    #[test]
    fn key_without_order_is_refused() {
        let key = ExecutionId("exe_1".into());
        let of = SealedFor { execution: &key, node: "a", attempt: 1, token: Token(1) };
        assert_eq!(PublicKey([0; 32]).seal(&of, b"canary"), Err(SealError::BadKey));
    }
}
