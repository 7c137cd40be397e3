//! Which fields of a value an expression uses, and which of them it allows to be missing.
//!
//! Read from the tokens, and on the safe side: a field that may be guarded counts as guarded.

use std::ops::Range;

use super::references::{Spanned, Token};

/// A mention of a value and of fields inside of it: `input.order.lines[0].price`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRef {
    /// The top-level name: `input`.
    pub root: String,
    /// From the root inwards, as far as the source shows them.
    pub steps: Vec<Step>,
    /// Where in the source it begins.
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
pub(super) fn scan(tokens: &[Spanned], roots: &[&str]) -> Vec<PathRef> {
    let mut paths = Vec::new();
    // Fields that a test checks: they count as present in all other uses.
    let mut asked: Vec<(String, Vec<Option<String>>)> = Vec::new();
    // For each open parenthesis: does it hold the arguments of `default`?
    let mut fallbacks: Vec<bool> = Vec::new();
    for (position, token) in tokens.iter().enumerate() {
        let before = |back: usize| position.checked_sub(back).and_then(|at| kind(tokens, at));
        match &token.kind {
            Token::Punctuation('(') => fallbacks.push(is_default(before(2), before(1))),
            Token::Punctuation(')') => drop(fallbacks.pop()),
            Token::Name(name) if roots.contains(&name.as_str()) && !is_other(tokens, position) => {
                let (mut path, next) = follow(tokens, position, name);
                let fields: Vec<Option<String>> =
                    path.steps.iter().map(|step| step.field.clone()).collect();
                if let (Some(Token::Text(key)), true) = in_operand(tokens, position) {
                    let mut fields = fields.clone();
                    fields.push(Some(key.clone()));
                    asked.push((name.clone(), fields));
                }
                if fallbacks.contains(&true) {
                    path.steps.iter_mut().for_each(|step| step.guarded = true);
                }
                if is_tested(tokens, next) {
                    asked.push((name.clone(), fields));
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

fn kind(tokens: &[Spanned], at: usize) -> Option<&Token> {
    tokens.get(at).map(|token| &token.kind)
}

fn is_name(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Name(name)) if name == word)
}

fn is_punctuation(token: Option<&Token>, sign: char) -> bool {
    token == Some(&Token::Punctuation(sign))
}

/// Is it `| default` or `| d`?
fn is_default(pipe: Option<&Token>, name: Option<&Token>) -> bool {
    is_punctuation(pipe, '|') && (is_name(name, "default") || is_name(name, "d"))
}

/// Is the word at this place an attribute, a filter or a keyword argument, and no name?
fn is_other(tokens: &[Spanned], position: usize) -> bool {
    let before = position.checked_sub(1).and_then(|at| kind(tokens, at));
    let argument = is_punctuation(kind(tokens, position + 1), '=')
        && !is_punctuation(kind(tokens, position + 2), '=');
    is_punctuation(before, '.') || is_punctuation(before, '|') || argument
}

/// The path that begins with the name at this place, and the token after it.
fn follow(tokens: &[Spanned], position: usize, root: &str) -> (PathRef, usize) {
    let start = tokens.get(position).map_or(0, |token| token.range.start);
    let mut path = PathRef { root: root.to_owned(), steps: Vec::new(), start };
    let mut next = position + 1;
    loop {
        let (field, length) = match (kind(tokens, next), kind(tokens, next + 1)) {
            (Some(Token::Punctuation('.')), Some(Token::Name(name))) => (Some(name.clone()), 2),
            (Some(Token::Punctuation('[')), Some(Token::Text(key)))
                if is_punctuation(kind(tokens, next + 2), ']') =>
            {
                (Some(key.clone()), 3)
            }
            (Some(Token::Punctuation('[')), Some(Token::Other))
                if is_punctuation(kind(tokens, next + 2), ']') =>
            {
                (None, 3)
            }
            (Some(Token::Punctuation('[')), Some(Token::Punctuation('-')))
                if kind(tokens, next + 2) == Some(&Token::Other)
                    && is_punctuation(kind(tokens, next + 3), ']') =>
            {
                (None, 4)
            }
            // A call of a method: its result is unknown.
            (Some(Token::Punctuation('(')), _) => {
                path.steps.pop();
                return (path, next);
            }
            _ => return (path, next),
        };
        next += length;
        let end = tokens.get(next - 1).map_or(start, |token| token.range.end);
        path.steps.push(Step { field, end, guarded: false });
    }
}

/// The text before `in` or `not in`, if the path at this place is the container.
fn in_operand(tokens: &[Spanned], position: usize) -> (Option<&Token>, bool) {
    let before = |back: usize| position.checked_sub(back).and_then(|at| kind(tokens, at));
    match (is_name(before(1), "in"), is_name(before(2), "not")) {
        (true, true) => (before(3), true),
        (true, false) => (before(2), true),
        (false, _) => (None, false),
    }
}

/// Is the path that ends before this place tested: `… is defined`, `(…) is not none`?
fn is_tested(tokens: &[Spanned], next: usize) -> bool {
    is_name(kind(tokens, after_parentheses(tokens, next)), "is")
}

/// Is `default` among the filters of the path that ends before this place?
fn has_default(tokens: &[Spanned], next: usize) -> bool {
    let mut next = after_parentheses(tokens, next);
    while is_punctuation(kind(tokens, next), '|') {
        if is_default(kind(tokens, next), kind(tokens, next + 1)) {
            return true;
        }
        next += 2;
        if is_punctuation(kind(tokens, next), '(') {
            next = after_call(tokens, next);
        }
        next = after_parentheses(tokens, next);
    }
    false
}

fn after_parentheses(tokens: &[Spanned], mut next: usize) -> usize {
    while is_punctuation(kind(tokens, next), ')') {
        next += 1;
    }
    next
}

/// The token after the parenthesis that closes the one at this place.
fn after_call(tokens: &[Spanned], mut next: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = kind(tokens, next) {
        next += 1;
        match token {
            Token::Punctuation('(') => depth += 1,
            Token::Punctuation(')') if depth <= 1 => return next,
            Token::Punctuation(')') => depth -= 1,
            _ => {}
        }
    }
    next
}
