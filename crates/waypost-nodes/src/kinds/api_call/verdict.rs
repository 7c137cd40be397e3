//! `failWhen` and `retryWhen`: expressions over the response that decide how an attempt ended.
//!
//! They are evaluated where the call is made, which may be a remote worker. Values that they refer
//! to besides `response` are rendered into the task's config together with them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use waypost_core::expr::{Expression, Scope};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::kind::ConfigFault;

use crate::config::{ConfigMap, bare_expression};
use crate::outcome::invalid_config;

const FIELDS: [&str; 2] = ["failWhen", "retryWhen"];
/// The names that an expression may refer to, besides the response and nodes.
const NAMES: [&str; 4] = ["input", "trigger", "variables", "execution"];

/// The config with each of the two expressions replaced by what [`Judgement`] reads: its source, and
/// templates that capture what it refers to.
pub(super) fn with_scopes(config: &ConfigMap) -> Result<ConfigMap, Vec<ConfigFault>> {
    let mut config = config.clone();
    let mut faults = Vec::new();
    for field in FIELDS {
        let Some(value) = config.get(field) else { continue };
        match bare_expression(value, &[field]) {
            Ok(expression) => {
                let judgement =
                    json!({ "expression": expression.source(), "scope": scope_of(&expression) });
                config.insert(field.to_owned(), judgement);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

fn scope_of(expression: &Expression) -> Map<String, Value> {
    let references = expression.references();
    let mut scope: Map<String, Value> = NAMES
        .iter()
        .filter(|name| references.mentions(name))
        .map(|name| ((*name).to_owned(), json!(format!("${{{{ {name} }}}}"))))
        .collect();
    if !references.nodes.is_empty() {
        let part = |id: &str, part: &str| json!(format!("${{{{ nodes['{id}'].{part} }}}}"));
        let parts = |id: &str| {
            let parts =
                ["output", "status", "failure"].map(|name| (name.to_owned(), part(id, name)));
            Value::Object(parts.into_iter().collect())
        };
        let nodes: Map<String, Value> =
            references.nodes.iter().map(|node| (node.id.clone(), parts(&node.id))).collect();
        scope.insert("nodes".to_owned(), Value::Object(nodes));
    }
    scope
}

/// One of the two fields as a task's config has it.
#[derive(Deserialize)]
pub(super) struct Judgement {
    expression: String,
    scope: BTreeMap<String, Json>,
}

/// How a node judges the responses that it gets; `failWhen` comes first.
#[derive(Default)]
pub(super) struct Verdict(Vec<Judge>);

struct Judge {
    field: &'static str,
    /// The kind of the failure where the expression holds.
    kind: &'static str,
    expression: Expression,
    /// The values that it refers to; a [`Scope`] itself cannot be held across an await.
    names: BTreeMap<String, Json>,
}

/// An expression's verdict on a response.
pub(super) struct Judged {
    pub(super) kind: &'static str,
    /// Which expression holds, as a clause.
    pub(super) what: String,
}

impl Verdict {
    pub(super) fn new(fail: Option<Judgement>, retry: Option<Judgement>) -> Result<Self, Failure> {
        let fields = [("failWhen", kind::FAIL_WHEN, fail), ("retryWhen", kind::RETRY_WHEN, retry)];
        let judges = fields.into_iter().filter_map(|(field, kind, judgement)| {
            let Judgement { expression, scope: names } = judgement?;
            let compiled = Expression::compile(&expression)
                .map_err(|fault| invalid_config(format!("not a valid expression: {fault}")));
            Some(compiled.map(|expression| Judge { field, kind, expression, names }))
        });
        judges.collect::<Result<_, _>>().map(Self)
    }

    /// Is there nothing to judge by?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first of the two expressions that holds for a response.
    pub(super) fn of(&self, response: &Json) -> Result<Option<Judged>, Failure> {
        for judge in &self.0 {
            if judge.holds(response)? {
                let what = format!("`{}` holds: `{}`", judge.field, judge.expression.source());
                return Ok(Some(Judged { kind: judge.kind, what }));
            }
        }
        Ok(None)
    }
}

impl Judge {
    fn holds(&self, response: &Json) -> Result<bool, Failure> {
        let mut scope = Scope::new();
        for name in NAMES.into_iter().chain(["nodes"]) {
            if let Some(json) = self.names.get(name) {
                scope.json(name, json);
            }
        }
        scope.json("response", response);
        self.expression.eval_bool(&scope)
    }
}
