//! Tokens of the small languages.

use super::Language;
use crate::report::shortened;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Name(String),
    Number(serde_json::Number),
    Text(String),
    /// A text with expressions: texts and sources in turn, beginning with a text.
    Template(Vec<String>),
    Symbol(&'static str),
    End,
}

const SYMBOLS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "??", "//", "<", ">", "!", "+", "-", "*",
    "/", "%", "(", ")", "[", "]", "{", "}", ".", ",", ";", ":", "?", "|", "=",
];

pub(super) fn tokens(source: &str, language: Language) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { break };
        if first == '#' && language == Language::Jq {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        let (token, length) = if first.is_ascii_digit() {
            number(rest)?
        } else if first.is_ascii_alphabetic() || "_$".contains(first) {
            let kept = |c: char| {
                c.is_ascii_alphanumeric()
                    || "_$".contains(c)
                    || c == '-' && language == Language::Actions
            };
            let length = rest.find(|c: char| !kept(c)).unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else if first == '"' && language != Language::Actions
            || first == '\'' && language != Language::Jq
        {
            text(rest, first, language)?
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let symbol = symbol.filter(|symbol| **symbol != "//" || language == Language::Jq);
            let symbol = symbol.ok_or_else(|| format!("`{first}` cannot be read"))?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push(token);
        rest = &rest[length..];
    }
    tokens.push(Token::End);
    Ok(tokens)
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let mut length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let fraction = rest[length..].strip_prefix('.').unwrap_or_default();
    let digits = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
    if digits > 0 {
        length += 1 + digits;
    }
    let text = &rest[..length];
    let number = serde_json::from_str(text);
    number.map(|n| (Token::Number(n), length)).map_err(|_| format!("`{text}` is no number"))
}

fn text(rest: &str, quote: char, language: Language) -> Result<(Token, usize), String> {
    let mut parts = vec![String::new()];
    let mut characters = rest.char_indices().skip(1).peekable();
    let bad = || format!("the text {} cannot be read", shortened(rest));
    while let Some((at, c)) = characters.next() {
        let part = parts.last_mut().ok_or_else(bad)?;
        match c {
            c if c == quote && language == Language::Actions => {
                // A quote is written twice.
                if characters.next_if(|(_, next)| *next == quote).is_none() {
                    return Ok((token(parts), at + 1));
                }
                part.push(quote);
            }
            c if c == quote => return Ok((token(parts), at + 1)),
            '\\' if language != Language::Actions => match characters.next().ok_or_else(bad)?.1 {
                '(' if language == Language::Jq => {
                    let from = at + 2;
                    let length = closing(&rest[from..]).ok_or_else(bad)?;
                    parts.extend([rest[from..from + length].to_owned(), String::new()]);
                    while characters.next_if(|(at, _)| *at <= from + length).is_some() {}
                }
                'n' => part.push('\n'),
                't' => part.push('\t'),
                'r' => part.push('\r'),
                plain @ ('"' | '\'' | '\\' | '/') => part.push(plain),
                _ => return Err(bad()),
            },
            c => part.push(c),
        }
    }
    Err(bad())
}

fn token(mut parts: Vec<String>) -> Token {
    if parts.len() == 1 { Token::Text(parts.remove(0)) } else { Token::Template(parts) }
}

/// The bytes before the parenthesis that closes.
fn closing(rest: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}
