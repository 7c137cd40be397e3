//! The JSON Schema of a workflow's input: checked with the definition, applied when an execution
//! starts.
//!
//! Schemas come from users, so they may not reach out (`$ref` within the schema only) and their
//! patterns run on a linear-time engine: no input can make one of them take exponential time. The
//! work that references multiply is counted first (`cost`), and rejected if it is too much.

mod cost;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{PatternOptions, Validator};
use serde::Serialize;
use waypost_core::blob::BlobRef;
use waypost_core::id::DefinitionHash;
use waypost_core::json::{BadJson, Json};
use waypost_core::limits::BLOBS_IN_SCHEMA_BYTES_MAX;

use crate::diagnostics::{Code, Faults, quoted};
use crate::fields;
use crate::tree::{Tree, TreeValue};

/// Compiled schemas in the cache; above it the cache starts anew.
const SCHEMAS_MAX: usize = 1_000;
/// Faults reported for one input.
const FAULTS_MAX: usize = 20;
/// Longest message of one fault; the library's quote the offending value.
const MESSAGE_CHARS_MAX: usize = 300;
/// Memory of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// The largest float, and the least one, as JSON.
const LARGEST: &str = "1.7976931348623157e308";
const LARGEST_NEGATIVE: &str = "-1.7976931348623157e308";
/// Keywords whose value is data, not a schema.
const DATA_KEYWORDS: &[&str] = &["const", "enum", "default", "examples"];

/// Values of every type: a schema that accepts each of them at some place does not look at it.
const PROBES: &[&str] =
    &["null", "true", "7", "\"text\"", "[]", "{}", r#"[null, true, 7, "", [], {}]"#, r#"{"a": 7}"#];

/// A compiled input schema.
#[derive(Debug)]
pub struct InputSchema {
    validator: Validator,
    source: serde_json::Value,
}

/// Compiled schemas by definition.
#[derive(Debug, Default)]
pub struct InputSchemas(Mutex<HashMap<DefinitionHash, Arc<InputSchema>>>);

impl InputSchemas {
    /// The schema of a definition, compiled once.
    pub fn get(
        &self,
        definition: DefinitionHash,
        source: &Json,
    ) -> Result<Arc<InputSchema>, BadInputSchema> {
        let cached = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cached().get(&definition) {
            return Ok(Arc::clone(known));
        }
        let schema = Arc::new(InputSchema::compile(source)?);
        let mut known = cached();
        if known.len() >= SCHEMAS_MAX {
            known.clear();
        }
        known.insert(definition, Arc::clone(&schema));
        Ok(schema)
    }
}

/// A fault of an input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InputFault {
    /// JSON Pointer to the culprit; empty for the input as a whole.
    pub path: String,
    pub message: String,
}

impl InputFault {
    fn of_whole(message: String) -> Self {
        Self { path: String::new(), message }
    }
}

/// Why a schema cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct BadInputSchema {
    /// JSON Pointer to the culprit in the schema.
    pub path: String,
    pub message: String,
}

impl InputSchema {
    /// Compiles a schema, as a plan carries it.
    pub fn compile(schema: &Json) -> Result<Self, BadInputSchema> {
        let schema = schema
            .to_value()
            .map_err(|error| BadInputSchema { path: String::new(), message: error.to_string() })?;
        Ok(Self { validator: build(&schema)?, source: schema })
    }

    /// Checks an input and returns its first faults. References in it stand for contents that are too
    /// large to be checked, or no JSON: the schema must not look at them.
    pub fn check(&self, input: &Json) -> Result<(), Vec<InputFault>> {
        match input.references().next() {
            None => self.check_whole(input),
            Some(blob) => self.check_around(input, blob),
        }
    }

    /// Checks an input with values of every type in place of its references. A fault that is there with
    /// each of them is one of the input; one that is not shows that the schema looks at a reference.
    fn check_around(&self, input: &Json, blob: BlobRef) -> Result<(), Vec<InputFault>> {
        let mut faults: Option<Vec<InputFault>> = None;
        let mut looks = false;
        for probe in PROBES {
            let found = match input.resolve(|_| Json::parse(probe)) {
                Ok(input) => self.check_whole(&input).err().unwrap_or_default(),
                Err(error) => vec![InputFault::of_whole(error.to_string())],
            };
            looks |= !found.is_empty();
            faults = Some(match faults {
                None => found,
                Some(known) => known.into_iter().filter(|fault| found.contains(fault)).collect(),
            });
        }
        match faults.unwrap_or_default() {
            faults if !faults.is_empty() => Err(faults),
            _ if looks => {
                let message = format!(
                    "the schema looks into blob {}; it can be checked only on JSON, of at most \
                     {BLOBS_IN_SCHEMA_BYTES_MAX} bytes in all blobs of the input: leave the field \
                     without a schema",
                    blob.digest
                );
                Err(vec![InputFault::of_whole(message)])
            }
            _ => Ok(()),
        }
    }

    fn check_whole(&self, input: &Json) -> Result<(), Vec<InputFault>> {
        let whole = |message: String| Err(vec![InputFault::of_whole(message)]);
        let value = match checkable(input) {
            Ok(value) => value,
            Err(error) => return whole(error.to_string()),
        };
        let visits = cost::visits(&self.source, &value);
        if visits > cost::VISITS_MAX {
            let max = cost::VISITS_MAX;
            return whole(format!("checking the input takes more than {max} steps"));
        }
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        if visits > cost::EXPLAINED_MAX {
            return whole("the input violates its schema; it is too large for details".to_owned());
        }
        let errors = self.validator.iter_errors(&value).take(FAULTS_MAX);
        let faults = errors.map(|error| InputFault {
            path: error.instance_path().as_str().to_owned(),
            message: shortened(&error.to_string()),
        });
        Err(faults.collect())
    }
}

/// An input as a tree to check. Numbers that no float can hold are carried as they are written and may
/// not be computed with; to a schema, each of them is the largest float.
fn checkable(input: &Json) -> Result<serde_json::Value, BadJson> {
    let known = input.to_value();
    if known.is_ok() {
        return known;
    }
    Json::parse(&with_finite_numbers(input.text()))?.to_value()
}

/// JSON in which numbers that no float can hold are replaced by the largest one.
fn with_finite_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_number = !in_string && (first == '-' || first.is_ascii_digit());
        let not_part = |part: char| !matches!(part, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
        let length = match is_number {
            true => rest.find(not_part).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (part, tail) = rest.split_at(length);
        let number = if is_number { part.parse::<f64>().unwrap_or(0.0) } else { 0.0 };
        out.push_str(match number.is_infinite() {
            true if number > 0.0 => LARGEST,
            true => LARGEST_NEGATIVE,
            false => part,
        });
        in_string ^= first == '"' && !escaped;
        escaped = in_string && first == '\\' && !escaped;
        rest = tail;
    }
    out
}

/// Checks the schema in a field, such as "`input`".
pub(crate) fn check_schema(what: &str, tree: &Tree, faults: &mut Faults) {
    if tree.as_map().is_none() {
        let example = what.trim_matches('`');
        fields::wrong_type(what, "a JSON Schema", tree, faults)
            .hint(format!("for example `{example}: {{ type: object, required: [userId] }}`"));
        return;
    }
    let errors_before = faults.errors();
    refuse_outside_references(what, tree, faults);
    if faults.errors() > errors_before {
        return;
    }
    if let Err(bad) = build(&tree.to_json()) {
        let steps: Vec<String> = bad.path.split('/').skip(1).map(unescaped).collect();
        let culprit = tree.at(steps.iter().map(String::as_str));
        let message = format!("{what} is not a valid JSON Schema: {}", bad.message);
        faults.error(Code::BadInputSchema, &culprit.span, message);
    }
}

fn build(schema: &serde_json::Value) -> Result<Validator, BadInputSchema> {
    let patterns =
        PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options().offline().with_pattern_options(patterns).build(schema).map_err(|error| {
        BadInputSchema {
            path: error.instance_path().as_str().to_owned(),
            message: shortened(&error.to_string()),
        }
    })
}

fn refuse_outside_references(what: &str, tree: &Tree, faults: &mut Faults) {
    match &tree.value {
        TreeValue::List(items) => {
            items.iter().for_each(|item| refuse_outside_references(what, item, faults));
        }
        TreeValue::Map(entries) => {
            for entry in entries {
                let reference = matches!(entry.key.as_str(), "$ref" | "$dynamicRef");
                match entry.value.as_text().filter(|_| reference) {
                    Some(target) if !target.starts_with('#') => {
                        let message =
                            format!("{what} refers to {}, outside of itself", quoted(target));
                        let span = entry.value.span.clone();
                        let hint = "put the schema under `$defs` and refer to `#/$defs/…`";
                        faults.error(Code::BadInputSchema, &span, message).hint(hint);
                    }
                    _ if DATA_KEYWORDS.contains(&entry.key.as_str()) => {}
                    _ => refuse_outside_references(what, &entry.value, faults),
                }
            }
        }
        TreeValue::Null | TreeValue::Bool(_) | TreeValue::Number(_) | TreeValue::Text { .. } => {}
    }
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

fn shortened(message: &str) -> String {
    if message.chars().count() <= MESSAGE_CHARS_MAX {
        return message.to_owned();
    }
    message.chars().take(MESSAGE_CHARS_MAX).chain(['…']).collect()
}
