//! The canonical form: the one spelling of a definition that is stored and hashed.
//!
//! JSON without blanks, keys sorted, the short form, defaults left out, durations of the language
//! itself in milliseconds. Configs stay as they were written: only their kind can decide which are
//! equal.

use serde_json::{Map, Value, json};
use waypost_core::plan::{ConcurrencyPolicy, Condition, Delivery, FailurePolicy, Join, OnError};
use waypost_core::retry::{Matcher, RetryPolicy};

use crate::check::Graph;
use crate::definition::{ConcurrencyBlock, ParsedDefinition, ParsedNode, matcher_text};

/// The canonical text of a definition without faults.
pub(crate) fn text(definition: &ParsedDefinition<'_>, graph: &Graph) -> String {
    let mut fields = Fields::default();
    fields.put("name", definition.name.as_str());
    fields.put_some("description", definition.description.as_deref());
    if !definition.labels.is_empty() {
        fields.put("labels", json!(definition.labels));
    }
    fields.put_some("input", definition.input.clone());
    fields.put_some("timeout", definition.timeout.map(|timeout| timeout.0));
    if definition.failure_policy == FailurePolicy::Partial {
        fields.put("failurePolicy", "partial");
    }
    fields.put_some("concurrency", definition.concurrency.as_ref().map(concurrency_value));
    let nodes = definition.nodes.iter().enumerate().map(|(at, node)| {
        let ids = |condition: &Condition| definition.nodes[condition.source.at()].id.as_str();
        node_value(node, &graph.conditions[at], &graph.on_error[at], ids)
    });
    fields.put("nodes", nodes.collect::<Value>());
    fields.finish().to_string()
}

/// An object in the making. `serde_json`'s map keeps its keys sorted.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    fn finish(self) -> Value {
        Value::Object(self.0)
    }
}

fn node_value<'d>(
    node: &ParsedNode<'_>,
    conditions: &'d [Condition],
    on_error: &OnError,
    id: impl Fn(&'d Condition) -> &'d str,
) -> Value {
    let mut fields = Fields::default();
    fields.put("id", node.id.as_str());
    fields.put_some("type", node.kind.map(|kind| kind.name));
    fields.put_some("label", node.label.as_deref());
    fields.put_some("registryId", node.registry_id.as_deref());
    if !conditions.is_empty() {
        let needs = conditions.iter().flat_map(|condition| {
            let whole = condition.unlabelled.then(|| Value::from(id(condition)));
            let node = id(condition);
            let branches = condition.branches.iter();
            whole.into_iter().chain(
                branches.map(move |branch| json!({ "node": node, "branch": branch.as_ref() })),
            )
        });
        fields.put("needs", needs.collect::<Value>());
    }
    fields.put_some("join", join_value(node.join));
    if !node.config.is_empty() {
        fields.put("config", node.config.clone());
    }
    fields.put_some("retry", node.retry.as_ref().map(retry_value));
    fields.put_some("timeout", node.timeout.map(|timeout| timeout.0));
    fields.put_some("deadline", node.deadline.map(|deadline| deadline.0));
    let take = match on_error {
        OnError::Fail => None,
        OnError::Continue => Some("continue"),
        OnError::Branch(branch) => Some(branch.as_ref()),
    };
    fields.put_some(
        "onError",
        take.map(|take| match node.on_definition_errors {
            true => json!({ "take": take, "definitionErrors": true }),
            false => json!(take),
        }),
    );
    if node.delivery == Delivery::AtMostOnce {
        fields.put("delivery", "at-most-once");
    }
    if !node.variables.is_empty() {
        let variables = node.variables.iter().map(|v| (v.name.clone(), v.value.clone()));
        fields.put("variables", variables.collect::<Map<_, _>>());
    }
    if node.merge_last {
        fields.put("merge", "last");
    }
    fields.finish()
}

fn concurrency_value(block: &ConcurrencyBlock<'_>) -> Value {
    let mut fields = Fields::default();
    fields.put("key", block.key.as_str());
    if block.limit != 1 {
        fields.put("limit", block.limit);
    }
    if block.policy != ConcurrencyPolicy::Queue {
        fields.put("policy", block.policy.name());
    }
    fields.finish()
}

fn join_value(join: Join) -> Option<Value> {
    let Join::Count { count, cancel_rest } = join else { return None };
    let count = if count == 1 { json!("any") } else { json!(count) };
    Some(if cancel_rest { json!({ "count": count, "cancelRest": true }) } else { count })
}

fn retry_value(retry: &RetryPolicy) -> Value {
    let defaults = RetryPolicy::default();
    let mut fields = Fields::default();
    let RetryPolicy {
        max_attempts,
        wait,
        exponential,
        multiplier,
        wait_max,
        jitter,
        retry_on,
        ignore,
    } = retry;
    let differs = |key: &str, differs: bool, value: Value| differs.then(|| (key.to_owned(), value));
    let texts = |list: &[Matcher]| list.iter().map(matcher_text).collect::<Value>();
    let all = [
        differs("maxAttempts", *max_attempts != defaults.max_attempts, json!(max_attempts)),
        differs("waitDuration", *wait != defaults.wait, json!(wait.0)),
        differs("exponentialBackoff", *exponential != defaults.exponential, json!(exponential)),
        differs("multiplier", *multiplier != defaults.multiplier, json!(multiplier)),
        differs("maxWait", *wait_max != defaults.wait_max, json!(wait_max.0)),
        differs("jitter", *jitter != defaults.jitter, json!(jitter)),
        differs("retryOn", !retry_on.is_empty(), texts(retry_on)),
        differs("ignoreExceptions", !ignore.is_empty(), texts(ignore)),
    ];
    fields.0.extend(all.into_iter().flatten());
    fields.finish()
}
