//! The texts of an outcome, laid out one after the other so that each form is searched for once.
//!
//! A [`Layout`] has the texts as they are; a [`View`] of it has them decoded once more, with the
//! origin of every byte. Decoding the text finds a value however it was encoded; encoding the value
//! could not foresee every encoder's idea of which characters need it.

mod entities;

use std::ops::Range;

use super::forms::folded_char;

/// Separates two texts. No text contains it, for it is not UTF-8, and neither does a form.
const SEPARATOR: u8 = 0xff;

/// The texts that may contain secrets.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
}

/// A string or a number: its range in the source, quotes included, and its range in the layout.
pub(super) struct Piece {
    pub(super) source: Range<usize>,
    pub(super) laid: Range<usize>,
    kind: PieceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Text,
    Number,
}

impl Layout {
    pub(super) fn of_text(text: &str) -> Self {
        let mut layout = Self::default();
        layout.add(0..text.len(), text, PieceKind::Text);
        layout
    }

    /// The strings, keys included, and the numbers of a JSON text.
    pub(super) fn of_json(text: &str) -> Self {
        let mut layout = Self::default();
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let end = match byte {
                b'"' => string_end(bytes, at),
                b'-' | b'0'..=b'9' => number_end(bytes, at),
                _ => {
                    at += 1;
                    continue;
                }
            };
            let source = text.get(at..end).unwrap_or_default();
            match source.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
                Some(inside) => layout.add(at..end, &unescape(inside), PieceKind::Text),
                None => layout.add(at..end, source, PieceKind::Number),
            }
            at = end;
        }
        layout
    }

    fn add(&mut self, source: Range<usize>, text: &str, kind: PieceKind) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        self.pieces.push(Piece { source, laid: start..self.bytes.len(), kind });
        self.bytes.push(SEPARATOR);
    }

    pub(super) fn view(&self) -> View {
        let texts = self.pieces.iter().filter(|piece| piece.kind == PieceKind::Text);
        let texts = texts.map(|piece| piece.laid.clone()).collect();
        View { bytes: self.bytes.clone(), texts, origins: None }
    }

    /// The texts with the escapes of JSON undone.
    pub(super) fn unescaped(&self) -> Option<View> {
        self.bytes.contains(&b'\\').then(|| self.decoded(escape))
    }

    /// The texts with percent-encoding undone, and with every `+` as a space.
    pub(super) fn unpercented(&self) -> Option<View> {
        let encoded = self.bytes.iter().any(|byte| b"%+".contains(byte));
        encoded.then(|| self.decoded(percent))
    }

    /// The texts with the character references of HTML and XML undone.
    pub(super) fn unreferenced(&self) -> Option<View> {
        self.bytes.contains(&b'&').then(|| self.decoded(entities::reference))
    }

    /// The texts without line ends, which encoders put in at fixed widths.
    pub(super) fn unwrapped(&self) -> View {
        let wrapped = self.bytes.iter().any(|byte| b"\r\n".contains(byte));
        if wrapped { self.decoded(line_end) } else { self.view() }
    }

    fn decoded(&self, decode: fn(&[u8]) -> Option<Decoded>) -> View {
        let (mut bytes, mut origins) = (Vec::new(), Vec::new());
        let mut texts = Vec::new();
        for piece in &self.pieces {
            let start = bytes.len();
            let mut at = piece.laid.start;
            while let Some(rest) =
                self.bytes.get(at..piece.laid.end).filter(|rest| !rest.is_empty())
            {
                let Decoded { utf8, length, taken } =
                    decode(rest).unwrap_or(Decoded::byte(rest[0], 1));
                bytes.extend_from_slice(&utf8[..length]);
                origins.resize(bytes.len(), at);
                at += taken;
            }
            if piece.kind == PieceKind::Text {
                texts.push(start..bytes.len());
            }
            bytes.push(SEPARATOR);
            origins.push(piece.laid.end);
        }
        View { bytes, texts, origins: Some(origins) }
    }
}

/// A layout's texts in another reading.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// The texts, each of which may have been cut off; numbers never are.
    pub(super) texts: Vec<Range<usize>>,
    /// Where in the layout each byte came from; absent where nothing was decoded.
    origins: Option<Vec<usize>>,
}

impl View {
    /// The view for texts that differ in case alone.
    pub(super) fn folded(mut self) -> Self {
        if self.bytes.iter().all(|byte| byte.is_ascii() || *byte == SEPARATOR) {
            self.bytes.make_ascii_lowercase();
            return self;
        }
        // For each byte, where it was before.
        let (mut bytes, mut before, mut at) = (Vec::new(), Vec::new(), 0);
        for chunk in self.bytes.utf8_chunks() {
            for char in chunk.valid().chars() {
                for char in folded_char(char) {
                    bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                before.resize(bytes.len(), at);
                at += char.len_utf8();
            }
            bytes.extend_from_slice(chunk.invalid());
            before.extend(at..at + chunk.invalid().len());
            at += chunk.invalid().len();
        }
        let now = |at: usize| before.partition_point(|was| *was < at);
        let texts = self.texts.iter().map(|text| now(text.start)..now(text.end)).collect();
        let origin =
            |at: &usize| self.origins.as_ref().map_or(Some(*at), |all| all.get(*at).copied());
        let origins = before.iter().map(|at| origin(at).unwrap_or_default()).collect();
        Self { bytes, texts, origins: Some(origins) }
    }

    /// The bytes of the layout that these were read from. A character that was read as several bytes
    /// is taken whole.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let Some(origins) = &self.origins else { return range };
        let origin = |at: usize| origins.get(at).copied().unwrap_or_default();
        let last = origin(range.end.saturating_sub(1));
        let behind = origins.get(range.end..).unwrap_or_default();
        let end = behind.iter().copied().find(|at| *at > last);
        origin(range.start)..end.unwrap_or(last)
    }

    /// A text without the remains of characters that were cut in half.
    pub(super) fn uncut(&self, text: &Range<usize>) -> Range<usize> {
        const HALF: &[u8] = "\u{fffd}".as_bytes();
        let Range { mut start, mut end } = text.clone();
        while end - start >= HALF.len() && self.bytes.get(end - HALF.len()..end) == Some(HALF) {
            end -= HALF.len();
        }
        while end - start >= HALF.len() && self.bytes.get(start..start + HALF.len()) == Some(HALF) {
            start += HALF.len();
        }
        start..end
    }
}

pub(super) struct Decoded {
    utf8: [u8; 4],
    length: usize,
    /// How many bytes its encoding has.
    taken: usize,
}

impl Decoded {
    fn char(char: char, taken: usize) -> Self {
        let mut utf8 = [0; 4];
        let length = char.encode_utf8(&mut utf8).len();
        Self { utf8, length, taken }
    }

    fn byte(byte: u8, taken: usize) -> Self {
        Self { utf8: [byte, 0, 0, 0], length: 1, taken }
    }
}

fn line_end(rest: &[u8]) -> Option<Decoded> {
    matches!(rest, [b'\r' | b'\n', ..]).then_some(Decoded { utf8: [0; 4], length: 0, taken: 1 })
}

fn percent(rest: &[u8]) -> Option<Decoded> {
    let (byte, taken) = match rest {
        [b'+', ..] => (b'+', 1),
        [b'%', digits @ ..] => (u8::try_from(hex(digits.get(..2)?)?).ok()?, 3),
        _ => return None,
    };
    // Whether a `+` means itself or a space depends on who wrote it.
    let byte = if byte == b'+' { b' ' } else { byte };
    Some(Decoded::byte(byte, taken))
}

fn escape(rest: &[u8]) -> Option<Decoded> {
    let (char, taken) = match rest {
        // As newer languages write a character, and as many write a byte.
        [b'\\', b'u', b'{', rest @ ..] => {
            let length = rest.iter().take(7).position(|byte| *byte == b'}')?;
            (char::from_u32(hex(rest.get(..length)?)?), length + 4)
        }
        [b'\\', b'x', rest @ ..] => {
            let byte = u8::try_from(hex(rest.get(..2)?)?).ok()?;
            return Some(Decoded::byte(byte, 4));
        }
        [b'\\', b'u', rest @ ..] => {
            let unit = hex(rest.get(..4)?)?;
            let second = match rest.get(4..) {
                Some([b'\\', b'u', digits @ ..]) => digits.get(..4).and_then(hex),
                _ => None,
            };
            match (unit, second) {
                (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                    let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    (char::from_u32(code), 12)
                }
                _ => (char::from_u32(unit), 6),
            }
        }
        [b'\\', b'b', ..] => (Some('\u{8}'), 2),
        [b'\\', b'f', ..] => (Some('\u{c}'), 2),
        [b'\\', b'n', ..] => (Some('\n'), 2),
        [b'\\', b'r', ..] => (Some('\r'), 2),
        [b'\\', b't', ..] => (Some('\t'), 2),
        [b'\\', byte @ (b'"' | b'\'' | b'/' | b'\\'), ..] => (Some(char::from(*byte)), 2),
        _ => return None,
    };
    // Half a surrogate pair is an error to a parser; here it must not hide the text around it.
    let char = char.unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(Decoded::char(char, taken))
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |number, byte| Some(number * 16 + digit(byte)?))
}

fn unescape(inside: &str) -> std::borrow::Cow<'_, str> {
    if !inside.contains('\\') {
        return inside.into();
    }
    let whole = Layout::of_text(inside);
    let view = whole.decoded(escape);
    let text = view.texts.first().and_then(|text| view.bytes.get(text.clone()));
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned().into()
}

/// Behind the closing quote of the string that begins here.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len())
}
