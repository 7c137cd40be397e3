//! The encodings in which a secret may come back: what servers and commands commonly do to text.
//!
//! The list is finite on purpose. A handler that wants to leak a secret can always encode it in another
//! way; this module prevents accidents.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use unicode_normalization::UnicodeNormalization as _;

use super::scrub::FORM_BYTES_MIN;

/// One form of a value, and where it is searched for.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    pub(super) within: Within,
}

/// Views of a text. If case does not matter, texts and forms are [`folded`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Within {
    /// As it is, in any case.
    Text,
    /// With the escapes of JSON strings and of program texts undone, in any case.
    Unescaped,
    /// With percent-encoding undone, in any case, every `+` as a space.
    Unpercented,
    /// With the character references of HTML and XML undone, in any case.
    Entities,
    /// Without line ends, in any case.
    Hex,
    /// Without line ends, to the letter. The characters beside a form may hold bits of it, too.
    Base64,
}

impl Within {
    pub(super) const ALL: &[Self] =
        &[Self::Text, Self::Unescaped, Self::Unpercented, Self::Entities, Self::Hex, Self::Base64];
}

/// All forms of a value, as it is and with its accents composed and decomposed.
pub(super) fn forms(value: &str) -> BTreeSet<Form> {
    let spellings =
        BTreeSet::from([value.to_owned(), value.nfc().collect(), value.nfd().collect()]);
    spellings.iter().flat_map(|value| forms_of(value)).collect()
}

fn forms_of(value: &str) -> impl Iterator<Item = Form> + use<> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lower = folded(value);
    let backwards = folded(&value.chars().rev().collect::<String>());
    let spaced = lower.replace('+', " ");
    // As URLs respell it, and as Rust's debug output does.
    let flat: String = lower.chars().filter(|char| !matches!(char, '\t' | '\r' | '\n')).collect();
    let slashed = flat.replace('\\', "/");
    let escaped = folded(&value.escape_debug().to_string());
    let texts = [
        (flat.clone(), Within::Text),
        (flat, Within::Unpercented),
        (slashed.clone(), Within::Text),
        (slashed, Within::Unpercented),
        (escaped, Within::Text),
        (lower.clone(), Within::Text),
        (backwards, Within::Text),
        (hex, Within::Hex),
        (lower.clone(), Within::Unescaped),
        (lower, Within::Entities),
        (spaced, Within::Unpercented),
    ];
    texts
        .into_iter()
        .chain(base64(value).map(|text| (text, Within::Base64)))
        .map(|(text, within)| Form { bytes: text.into_bytes(), within })
        .filter(|form| form.bytes.len() >= FORM_BYTES_MIN)
}

/// A text as it is compared where case does not matter.
fn folded(text: &str) -> String {
    text.chars().flat_map(folded_char).collect()
}

/// A letter without its case, including those that become several: `ß` is `SS` in upper case, and a
/// Greek sigma has two lower cases.
pub(super) fn folded_char(char: char) -> impl Iterator<Item = char> {
    char.to_uppercase().flat_map(char::to_lowercase)
}

/// The part that is sure to be in the base64 of any text around it: six bits a character, at any of
/// three offsets, without the characters that have bits of a neighbour.
fn base64(value: &str) -> impl Iterator<Item = String> + use<> {
    let value = value.to_owned();
    (0..3_usize).flat_map(move |before| {
        let bytes = [&[0; 2][..before], value.as_bytes()].concat();
        let from = (before * 8).div_ceil(6);
        let to = bytes.len() * 8 / 6;
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD]
            .map(|alphabet| alphabet.encode(&bytes).get(from..to).unwrap_or_default().to_owned())
    })
}
