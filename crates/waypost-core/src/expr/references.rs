//! The references of an expression, read from its source.
//!
//! A small scanner instead of minijinja's own `undeclared_variables`, because we need positions for
//! diagnostics and must see `nodes['cool-off']` (ids may contain hyphens, which `.` cannot spell).

use std::collections::BTreeMap;
use std::ops::Range;

use super::ExpressionFault;
use super::paths::{self, PathRef};

/// A mention of a node: `nodes.<id>` or `nodes['<id>']`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRef {
    pub id: String,
    pub range: Range<usize>,
    /// `nodes.a - b`: perhaps the hyphenated id `a-b` was meant. Holds that id.
    pub hyphenated: Option<String>,
}

/// A mention of `secrets`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretRef {
    /// The secret's name, where the expression is `secrets.<name>` and nothing else: the only use of
    /// a secret that there is.
    pub name: Option<String>,
    pub range: Range<usize>,
}

/// All references of an expression.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct References {
    /// Nodes, in order of appearance.
    pub nodes: Vec<NodeRef>,
    /// Secrets, in order of appearance.
    pub secrets: Vec<SecretRef>,
    /// Top-level names with the place of their first mention.
    pub names: BTreeMap<String, Range<usize>>,
    /// Fields of the input, and of nodes, in order of appearance.
    pub paths: Vec<PathRef>,
    /// Filters (`| join`) with the place of their first mention.
    pub filters: BTreeMap<String, Range<usize>>,
    /// Tests (`is defined`) with the place of their first mention.
    pub tests: BTreeMap<String, Range<usize>>,
}

impl References {
    /// Does the expression mention this top-level name?
    pub fn mentions(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    pub(super) fn scan(source: &str) -> Result<Self, ExpressionFault> {
        let tokens = tokens(source);
        let paths = paths::scan(&tokens, &["input", "trigger", "nodes"]);
        let mut found = Self { paths, ..Self::default() };
        for (position, token) in tokens.iter().enumerate() {
            let Token::Name(name) = &token.kind else { continue };
            let before = position.checked_sub(1).and_then(|p| tokens.get(p)).map(|t| &t.kind);
            let after = tokens.get(position + 1).map(|t| &t.kind);
            // An attribute, a filter or test name, a keyword, a keyword argument: not a name.
            let is_attribute = matches!(before, Some(Token::Punctuation('.')));
            let is_filter = matches!(before, Some(Token::Punctuation('|')));
            let is_test = matches!(before, Some(Token::Name(word)) if word == "is")
                || matches!(before, Some(Token::Name(word)) if word == "not")
                    && position
                        .checked_sub(2)
                        .and_then(|p| tokens.get(p))
                        .is_some_and(|t| t.kind == Token::Name("is".into()));
            let is_argument = matches!(after, Some(Token::Punctuation('=')))
                && !matches!(
                    tokens.get(position + 2).map(|t| &t.kind),
                    Some(Token::Punctuation('='))
                );
            if is_filter || is_test && !KEYWORDS.contains(&name.as_str()) {
                let kind = if is_filter { &mut found.filters } else { &mut found.tests };
                kind.entry(name.clone()).or_insert_with(|| token.range.clone());
                continue;
            }
            if is_attribute || is_argument || KEYWORDS.contains(&name.as_str()) {
                continue;
            }
            found.names.entry(name.clone()).or_insert_with(|| token.range.clone());
            if name == "nodes" {
                found.nodes.push(node_ref(&tokens, position, source)?);
            } else if name == "secrets" {
                found.secrets.push(secret_ref(&tokens, position));
            }
        }
        Ok(found)
    }
}

const KEYWORDS: &[&str] = &[
    "and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None",
];

fn node_ref(tokens: &[Spanned], position: usize, source: &str) -> Result<NodeRef, ExpressionFault> {
    let kind = |offset: usize| tokens.get(position + offset).map(|t| &t.kind);
    let end = |offset: usize| tokens.get(position + offset).map_or(source.len(), |t| t.range.end);
    let start = tokens.get(position).map_or(0, |t| t.range.start);
    match (kind(1), kind(2), kind(3)) {
        (Some(Token::Punctuation('.')), Some(Token::Name(id)), next) => {
            let hyphenated = match (next, kind(4)) {
                (Some(Token::Punctuation('-')), Some(Token::Name(rest)))
                    if end(2) + 1 == end(3)
                        && tokens.get(position + 4).is_some_and(|t| t.range.start == end(3)) =>
                {
                    Some(format!("{id}-{rest}"))
                }
                _ => None,
            };
            Ok(NodeRef { id: id.clone(), range: start..end(2), hyphenated })
        }
        (Some(Token::Punctuation('[')), Some(Token::Text(id)), Some(Token::Punctuation(']'))) => {
            Ok(NodeRef { id: id.clone(), range: start..end(3), hyphenated: None })
        }
        _ => Err(ExpressionFault {
            message: "`nodes` must be followed by a node id: nodes.fetch or nodes['fetch']".into(),
            range: start..end(0),
        }),
    }
}

fn secret_ref(tokens: &[Spanned], position: usize) -> SecretRef {
    let (named, rest) = match tokens.get(position..) {
        Some([word, dot, name, rest @ ..]) if dot.kind == Token::Punctuation('.') => {
            let range = word.range.start..name.range.end;
            (Some((&name.kind, range)), rest)
        }
        _ => (None, &[] as &[Spanned]),
    };
    let stands_alone = position == 0 && rest.is_empty();
    match named {
        Some((Token::Name(name), range)) if stands_alone => {
            SecretRef { name: Some(name.clone()), range }
        }
        Some((Token::Name(_), range)) => SecretRef { name: None, range },
        _ => {
            let range = tokens.get(position).map_or(0..0, |word| word.range.clone());
            SecretRef { name: None, range }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Punctuation(char),
    Other,
}

pub(super) struct Spanned {
    pub(super) kind: Token,
    pub(super) range: Range<usize>,
}

fn tokens(source: &str) -> Vec<Spanned> {
    let mut tokens = Vec::new();
    let mut rest = source.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        let mut end = start + first.len_utf8();
        let kind = if first.is_whitespace() {
            continue;
        } else if first.is_alphabetic() || first == '_' {
            while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                end = at + c.len_utf8();
            }
            Token::Name(source.get(start..end).unwrap_or_default().to_owned())
        } else if first == '"' || first == '\'' {
            let mut text = String::new();
            let mut escaped = false;
            for (at, c) in rest.by_ref() {
                end = at + c.len_utf8();
                match c {
                    _ if escaped => {
                        escaped = false;
                        text.push(c);
                    }
                    '\\' => escaped = true,
                    c if c == first => break,
                    c => text.push(c),
                }
            }
            Token::Text(text)
        } else if first.is_ascii_digit() {
            while let Some((at, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                end = at + c.len_utf8();
            }
            Token::Other
        } else {
            Token::Punctuation(first)
        };
        tokens.push(Spanned { kind, range: start..end });
    }
    tokens
}
