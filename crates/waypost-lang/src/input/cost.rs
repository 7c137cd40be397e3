//! The cost of checking an input against its schema, computed before it is checked.
//!
//! A schema may visit one value many times (`allOf` of two references to one definition), and
//! nested references multiply: a hundred bytes of schema and sixty brackets of input would keep a
//! validator busy for longer than a lifetime. Here every pair of schema and value is visited once,
//! however often validation will visit it, so the sum is known in time.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Visits that checking one input may take.
pub(super) const VISITS_MAX: u64 = 5_000_000;
/// Visits up to which the faults of an input are gathered: each is remembered until all are known.
pub(super) const EXPLAINED_MAX: u64 = 100_000;
/// Pairs of schema and value that are visited; beyond it the answer is "too many".
const PAIRS_MAX: usize = 1_000_000;
/// How deep schemas and values may go together.
const DEPTH_MAX: usize = 500;

/// Schemas that apply to the value of the schema around them.
const HERE_ONE: &[&str] = &["not", "if", "then", "else"];
const HERE_MANY: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Schemas that apply to every element, or to every property.
const EACH: &[&str] = &[
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
];

/// The visits that checking takes; [`u64::MAX`] where it is not worth counting.
pub(super) fn visits(schema: &Value, input: &Value) -> u64 {
    let mut count = CostCount { root: schema, known: HashMap::new() };
    count.pair(schema, input, 0)
}

struct CostCount<'a> {
    root: &'a Value,
    /// By the places of schema and value in memory; `None` while it is being worked out.
    known: HashMap<(*const Value, *const Value), Option<u64>>,
}

impl<'a> CostCount<'a> {
    fn pair(&mut self, schema: &'a Value, value: &'a Value, depth: usize) -> u64 {
        let Value::Object(keywords) = schema else { return 1 };
        if depth > DEPTH_MAX || self.known.len() >= PAIRS_MAX {
            return u64::MAX;
        }
        let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        match self.known.get(&key) {
            // A schema that leads back to itself on one value has no end.
            Some(known) => return known.unwrap_or(u64::MAX),
            None => drop(self.known.insert(key, None)),
        }
        let here = self.here(keywords, value, depth + 1);
        let below = self.below(keywords, value, depth + 1);
        let visits = here.saturating_add(below).saturating_add(1 + keywords.len() as u64);
        self.known.insert(key, Some(visits));
        visits
    }

    /// Schemas that apply to this value.
    fn here(&mut self, keywords: &'a Map<String, Value>, value: &'a Value, depth: usize) -> u64 {
        let mut sum = 0_u64;
        let one = HERE_ONE.iter().filter_map(|name| keywords.get(*name));
        let many = HERE_MANY.iter().filter_map(|name| keywords.get(*name)?.as_array()).flatten();
        let depending = ["dependentSchemas", "dependencies"]
            .iter()
            .filter_map(|name| keywords.get(*name)?.as_object())
            .flat_map(Map::values);
        for schema in one.chain(many).chain(depending) {
            sum = sum.saturating_add(self.pair(schema, value, depth));
        }
        for name in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(place) = keywords.get(name).and_then(Value::as_str) else { continue };
            sum = match place.strip_prefix('#').and_then(|place| self.root.pointer(place)) {
                Some(schema) => sum.saturating_add(self.pair(schema, value, depth)),
                // An anchor: rare, and not worth finding.
                None => u64::MAX,
            };
        }
        sum
    }

    /// Schemas that apply to elements or properties of the value.
    fn below(&mut self, keywords: &'a Map<String, Value>, value: &'a Value, depth: usize) -> u64 {
        let mut sum = 0_u64;
        let inside: Vec<&'a Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => return 0,
        };
        let each = EACH.iter().filter_map(|name| keywords.get(*name));
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        for schema in each.chain(patterns.into_iter().flat_map(Map::values)) {
            for child in &inside {
                sum = sum.saturating_add(self.pair(schema, child, depth));
            }
        }
        let lists =
            ["prefixItems", "items"].iter().filter_map(|name| keywords.get(*name)?.as_array());
        for (schema, child) in lists.flat_map(|schemas| schemas.iter().zip(&inside)) {
            sum = sum.saturating_add(self.pair(schema, child, depth));
        }
        if let (Some(Value::Object(known)), Value::Object(fields)) =
            (keywords.get("properties"), value)
        {
            for (name, child) in fields {
                let Some(schema) = known.get(name) else { continue };
                sum = sum.saturating_add(self.pair(schema, child, depth));
            }
        }
        if keywords.contains_key("propertyNames") {
            sum = sum.saturating_add(inside.len() as u64);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn visits_of_multiplying_references_exceed_the_limit() {
        let twice = json!([{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }]);
        let doubling =
            json!({ "$defs": { "a": { "items": { "allOf": twice } } }, "$ref": "#/$defs/a" });
        assert!(visits(&doubling, &nested(5)) < 1_000);
        assert!(visits(&doubling, &nested(60)) > VISITS_MAX);
        let mut levels = serde_json::Map::new();
        for level in 0..28 {
            let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
            levels.insert(format!("a{level}"), json!({ "allOf": [next, next] }));
        }
        levels.insert("a28".to_owned(), json!({ "type": "string" }));
        assert!(visits(&json!({ "$defs": levels, "$ref": "#/$defs/a0" }), &json!(1)) > VISITS_MAX);
        assert_eq!(visits(&json!({ "$ref": "#" }), &json!(1)), u64::MAX, "it has no end");
    }

    #[test]
    fn visits_of_ordinary_schemas_stay_below_the_limit() {
        let tree = json!({ "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } });
        let full = (0..12).fold(json!({}), |tree, _| json!({ "left": tree, "right": tree }));
        assert!(visits(&tree, &full) < EXPLAINED_MAX, "once for each of its 8,191 nodes");
        let rows: Vec<Value> = (0..1_000).map(|at| json!({ "id": at, "tags": ["a"] })).collect();
        let row = json!({ "type": "object", "required": ["id"], "properties": {
            "id": { "type": "integer" }, "tags": { "items": { "type": "string" } } } });
        assert!(visits(&json!({ "type": "array", "items": row }), &json!(rows)) < EXPLAINED_MAX);
    }
}
