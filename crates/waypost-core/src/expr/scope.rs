//! The values an expression can see, built for one evaluation.
//!
//! Only what the expression mentions is put in, and a payload is parsed when it is first touched:
//! the cost of an evaluation does not grow with the execution.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use serde_json::value::RawValue;

use crate::json::Json;

/// Text in the error of a payload whose numbers do not fit; looked for when failures are made.
pub(super) const NUMBER_OUT_OF_RANGE: &str = "number out of range";

/// Payloads by name, shared between those who read them.
pub type Payloads = Arc<BTreeMap<Arc<str>, Json>>;

/// The names that an expression may use, with their values.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    names: BTreeMap<&'static str, Value>,
}

/// What `nodes.<id>` shows.
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

    /// Adds a payload under a name.
    pub fn json(&mut self, name: &'static str, json: &Json) {
        self.names.insert(name, lazy(json));
    }

    /// Adds many payloads under one name, without a copy of them.
    pub fn shared(&mut self, name: &'static str, entries: &Payloads) {
        let shared = Shared { entries: Arc::clone(entries), parsed: Mutex::default() };
        self.names.insert(name, Value::from_object(shared));
    }

    /// Adds the nodes an expression refers to.
    pub fn nodes(&mut self, nodes: impl Iterator<Item = (String, ScopeNode)>) {
        let entries = nodes
            .map(|(id, node)| {
                let fields = [
                    ("output".to_owned(), lazy(&node.output)),
                    ("status".to_owned(), Value::from(node.status)),
                    ("failure".to_owned(), lazy(&node.failure)),
                ];
                let fields = Names { entries: fields.into_iter().collect() };
                (id, Value::from_object(fields))
            })
            .collect();
        self.names.insert("nodes", Value::from_object(Names { entries }));
    }

    /// Adds plain text fields under one name.
    pub fn fields(&mut self, name: &'static str, fields: &[(&str, String)]) {
        let entries = fields
            .iter()
            .map(|(key, text)| ((*key).to_owned(), Value::from(text.clone())))
            .collect();
        self.names.insert(name, Value::from_object(Names { entries }));
    }

    pub(super) fn value(&self) -> Value {
        let entries = self.names.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        Value::from_object(Names { entries })
    }
}

/// A map whose values may be lazy payloads.
#[derive(Debug)]
struct Names {
    entries: BTreeMap<String, Value>,
}

impl Object for Names {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let value = self.entries.get(key.as_str()?)?;
        match value.downcast_object_ref::<Lazy>() {
            Some(lazy) => Some(lazy.parse()),
            None => Some(value.clone()),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.entries.keys().map(|key| Value::from(key.as_str())).collect())
    }
}

/// Payloads by name, looked up when an expression asks for them.
#[derive(Debug)]
struct Shared {
    entries: Payloads,
    parsed: Mutex<BTreeMap<Arc<str>, Value>>,
}

impl Object for Shared {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let (name, json) = self.entries.get_key_value(key.as_str()?)?;
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        Some(parsed.entry(Arc::clone(name)).or_insert_with(|| parse(json.text())).clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.entries.keys().map(|key| Value::from(&**key)).collect())
    }
}

/// A payload that is parsed when it is looked at.
#[derive(Debug)]
struct Lazy {
    json: Json,
    parsed: OnceLock<Value>,
}

impl Lazy {
    fn parse(&self) -> Value {
        self.parsed.get_or_init(|| parse(self.json.text())).clone()
    }
}

impl Object for Lazy {}

/// Parses a payload in which some number does not fit into 64 bits. Only that number becomes an
/// invalid value, which fails the evaluation if it is used; all around it stays readable.
fn parse_around_huge_numbers(text: &str) -> Value {
    if let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
        let fields = fields.into_iter().map(|(key, raw)| (key, parse_part(raw)));
        return Value::from(fields.collect::<BTreeMap<_, _>>());
    }
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) {
        return Value::from(items.into_iter().map(parse_part).collect::<Vec<_>>());
    }
    let error = minijinja::Error::new(minijinja::ErrorKind::BadSerialization, NUMBER_OUT_OF_RANGE);
    Value::from(error)
}

fn parse_part(raw: &RawValue) -> Value {
    parse(raw.get())
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| parse_around_huge_numbers(text))
}

fn lazy(json: &Json) -> Value {
    Value::from_object(Lazy { json: json.clone(), parsed: OnceLock::new() })
}
