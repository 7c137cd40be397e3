//! The nodes of a definition and of its bodies, scope by scope.
//!
//! A container's body is read after the scope that the container is in, so that the definition's
//! own nodes come first, and every container before the containers in its body.

use std::collections::VecDeque;

use waypost_core::kind::{BodyKind, Kind};
use waypost_core::limits::{NESTING_MAX, NODES_MAX};

use super::{ParsedNode, ParsedScope, ReadContext, node};
use crate::diagnostics::{Code, Faults, quoted};
use crate::fields;
use crate::source::Span;
use crate::tree::{Tree, TreeEntry};

/// A `nodes` field that is to be read.
struct Unread<'t> {
    container: Option<usize>,
    depth: usize,
    entry: &'t TreeEntry,
}

/// Reads `nodes`, and the bodies in it; `None` if there are no nodes to check.
pub(super) fn read<'t>(
    entry: &'t TreeEntry,
    context: &mut ReadContext<'_>,
) -> Option<(Vec<ParsedNode<'t>>, Vec<ParsedScope>)> {
    let (mut nodes, mut scopes) = (Vec::<ParsedNode<'t>>::new(), Vec::new());
    let mut unread = VecDeque::from([Unread { container: None, depth: 0, entry }]);
    while let Some(Unread { container, depth, entry }) = unread.pop_front() {
        let Some(items) = list(&entry.value, container.is_some(), context.faults) else {
            // Without nodes of its own there is nothing to check.
            container?;
            continue;
        };
        if nodes.len() + items.len() > NODES_MAX {
            refuse_too_many(nodes.len() + items.len(), container.is_some(), entry, context.faults);
            return None;
        }
        let (scope, first) = (scopes.len(), nodes.len());
        if let Some(container) = container {
            nodes[container].body = Some(scope);
        }
        for item in items {
            let Some((node, body)) = node::read(item, context) else { continue };
            nodes.push(ParsedNode { scope, ..node });
            let Some(entry) = body else { continue };
            if depth == NESTING_MAX {
                let message = format!("bodies are nested deeper than {NESTING_MAX} levels");
                context.faults.error(Code::TooDeep, &entry.key_span, message);
                continue;
            }
            let container = Some(nodes.len() - 1);
            unread.push_back(Unread { container, depth: depth + 1, entry });
        }
        let nodes_span = entry.key_span.clone();
        scopes.push(ParsedScope { container, nodes: first..nodes.len(), nodes_span });
    }
    Some((nodes, scopes))
}

fn list<'t>(tree: &'t Tree, is_body: bool, faults: &mut Faults) -> Option<&'t [Tree]> {
    let Some(items) = tree.as_list() else {
        let hint = "write one `- id: …` entry per node";
        fields::wrong_type("`nodes`", "a list", tree, faults).hint(hint);
        return None;
    };
    if items.is_empty() {
        let of = if is_body { "a body" } else { "a workflow" };
        let message = format!("`nodes` is empty: {of} needs at least one node");
        faults.error(Code::NoNodes, &tree.span, message);
        return None;
    }
    Some(items)
}

fn refuse_too_many(count: usize, is_body: bool, entry: &TreeEntry, faults: &mut Faults) {
    let message = match is_body {
        true => format!("there are more than {NODES_MAX} nodes, those in bodies included"),
        false => format!("there are {count} nodes, more than {NODES_MAX}"),
    };
    let start = entry.value.span.start;
    faults.error(Code::TooLarge, &(start..start), message);
}

/// The `nodes` of a container. A node of another kind has none, and a container lacks the fields
/// that concern single attempts.
pub(super) fn body<'t>(
    entries: &'t [TreeEntry],
    (kind, kind_span): (&dyn Kind, &Span),
    meant: &[&str],
    retry: Option<&TreeEntry>,
    faults: &mut Faults,
) -> Option<&'t TreeEntry> {
    let spec = kind.spec();
    let given = fields::present(entries, "nodes");
    let Some(body) = spec.body else {
        if let Some(entry) = given {
            let message = format!("`{}` has no body: `nodes` is not allowed here", spec.name);
            let hint = "`group`, `loop` and `map` have bodies";
            faults.error(Code::BadValue, &entry.key_span, message).hint(hint);
        }
        return None;
    };
    let retry = retry.filter(|_| body.is_repeated());
    let refused = ["timeout", "delivery"].map(|field| fields::present(entries, field));
    for entry in refused.into_iter().chain([retry]).flatten() {
        let message = format!("{} is not allowed on a `{}`", quoted(&entry.key), spec.name);
        let hint = match entry.key.as_str() {
            "timeout" if body == BodyKind::Made => "put it into `config` or into `start`",
            "timeout" => "put it on the nodes in the body, or use `deadline`",
            _ if body == BodyKind::Made => "put it into `start`",
            _ => "put it on the nodes in the body",
        };
        faults.error(Code::BadValue, &entry.key_span, message).hint(hint);
    }
    if given.is_none() && !meant.contains(&"nodes") && body != BodyKind::Made {
        let message = format!("`{}` needs `nodes`, the nodes of its body", spec.name);
        let hint = "write `nodes:` beside `type`, with one `- id: …` entry per node";
        faults.error(Code::MissingField, kind_span, message).hint(hint);
    }
    given
}
