//! The fields of a trigger, or of an object in one, read one by one.
//!
//! What is read is written down again in its canonical form at the same time, so that no field can be in
//! one and not in the other.

use serde_json::{Map, Value};
use waypost_core::expr::{Expression, Template};
use waypost_core::time::Millis;

use super::super::{ExpressionUse, Located, ReadContext, config};
use super::SeenNames;
use crate::diagnostics::{Code, did_you_mean, listed, quoted};
use crate::fields;
use crate::source::Span;
use crate::tree::{Tree, TreeEntry, TreeValue};

pub(super) struct Block<'t, 'c, 's> {
    entries: Vec<&'t TreeEntry>,
    /// Where a missing field is reported.
    pub(super) span: Span,
    /// What these are the fields of.
    of: String,
    /// Fields that a mistyped one was probably meant to be.
    meant: Vec<String>,
    canonical: Map<String, Value>,
    expressions: Vec<Located<'t>>,
    pub(super) context: &'c mut ReadContext<'s>,
}

impl<'t, 'c, 's> Block<'t, 'c, 's> {
    /// Reports fields that are not `known`.
    pub(super) fn new(
        entries: Vec<&'t TreeEntry>,
        span: &Span,
        of: String,
        known: &[&str],
        context: &'c mut ReadContext<'s>,
    ) -> Self {
        let mut meant = Vec::new();
        for entry in &entries {
            let one = std::slice::from_ref(*entry);
            let found = fields::refuse_unknown(one, known, &of, context.faults);
            meant.extend(found.into_iter().map(ToOwned::to_owned));
        }
        let (canonical, expressions) = (Map::new(), Vec::new());
        Self { entries, span: span.clone(), of, meant, canonical, expressions, context }
    }

    /// The canonical form, and all expressions.
    pub(super) fn finish(self) -> (Map<String, Value>, Vec<Located<'t>>) {
        (self.canonical, self.expressions)
    }

    /// A field, unless it is absent or empty.
    pub(super) fn present(&self, name: &str) -> Option<&'t TreeEntry> {
        let found = self.entries.iter().find(|entry| entry.key == name)?;
        Some(*found).filter(|entry| !matches!(entry.value.value, TreeValue::Null))
    }

    /// A field that must be there.
    pub(super) fn required(&mut self, name: &str, hint: &str) -> Option<&'t TreeEntry> {
        let found = self.present(name);
        if found.is_none() && !self.meant.iter().any(|meant| meant == name) {
            let message = format!("{} needs `{name}`", self.of);
            self.context.faults.error(Code::MissingField, &self.span, message).hint(hint);
        }
        found
    }

    /// Writes a field into the canonical form.
    pub(super) fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.canonical.insert(name.to_owned(), value.into());
    }

    /// Leaves a field out of the canonical form that has this value by default.
    pub(super) fn leave_out(&mut self, name: &str, default: impl Into<Value>) {
        if self.canonical.get(name) == Some(&default.into()) {
            self.canonical.remove(name);
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let entry = self.present(name)?;
        let text = fields::owned_text(&format!("`{name}`"), &entry.value, self.context.faults)?;
        self.keep(name, text.as_str());
        Some(text)
    }

    /// One text, or a list of them; each with its position.
    pub(super) fn texts(&mut self, name: &str) -> Vec<(String, &'t Tree)> {
        let Some(entry) = self.present(name) else { return Vec::new() };
        let what = format!("`{name}`");
        let items = entry.value.as_list().unwrap_or(std::slice::from_ref(&entry.value));
        let mut found = Vec::new();
        for item in items {
            if let Some(text) = fields::owned_text(&what, item, self.context.faults) {
                found.push((text, item));
            }
        }
        if items.is_empty() {
            self.context.faults.error(
                Code::BadValue,
                &entry.value.span,
                format!("{what} is empty"),
            );
        }
        let mut texts = found.iter().map(|(text, _)| Value::from(text.as_str()));
        match (found.len(), texts.next()) {
            (1, Some(one)) => self.keep(name, one),
            (_, Some(first)) => {
                let all: Vec<Value> = std::iter::once(first).chain(texts).collect();
                self.keep(name, all);
            }
            (_, None) => {}
        }
        found
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        let Some(entry) = self.present(name) else { return default };
        let what = format!("`{name}`");
        let flag = fields::boolean(&what, &entry.value, self.context.faults).unwrap_or(default);
        if flag != default {
            self.keep(name, flag);
        }
        flag
    }

    pub(super) fn duration(&mut self, name: &str) -> Option<Millis> {
        let entry = self.present(name)?;
        let span = fields::duration(&format!("`{name}`"), &entry.value, self.context.faults)?;
        self.keep(name, span.0);
        Some(span)
    }

    /// A duration within bounds, both included.
    pub(super) fn duration_within(
        &mut self,
        name: &str,
        (min, max): (Millis, Millis),
        code: Code,
    ) -> Option<Millis> {
        let span = self.duration(name)?;
        if (min..=max).contains(&span) {
            return Some(span);
        }
        let at = self.present(name)?.value.span.clone();
        let message = format!("`{name}` must be from {min} to {max}, not {span}");
        self.context.faults.error(code, &at, message);
        None
    }

    /// A whole number within bounds, both included.
    pub(super) fn whole(&mut self, name: &str, min: u32, max: u32) -> Option<u32> {
        let entry = self.present(name)?;
        let read = fields::whole(min..=max);
        let number = read(&format!("`{name}`"), &entry.value, self.context.faults)?;
        self.keep(name, number);
        Some(number)
    }

    /// One of several words.
    pub(super) fn word<'w>(
        &mut self,
        name: &str,
        words: &[&'w str],
        code: Code,
    ) -> Option<&'w str> {
        let entry = self.present(name)?;
        let faults = &mut *self.context.faults;
        let given = fields::text(&format!("`{name}`"), &entry.value, faults)?;
        let Some(found) = words.iter().copied().find(|word| *word == given) else {
            let allowed = listed(words.iter().copied(), "or");
            let message = format!("`{name}` must be {allowed}, not {}", quoted(given));
            let likely = faults.likely(given, words.iter().copied());
            let fault = faults.error(code, &entry.value.span, message);
            fault.hint = likely.map(did_you_mean);
            return None;
        };
        self.keep(name, found);
        Some(found)
    }

    /// An expression without braces that sees these names.
    pub(super) fn expression(&mut self, name: &str, sees: SeenNames) -> Option<Expression> {
        let entry = self.present(name)?;
        let text = fields::text(&format!("`{name}`"), &entry.value, self.context.faults)?;
        let place = ExpressionUse::Trigger(sees);
        let located = config::bare_expression(&entry.value, text, place, self.context)?;
        self.expressions.push(located);
        self.keep(name, text);
        Expression::compile(text).ok()
    }

    /// Any value with expressions in it that see these names.
    pub(super) fn template(&mut self, name: &str, sees: SeenNames) -> Option<Template> {
        let entry = self.present(name)?;
        let template = self.compiled(&entry.value, sees)?;
        self.keep(name, entry.value.to_json());
        Some(template)
    }

    pub(super) fn compiled(&mut self, tree: &'t Tree, sees: SeenNames) -> Option<Template> {
        let errors = self.context.faults.errors();
        let found = config::template(tree, ExpressionUse::Trigger(sees), self.context);
        self.expressions.extend(found);
        // Its faults have been reported with their positions.
        let template = Template::compile(&tree.to_json()).ok();
        template.filter(|_| self.context.faults.errors() == errors)
    }

    /// Takes in expressions that were read with something else.
    pub(super) fn add_expressions(&mut self, more: impl Iterator<Item = Located<'t>>) {
        self.expressions.extend(more);
    }

    /// An object with fields of its own.
    pub(super) fn inner<T>(
        &mut self,
        name: &str,
        known: &[&str],
        read: impl FnOnce(&mut Block<'t, '_, 's>) -> Option<T>,
    ) -> Option<T> {
        let entry = self.present(name)?;
        let what = format!("`{name}`");
        let entries = fields::map(&what, &entry.value, self.context.faults)?;
        let entries = entries.iter().collect();
        let mut block = Block::new(entries, &entry.key_span, what, known, self.context);
        let value = read(&mut block);
        let (canonical, expressions) = block.finish();
        if !canonical.is_empty() {
            self.keep(name, canonical);
        }
        self.expressions.extend(expressions);
        value
    }
}
