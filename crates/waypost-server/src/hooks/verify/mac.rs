//! Signatures by HMAC and by Ed25519.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use waypost_core::trigger::HashAlgorithm;

/// Signatures that one header may carry; more are not looked at.
const SIGNATURES_MAX: usize = 16;

/// Is one of these signatures made with one of these keys, over these pieces?
pub(super) fn is_signed(
    algorithm: HashAlgorithm,
    keys: &[impl AsRef<[u8]>],
    pieces: &[&[u8]],
    signatures: &[Vec<u8>],
) -> bool {
    keys.iter().any(|key| {
        let tag = tag(algorithm, key.as_ref(), pieces);
        let mut given = signatures.iter().take(SIGNATURES_MAX);
        given.any(|signature| is_equal(tag.as_ref(), signature))
    })
}

/// Is one of these signatures made with the private key of one of these public keys, over these pieces?
pub(super) fn is_signed_by_owner(
    keys: &[[u8; 32]],
    pieces: &[&[u8]],
    signatures: &[Vec<u8>],
) -> bool {
    if keys.is_empty() || signatures.is_empty() {
        return false;
    }
    let message = pieces.concat();
    keys.iter().any(|key| {
        let key = UnparsedPublicKey::new(&ED25519, key);
        let mut given = signatures.iter().take(SIGNATURES_MAX);
        given.any(|signature| key.verify(&message, signature).is_ok())
    })
}

fn tag(algorithm: HashAlgorithm, key: &[u8], pieces: &[&[u8]]) -> hmac::Tag {
    let algorithm = match algorithm {
        HashAlgorithm::Sha256 => hmac::HMAC_SHA256,
        HashAlgorithm::Sha512 => hmac::HMAC_SHA512,
    };
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    pieces.iter().for_each(|piece| context.update(piece));
    context.sign()
}

/// Compares in a time that depends on the lengths alone.
pub(super) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

/// Compares secrets, of which the length is one, too.
pub(super) fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    // The comparison of these hashes takes constant time.
    blake3::hash(one) == blake3::hash(other)
}

/// Reads hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Reads Base64 with its padding.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The digest of what is signed, for repeats.
pub(super) fn digest(pieces: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    *hasher.finalize().as_bytes()
}
