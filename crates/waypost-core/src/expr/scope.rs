//! The values of one evaluation, and its budget.
//!
//! Only values that the expression mentions are in it, and a payload is read when it is first used:
//! the cost of an evaluation does not grow with the execution.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::budget::{Budget, Stop};
use super::contents::Contents;
use super::read;
use super::value::{Key, Value};
use crate::json::Json;
use crate::time::Timestamp;

/// Payloads by name, shared between readers.
pub type Payloads = Arc<BTreeMap<Arc<str>, Json>>;

/// The names that an expression may use, with their values, and one budget: all evaluations over
/// one scope share it, be it the cases of a switch or the expressions of a large config.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    names: BTreeMap<&'static str, Entry>,
    contents: Contents,
    budget: Budget,
    now: Option<Timestamp>,
}

/// The value of `nodes.<id>`.
#[derive(Clone, Debug)]
pub struct ScopeNode {
    /// `nodes.<id>.status`, upper case.
    pub status: &'static str,
    /// `nodes.<id>.output`; `null` where the node was skipped or failed.
    pub output: Json,
    /// `nodes.<id>.failure`; `null` where there is none.
    pub failure: Json,
}

impl Scope {
    /// A scope with no names.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scope with no names, in which these contents of blobs are at hand.
    pub fn over(contents: &Contents) -> Self {
        Self { contents: contents.clone(), ..Self::default() }
    }

    /// For the condition of a list: `ago()` counts back from this time, what is missing has no fields, and a
    /// comparison with it, or of different types, is false. In definitions such comparisons are failures, and
    /// there is no `ago()`: equal states must always have equal results.
    pub fn judge(&mut self, now: Timestamp) {
        self.now = Some(now);
    }

    /// Adds a payload under a name.
    pub fn json(&mut self, name: &'static str, json: &Json) {
        self.names.insert(name, Entry::payload(json));
    }

    /// Adds many payloads under one name, without a copy of them.
    pub fn shared(&mut self, name: &'static str, entries: &Payloads) {
        let shared = SharedPayloads { entries: Arc::clone(entries), found: Mutex::default() };
        self.names.insert(name, Entry::SharedPayloads(Arc::new(shared)));
    }

    /// Adds the nodes an expression refers to.
    pub fn nodes(&mut self, nodes: impl Iterator<Item = (String, ScopeNode)>) {
        let entries = nodes.map(|(id, node)| {
            let fields = [
                ("output".into(), Entry::payload(&node.output)),
                ("status".into(), Entry::Text(node.status.into())),
                ("failure".into(), Entry::payload(&node.failure)),
            ];
            (id.into(), Entry::Tree(Arc::new(fields.into())))
        });
        self.names.insert("nodes", Entry::Tree(Arc::new(entries.collect())));
    }

    /// Adds plain text fields under one name.
    pub fn fields(&mut self, name: &'static str, fields: &[(&str, String)]) {
        let entries =
            fields.iter().map(|(key, text)| ((*key).into(), Entry::Text(text.as_str().into())));
        self.names.insert(name, Entry::Tree(Arc::new(entries.collect())));
    }

    /// Allows the evaluations over this scope fewer units of work than [`super::WORK_MAX`].
    pub fn limit_work(&mut self, units: u64) {
        self.budget = Budget::of(units.min(super::WORK_MAX));
    }

    /// Units of work that the evaluations over this scope have done.
    pub fn work(&self) -> u64 {
        self.budget.used()
    }

    pub(super) fn now(&self) -> Option<Timestamp> {
        self.now
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The content, if the value is a reference.
    pub(super) fn inside(&self, value: Value) -> Result<Value, Stop> {
        match value {
            Value::Blob(blob) => self.contents.get(*blob),
            value => Ok(value),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.names.get(name)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Entry {
    Payload(Arc<Payload>),
    Text(Arc<str>),
    Tree(Arc<BTreeMap<Arc<str>, Self>>),
    SharedPayloads(Arc<SharedPayloads>),
}

/// A payload that is read when it is first used.
#[derive(Debug)]
pub(super) struct Payload {
    json: Json,
    value: OnceLock<Value>,
}

/// Payloads by name, looked up when an expression uses them.
#[derive(Debug)]
pub(super) struct SharedPayloads {
    entries: Payloads,
    found: Mutex<BTreeMap<Arc<str>, Entry>>,
}

impl Entry {
    fn payload(json: &Json) -> Self {
        Self::Payload(Arc::new(Payload { json: json.clone(), value: OnceLock::new() }))
    }

    /// Has it names below it that can be had one by one?
    pub(super) fn is_tree(&self) -> bool {
        matches!(self, Self::Tree(_) | Self::SharedPayloads(_))
    }

    pub(super) fn get(&self, name: &str) -> Option<Self> {
        match self {
            Self::Payload(_) | Self::Text(_) => None,
            Self::Tree(tree) => tree.get(name).cloned(),
            Self::SharedPayloads(shared) => {
                let (name, json) = shared.entries.get_key_value(name)?;
                let mut found = shared.found.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = found.entry(Arc::clone(name)).or_insert_with(|| Self::payload(json));
                Some(entry.clone())
            }
        }
    }

    /// All of it as a value.
    pub(super) fn read(&self, budget: &Budget) -> Result<Value, Stop> {
        let names: Vec<Arc<str>> = match self {
            Self::Text(text) => return Ok(Value::Text(Arc::clone(text))),
            Self::Payload(payload) => {
                if let Some(value) = payload.value.get() {
                    return Ok(value.clone());
                }
                let value = read::json(payload.json.text(), budget)?;
                return Ok(payload.value.get_or_init(|| value).clone());
            }
            Self::Tree(tree) => tree.keys().cloned().collect(),
            Self::SharedPayloads(shared) => shared.entries.keys().cloned().collect(),
        };
        let mut entries = Vec::new();
        for name in names {
            budget.bytes(128)?;
            let value = self.get(&name).map_or(Ok(Value::Undefined), |entry| entry.read(budget))?;
            entries.push((Key::Text(name), value));
        }
        Value::map(entries, budget)
    }
}
