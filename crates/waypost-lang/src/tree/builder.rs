//! Puts a tree together from a stream of opens, keys, values and closes, within limits.

use std::collections::HashMap;

use waypost_core::limits::DEFINITION_BYTES_MAX;

use super::{DEPTH_MAX, Tree, TreeEntry, TreeValue, VALUES_MAX};
use crate::diagnostics::{Code, Fault, Faults, quoted};
use crate::source::Span;

/// A tree under construction. Iterative: its own stack has the open lists and mappings.
#[derive(Debug)]
pub(super) struct Builder<'f> {
    pub(super) faults: &'f mut Faults,
    open: Vec<Frame>,
    values: usize,
    text_bytes: usize,
    root: Option<Tree>,
}

#[derive(Debug)]
struct Frame {
    start: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    List(Vec<Tree>),
    Map { entries: Vec<TreeEntry>, key: Option<(String, Span)> },
}

/// How much of the limits a tree takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    values: usize,
    text_bytes: usize,
    height: usize,
}

impl<'f> Builder<'f> {
    pub(super) fn new(faults: &'f mut Faults) -> Self {
        Self { faults, open: Vec::new(), values: 0, text_bytes: 0, root: None }
    }

    /// Is everything closed that was opened?
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_empty()
    }

    /// Is the next scalar a key?
    pub(super) fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Frame { content: Content::Map { key: None, .. }, .. }))
    }

    pub(super) fn open_list(&mut self, start: usize) -> Result<(), Fault> {
        self.open(start, Content::List(Vec::new()))
    }

    pub(super) fn open_map(&mut self, start: usize) -> Result<(), Fault> {
        self.open(start, Content::Map { entries: Vec::new(), key: None })
    }

    fn open(&mut self, start: usize, content: Content) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(start..start + 1));
        }
        self.open.push(Frame { start, content });
        Ok(())
    }

    /// Takes the key of the value that comes next.
    pub(super) fn key(&mut self, text: String, span: Span) -> Result<(), Fault> {
        self.spend(Size { values: 1, text_bytes: text.len(), height: 0 }, &span)?;
        if let Some(Frame { content: Content::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some((text, span));
        }
        Ok(())
    }

    /// Closes the innermost list or mapping; without an end of its own it ends with its last child.
    /// Returns it, for the table of anchors.
    pub(super) fn close(&mut self, end: Option<usize>) -> Result<&Tree, Fault> {
        let Some(Frame { start, content }) = self.open.pop() else {
            return Err(Fault::error(Code::Syntax, 0..0, "there is nothing left to close"));
        };
        let (value, last) = match content {
            Content::List(items) => {
                let last = items.last().map(|item| item.span.end);
                (TreeValue::List(items), last)
            }
            Content::Map { entries, .. } => {
                let last = entries.last().map(|entry| entry.value.span.end);
                (TreeValue::Map(self.without_duplicates(entries)), last)
            }
        };
        let end = end.or(last).unwrap_or(start).max(start);
        let size = Size { values: 1, text_bytes: 0, height: 0 };
        self.value(Tree { span: start..end, value }, size)
    }

    /// Takes a finished value: a scalar, or a copy of an earlier one.
    pub(super) fn value(&mut self, tree: Tree, size: Size) -> Result<&Tree, Fault> {
        self.spend(size, &tree.span)?;
        if self.open.len() + size.height > DEPTH_MAX {
            return Err(too_deep(tree.span));
        }
        match self.open.last_mut().map(|frame| &mut frame.content) {
            None => Ok(self.root.insert(tree)),
            Some(Content::List(items)) => {
                items.push(tree);
                Ok(&items[items.len() - 1])
            }
            Some(Content::Map { entries, key }) => {
                let (key, key_span) = key.take().unwrap_or_default();
                entries.push(TreeEntry { key, key_span, value: tree });
                Ok(&entries[entries.len() - 1].value)
            }
        }
    }

    pub(super) fn scalar(&mut self, span: Span, value: TreeValue) -> Result<&Tree, Fault> {
        let size = size_of(&value);
        self.value(Tree { span, value }, size)
    }

    pub(super) fn finish(self) -> Option<Tree> {
        self.root
    }

    /// Counts values against the limits. Aliases count as often as they are used, which stops a few
    /// lines from expanding to gigabytes.
    pub(super) fn spend(&mut self, size: Size, span: &Span) -> Result<(), Fault> {
        self.values += size.values;
        self.text_bytes += size.text_bytes;
        if self.values <= VALUES_MAX && self.text_bytes <= DEFINITION_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the definition holds more than {VALUES_MAX} values or {DEFINITION_BYTES_MAX} bytes of \
             text, aliases counted as often as they are used"
        );
        Err(Fault::error(Code::TooManyValues, span.clone(), message)
            .with_hint("split the workflow, or move large data to where a node can fetch it"))
    }

    fn without_duplicates(&mut self, entries: Vec<TreeEntry>) -> Vec<TreeEntry> {
        let mut first: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
        let mut repeated = Vec::new();
        for (position, entry) in entries.iter().enumerate() {
            if first.insert(&entry.key, position).is_some() {
                repeated.push(position);
                let message = format!("the field {} is given twice", quoted(&entry.key));
                let hint = "remove one of the two";
                self.faults.error(Code::DuplicateField, &entry.key_span, message).hint(hint);
            }
        }
        if repeated.is_empty() {
            return entries;
        }
        let mut repeated = repeated.into_iter().peekable();
        let kept = entries
            .into_iter()
            .enumerate()
            .filter(|(position, _)| repeated.next_if_eq(position).is_none());
        kept.map(|(_, entry)| entry).collect()
    }
}

impl Size {
    pub(super) fn of(tree: &Tree) -> Self {
        let children: Vec<Self> = match &tree.value {
            TreeValue::List(items) => items.iter().map(Self::of).collect(),
            TreeValue::Map(entries) => entries
                .iter()
                .map(|entry| {
                    let value = Self::of(&entry.value);
                    let text_bytes = value.text_bytes + entry.key.len();
                    Self { values: value.values + 1, text_bytes, height: value.height }
                })
                .collect(),
            _ => return size_of(&tree.value),
        };
        children.iter().fold(Self { values: 1, text_bytes: 0, height: 1 }, |all, child| Self {
            values: all.values + child.values,
            text_bytes: all.text_bytes + child.text_bytes,
            height: all.height.max(child.height + 1),
        })
    }
}

fn size_of(scalar: &TreeValue) -> Size {
    let text_bytes = if let TreeValue::Text { text, .. } = scalar { text.len() } else { 0 };
    Size { values: 1, text_bytes, height: 0 }
}

pub(super) fn too_deep(span: Span) -> Fault {
    let message = format!("lists and mappings are nested deeper than {DEPTH_MAX} levels");
    Fault::error(Code::TooDeep, span, message)
}
