//! One node: its fields, in the short and in the long form.

use waypost_core::expr::Template;
use waypost_core::kind::{Behaviour, Family, Kind};
use waypost_core::plan::{Delivery, Join, OnError};

use super::{
    ExpressionUse, ParsedMeter, ParsedNode, ReadContext, Variable, breaker, config, first_line,
    needs, retry, scopes, triggers,
};
use crate::diagnostics::{Code, Faults, did_you_mean, listed, quoted};
use crate::fields;
use crate::tree::{Tree, TreeEntry};

pub(crate) const NODE_FIELDS: &[&str] = &[
    "id",
    "nodeId",
    "type",
    "subType",
    "label",
    "registryId",
    "needs",
    "join",
    "config",
    "retry",
    "timeout",
    "heartbeat",
    "deadline",
    "breaker",
    "onError",
    "delivery",
    "variables",
    "merge",
    "nodes",
];

/// The fields of `onError`, where it is a map.
const ON_ERROR_FIELDS: &[&str] = &["take", "definitionErrors"];

/// Reads a node, and finds the `nodes` of its body.
pub(super) fn read<'t>(
    tree: &'t Tree,
    context: &mut ReadContext<'_>,
) -> Option<(ParsedNode<'t>, Option<&'t TreeEntry>)> {
    let entries = fields::map("a node", tree, context.faults)?;
    let meant = fields::refuse_unknown(entries, NODE_FIELDS, "a node", context.faults);
    let id = read_id(entries, tree, &meant, context.faults);
    let kind = read_kind(entries, tree, &meant, context);
    let config_entry = fields::present(entries, "config");
    let trigger = triggers::read_node(kind.as_ref(), id, config_entry, context);
    let config = match &kind {
        Some((kind, span)) => config::read(*kind, span, config_entry, context),
        None => config::NodeConfig::default(),
    };
    let faults = &mut *context.faults;
    let retry_entry = retry_entry(entries, config.retry, faults);
    let body = match &kind {
        Some((kind, span)) => scopes::body(entries, (*kind, span), &meant, retry_entry, faults),
        None => fields::present(entries, "nodes"),
    };
    let retry = retry_entry.and_then(|entry| retry::read(&entry.value, faults));
    warn_of_vain_retry_when(config_entry, retry.is_some(), faults);
    let (needs, all_needs_read) = fields::present(entries, "needs")
        .map_or((Vec::new(), true), |entry| needs::read(&entry.value, faults));
    let join = fields::present(entries, "join");
    let on_error = fields::present(entries, "onError");
    let meter =
        kind.as_ref().and_then(|(kind, span)| ParsedMeter::find(kind.spec(), config_entry, span));
    let mut expressions = config.expressions;
    let mut node = ParsedNode {
        id: id.map_or_else(String::new, |entry| entry.value.as_text().unwrap_or("").to_owned()),
        id_span: id.map_or_else(|| first_line(tree), |entry| entry.value.span.clone()),
        label: fields::get(entries, "label", faults, fields::owned_text),
        registry_id: fields::get(entries, "registryId", faults, fields::owned_text),
        kind: kind.map(|(kind, _)| kind.spec()),
        config: config.value,
        behaviour: config.behaviour,
        trigger: trigger.map(Box::new),
        expressions: Vec::new(),
        needs,
        incomplete: !all_needs_read || meant.contains(&"needs"),
        join: join.and_then(|entry| needs::read_join(&entry.value, faults)).unwrap_or(Join::All),
        join_span: join.map_or(0..0, |entry| entry.value.span.clone()),
        retry,
        timeout: fields::get(entries, "timeout", faults, fields::time_limit),
        heartbeat: fields::get(entries, "heartbeat", faults, fields::time_limit),
        deadline: fields::get(entries, "deadline", faults, fields::time_limit),
        breaker: None,
        on_error: None,
        on_definition_errors: false,
        on_error_span: on_error.map_or(0..0, |entry| entry.value.span.clone()),
        delivery: fields::get(entries, "delivery", faults, read_delivery)
            .unwrap_or(Delivery::AtLeastOnce),
        meter,
        variables: Vec::new(),
        merge_last: fields::get(entries, "merge", faults, fields::one_of(&["last"])).is_some(),
        scope: 0,
        body: None,
    };
    check_heartbeat(entries, &node, faults);
    triggers::check_node(entries, &node, faults);
    if let Some(entry) = on_error {
        read_on_error(&entry.value, &mut node, faults);
    }
    if let Some(entry) = fields::present(entries, "breaker") {
        breaker::check_kind(entry, &node, faults);
        node.breaker = breaker::read(entry, &mut expressions, context);
    }
    if let Some(entry) = fields::present(entries, "variables") {
        node.variables = read_variables(&entry.value, &mut expressions, context);
    }
    node.expressions = expressions;
    Some((node, body))
}

/// The node's `retry`, which the long form has in its config.
fn retry_entry<'t>(
    entries: &'t [TreeEntry],
    in_config: Option<&'t TreeEntry>,
    faults: &mut Faults,
) -> Option<&'t TreeEntry> {
    let own = fields::present(entries, "retry");
    if let (Some(_), Some(twice)) = (own, in_config) {
        let message = "`retry` is given twice: here and in the node itself";
        faults.error(Code::DuplicateField, &twice.key_span, message);
        return None;
    }
    own.or(in_config)
}

/// Only attempts can fall silent, and one that reaches its timeout is stopped anyway.
fn check_heartbeat(entries: &[TreeEntry], node: &ParsedNode<'_>, faults: &mut Faults) {
    let Some(entry) = fields::present(entries, "heartbeat") else { return };
    let makes_attempts = match &node.behaviour {
        Some(behaviour) => matches!(behaviour, Behaviour::Task { .. }),
        None => node.kind.is_none_or(|kind| kind.family == Family::Action),
    };
    if let Some(kind) = node.kind.filter(|_| !makes_attempts) {
        let message = format!("`heartbeat` is not allowed on a `{}`", kind.name);
        let hint = match kind.body {
            Some(_) => "put it on the nodes in the body",
            None => "put it on a node that runs a handler, such as `shell` or `worker`",
        };
        faults.error(Code::BadValue, &entry.key_span, message).hint(hint);
    }
    if let (Some(heartbeat), Some(timeout)) = (node.heartbeat, node.timeout)
        && heartbeat >= timeout
    {
        let message = format!("`heartbeat` must be shorter than the `timeout` of {timeout}");
        let hint = "remove it, or make it shorter: an attempt is stopped at its `timeout` anyway";
        faults.error(Code::BadDuration, &entry.value.span, message).hint(hint);
    }
}

/// `retryWhen` classifies failures; `retry` decides how often and when to try again.
fn warn_of_vain_retry_when(config: Option<&TreeEntry>, retries: bool, faults: &mut Faults) {
    let fields = config.and_then(|entry| entry.value.as_map()).unwrap_or_default();
    if let Some(entry) = fields::present(fields, "retryWhen").filter(|_| !retries) {
        let message = "`retryWhen` has no effect: the node has no `retry`, so it is tried once";
        let hint = "write `retry: { maxAttempts: 100, waitDuration: 5s }`, for example";
        faults.warning(Code::NothingRetried, &entry.key_span, message).hint(hint);
    }
}

/// The one of two spellings that is there; both is a fault.
fn either<'t>(
    entries: &'t [TreeEntry],
    [short, long]: [&str; 2],
    faults: &mut Faults,
) -> Option<&'t TreeEntry> {
    let (short_entry, long_entry) =
        (fields::present(entries, short), fields::present(entries, long));
    if let (Some(_), Some(second)) = (short_entry, long_entry) {
        let message = format!("the node has both `{short}` and `{long}`, which mean the same");
        faults.error(Code::DuplicateField, &second.key_span, message).hint("remove one of the two");
    }
    short_entry.or(long_entry)
}

fn read_id<'t>(
    entries: &'t [TreeEntry],
    tree: &Tree,
    meant: &[&str],
    faults: &mut Faults,
) -> Option<&'t TreeEntry> {
    let Some(entry) = either(entries, ["id", "nodeId"], faults) else {
        if meant.contains(&"id") || meant.contains(&"nodeId") {
            return None;
        }
        let hint = "edges and expressions refer to a node by its id";
        faults.error(Code::MissingField, &first_line(tree), "the node has no `id`").hint(hint);
        return None;
    };
    fields::name("`id`", &entry.value, &fields::ID, faults).map(|_| entry)
}

/// The kind, and where it is named.
fn read_kind<'c>(
    entries: &[TreeEntry],
    tree: &Tree,
    meant: &[&str],
    context: &mut ReadContext<'c>,
) -> Option<(&'c dyn Kind, std::ops::Range<usize>)> {
    let faults = &mut *context.faults;
    let Some(entry) = fields::present(entries, "type") else {
        if meant.contains(&"type") {
            return None;
        }
        let hint = "`type` names the kind of node, such as `type: api-call`";
        faults.error(Code::MissingField, &first_line(tree), "the node has no `type`").hint(hint);
        return None;
    };
    let given = fields::text("`type`", &entry.value, faults)?;
    let family =
        [Family::Trigger, Family::Logic, Family::Action].into_iter().find(|f| f.name() == given);
    let sub_type = fields::present(entries, "subType");
    let (name, span) = match (family, sub_type) {
        (Some(_), Some(sub_type)) => {
            let name = fields::text("`subType`", &sub_type.value, faults)?;
            (name, sub_type.value.span.clone())
        }
        (Some(_), None) => {
            let message = format!("a node of `type: {given}` needs a `subType`");
            let hint = "or name the kind itself, such as `type: api-call`";
            faults.error(Code::MissingField, &entry.value.span, message).hint(hint);
            return None;
        }
        (None, Some(sub_type)) => {
            let message = "`subType` is only allowed with `type: trigger`, `logic` or `action`";
            let hint = "remove `subType`: `type` names the kind already";
            faults.error(Code::BadValue, &sub_type.key_span, message).hint(hint);
            (given, entry.value.span.clone())
        }
        (None, None) => (given, entry.value.span.clone()),
    };
    let Some(kind) = context.catalog.find(name) else {
        let message = format!("there is no node kind {}", quoted(name));
        let likely = faults.likely(name, context.catalog.names());
        let names = context.catalog.0.iter().map(|kind| kind.spec().name);
        faults.error(Code::UnknownKind, &span, message).hint(match likely {
            Some(likely) => did_you_mean(likely),
            None => format!("the kinds are {}", listed(names, "and")),
        });
        return None;
    };
    let spec = kind.spec();
    if let Some(family) = family.filter(|family| *family != spec.family) {
        let (is, not) = (spec.family.name(), family.name());
        let message = format!("`{}` belongs to `type: {is}`, not `{not}`", spec.name);
        let hint = format!("write `type: {is}`, or just `type: {}`", spec.name);
        faults.error(Code::WrongFamily, &entry.value.span, message).hint(hint);
    }
    Some((kind, span))
}

/// A word, or `{ take: word, definitionErrors: true }`.
fn read_on_error(tree: &Tree, node: &mut ParsedNode<'_>, faults: &mut Faults) {
    let Some(entries) = tree.as_map() else {
        node.on_error = read_error_word("`onError`", tree, faults);
        return;
    };
    let meant = fields::refuse_unknown(entries, ON_ERROR_FIELDS, "`onError`", faults);
    if fields::present(entries, "take").is_none() && !meant.contains(&"take") {
        let hint = "write `{ take: continue, definitionErrors: true }`, or a branch";
        faults.error(Code::MissingField, &tree.span, "`onError` needs `take`").hint(hint);
    }
    node.on_error = fields::get(entries, "take", faults, read_error_word);
    let flag = fields::present(entries, "definitionErrors");
    node.on_definition_errors =
        fields::get(entries, "definitionErrors", faults, fields::boolean) == Some(true);
    if let Some(entry) = flag.filter(|_| node.on_error == Some(OnError::Fail)) {
        let message = "`definitionErrors` cannot be combined with `fail`, which handles no failure";
        faults.error(Code::BadValue, &entry.key_span, message);
    }
}

fn read_error_word(what: &str, tree: &Tree, faults: &mut Faults) -> Option<OnError> {
    let word = fields::word(what, tree, faults)?;
    Some(match word.as_str() {
        "fail" => OnError::Fail,
        "continue" => OnError::Continue,
        branch => {
            fields::check_name(what, branch, &tree.span, &fields::ID, faults);
            OnError::Branch(branch.into())
        }
    })
}

fn read_delivery(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Delivery> {
    // Definitions that early builds stored are compiled again whenever an execution is loaded.
    if tree.as_text() == Some("atMostOnce") {
        return Some(Delivery::AtMostOnce);
    }
    let word = fields::one_of(&["at-least-once", "at-most-once"])(what, tree, faults)?;
    Some(if word == "at-most-once" { Delivery::AtMostOnce } else { Delivery::AtLeastOnce })
}

fn read_variables<'t>(
    tree: &'t Tree,
    expressions: &mut Vec<super::Located<'t>>,
    context: &mut ReadContext<'_>,
) -> Vec<Variable> {
    let Some(entries) = fields::map("`variables`", tree, context.faults) else { return Vec::new() };
    let mut variables = Vec::new();
    for entry in entries {
        let what = "the name of a variable";
        fields::check_name(what, &entry.key, &entry.key_span, &fields::ID, context.faults);
        expressions.extend(config::template(&entry.value, ExpressionUse::Variables, context));
        let value = entry.value.to_json();
        // Its faults have been reported above, with positions.
        let Ok(template) = Template::compile(&value) else { continue };
        variables.push(Variable {
            name: entry.key.clone(),
            name_span: entry.key_span.clone(),
            value,
            template,
        });
    }
    // Sorted as in the canonical form, so that both give equal plans.
    variables.sort_by(|a, b| a.name.cmp(&b.name));
    variables
}
