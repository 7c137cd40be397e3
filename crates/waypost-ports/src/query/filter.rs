//! Filters of lists, beyond status and workflow, for which stores have indexes.
//!
//! Stores walk their rows newest first and test each here. There is one implementation for all of
//! them: no text of a user becomes part of a statement or of a pattern, and all stores agree on
//! upper and lower case. A [`PageBudget`] bounds the walk.

use std::collections::BTreeMap;

use serde_json::Value;
use waypost_core::time::Timestamp;

use super::{
    CONDITION_WORK_MAX, ExecutionRow, ListCondition, ListRequest, SCANNED_BYTES_MAX, SCANNED_MAX,
};

/// Judges rows.
#[derive(Debug)]
pub struct Filter<'a> {
    request: &'a ListRequest,
    /// The text to search for, in lower case.
    text: Option<String>,
}

/// The fields of a row that a filter tests.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    pub created_at: Timestamp,
    pub labels: &'a BTreeMap<String, String>,
    pub key: &'a str,
    pub error: Option<&'a str>,
    /// Its input, as JSON text; may be left empty unless [`Filter::reads_input`].
    pub input: &'a str,
    /// Its output, as JSON text; empty where there is none, and unless [`Filter::reads_output`].
    pub output: &'a str,
}

/// How much one page may still scan.
#[derive(Clone, Copy, Debug)]
pub struct PageBudget {
    pub rows: usize,
    pub bytes: usize,
    /// Units of work of evaluating its condition.
    pub work: u64,
}

impl<'a> Filter<'a> {
    /// `None` if all rows of the statuses and the workflow are wanted.
    pub fn of(request: &'a ListRequest) -> Option<Self> {
        let ListRequest { since, until, labels, text, condition, .. } = request;
        let any = since.is_some()
            || until.is_some()
            || !labels.is_empty()
            || text.is_some()
            || condition.is_some();
        any.then(|| Self { request, text: text.as_deref().map(lower) })
    }

    /// Does it test inputs?
    pub fn reads_input(&self) -> bool {
        self.text.is_some() || self.condition().is_some_and(ListCondition::reads_input)
    }

    /// Does it test outputs?
    pub fn reads_output(&self) -> bool {
        self.condition().is_some_and(ListCondition::reads_output)
    }

    fn condition(&self) -> Option<&'a ListCondition> {
        self.request.condition.as_deref()
    }

    /// Is this row on the list? `row` is asked for what only a condition needs.
    pub fn fits<E>(
        &self,
        looked: &Looked<'_>,
        budget: &mut PageBudget,
        row: impl FnOnce() -> Result<ExecutionRow, E>,
    ) -> Result<bool, E> {
        budget.spend(looked);
        let Some(condition) = self.condition() else { return Ok(self.passes(looked)) };
        if !self.passes(looked) {
            return Ok(false);
        }
        let (holds, work) = condition.holds(&row()?, looked);
        budget.work = budget.work.saturating_sub(work);
        Ok(holds)
    }

    /// Does it pass the tests that need no condition?
    fn passes(&self, row: &Looked<'_>) -> bool {
        let ListRequest { since, until, labels, .. } = self.request;
        since.is_none_or(|since| row.created_at >= since)
            && until.is_none_or(|until| row.created_at < until)
            && labels.iter().all(|(name, value)| row.labels.get(name) == Some(value))
            && self.text.as_deref().is_none_or(|text| mentions(row, text))
    }
}

impl PageBudget {
    /// That of a page.
    pub const PAGE: Self =
        Self { rows: SCANNED_MAX, bytes: SCANNED_BYTES_MAX, work: CONDITION_WORK_MAX };

    /// Is nothing left?
    pub fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes == 0 || self.work == 0
    }

    /// Counts a row that was tested.
    fn spend(&mut self, row: &Looked<'_>) {
        let error = row.error.map_or(0, str::len);
        let bytes = row.key.len() + error + row.input.len() + row.output.len();
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

fn mentions(row: &Looked<'_>, text: &str) -> bool {
    holds(row.key, text)
        || row.error.is_some_and(|error| holds(error, text))
        || row.labels.iter().any(|(name, value)| holds(name, text) || holds(value, text))
        || json_holds(row.input, text)
}

fn holds(place: &str, text: &str) -> bool {
    lower(place).contains(text)
}

/// Searches the JSON text and its unescaped strings: a quote or a line break in a string is escaped
/// in the text, but not in the search term.
fn json_holds(json: &str, text: &str) -> bool {
    let escapes = || json.contains('\\');
    holds(json, text)
        || (escapes() && serde_json::from_str(json).is_ok_and(|value| string_holds(&value, text)))
}

fn string_holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => holds(string, text),
        Value::Array(items) => items.iter().any(|item| string_holds(item, text)),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| holds(name, text) || string_holds(value, text))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Letter by letter: `str::to_lowercase` depends on the letters around a sigma, which differ
/// between a text and the place it is found in.
fn lower(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().flat_map(char::to_lowercase).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_whatever_its_case() {
        let labels = BTreeMap::from([("Team".to_owned(), "Größe".to_owned())]);
        let row = Looked {
            created_at: Timestamp(0),
            labels: &labels,
            key: "Order-100%",
            error: Some("answered 404"),
            input: r#"{"say":"\"Hi\"\nthere","ΟΔΟΣΑ":1,"n":17}"#,
            output: "",
        };
        for (text, found) in [
            ("order", true),
            ("100%", true),
            ("1%", false),
            ("or_er", false),
            ("ANSWERED 404", true),
            ("team", true),
            ("GRÖSSE", false),
            ("GRÖẞE", true),
            ("\"hi\"", true),
            ("hi\"\nTHERE", true),
            (r#"\"hi"#, true),
            ("ΟΔΟΣ", true),
            (":17", true),
            ("", true),
            ("nowhere", false),
        ] {
            let request = ListRequest { text: Some(text.to_owned()), ..ListRequest::default() };
            assert_eq!(Filter::of(&request).unwrap().passes(&row), found, "{text:?}");
        }
    }

    #[test]
    fn nothing_to_filter_by_is_no_filter() {
        assert!(Filter::of(&ListRequest { limit: 5, ..ListRequest::default() }).is_none());
        let request = ListRequest { since: Some(Timestamp(1)), ..ListRequest::default() };
        assert!(!Filter::of(&request).unwrap().reads_input());
    }
}
