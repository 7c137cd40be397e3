//! The block `breaker` of a node: its circuit breaker.

use waypost_core::breaker::{BreakerPolicy, BreakerSpec};
use waypost_core::expr::Template;
use waypost_core::kind::{Behaviour, Family};
use waypost_core::limits::{
    BREAKER_FAILURES_MAX, BREAKER_KEY_BYTES_MAX, BREAKER_SPAN_MAX, BREAKER_SPAN_MIN,
};
use waypost_core::time::Millis;

use super::{ExpressionUse, Located, ParsedNode, ReadContext, config};
use crate::diagnostics::{Code, Faults};
use crate::fields;
use crate::tree::{Tree, TreeEntry};

pub(crate) const BREAKER_FIELDS: &[&str] = &["key", "failures", "period", "cooldown"];

#[derive(Debug)]
pub(crate) struct BreakerBlock {
    pub(crate) key: String,
    pub(crate) spec: BreakerSpec,
}

/// Reads the block, and the expressions of its key; `None` where it has no key to go by.
pub(super) fn read<'t>(
    entry: &'t TreeEntry,
    expressions: &mut Vec<Located<'t>>,
    context: &mut ReadContext<'_>,
) -> Option<BreakerBlock> {
    let faults = &mut *context.faults;
    let entries = fields::map("`breaker`", &entry.value, faults)?;
    let meant = fields::refuse_unknown(entries, BREAKER_FIELDS, "`breaker`", faults);
    let defaults = BreakerPolicy::default();
    let failures = fields::whole(1..=BREAKER_FAILURES_MAX);
    let policy = BreakerPolicy {
        failures: fields::get(entries, "failures", faults, failures).unwrap_or(defaults.failures),
        period: fields::get(entries, "period", faults, span).unwrap_or(defaults.period),
        cooldown: fields::get(entries, "cooldown", faults, span).unwrap_or(defaults.cooldown),
    };
    let Some(key) = fields::present(entries, "key") else {
        if !meant.contains(&"key") {
            let hint = "nodes with equal keys share one breaker, in all workflows: name what they call, \
                        such as `key: billing-api`";
            let message = "`breaker` needs `key`";
            faults.error(Code::MissingField, &entry.key_span, message).hint(hint);
        }
        return None;
    };
    let text = fields::word("`key`", &key.value, faults)?;
    let fixed = !text.contains("${{");
    if text.is_empty() || (fixed && text.len() > BREAKER_KEY_BYTES_MAX) {
        let message = format!("`key` must have from 1 to {BREAKER_KEY_BYTES_MAX} bytes");
        faults.error(Code::BadValue, &key.value.span, message);
        return None;
    }
    expressions.extend(config::template(&key.value, ExpressionUse::Breaker, context));
    // A template that cannot be compiled was reported with its position.
    let template = Template::compile(&serde_json::Value::from(text.as_str())).ok()?;
    Some(BreakerBlock { key: text, spec: BreakerSpec { key: template, policy } })
}

fn span(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Millis> {
    let found = fields::duration(what, tree, faults)?;
    if !(BREAKER_SPAN_MIN..=BREAKER_SPAN_MAX).contains(&found) {
        let message =
            format!("{what} must be from {BREAKER_SPAN_MIN} to {BREAKER_SPAN_MAX}, not {found}");
        faults.error(Code::BadDuration, &tree.span, message);
        return None;
    }
    Some(found)
}

/// Only the handlers of an instance ask a breaker before each attempt.
pub(super) fn check_kind(entry: &TreeEntry, node: &ParsedNode<'_>, faults: &mut Faults) {
    let Some(kind) = node.kind else { return };
    let hint = match &node.behaviour {
        Some(Behaviour::Task { slot: Some(_), .. }) => return,
        None if kind.family == Family::Action => return,
        Some(Behaviour::Task { slot: None, .. }) => {
            "a remote worker does not ask circuit breakers; call the endpoint from an `api-call`"
        }
        _ if kind.body.is_some() => "put it on the nodes in the body that make calls",
        _ => "put it on a node that makes calls, such as `api-call`",
    };
    let message = format!("`breaker` is not allowed on a `{}`", kind.name);
    faults.error(Code::BadValue, &entry.key_span, message).hint(hint);
}
