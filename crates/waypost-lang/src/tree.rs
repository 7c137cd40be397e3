//! A definition's source as a tree of values with their positions.
//!
//! ```text
//!   YAML ── granit-parser's events ──┐
//!                                    ├──▶ Builder (depth, size, duplicate keys) ──▶ Tree
//!   JSON ── our own parser ──────────┘
//! ```
//!
//! JSON does not go through the YAML parser although it nearly could: surrogate pairs, tabs and
//! `\/` differ just enough to matter. The tree's depth is bounded while it is built, so everything
//! after this may recurse.

mod align;
mod builder;
mod json;
mod number;
mod yaml;

use serde_json::Number;

use crate::diagnostics::{Code, Fault, Faults};
use crate::source::{Source, Span};

/// How deep lists and mappings may nest. Below the core's own limit for payloads, so that every
/// part of a definition is a valid payload.
pub(crate) const DEPTH_MAX: usize = 100;
/// Values in one source, aliases expanded: enough for the largest allowed graph in its longest
/// spelling, and little enough to fit into some tens of megabytes.
pub(crate) const VALUES_MAX: usize = 400_000;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The bytes of the source that it is written in.
    pub span: Span,
    pub value: TreeValue,
}

/// The values of a definition: JSON.
#[derive(Clone, Debug)]
pub enum TreeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text { text: String, style: Style },
    List(Vec<Tree>),
    Map(Vec<TreeEntry>),
}

/// How a text was written, which decides how its bytes relate to the source's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Without quotes, or as a block.
    Bare,
    Single,
    /// In double quotes, with escapes.
    Double,
}

/// A field of a mapping.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    pub key: String,
    pub key_span: Span,
    pub value: Tree,
}

/// Reads a source, JSON or YAML. Faults that leave a usable tree go to `faults`; the fault that
/// leaves none is returned.
pub(crate) fn parse(source: &Source<'_>, faults: &mut Faults) -> Result<Tree, Fault> {
    let text = source.text;
    if !text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('{') {
        return yaml::parse(text, faults);
    }
    // It looks like JSON, but may be YAML's flow style. If it is neither, the error of the parser
    // that came further is reported: it is likelier to match what was meant.
    let mut json_faults = Faults::new();
    let json_fault = match json::parse(text, &mut json_faults) {
        Ok(tree) => {
            faults.append(json_faults);
            return Ok(tree);
        }
        Err(fault) if fault.code != Code::Syntax => return Err(fault),
        Err(fault) if has_comment_at(text, fault.span.start) => {
            return Err(fault.with_hint("JSON has no comments; YAML has, after `#`"));
        }
        Err(fault) => fault,
    };
    yaml::parse(text, faults)
        .map_err(|fault| if fault.span.start > json_fault.span.start { fault } else { json_fault })
}

/// YAML would read a comment of JavaScript as the beginning of a text.
fn has_comment_at(text: &str, at: usize) -> bool {
    text.get(at..).is_some_and(|rest| rest.starts_with("//") || rest.starts_with("/*"))
}

impl Tree {
    /// The fields of a mapping.
    pub fn as_map(&self) -> Option<&[TreeEntry]> {
        match &self.value {
            TreeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match &self.value {
            TreeValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// The text of a text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            TreeValue::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The value's type, for messages.
    pub fn description(&self) -> &'static str {
        match self.value {
            TreeValue::Null => "nothing",
            TreeValue::Bool(_) => "a boolean",
            TreeValue::Number(_) => "a number",
            TreeValue::Text { .. } => "a text",
            TreeValue::List(_) => "a list",
            TreeValue::Map(_) => "a mapping",
        }
    }

    /// Calls `visit` with every text in this tree, and the value that it is the text of.
    pub(crate) fn visit_texts<'t>(&'t self, visit: &mut impl FnMut(&'t Self, &'t str)) {
        match &self.value {
            TreeValue::Text { text, .. } => visit(self, text),
            TreeValue::List(items) => items.iter().for_each(|item| item.visit_texts(visit)),
            TreeValue::Map(entries) => {
                entries.iter().for_each(|entry| entry.value.visit_texts(visit));
            }
            TreeValue::Null | TreeValue::Bool(_) | TreeValue::Number(_) => {}
        }
    }

    /// The value without positions.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            TreeValue::Null => Json::Null,
            TreeValue::Bool(value) => Json::Bool(*value),
            TreeValue::Number(number) => Json::Number(number.clone()),
            TreeValue::Text { text, .. } => Json::String(text.clone()),
            TreeValue::List(items) => items.iter().map(Self::to_json).collect(),
            TreeValue::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }

    /// The value at a path of keys and positions, or the nearest one above it.
    pub(crate) fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> &Self {
        let mut here = self;
        for step in path {
            let next = match &here.value {
                TreeValue::Map(entries) => find(entries, step).map(|entry| &entry.value),
                TreeValue::List(items) => step.parse().ok().and_then(|at: usize| items.get(at)),
                _ => None,
            };
            let Some(next) = next else { break };
            here = next;
        }
        here
    }

    /// The position in the source of some bytes of this text.
    pub(crate) fn span_within(&self, source: &Source<'_>, bytes: &Span) -> Span {
        let TreeValue::Text { text, style } = &self.value else { return self.span.clone() };
        let raw = source.text.get(self.span.clone()).unwrap_or_default();
        let [start, end] = [bytes.start, bytes.end]
            .map(|offset| self.span.start + align::raw_offset(raw, text, *style, offset));
        start..end.max(start)
    }
}

pub(crate) fn find<'a>(entries: &'a [TreeEntry], key: &str) -> Option<&'a TreeEntry> {
    entries.iter().find(|entry| entry.key == key)
}

#[cfg(test)]
mod tests;
