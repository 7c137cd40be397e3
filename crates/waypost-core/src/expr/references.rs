//! The references of an expression, read from its tokens: with their positions, for diagnostics, and
//! with `nodes['cool-off']` (ids may contain hyphens, which `.` cannot spell).

use std::collections::BTreeMap;
use std::ops::Range;

use super::ExpressionFault;
use super::lexer::{Spanned, Token};
use super::paths::{self, PathRef, is_name, is_other, is_symbol};

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
    pub nodes: Vec<NodeRef>,
    pub secrets: Vec<SecretRef>,
    /// Mentions of `callback`, which is filled in as secrets are; the name is `callback.<field>`.
    pub callbacks: Vec<SecretRef>,
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

    pub(super) fn scan(tokens: &[Spanned<'_>]) -> Result<Self, ExpressionFault> {
        let paths = paths::scan(tokens, &["input", "nodes"]);
        let mut found = Self { paths, ..Self::default() };
        for (position, (token, range)) in tokens.iter().enumerate() {
            let Token::Name(name) = token else { continue };
            let before = |back: usize| paths::before(tokens, position, back);
            let is_keyword = KEYWORDS.contains(name);
            let is_filter = is_symbol(before(1), "|");
            let is_test =
                is_name(before(1), "is") || is_name(before(1), "not") && is_name(before(2), "is");
            let kind = if is_filter {
                &mut found.filters
            } else if is_test && !is_keyword {
                &mut found.tests
            } else if is_keyword || is_other(tokens, position) {
                continue;
            } else {
                match *name {
                    "nodes" => found.nodes.push(node_ref(tokens, position)?),
                    "secrets" => found.secrets.push(secret_ref(tokens, position)),
                    "callback" => {
                        let SecretRef { name, range } = secret_ref(tokens, position);
                        let name = name.map(|field| format!("callback.{field}"));
                        found.callbacks.push(SecretRef { name, range });
                    }
                    _ => {}
                }
                &mut found.names
            };
            kind.entry((*name).to_owned()).or_insert_with(|| range.clone());
        }
        Ok(found)
    }
}

const KEYWORDS: &[&str] = &[
    "and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None",
];

fn node_ref(tokens: &[Spanned<'_>], position: usize) -> Result<NodeRef, ExpressionFault> {
    let word = tokens.get(position).map_or(0..0, |(_, range)| range.clone());
    match tokens.get(position + 1..).unwrap_or_default() {
        [(Token::Symbol("."), _), (Token::Name(id), end), rest @ ..] => {
            let hyphenated = match rest {
                [(Token::Symbol("-"), dash), (Token::Name(rest), next), ..]
                    if end.end == dash.start && dash.end == next.start =>
                {
                    Some(format!("{id}-{rest}"))
                }
                _ => None,
            };
            Ok(NodeRef { id: (*id).to_owned(), range: word.start..end.end, hyphenated })
        }
        [(Token::Symbol("["), _), (Token::Text(id), _), (Token::Symbol("]"), end), ..] => {
            Ok(NodeRef { id: id.clone(), range: word.start..end.end, hyphenated: None })
        }
        _ => Err(ExpressionFault {
            message: "`nodes` must be followed by a node id: nodes.fetch or nodes['fetch']".into(),
            range: word,
        }),
    }
}

fn secret_ref(tokens: &[Spanned<'_>], position: usize) -> SecretRef {
    match tokens.get(position..).unwrap_or_default() {
        [(_, word), (Token::Symbol("."), _), (Token::Name(name), end), rest @ ..] => {
            let stands_alone = position == 0 && matches!(rest, [(Token::End, _)]);
            let name = stands_alone.then(|| (*name).to_owned());
            SecretRef { name, range: word.start..end.end }
        }
        rest => {
            SecretRef { name: None, range: rest.first().map_or(0..0, |(_, word)| word.clone()) }
        }
    }
}
