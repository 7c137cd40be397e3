//! The condition of a list: an expression over one row, in the language of definitions.
//!
//! ```text
//!   status == 'FAILED' and created > ago('7d') and input.order.total >= 100
//!        │                                              │
//!        └─ narrows the walk along an index             └─ every row of the walk is judged by the whole
//! ```
//!
//! No text of a user becomes part of a statement, and all stores agree on what a condition means, because
//! they all ask this. A comparison with what a row does not have is false. A row for which the condition
//! cannot be computed, or is neither true nor false, is not on the list.

use serde_json::{Value, json};
use waypost_core::expr::{Expression, ExpressionFault, Scope, is_function};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use super::{ExecutionRow, ListRequest, Looked};

/// A compiled condition, and the time of its request.
#[derive(PartialEq, Debug)]
pub struct ListCondition {
    expression: Expression,
    now: Timestamp,
}

/// A name that a condition may use.
#[derive(Debug)]
pub struct ConditionField {
    pub name: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    value: fn(&ExecutionRow, &Looked<'_>) -> Json,
}

/// The names that conditions may use.
pub const CONDITION_FIELDS: &[ConditionField] = &[
    field("id", "its id", |row, _| text(&row.key)),
    field("workflow", "the name of its workflow", |row, _| text(&row.workflow)),
    field("version", "the version of its workflow", |row, _| of(&json!(row.version))),
    field("status", "its status, such as `FAILED`", |row, _| text(row.view.status.name())),
    field("created", "when it was accepted", |row, _| time(Some(row.created_at))),
    field("started", "when its first node was started", |row, _| time(row.view.started_at)),
    field("ended", "when it ended; `none` before", |row, _| time(row.view.completed_at)),
    field("updated", "when its last event was stored", |row, _| time(Some(row.view.updated_at))),
    field("duration", "seconds from `created` to `ended`; `none` before its end", |row, _| {
        let seconds = |end: Timestamp| json!(to_seconds(end.since(row.created_at).0));
        of(&row.view.completed_at.map_or(Value::Null, seconds))
    }),
    field("generation", "1, and one more with each repair", |row, _| {
        of(&json!(row.view.generation))
    }),
    field("node", "the path of the node that moved last; `none` after its end", |row, _| {
        of(&json!(row.view.current_node.as_deref()))
    }),
    field("nodesExecuted", "how many nodes completed or failed", |row, _| {
        of(&json!(row.view.nodes_executed))
    }),
    field("error", "why it failed or makes no progress; `none` otherwise", |_, looked| {
        of(&json!(looked.error))
    }),
    field(
        "failure",
        "its failure, with `kind`, `message` and more; `none` without one",
        |row, _| of(&json!(row.failure)),
    ),
    field("labels", "its labels", |_, looked| of(&json!(looked.labels))),
    field("input", "its input", |_, looked| stored(looked.input)),
    field("output", "its output; `none` before its end", |_, looked| stored(looked.output)),
];

const fn field(
    name: &'static str,
    about: &'static str,
    value: fn(&ExecutionRow, &Looked<'_>) -> Json,
) -> ConditionField {
    ConditionField { name, about, value }
}

impl ListCondition {
    /// Compiles a condition, or says what is wrong with it; `ago('7d')` counts back from `now`.
    pub fn compile(source: &str, now: Timestamp) -> Result<Self, String> {
        Self::checked(source, now).map_err(|ExpressionFault { message, range }| {
            let before = source.get(..range.start).unwrap_or_default();
            format!("character {}: {message}", before.chars().count() + 1)
        })
    }

    fn checked(source: &str, now: Timestamp) -> Result<Self, ExpressionFault> {
        let expression = Expression::compile(source)?;
        for (name, range) in &expression.references().names {
            let is_known = CONDITION_FIELDS.iter().any(|field| field.name == name);
            if !is_known && !is_function(name) {
                let known = CONDITION_FIELDS.iter().map(|field| field.name);
                let known = known.collect::<Vec<_>>().join(", ");
                let message = format!("there is no field `{name}`; there are {known}");
                return Err(ExpressionFault { message, range: range.clone() });
            }
        }
        expression.check_calls()?;
        let condition = Self { expression, now };
        if let Some(unknown) = condition.unknown_status() {
            let known = Status::SHOWN.map(Status::name).join(", ");
            let message = format!("there is no status {unknown:?}; there are {known}");
            return Err(ExpressionFault { message, range: 0..source.len() });
        }
        Ok(condition)
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        self.expression.source()
    }

    /// Does it look into inputs?
    pub fn reads_input(&self) -> bool {
        self.mentions("input")
    }

    /// Does it look into outputs?
    pub fn reads_output(&self) -> bool {
        self.mentions("output")
    }

    /// Does it hold for this row? And how much work that was.
    pub(super) fn holds(&self, row: &ExecutionRow, looked: &Looked<'_>) -> (bool, u64) {
        let mut scope = Scope::new();
        scope.judge(self.now);
        for field in CONDITION_FIELDS.iter().filter(|field| self.mentions(field.name)) {
            scope.json(field.name, &(field.value)(row, looked));
        }
        (self.expression.eval_bool(&scope).unwrap_or(false), scope.work())
    }

    /// The same list, with a shorter walk to it where the condition demands a status or a workflow.
    pub(super) fn narrow(&self, request: &mut ListRequest) {
        if let Some(names) = self.expression.required_texts("status") {
            let demanded: Vec<Status> = names.into_iter().filter_map(Status::parse).collect();
            let both = |status: &Status| demanded.contains(status);
            let statuses: Vec<Status> = match &request.statuses[..] {
                [] => demanded.clone(),
                asked => asked.iter().copied().filter(both).collect(),
            };
            // None at all would mean any.
            if !statuses.is_empty() {
                request.statuses = statuses;
            }
        }
        if let (None, Some([workflow])) =
            (&request.workflow, self.expression.required_texts("workflow").as_deref())
        {
            request.workflow = Some((*workflow).to_owned());
        }
    }

    fn unknown_status(&self) -> Option<&str> {
        let names = self.expression.required_texts("status")?;
        names.into_iter().find(|name| Status::parse(name).is_none())
    }

    fn mentions(&self, name: &str) -> bool {
        self.expression.references().mentions(name)
    }
}

fn of(value: &Value) -> Json {
    Json::from_value(value)
}

fn text(text: &str) -> Json {
    of(&json!(text))
}

fn time(at: Option<Timestamp>) -> Json {
    of(&json!(at.map(|at| at.to_string())))
}

fn to_seconds(ms: u64) -> Value {
    match ms % 1_000 {
        0 => json!(ms / 1_000),
        #[expect(clippy::cast_precision_loss, reason = "exact up to 285,000 years")]
        _ => json!(ms as f64 / 1_000.0),
    }
}

/// A payload as it is stored; `null` where there is none.
fn stored(text: &str) -> Json {
    Json::parse_own(text).unwrap_or_else(|_| Json::null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        for (source, expected) in [
            (
                "state == 'FAILED'",
                "character 1: there is no field `state`; there are id, workflow,",
            ),
            ("ß == 1 and tatus == 2", "character 1: "),
            ("id == 'ß' and tatus == 2", "character 15: there is no field `tatus`"),
            ("status == 'FAILED' and created > ago('soon')", "character 34: ago() needs a span"),
            ("status in ['FAILED', 'DONE']", "character 1: there is no status \"DONE\""),
            ("contains(id, 'a')", "character 1: there is no"),
            ("nodes.a.status == 'FAILED'", "character 1: there is no field `nodes`"),
            ("secrets.token == 'a'", "character 1: there is no field `secrets`"),
            ("status ==", "character 8: unexpected end"),
            ("", "character 1: the expression is empty"),
        ] {
            let refused = ListCondition::compile(source, Timestamp(0)).unwrap_err();
            assert!(refused.starts_with(expected), "{source:?}: {refused}");
        }
    }

    #[test]
    fn demanded_status_and_workflow_make_the_walk_shorter() {
        use Status::{Completed, Failed, TimedOut};
        for (source, asked, expected) in [
            ("status == 'FAILED'", vec![], vec![Failed]),
            ("status in ['FAILED', 'TIMED_OUT'] and id", vec![Completed, Failed], vec![Failed]),
            ("status in ['FAILED', 'TIMED_OUT']", vec![], vec![Failed, TimedOut]),
            ("status == 'FAILED'", vec![Completed], vec![Completed]),
            ("status == 'FAILED' or id", vec![], vec![]),
        ] {
            let condition = Some(ListCondition::compile(source, Timestamp(0)).unwrap().into());
            let request = ListRequest { statuses: asked, condition, ..ListRequest::default() };
            assert_eq!(request.narrowed().statuses, expected, "{source}");
        }
        for (source, asked, expected) in [
            ("workflow == 'a' and id", None, Some("a")),
            ("workflow == 'a'", Some("b"), Some("b")),
            ("workflow in ['a', 'b']", None, None),
        ] {
            let condition = Some(ListCondition::compile(source, Timestamp(0)).unwrap().into());
            let workflow = asked.map(str::to_owned);
            let request = ListRequest { workflow, condition, ..ListRequest::default() };
            assert_eq!(request.narrowed().workflow.as_deref(), expected, "{source}");
        }
    }
}
