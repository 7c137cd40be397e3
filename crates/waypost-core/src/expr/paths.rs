//! Which fields of a value an expression uses, and which of them it allows to be missing.
//!
//! Read from the tokens, and on the safe side: a field that may be guarded counts as guarded.

use std::ops::Range;

use super::lexer::{Spanned, Token};

/// A mention of a value and of fields inside of it: `input.order.lines[0].price`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRef {
    /// The top-level name: `input`.
    pub root: String,
    /// From the root inwards, as far as the source shows them.
    pub steps: Vec<Step>,
    pub start: usize,
}

/// One step into a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The field's name; `None` for an item of a list.
    pub field: Option<String>,
    /// The byte after it in the source.
    pub end: usize,
    /// Does the expression reckon that it may be missing: by `default(…)`, by `is defined` or
    /// another test, by `'field' in …`?
    pub guarded: bool,
}

impl PathRef {
    /// The source of the mention, up to a step.
    pub fn range(&self, step: usize) -> Range<usize> {
        self.start..self.steps.get(step).map_or(self.start, |step| step.end)
    }

    fn begins_with(&self, root: &str, fields: &[Option<String>]) -> bool {
        self.root == root
            && self.steps.len() >= fields.len()
            && self.steps.iter().zip(fields).all(|(step, field)| step.field == *field)
    }
}

/// All mentions of these names.
pub(super) fn scan(tokens: &[Spanned<'_>], roots: &[&str]) -> Vec<PathRef> {
    let mut paths = Vec::new();
    // Fields that a test checks: they count as present in all other uses.
    let mut asked: Vec<(&str, Vec<Option<String>>)> = Vec::new();
    // For each open parenthesis: does it hold the arguments of `default`?
    let mut fallbacks: Vec<bool> = Vec::new();
    for (position, (token, _)) in tokens.iter().enumerate() {
        let before = |back: usize| before(tokens, position, back);
        match token {
            Token::Symbol("(") => fallbacks.push(is_default(before(2), before(1))),
            Token::Symbol(")") => drop(fallbacks.pop()),
            Token::Name(name) if roots.contains(name) && !is_other(tokens, position) => {
                let (mut path, next) = follow(tokens, position, name);
                let fields: Vec<Option<String>> =
                    path.steps.iter().map(|step| step.field.clone()).collect();
                if let Some(key) = in_operand(tokens, position) {
                    let mut fields = fields.clone();
                    fields.push(Some(key.clone()));
                    asked.push((*name, fields));
                }
                if fallbacks.contains(&true) {
                    path.steps.iter_mut().for_each(|step| step.guarded = true);
                }
                if is_tested(tokens, next) {
                    asked.push((*name, fields));
                } else if has_default(tokens, next)
                    && let Some(last) = path.steps.last_mut()
                {
                    last.guarded = true;
                }
                paths.push(path);
            }
            _ => {}
        }
    }
    for (root, fields) in &asked {
        for path in paths.iter_mut().filter(|path| path.begins_with(root, fields)) {
            if let Some(step) = fields.len().checked_sub(1).and_then(|at| path.steps.get_mut(at)) {
                step.guarded = true;
            }
        }
    }
    paths
}

fn kind<'t, 's>(tokens: &'t [Spanned<'s>], at: usize) -> Option<&'t Token<'s>> {
    tokens.get(at).map(|(token, _)| token)
}

/// The token so many places before this one.
pub(super) fn before<'t, 's>(
    tokens: &'t [Spanned<'s>],
    position: usize,
    back: usize,
) -> Option<&'t Token<'s>> {
    position.checked_sub(back).and_then(|at| kind(tokens, at))
}

pub(super) fn is_name(token: Option<&Token<'_>>, word: &str) -> bool {
    matches!(token, Some(Token::Name(name)) if *name == word)
}

pub(super) fn is_symbol(token: Option<&Token<'_>>, symbol: &str) -> bool {
    matches!(token, Some(Token::Symbol(found)) if *found == symbol)
}

/// Is it `| default` or `| d`?
fn is_default(pipe: Option<&Token<'_>>, name: Option<&Token<'_>>) -> bool {
    is_symbol(pipe, "|") && (is_name(name, "default") || is_name(name, "d"))
}

/// Is the word at this place an attribute, a filter or a keyword argument, and no name?
pub(super) fn is_other(tokens: &[Spanned<'_>], position: usize) -> bool {
    let before = before(tokens, position, 1);
    let is_argument = is_symbol(kind(tokens, position + 1), "=");
    is_symbol(before, ".") || is_symbol(before, "|") || is_argument
}

/// The path that begins with the name at this place, and the token after it.
fn follow(tokens: &[Spanned<'_>], position: usize, root: &str) -> (PathRef, usize) {
    let start = tokens.get(position).map_or(0, |(_, range)| range.start);
    let mut path = PathRef { root: root.to_owned(), steps: Vec::new(), start };
    let mut next = position + 1;
    loop {
        let (field, end, length) = match tokens.get(next..).unwrap_or_default() {
            [(Token::Symbol("."), _), (Token::Name(name), end), ..] => {
                (Some((*name).to_owned()), end, 2)
            }
            [(Token::Symbol("["), _), (Token::Text(key), _), (Token::Symbol("]"), end), ..] => {
                (Some(key.clone()), end, 3)
            }
            [(Token::Symbol("["), _), (Token::Number(_), _), (Token::Symbol("]"), end), ..] => {
                (None, end, 3)
            }
            [
                (Token::Symbol("["), _),
                (Token::Symbol("-"), _),
                (Token::Number(_), _),
                (Token::Symbol("]"), end),
                ..,
            ] => (None, end, 4),
            // A call of a method: its result is unknown.
            [(Token::Symbol("("), _), ..] => {
                path.steps.pop();
                return (path, next);
            }
            _ => return (path, next),
        };
        next += length;
        path.steps.push(Step { field, end: end.end, guarded: false });
    }
}

/// The text before `in` or `not in`, if the path at this place is the container.
fn in_operand<'t>(tokens: &'t [Spanned<'_>], position: usize) -> Option<&'t String> {
    let before = |back: usize| before(tokens, position, back);
    let back = if is_name(before(2), "not") { 3 } else { 2 };
    match before(back) {
        Some(Token::Text(key)) if is_name(before(1), "in") => Some(key),
        _ => None,
    }
}

/// Is the path that ends before this place tested: `… is defined`, `(…) is not none`?
fn is_tested(tokens: &[Spanned<'_>], next: usize) -> bool {
    is_name(kind(tokens, after_parentheses(tokens, next)), "is")
}

/// Is `default` among the filters of the path that ends before this place?
fn has_default(tokens: &[Spanned<'_>], next: usize) -> bool {
    let mut next = after_parentheses(tokens, next);
    while is_symbol(kind(tokens, next), "|") {
        if is_default(kind(tokens, next), kind(tokens, next + 1)) {
            return true;
        }
        next += 2;
        if is_symbol(kind(tokens, next), "(") {
            next = after_call(tokens, next);
        }
        next = after_parentheses(tokens, next);
    }
    false
}

fn after_parentheses(tokens: &[Spanned<'_>], mut next: usize) -> usize {
    while is_symbol(kind(tokens, next), ")") {
        next += 1;
    }
    next
}

/// The token after the parenthesis that closes the one at this place.
fn after_call(tokens: &[Spanned<'_>], mut next: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = kind(tokens, next) {
        next += 1;
        match token {
            Token::Symbol("(") => depth += 1,
            Token::Symbol(")") if depth <= 1 => return next,
            Token::Symbol(")") => depth -= 1,
            _ => {}
        }
    }
    next
}
