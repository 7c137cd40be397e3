//! Bodies that a kind does not spell as `nodes`: those of `async-operation`, made of its config.
//!
//! ```text
//!   config: { start: {…} }                     nodes: [start]
//!   config: { start: {…}, poll: {…} }          nodes: [start, poll: loop of [check, result]]
//! ```
//!
//! The nodes are made in the tree, before it is read, and their fields keep their positions: a fault in
//! one of them is reported where it was written. The canonical form has the config alone.

use serde_json::Number;
use waypost_core::kind::{BodyKind, Catalog};
use waypost_core::limits::ITERATIONS_MAX;

use crate::diagnostics::{Code, Faults};
use crate::source::Span;
use crate::tree::{self, Style, Tree, TreeEntry, TreeValue};

/// Fields of `poll` that are not those of its node.
const OF_POLL: &[&str] = &["every", "until", "maxPolls", "output"];

/// Makes the bodies of a definition.
pub(crate) fn make_bodies(tree: &mut Tree, catalog: &Catalog<'_>, faults: &mut Faults) {
    let TreeValue::Map(entries) = &mut tree.value else { return };
    let is_made = kind_of(entries, catalog) == Some(BodyKind::Made);
    if let Some(nodes) = entries.iter().find(|entry| entry.key == "nodes").filter(|_| is_made) {
        let message = "`nodes` is not allowed here: the body is made of `start` and `poll`";
        faults.error(Code::BadValue, &nodes.key_span, message);
        return;
    }
    if let Some(body) = is_made.then(|| body(entries)).flatten() {
        entries.push(body);
    }
    let nodes = entries.iter_mut().find(|entry| entry.key == "nodes");
    if let Some(TreeValue::List(items)) = nodes.map(|entry| &mut entry.value.value) {
        items.iter_mut().for_each(|node| make_bodies(node, catalog, faults));
    }
}

fn kind_of(entries: &[TreeEntry], catalog: &Catalog<'_>) -> Option<BodyKind> {
    let name = |field| tree::find(entries, field).and_then(|entry| entry.value.as_text());
    let kind = [name("subType"), name("type")].into_iter().flatten().next()?;
    catalog.find(kind)?.spec().body
}

/// The `nodes` of an operation; absent where its config has faults that are reported with it.
fn body(entries: &[TreeEntry]) -> Option<TreeEntry> {
    let config = tree::find(entries, "config")?.value.as_map()?;
    let start = tree::find(config, "start")?;
    let mut nodes = vec![node(start, "start", start.value.as_map()?.to_vec())];
    if let Some(poll) = tree::find(config, "poll") {
        let fields = poll.value.as_map()?;
        tree::find(fields, "every").and(tree::find(fields, "until"))?;
        nodes.push(poll_loop(poll, fields, id_of(&nodes)?, tree::find(config, "timeout")));
    }
    Some(made("nodes", &start.key_span, TreeValue::List(nodes)))
}

/// Asks again and again, until it is done.
fn poll_loop(
    poll: &TreeEntry,
    fields: &[TreeEntry],
    start: String,
    timeout: Option<&TreeEntry>,
) -> Tree {
    let span = &poll.key_span;
    let renamed = |field: &str, name: &str| {
        let entry = tree::find(fields, field)?;
        Some(TreeEntry { key: name.to_owned(), ..entry.clone() })
    };
    let asks = fields.iter().filter(|entry| !OF_POLL.contains(&entry.key.as_str())).cloned();
    let check = node(poll, "check", asks.collect());
    let mut nodes = vec![check];
    if let Some(value) = renamed("output", "value") {
        let fields = vec![
            made("type", span, text("transform")),
            made("needs", span, list(span, id_of(&nodes))),
            made("config", span, TreeValue::Map(vec![value])),
        ];
        nodes.push(node(poll, "result", fields));
    }
    // With a timeout, only the time is limited.
    let most = timeout
        .map(|_| made("maxIterations", span, TreeValue::Number(Number::from(ITERATIONS_MAX))));
    let config = [
        renamed("until", "until"),
        renamed("every", "delay"),
        renamed("maxPolls", "maxIterations").or(most),
    ];
    let mut made_loop = vec![
        made("type", span, text("loop")),
        made("needs", span, list(span, Some(start))),
        made("config", span, TreeValue::Map(config.into_iter().flatten().collect())),
        made("nodes", span, TreeValue::List(nodes)),
    ];
    made_loop
        .extend(timeout.map(|entry| TreeEntry { key: "deadline".to_owned(), ..entry.clone() }));
    node(poll, "poll", made_loop)
}

/// A node of these fields; with this id, unless it has one.
fn node(of: &TreeEntry, id: &str, mut fields: Vec<TreeEntry>) -> Tree {
    if tree::find(&fields, "id").is_none() && tree::find(&fields, "nodeId").is_none() {
        fields.insert(0, made("id", &of.key_span, text(id)));
    }
    Tree { span: of.value.span.clone(), value: TreeValue::Map(fields) }
}

/// The id of the last of some nodes.
fn id_of(nodes: &[Tree]) -> Option<String> {
    let fields = nodes.last()?.as_map()?;
    let id = tree::find(fields, "id").or_else(|| tree::find(fields, "nodeId"))?;
    id.value.as_text().map(ToOwned::to_owned)
}

fn made(key: &str, span: &Span, value: TreeValue) -> TreeEntry {
    let value = Tree { span: span.clone(), value };
    TreeEntry { key: key.to_owned(), key_span: span.clone(), value }
}

fn text(text: &str) -> TreeValue {
    TreeValue::Text { text: text.to_owned(), style: Style::Bare }
}

fn list(span: &Span, ids: Option<String>) -> TreeValue {
    let item = |id: String| Tree { span: span.clone(), value: text(&id) };
    TreeValue::List(ids.into_iter().map(item).collect())
}
