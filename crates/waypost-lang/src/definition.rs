//! The definition language: from the tree to typed parts, with every field checked on its own.
//!
//! Rules about several nodes at once (edges, cycles, references) are checked afterwards, in
//! [`crate::check`]. The long form's spellings are resolved here; later modules do not see them.

mod breaker;
mod budget;
mod concurrency;
mod config;
mod needs;
mod node;
mod operation;
mod retry;
mod scopes;
mod triggers;

use std::collections::BTreeMap;
use std::ops::Range;

use waypost_core::expr::{Expression, References, Template};
use waypost_core::kind::{Behaviour, Catalog, KindSpec};
use waypost_core::plan::{Delivery, FailurePolicy, Join, OnError};
use waypost_core::retry::RetryPolicy;
use waypost_core::time::Millis;

use crate::diagnostics::{Code, Faults};
use crate::fields;
use crate::input;
use crate::source::{Source, Span};
use crate::tree::{Tree, TreeEntry};

pub(crate) use breaker::BreakerBlock;
pub(crate) use budget::{BudgetBlock, MeterField, ON_EXHAUSTED, ParsedMeter};
pub(crate) use concurrency::{ConcurrencyBlock, POLICIES};
pub(crate) use operation::make_bodies;
pub(crate) use retry::matcher_text;
pub(crate) use triggers::{ParsedTrigger, SAFETIES, SeenNames};
#[cfg(test)]
pub(crate) use {
    breaker::BREAKER_FIELDS, budget::BUDGET_FIELDS, concurrency::CONCURRENCY_FIELDS,
    node::NODE_FIELDS, retry::RETRY_FIELDS,
};

pub(crate) const FIELDS: &[&str] = &[
    "name",
    "description",
    "labels",
    "input",
    "timeout",
    "failurePolicy",
    "concurrency",
    "budget",
    "callable",
    "on",
    "nodes",
    "$schema",
];
pub(crate) const FAILURE_POLICIES: &[&str] = &["fail-fast", "partial"];

#[derive(Debug)]
pub(crate) struct ParsedDefinition<'t> {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) input: Option<serde_json::Value>,
    pub(crate) timeout: Option<Millis>,
    pub(crate) concurrency: Option<ConcurrencyBlock<'t>>,
    pub(crate) budget: Option<BudgetBlock>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) callable: bool,
    /// The entries of `on`.
    pub(crate) on: Vec<ParsedTrigger<'t>>,
    /// Its own nodes, after them those of the bodies.
    pub(crate) nodes: Vec<ParsedNode<'t>>,
    /// The definition itself, then the bodies, each after the scope that its container is in.
    pub(crate) scopes: Vec<ParsedScope>,
}

/// Nodes that see each other: those of the definition, or the body of a container.
#[derive(Debug)]
pub(crate) struct ParsedScope {
    /// Whose body it is; absent for the definition itself.
    pub(crate) container: Option<usize>,
    /// The positions of its nodes.
    pub(crate) nodes: Range<usize>,
    /// The position of the field name `nodes`.
    pub(crate) nodes_span: Span,
}

/// A node, read. A faulty field has its default.
#[derive(Debug)]
pub(crate) struct ParsedNode<'t> {
    /// Empty where it is missing.
    pub(crate) id: String,
    pub(crate) id_span: Span,
    pub(crate) label: Option<String>,
    pub(crate) registry_id: Option<String>,
    pub(crate) kind: Option<&'static KindSpec>,
    pub(crate) config: serde_json::Map<String, serde_json::Value>,
    /// Absent where the kind is unknown or refuses the config.
    pub(crate) behaviour: Option<Behaviour>,
    /// The trigger that it is, if it is one.
    pub(crate) trigger: Option<Box<ParsedTrigger<'t>>>,
    /// All expressions of its config, its breaker and its variables.
    pub(crate) expressions: Vec<Located<'t>>,
    pub(crate) needs: Vec<Need>,
    /// Is an edge missing from `needs` because of a fault?
    pub(crate) incomplete: bool,
    pub(crate) join: Join,
    pub(crate) join_span: Span,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout: Option<Millis>,
    pub(crate) heartbeat: Option<Millis>,
    pub(crate) deadline: Option<Millis>,
    pub(crate) breaker: Option<BreakerBlock>,
    /// As written; absent where it was not.
    pub(crate) on_error: Option<OnError>,
    /// Does it handle mistakes of the definition, too?
    pub(crate) on_definition_errors: bool,
    pub(crate) on_error_span: Span,
    pub(crate) delivery: Delivery,
    /// Of a node that uses tokens.
    pub(crate) meter: Option<ParsedMeter>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) merge_last: bool,
    /// The place of its scope among the definition's.
    pub(crate) scope: usize,
    /// For a container: the place of its body among the definition's scopes.
    pub(crate) body: Option<usize>,
}

impl ParsedNode<'_> {
    /// Where `needs` names this node; the node's own id if it does not.
    pub(crate) fn need_span(&self, id: &str) -> &Span {
        let need = self.needs.iter().find(|need| need.node == id);
        need.map_or(&self.id_span, |need| &need.node_span)
    }
}

/// An edge, as the node at its end names it.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) node: String,
    pub(crate) node_span: Span,
    pub(crate) branch: Option<String>,
    pub(crate) branch_span: Span,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) name_span: Span,
    pub(crate) value: serde_json::Value,
    pub(crate) template: Template,
}

/// An expression, and its position.
#[derive(Debug)]
pub(crate) struct Located<'t> {
    pub(crate) source: String,
    pub(crate) references: References,
    /// The text that holds it.
    tree: &'t Tree,
    /// Its first byte in that text.
    offset: usize,
    pub(crate) place: ExpressionUse,
}

/// The use of an expression, which decides the names that it may mention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExpressionUse {
    Config,
    /// A field of the config that sees this name as well.
    With(&'static str),
    /// A variable, set when the node has completed.
    Variables,
    /// The key of a `breaker`.
    Breaker,
    /// The key of `concurrency`, which belongs to no node.
    Concurrency,
    /// A field of a trigger, which sees these names and no others.
    Trigger(SeenNames),
}

impl<'t> Located<'t> {
    fn new(expression: &Expression, tree: &'t Tree, offset: usize, place: ExpressionUse) -> Self {
        let source = expression.source().to_owned();
        Self { source, references: expression.references().clone(), tree, offset, place }
    }

    /// The position in the source of some bytes of the expression.
    pub(crate) fn span(&self, source: &Source<'_>, bytes: &Span) -> Span {
        self.tree.span_within(source, &(self.offset + bytes.start..self.offset + bytes.end))
    }
}

/// Arguments that all readers share.
pub(crate) struct ReadContext<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) catalog: &'a Catalog<'a>,
    pub(crate) faults: &'a mut Faults,
    /// Was it accepted before, perhaps by a version that checked less? Executions of it go on.
    pub(crate) is_stored: bool,
}

/// Reads a definition; `None` if there are no nodes to check.
pub(crate) fn read<'t>(
    tree: &'t Tree,
    context: &mut ReadContext<'_>,
) -> Option<ParsedDefinition<'t>> {
    let entries = fields::map("a definition", tree, context.faults)?;
    let meant = fields::refuse_unknown(entries, FIELDS, "a definition", context.faults);
    let required = |key: &str, faults: &mut Faults| required(entries, key, tree, &meant, faults);
    let faults = &mut *context.faults;
    let name = required("name", faults)
        .and_then(|entry| fields::name("`name`", &entry.value, &fields::WORKFLOW_NAME, faults));
    let description = fields::get(entries, "description", faults, fields::owned_text);
    let labels = fields::get(entries, "labels", faults, read_labels).unwrap_or_default();
    let timeout = fields::get(entries, "timeout", faults, fields::time_limit);
    let failure_policy =
        fields::get(entries, "failurePolicy", faults, fields::one_of(FAILURE_POLICIES));
    let callable = fields::get(entries, "callable", faults, fields::boolean);
    // For editors; not part of the definition.
    fields::get(entries, "$schema", faults, fields::text);
    let concurrency =
        fields::present(entries, "concurrency").and_then(|entry| concurrency::read(entry, context));
    let budget =
        fields::present(entries, "budget").and_then(|entry| budget::read(entry, context.faults));
    let input = fields::present(entries, "input").map(|entry| {
        input::check_schema("`input`", &entry.value, context.faults);
        entry.value.to_json()
    });
    let on = fields::present(entries, "on")
        .map_or_else(Vec::new, |entry| triggers::read(entry, name, context));
    let (nodes, scopes) = scopes::read(required("nodes", context.faults)?, context)?;
    let own = scopes.first().map_or(0, |scope| scope.nodes.end);
    triggers::check_all(&on, &nodes, own, name, context.faults);
    Some(ParsedDefinition {
        name: name.unwrap_or_default().to_owned(),
        description,
        labels,
        input,
        timeout,
        concurrency,
        budget,
        failure_policy: match failure_policy {
            Some("partial") => FailurePolicy::Partial,
            _ => FailurePolicy::FailFast,
        },
        callable: callable.unwrap_or(true),
        on,
        nodes,
        scopes,
    })
}

fn required<'t>(
    entries: &'t [TreeEntry],
    key: &str,
    tree: &Tree,
    meant: &[&str],
    faults: &mut Faults,
) -> Option<&'t TreeEntry> {
    let found = fields::present(entries, key);
    if found.is_none() && !meant.contains(&key) {
        let span = crate::tree::find(entries, key)
            .map_or_else(|| first_line(tree), |entry| entry.key_span.clone());
        let message = format!("the definition needs `{key}`");
        faults.error(Code::MissingField, &span, message);
    }
    found
}

/// The start of a mapping: its first key.
fn first_line(tree: &Tree) -> Span {
    match tree.as_map().and_then(<[TreeEntry]>::first) {
        Some(first) => first.key_span.clone(),
        None => tree.span.clone(),
    }
}

fn read_labels(what: &str, tree: &Tree, faults: &mut Faults) -> Option<BTreeMap<String, String>> {
    let entries = fields::map(what, tree, faults)?;
    let label = |entry: &TreeEntry| {
        let text = fields::word("a label", &entry.value, faults)?;
        Some((entry.key.clone(), text))
    };
    Some(entries.iter().filter_map(label).collect())
}
