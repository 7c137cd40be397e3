//! The fields of the input that expressions use, compared with the input's schema: fields that may
//! be missing, and fields that the schema does not have.
//!
//! Only certain faults are reported. If a schema combines others (`anyOf`, `if`, …), its own
//! `required` is incomplete, so missing fields are not reported.

use serde_json::{Map, Value};
use waypost_core::expr::{PathRef, Step};
use waypost_core::kind::Behaviour;

use super::scopes::Scopes;
use crate::definition::{Located, ParsedDefinition};
use crate::diagnostics::{Code, Fault, Faults, did_you_mean, quoted};
use crate::source::Source;

/// References that are followed on the way to one field.
const REFERENCES_MAX: usize = 32;
/// Keywords with further rules about fields, besides `properties` and `required`.
const COMBINING: &[&str] = &[
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
];

pub(super) fn check(
    definition: &ParsedDefinition<'_>,
    scopes: &Scopes<'_>,
    source: &Source<'_>,
    faults: &mut Faults,
) {
    let Some(root) = &definition.input else { return };
    let mut checker = Checker { root, scopes, source, faults };
    for located in definition.concurrency.iter().flat_map(|block| &block.expressions) {
        checker.check(None, located);
    }
    for (at, node) in definition.nodes.iter().enumerate() {
        node.expressions.iter().for_each(|located| checker.check(Some(at), located));
    }
}

struct Checker<'a> {
    root: &'a Value,
    scopes: &'a Scopes<'a>,
    source: &'a Source<'a>,
    faults: &'a mut Faults,
}

/// What a schema states about a field.
enum Field<'s> {
    /// It is there, and this is its schema.
    Sure(&'s Value),
    /// It may be missing; where it is there, this is its schema.
    Optional(&'s Value),
    /// The schema has no such field; these are those it has.
    Unknown(&'s Map<String, Value>),
    /// Nothing, or nothing that is sure.
    Unclear,
}

impl<'a> Checker<'a> {
    /// Checks an expression, of a node if it has one.
    fn check(&mut self, at: Option<usize>, located: &Located<'_>) {
        let mut said: Vec<Vec<Option<String>>> = Vec::new();
        for path in &located.references.paths {
            let Some(from) = self.steps_into_input(at, path) else { continue };
            let Some((step, fault)) = self.judge(path, from) else { continue };
            let fields = path.steps.iter().take(step + 1).map(|step| step.field.clone()).collect();
            if !said.contains(&fields) {
                let span = located.span(self.source, &path.range(step));
                self.faults.add(Fault { span, ..fault });
                said.push(fields);
            }
        }
    }

    /// How many steps lead to the input: none from `input` itself, two through a node that outputs
    /// it (`nodes.start.output`).
    fn steps_into_input(&self, at: Option<usize>, path: &PathRef) -> Option<usize> {
        let field = |at: usize| path.steps.get(at).and_then(|step: &Step| step.field.as_deref());
        match path.root.as_str() {
            "input" => Some(0),
            "nodes" if field(1) == Some("output") => {
                let node = self.scopes.visible(at?, field(0)?)?.node;
                let behaviour = &self.scopes.node(node).behaviour;
                let is_input =
                    matches!(behaviour, Some(Behaviour::Input | Behaviour::Trigger { .. }));
                is_input.then_some(2)
            }
            _ => None,
        }
    }

    /// The first step of a path that may be missing and is not guarded.
    fn judge(&mut self, path: &PathRef, from: usize) -> Option<(usize, Fault)> {
        let mut schema = self.root;
        for (at, step) in path.steps.iter().enumerate().skip(from) {
            schema = self.resolve(schema)?;
            let Some(name) = &step.field else {
                if schema.get("prefixItems").is_some() {
                    return None;
                }
                schema = schema.get("items")?;
                continue;
            };
            let (code, message, hint) = match field(schema, name) {
                Field::Sure(inside) => {
                    schema = inside;
                    continue;
                }
                Field::Unclear => return None,
                Field::Optional(inside) if step.guarded => {
                    schema = inside;
                    continue;
                }
                Field::Unknown(_) if step.guarded => return None,
                Field::Optional(_) => (
                    Code::MayBeMissing,
                    format!("{} may be missing: the schema does not require it", quoted(name)),
                    advice(path, at).to_owned(),
                ),
                Field::Unknown(known) => {
                    let likely = self.faults.likely(name, known.keys().map(String::as_str));
                    let hint = match likely {
                        Some(likely) => did_you_mean(likely),
                        None => "add it to the `properties` of the schema, or use default() or \
                                 `is defined`"
                            .to_owned(),
                    };
                    let message = format!("the input's schema has no field {}", quoted(name));
                    (Code::UnknownInputField, message, hint)
                }
            };
            return Some((at, Fault::warning(code, 0..0, message).with_hint(hint)));
        }
        None
    }

    /// Follows references within the schema. `None` where it is not clear what holds.
    fn resolve(&self, mut schema: &'a Value) -> Option<&'a Value> {
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = schema.get("$ref") else { return Some(schema) };
            let fields = schema.as_object()?;
            let says_more = |key: &String| {
                !["$ref", "title", "description", "default", "examples"].contains(&key.as_str())
            };
            if fields.keys().any(says_more) {
                return None;
            }
            schema = self.root.pointer(reference.as_str()?.strip_prefix('#')?)?;
        }
        None
    }
}

/// A hint about a field that may be missing.
fn advice(path: &PathRef, at: usize) -> &'static str {
    let last = at + 1 == path.steps.len();
    let guards_inside = path.steps.iter().skip(at + 1).any(|step| step.guarded);
    match (last, guards_inside) {
        (true, _) => {
            "give a default: `… | default('')`, or test `is defined` first; or add it to `required`"
        }
        (false, true) => {
            "default() does not cover a field of a missing value: write `(… | default({})).…`"
        }
        (false, false) => {
            "test `is defined` first, or write `(… | default({})).…`; or add it to `required`"
        }
    }
}

/// What a schema states about one of its fields.
fn field<'s>(schema: &'s Value, name: &str) -> Field<'s> {
    let is_object = match schema.get("type") {
        None => true,
        Some(Value::String(one)) => one == "object",
        Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
        Some(_) => false,
    };
    let Some(fields) = schema.as_object().filter(|_| is_object) else { return Field::Unclear };
    let combines = COMBINING.iter().any(|keyword| fields.contains_key(*keyword));
    let required = fields
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|known| known == name));
    let properties = fields.get("properties").and_then(Value::as_object);
    match properties.and_then(|properties| properties.get(name)) {
        Some(inside) if required || combines => Field::Sure(inside),
        Some(inside) => Field::Optional(inside),
        None if required || combines => Field::Unclear,
        None => match (fields.get("additionalProperties"), properties) {
            (None | Some(Value::Bool(false)), Some(known)) => Field::Unknown(known),
            _ => Field::Unclear,
        },
    }
}
