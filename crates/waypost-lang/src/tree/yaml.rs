//! YAML: granit-parser's events, turned into a tree.
//!
//! YAML 1.2's core schema, so `yes`, `no`, `on` and `off` are texts. Refused: tags, merge keys,
//! keys that are not plain, more than one document. The parser keeps its own limits on nesting,
//! which matter because it looks ahead: they act before the first event of a deep value comes out.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span as RawSpan, options};

use super::builder::{Builder, Size, too_deep};
use super::{DEPTH_MAX, Style, Tree, TreeValue, number};
use crate::diagnostics::{Code, Fault, Faults};
use crate::source::Span;

pub(super) fn parse(text: &str, faults: &mut Faults) -> Result<Tree, Fault> {
    let options = options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
        emit_comments: false,
    };
    let mut reader = YamlReader {
        builder: Builder::new(faults),
        anchors: HashMap::new(),
        open_anchors: Vec::new(),
        documents: 0,
    };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| syntax_fault(&error, text))?;
        reader.take(event, &span)?;
    }
    reader.builder.finish().ok_or_else(|| {
        Fault::error(Code::EmptyDefinition, 0..0, "there is no definition here")
            .with_hint("a definition has at least a `name` and `nodes`")
    })
}

struct YamlReader<'f> {
    builder: Builder<'f>,
    anchors: HashMap<usize, Tree>,
    /// The anchor of each open list or mapping; 0 where there is none.
    open_anchors: Vec<usize>,
    documents: usize,
}

impl YamlReader<'_> {
    fn take(&mut self, event: Event<'_>, raw: &RawSpan) -> Result<(), Fault> {
        let span = raw.byte_range().unwrap_or_default();
        if event.tag().is_some() {
            let tag = raw.tag_span().and_then(|tag| tag.byte_range()).unwrap_or(span.clone());
            let hint = "remove the tag; put a text between quotes instead of tagging it";
            let message = "YAML tags are not supported";
            self.builder.faults.error(Code::UnsupportedYaml, &tag, message).hint(hint);
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "there is more than one YAML document";
                    return Err(Fault::error(Code::MultipleDocuments, span, message)
                        .with_hint("put each workflow into a file of its own"));
                }
                Ok(())
            }
            Event::SequenceStart(_, anchor, _) => {
                self.refuse_as_key(&span)?;
                self.open_anchors.push(anchor);
                self.builder.open_list(span.start)
            }
            Event::MappingStart(_, anchor, _) => {
                self.refuse_as_key(&span)?;
                self.open_anchors.push(anchor);
                self.builder.open_map(span.start)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                // The end of a block has no token of its own.
                let tree = self.builder.close((!span.is_empty()).then_some(span.end))?;
                let anchor = self.open_anchors.pop().unwrap_or(0);
                let kept = (anchor != 0).then(|| tree.clone());
                kept.map_or(Ok(()), |tree| self.keep(anchor, tree))
            }
            Event::Scalar(text, style, anchor, _) => {
                self.scalar(text.into_owned(), style, anchor, span)
            }
            Event::Alias(anchor) => self.alias(anchor, span),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: String,
        style: ScalarStyle,
        anchor: usize,
        span: Span,
    ) -> Result<(), Fault> {
        let bare = style == ScalarStyle::Plain;
        if self.builder.wants_key() {
            if bare && matches!(text.as_str(), "~" | "<<") {
                let (message, hint) = if text == "<<" {
                    ("merge keys are not supported", "write the fields out")
                } else {
                    ("a field needs a name", "put a name before the colon")
                };
                self.builder.faults.error(Code::UnsupportedYaml, &span, message).hint(hint);
            }
            return self.builder.key(text, span);
        }
        let value = if bare {
            resolve(text)
                .unwrap_or_else(|bad| TreeValue::Number(bad.replaced(&span, self.builder.faults)))
        } else {
            let style = match style {
                ScalarStyle::SingleQuoted => Style::Single,
                ScalarStyle::DoubleQuoted => Style::Double,
                _ => Style::Bare,
            };
            TreeValue::Text { text, style }
        };
        let tree = self.builder.scalar(span, value)?;
        let kept = (anchor != 0).then(|| tree.clone());
        kept.map_or(Ok(()), |tree| self.keep(anchor, tree))
    }

    fn keep(&mut self, anchor: usize, tree: Tree) -> Result<(), Fault> {
        self.builder.spend(Size::of(&tree), &tree.span)?;
        self.anchors.insert(anchor, tree);
        Ok(())
    }

    /// Repeats an earlier value. The copy keeps the positions of the original, which is where a
    /// fault in it has to be fixed.
    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Fault> {
        self.refuse_as_key(&span)?;
        let Some(tree) = self.anchors.get(&anchor) else {
            let message = "the alias is inside the value that it repeats";
            return Err(Fault::error(Code::RecursiveAlias, span, message));
        };
        let (copy, size) = (tree.clone(), Size::of(tree));
        self.builder.value(copy, size).map(|_| ())
    }

    fn refuse_as_key(&self, span: &Span) -> Result<(), Fault> {
        if !self.builder.wants_key() {
            return Ok(());
        }
        let message = "a list, a mapping or an alias cannot be the name of a field";
        Err(Fault::error(Code::UnsupportedYaml, span.clone(), message)
            .with_hint("a text that starts with `{` or `[` needs quotes: \"${{ input.name }}\""))
    }
}

/// The value of an unquoted scalar in YAML 1.2's core schema.
fn resolve(text: String) -> Result<TreeValue, number::BadNumber> {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(TreeValue::Null),
        "true" | "True" | "TRUE" => return Ok(TreeValue::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(TreeValue::Bool(false)),
        _ => {}
    }
    match number::yaml(&text) {
        Some(number) => number.map(TreeValue::Number),
        None => Ok(TreeValue::Text { text, style: Style::Bare }),
    }
}

fn syntax_fault(error: &ScanError, text: &str) -> Fault {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    let width = text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    let span = at..at + width;
    if *error.kind() == ErrorKind::RecursionLimitExceeded {
        return too_deep(span);
    }
    let hint = match error.kind() {
        ErrorKind::MappingValueNotAllowed => {
            Some("a text with `: ` in it needs quotes; fields of one mapping start in one column")
        }
        ErrorKind::UnknownAnchor => {
            Some("a text that starts with `*` needs quotes; an alias needs an anchor before it")
        }
        ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabNotAllowed => Some("indent with spaces"),
        ErrorKind::ExpectedBlockSequenceEntry | ErrorKind::ExpectedBlockMappingKey => {
            Some("entries of one list, and fields of one mapping, start in one column")
        }
        ErrorKind::SimpleKeyExpected => Some("a field has a `:` after its name"),
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            Some("inside `{ }` and `[ ]` a text with `{`, `}`, `[`, `]` or `,` needs quotes")
        }
        _ => None,
    };
    let fault = Fault::error(Code::Syntax, span, format!("not valid YAML: {}", error.kind()));
    Fault { hint: hint.map(ToOwned::to_owned), ..fault }
}
