//! The forms in which a value comes back: what servers and commands do to text on its way.
//!
//! A finite list, and it says so: somebody who is given a secret and wants to give it away can
//! encode it in a way that nobody foresaw. This is about what happens without anybody wanting it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::scrub::FORM_BYTES_MIN;

/// One form of a value, and where it is looked for.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    pub(super) within: Within,
}

/// Ways to look at a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Within {
    /// As it is, in lower case.
    Text,
    /// With the escapes of JSON strings undone, in lower case.
    Unescaped,
    /// With percent-encoding undone, in lower case, every `+` as a space.
    Unpercented,
    /// As it is, to the letter. The characters beside a form may hold bits of it, too.
    Base64,
}

/// All forms of a value.
pub(super) fn forms(value: &str) -> BTreeSet<Form> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lower = value.to_ascii_lowercase();
    let backwards = lower.chars().rev().collect();
    let spaced = lower.replace('+', " ");
    // As URLs respell it, and as Rust's debug output does.
    let flat: String = lower.chars().filter(|char| !matches!(char, '\t' | '\r' | '\n')).collect();
    let slashed = flat.replace('\\', "/");
    let escaped = value.escape_debug().to_string().to_ascii_lowercase();
    let texts = [
        (flat.clone(), Within::Text),
        (flat, Within::Unpercented),
        (slashed.clone(), Within::Text),
        (slashed, Within::Unpercented),
        (escaped, Within::Text),
        (lower.clone(), Within::Text),
        (backwards, Within::Text),
        (hex, Within::Text),
        (lower, Within::Unescaped),
        (spaced, Within::Unpercented),
    ];
    texts
        .into_iter()
        .chain(base64(value).map(|text| (text, Within::Base64)))
        .map(|(text, within)| Form { bytes: text.into_bytes(), within })
        .filter(|form| form.bytes.len() >= FORM_BYTES_MIN)
        .collect()
}

/// What of it is sure to stand in the base64 of any text around it: six bits a character, beginning
/// at any of three places, without the characters that hold bits of a neighbour.
fn base64(value: &str) -> impl Iterator<Item = String> {
    (0..3_usize).flat_map(move |before| {
        let bytes = [&[0; 2][..before], value.as_bytes()].concat();
        let from = (before * 8).div_ceil(6);
        let to = bytes.len() * 8 / 6;
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD]
            .map(|alphabet| alphabet.encode(&bytes).get(from..to).unwrap_or_default().to_owned())
    })
}
