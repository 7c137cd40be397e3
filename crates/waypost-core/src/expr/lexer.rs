//! The tokens of an expression.

use std::ops::Range;

use super::ExpressionFault;
use super::number;
use super::value::Value;

#[derive(Clone, Debug)]
pub(super) enum Token<'s> {
    Name(&'s str),
    Text(String),
    Number(Value),
    Symbol(&'static str),
    End,
}

pub(super) type Spanned<'s> = (Token<'s>, Range<usize>);

const SYMBOLS: [&str; 25] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", ".", ",", ":", "~", "|", "=", ">",
    "<", "(", ")", "[", "]", "{", "}",
];

/// Splits a source into tokens; the last one is [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<Spanned<'_>>, ExpressionFault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.bytes().next().unwrap_or_default();
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (token, length) = if first == b'\'' || first == b'"' {
            text(rest, first).map_err(|message| fault(message, at..source.len()))?
        } else if first.is_ascii_digit() {
            let after_dot = at > 0 && source.as_bytes().get(at - 1) == Some(&b'.');
            number_token(rest, after_dot).map_err(|message| fault(message, at..source.len()))?
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let length = name_length(rest);
            if length == 0 {
                let wide = rest.chars().next().map_or(1, char::len_utf8);
                return Err(fault("unexpected character", at..at + wide));
            }
            (Token::Name(&rest[..length]), length)
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens.push((Token::End, source.len()..source.len()));
    Ok(tokens)
}

fn fault(message: &str, range: Range<usize>) -> ExpressionFault {
    ExpressionFault { message: message.to_owned(), range }
}

/// Bytes of the name at the beginning of a text.
fn name_length(text: &str) -> usize {
    let bytes = text.bytes().enumerate();
    bytes
        .take_while(|(at, byte)| {
            *byte == b'_' || byte.is_ascii_alphabetic() || *at > 0 && byte.is_ascii_digit()
        })
        .count()
}

fn text(rest: &str, quote: u8) -> Result<(Token<'_>, usize), &'static str> {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == quote => {
                let inner = rest.get(1..at).unwrap_or_default();
                return Ok((Token::Text(unescape(inner)?), at + 1));
            }
            _ => {}
        }
    }
    Err("unexpected end of string")
}

fn unescape(text: &str) -> Result<String, &'static str> {
    const BAD: &str = "bad string escape";
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            out.push(next);
            continue;
        }
        match rest.next().ok_or(BAD)? {
            plain @ ('"' | '\\' | '/' | '\'') => out.push(plain),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let first = hex(&mut rest, 4).ok_or(BAD)?;
                let code = match first {
                    0xd800..=0xdbff => {
                        let marked = rest.next() == Some('\\') && rest.next() == Some('u');
                        let second = hex(&mut rest, 4).filter(|_| marked).ok_or(BAD)?;
                        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
                        0x10000 + ((first - 0xd800) << 10) + low.ok_or(BAD)?
                    }
                    code => code,
                };
                out.push(char::from_u32(code).ok_or(BAD)?);
            }
            'x' => out.push(hex(&mut rest, 2).and_then(char::from_u32).ok_or(BAD)?),
            digit @ '0'..='7' => {
                let mut code = digit.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let mut ahead = rest.clone();
                    let Some(more) = ahead.next().and_then(|next| next.to_digit(8)) else { break };
                    code = code * 8 + more;
                    rest = ahead;
                }
                out.push(char::from_u32(code).filter(|_| code < 256).ok_or(BAD)?);
            }
            other => out.extend(['\\', other]),
        }
    }
    Ok(out)
}

fn hex(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |code, _| Some(code * 16 + rest.next()?.to_digit(16)?))
}

/// A number: `1`, `1_000`, `1.5`, `1e3`, `0xff`, `0o17`, `0b101`.
fn number_token(rest: &str, after_dot: bool) -> Result<(Token<'_>, usize), &'static str> {
    let radix = match rest.get(..2) {
        Some("0b" | "0B") => 2,
        Some("0o" | "0O") => 8,
        Some("0x" | "0X") => 16,
        _ => 10,
    };
    if radix != 10 {
        let length = rest.bytes().skip(2).take_while(|b| b.is_ascii_hexdigit() || *b == b'_');
        let length = length.count() + 2;
        let digits = rest.get(2..length).unwrap_or_default().replace('_', "");
        let value = i128::from_str_radix(&digits, radix).map_err(|_| "invalid integer")?;
        let value = number::int(value).map_err(|_| "the number does not fit into 64 bits")?;
        return Ok((Token::Number(value), length));
    }
    let length = decimal_length(rest, after_dot);
    let spelled = rest.get(..length).unwrap_or_default();
    if spelled.ends_with('_') {
        return Err("'_' may not occur at end of number");
    }
    let text = spelled.replace('_', "");
    let value = if text.contains(['.', 'e', 'E']) {
        let parsed: f64 = text.parse().map_err(|_| "invalid float")?;
        // Written as JSON would write it, so that what does not fit can be carried as it is.
        match number::read(&text) {
            Value::Spelled(_, value) if !value.is_nan() => Value::Float(parsed),
            carried if serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok() => {
                carried
            }
            _ => return Err("the number does not fit into 64 bits"),
        }
    } else {
        let digits = text.trim_start_matches('0');
        number::read(if digits.is_empty() { "0" } else { digits })
    };
    Ok((Token::Number(value), length))
}

/// Bytes of the decimal at the beginning of a text. After a dot it is an index, and has no fraction.
fn decimal_length(rest: &str, after_dot: bool) -> usize {
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        let digits = bytes.iter().skip(from).take_while(|b| b.is_ascii_digit() || **b == b'_');
        from + digits.count()
    };
    let is_exponent = |at: usize| {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        matches!(bytes.get(at), Some(b'e' | b'E'))
            && bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit)
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') && !after_dot {
        let names = name_length(rest.get(end + 1..).unwrap_or_default()) > 0;
        if !names || is_exponent(end + 1) {
            end = digits(end + 1);
        }
    }
    if is_exponent(end) && !after_dot {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        end = digits(end + 1 + sign);
    }
    end
}
