//! Character references of HTML and XML: `&lt;`, `&#39;`, `&#x27;`.

use super::Decoded;

/// The names of the characters from U+00A0 to U+00FF, in order.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr \
    deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 \
    frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute \
    Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml \
    times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde \
    auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth \
    ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml \
    yacute thorn yuml";

const NAME_BYTES_MAX: usize = 6;
/// The most digits that a number may have: zeros in front of it do not count for its value.
const DIGITS_MAX: usize = 10;

/// The character of the reference that begins here. A number need not be closed by a semicolon, as
/// in browsers; a name must be.
pub(super) fn reference(rest: &[u8]) -> Option<Decoded> {
    match rest {
        [b'&', b'#', b'x' | b'X', digits @ ..] => number(digits, 3, 16),
        [b'&', b'#', digits @ ..] => number(digits, 2, 10),
        [b'&', name @ ..] => {
            let length = name.iter().take(NAME_BYTES_MAX + 1).position(|byte| *byte == b';')?;
            let char = named(std::str::from_utf8(name.get(..length)?).ok()?)?;
            Some(Decoded::char(char, length + 2))
        }
        _ => None,
    }
}

fn number(digits: &[u8], before: usize, radix: u32) -> Option<Decoded> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let length = digits.iter().take(DIGITS_MAX).take_while(is_digit).count();
    let text = std::str::from_utf8(digits.get(..length)?).ok().filter(|text| !text.is_empty())?;
    let code = u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
    let closed = usize::from(digits.get(length) == Some(&b';'));
    // A reference to no character must not hide the text around it.
    Some(Decoded::char(code.unwrap_or(char::REPLACEMENT_CHARACTER), before + length + closed))
}

/// For letters with two cases, either: the search ignores case.
fn named(name: &str) -> Option<char> {
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    match name.to_ascii_lowercase().as_str() {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => {}
    }
    let at = LATIN.split(' ').position(is)?;
    char::from_u32(0xa0 + u32::try_from(at).ok()?)
}
