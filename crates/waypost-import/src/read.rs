//! Sources as values with their positions and JSON pointers.

use std::collections::HashMap;

use serde_json::Value;
use waypost_lang::{Diagnostics, Document, Tree, TreeEntry, TreeValue};

/// A file that was read.
#[derive(Debug)]
pub(crate) struct SourceFile<'a> {
    pub(crate) name: String,
    pub(crate) document: Document<'a>,
}

/// The way from the root to a value: the address of its parent, and the step from there.
type Steps<'t> = HashMap<*const Tree, (*const Tree, Step<'t>)>;

#[derive(Debug)]
enum Step<'t> {
    Key(&'t str),
    Position(usize),
}

impl<'a> SourceFile<'a> {
    pub(crate) fn read(name: &str, bytes: &'a [u8]) -> Result<Self, Diagnostics> {
        Ok(Self { name: name.to_owned(), document: Document::read(bytes)? })
    }

    pub(crate) fn root(&self) -> &Tree {
        &self.document.root
    }

    pub(crate) fn position(&self, at: &Tree) -> (usize, usize) {
        self.document.position(at.span.start)
    }

    /// The JSON pointer of a value of this file; empty for one in the copy that an alias makes, which has
    /// the position of its original. Descends by positions: a value is inside of all that are above it.
    pub(crate) fn pointer(&self, at: &Tree) -> String {
        let mut steps: Steps<'_> = HashMap::new();
        let mut open = vec![self.root()];
        while let Some(here) = open.pop() {
            if std::ptr::eq(here, at) {
                return pointer_of(here, &steps);
            }
            let inside =
                |child: &Tree| child.span.start <= at.span.start && at.span.end <= child.span.end;
            match &here.value {
                TreeValue::List(items) => {
                    for (position, item) in
                        items.iter().enumerate().filter(|(_, item)| inside(item))
                    {
                        steps.insert(std::ptr::from_ref(item), (here, Step::Position(position)));
                        open.push(item);
                    }
                }
                TreeValue::Map(entries) => {
                    for entry in entries.iter().filter(|entry| inside(&entry.value)) {
                        steps.insert(&raw const entry.value, (here, Step::Key(&entry.key)));
                        open.push(&entry.value);
                    }
                }
                _ => {}
            }
        }
        String::new()
    }
}

fn pointer_of(from: &Tree, steps: &Steps<'_>) -> String {
    let mut parts = Vec::new();
    let mut here: *const Tree = from;
    while let Some((parent, step)) = steps.get(&here) {
        parts.push(match step {
            Step::Key(key) => key.replace('~', "~0").replace('/', "~1"),
            Step::Position(position) => position.to_string(),
        });
        here = *parent;
    }
    parts.iter().rev().map(|part| format!("/{part}")).collect()
}

/// Shorthands for reading a value of the source.
pub(crate) trait SourceFields {
    fn entries(&self) -> &[TreeEntry];
    fn items(&self) -> &[Tree];
    /// The field of this name, unless it is null.
    fn get(&self, key: &str) -> Option<&Tree>;
    fn has(&self, key: &str) -> bool;
    fn text(&self, key: &str) -> Option<&str>;
    fn flag(&self, key: &str) -> Option<bool>;
    fn number(&self, key: &str) -> Option<f64>;
    fn as_number(&self) -> Option<f64>;
    fn as_flag(&self) -> Option<bool>;
    fn json(&self) -> Value;
}

impl SourceFields for Tree {
    fn entries(&self) -> &[TreeEntry] {
        self.as_map().unwrap_or_default()
    }

    fn items(&self) -> &[Tree] {
        self.as_list().unwrap_or_default()
    }

    fn get(&self, key: &str) -> Option<&Tree> {
        let entry = self.entries().iter().find(|entry| entry.key == key)?;
        (!matches!(entry.value.value, TreeValue::Null)).then_some(&entry.value)
    }

    fn has(&self, key: &str) -> bool {
        self.entries().iter().any(|entry| entry.key == key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_flag()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_number()
    }

    fn as_number(&self) -> Option<f64> {
        match &self.value {
            TreeValue::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    fn as_flag(&self) -> Option<bool> {
        match &self.value {
            TreeValue::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    fn json(&self) -> Value {
        self.to_json()
    }
}
