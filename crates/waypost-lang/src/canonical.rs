//! The canonical form: the one spelling of a definition that is stored and hashed.
//!
//! JSON without blanks, keys sorted, the short form, defaults left out, durations of the language
//! itself in milliseconds. Configs stay as they were written: only their kind can decide which are
//! equal.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use waypost_core::breaker::BreakerPolicy;
use waypost_core::budget::OnExhausted;
use waypost_core::kind::BodyKind;
use waypost_core::plan::{ConcurrencyPolicy, Condition, Delivery, FailurePolicy, Join, OnError};
use waypost_core::retry::{Matcher, RetryPolicy};

use crate::check::Graph;
use crate::definition::{
    BreakerBlock, BudgetBlock, ConcurrencyBlock, ParsedDefinition, ParsedNode, matcher_text,
};

/// The canonical text of a definition without faults.
pub(crate) fn text(definition: &ParsedDefinition<'_>, graph: &Graph) -> String {
    let mut fields = Fields::default();
    fields.put("name", definition.name.as_str());
    fields.put_some("description", definition.description.as_deref());
    fields.put_unless("labels", json!(definition.labels), json!({}));
    fields.put_some("input", definition.input.clone());
    fields.put_some("timeout", definition.timeout.map(|timeout| timeout.0));
    let partial = definition.failure_policy == FailurePolicy::Partial;
    fields.put_some("failurePolicy", partial.then_some("partial"));
    fields.put_some("concurrency", definition.concurrency.as_ref().map(concurrency_value));
    fields.put_some("budget", definition.budget.as_ref().map(budget_value));
    fields.put_some("callable", (!definition.callable).then_some(false));
    let on = definition.on.iter().map(|parsed| Value::Object(parsed.canonical.clone()));
    fields.put_unless("on", on.collect::<Value>(), json!([]));
    fields.put("nodes", nodes_value(definition, graph, 0));
    fields.finish().to_string()
}

/// The nodes of a scope, with the bodies inside of them.
fn nodes_value(definition: &ParsedDefinition<'_>, graph: &Graph, scope: usize) -> Value {
    let ids = |condition: &Condition| definition.nodes[condition.source.at()].id.as_str();
    let value = |at: usize| {
        let node = &definition.nodes[at];
        let mut fields = node_fields(node, &graph.conditions[at], &graph.on_error[at], ids);
        // A body that is made of the config is made again of it.
        let is_made = node.kind.is_some_and(|kind| kind.body == Some(BodyKind::Made));
        let body = node.body.filter(|_| !is_made);
        fields.put_some("nodes", body.map(|body| nodes_value(definition, graph, body)));
        fields.finish()
    };
    definition.scopes[scope].nodes.clone().map(value).collect()
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

    fn put_unless(&mut self, key: &str, value: impl Into<Value>, default: impl Into<Value>) {
        let (value, default) = (value.into(), default.into());
        self.put_some(key, (value != default).then_some(value));
    }

    fn finish(self) -> Value {
        Value::Object(self.0)
    }
}

fn node_fields<'d>(
    node: &ParsedNode<'_>,
    conditions: &'d [Condition],
    on_error: &OnError,
    id: impl Fn(&'d Condition) -> &'d str,
) -> Fields {
    let mut fields = Fields::default();
    fields.put("id", node.id.as_str());
    fields.put_some("type", node.kind.map(|kind| kind.name));
    fields.put_some("label", node.label.as_deref());
    fields.put_some("registryId", node.registry_id.as_deref());
    let needs = conditions.iter().flat_map(|condition| {
        let node = id(condition);
        let edge = move |branch: &Arc<str>| json!({ "node": node, "branch": branch.as_ref() });
        let whole = condition.unlabelled.then(|| Value::from(node));
        whole.into_iter().chain(condition.branches.iter().map(edge))
    });
    fields.put_unless("needs", needs.collect::<Value>(), json!([]));
    fields.put_some("join", join_value(node.join));
    fields.put_unless("config", node.config.clone(), Map::new());
    fields.put_some("retry", node.retry.as_ref().map(retry_value));
    fields.put_some("timeout", node.timeout.map(|timeout| timeout.0));
    fields.put_some("heartbeat", node.heartbeat.map(|heartbeat| heartbeat.0));
    fields.put_some("deadline", node.deadline.map(|deadline| deadline.0));
    fields.put_some("breaker", node.breaker.as_ref().map(breaker_value));
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
    let at_most_once = node.delivery == Delivery::AtMostOnce;
    fields.put_some("delivery", at_most_once.then_some("at-most-once"));
    let variables = node.variables.iter().map(|v| (v.name.clone(), v.value.clone()));
    fields.put_unless("variables", variables.collect::<Map<_, _>>(), Map::new());
    fields.put_some("merge", node.merge_last.then_some("last"));
    fields
}

fn breaker_value(block: &BreakerBlock) -> Value {
    let (policy, defaults) = (&block.spec.policy, BreakerPolicy::default());
    let mut fields = Fields::default();
    fields.put("key", block.key.as_str());
    fields.put_unless("failures", policy.failures, defaults.failures);
    fields.put_unless("period", policy.period.0, defaults.period.0);
    fields.put_unless("cooldown", policy.cooldown.0, defaults.cooldown.0);
    fields.finish()
}

fn concurrency_value(block: &ConcurrencyBlock<'_>) -> Value {
    let mut fields = Fields::default();
    fields.put("key", block.key.as_str());
    fields.put_unless("limit", block.limit, 1);
    fields.put_unless("policy", block.policy.name(), ConcurrencyPolicy::Queue.name());
    fields.finish()
}

/// Money as text, which is exact.
fn budget_value(block: &BudgetBlock) -> Value {
    let BudgetBlock { budget, prices } = block;
    let mut fields = Fields::default();
    fields.put_some("tokens", budget.limits.tokens);
    fields.put_some("money", budget.limits.money.map(|money| money.to_string()));
    let policy = budget.on_exhausted.name();
    fields.put_unless("onExhausted", policy, OnExhausted::Fail.name());
    let prices = prices.iter().map(|(model, prices)| {
        let prices =
            json!({ "input": prices.input.to_string(), "output": prices.output.to_string() });
        (model.to_string(), prices)
    });
    fields.put_unless("prices", prices.collect::<Map<_, _>>(), Map::new());
    fields.finish()
}

fn join_value(join: Join) -> Option<Value> {
    let Join::Count { count, cancel_rest } = join else { return None };
    let count = if count == 1 { json!("any") } else { json!(count) };
    Some(if cancel_rest { json!({ "count": count, "cancelRest": true }) } else { count })
}

fn retry_value(retry: &RetryPolicy) -> Value {
    let defaults = RetryPolicy::default();
    let texts = |list: &[Matcher]| list.iter().map(matcher_text).collect::<Value>();
    let mut fields = Fields::default();
    fields.put_unless("maxAttempts", retry.max_attempts, defaults.max_attempts);
    fields.put_unless("waitDuration", retry.wait.0, defaults.wait.0);
    fields.put_unless("exponentialBackoff", retry.exponential, defaults.exponential);
    fields.put_unless("multiplier", retry.multiplier, defaults.multiplier);
    fields.put_unless("maxWait", retry.wait_max.0, defaults.wait_max.0);
    fields.put_unless("jitter", retry.jitter, defaults.jitter);
    fields.put_unless("retryOn", texts(&retry.retry_on), json!([]));
    fields.put_unless("ignoreExceptions", texts(&retry.ignore), json!([]));
    fields.finish()
}
