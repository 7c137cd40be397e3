//! The definitions that the scenarios execute, in the language that users write.

use anyhow::Result;
use waypost_core::json::Json;

/// One delay until a time that the input names.
pub(super) const TIMER: &str = "name: bench-timer
nodes:
  - { id: nap, type: delay, config: { until: \"${{ input.until }}\" } }
";

/// A noop, then the first of a signal and an hour, then a noop. The hour is there so that an engine
/// that is configured to keep executions due within a day keeps this one in memory.
pub(super) const HELD: &str = "name: bench-held
nodes:
  - { id: before, type: noop }
  - { id: hold, type: wait-for-events, needs: [before], config: { name: go } }
  - { id: hour, type: delay, needs: [before], config: { duration: 1h } }
  - { id: after, type: noop, needs: [hold, hour], join: { count: any, cancelRest: true } }
";

/// One wait for a signal that never comes.
pub(super) const PARKED: &str = "name: bench-parked
nodes:
  - { id: hold, type: wait-for-events, config: { name: go } }
";

/// `n0 → n1 → …`, all noops.
pub(super) fn chain(nodes: u64) -> String {
    chain_of("bench-chain", "type: noop", nodes)
}

/// The same chain with a webhook trigger whose sender gets the output.
pub(super) fn hooked(nodes: u64) -> String {
    let verify = "{ scheme: standard, secret: bench_hook }";
    let trigger = format!("{{ webhook: hook, verify: {verify}, respond: output }}");
    format!("{}on: [{trigger}]\n", chain_of("bench-hook", "type: noop", nodes))
}

/// A chain whose nodes each give the input as their output.
pub(super) fn payload(nodes: u64) -> String {
    let node = "type: transform, config: { value: \"${{ input.payload }}\" }";
    chain_of("bench-payload", node, nodes)
}

/// An input with a text of so many bytes.
pub(super) fn payload_input(bytes: u64) -> Result<Json> {
    let text = "x".repeat(usize::try_from(bytes)?);
    Ok(Json::from_value(&serde_json::json!({ "payload": text })))
}

/// One noop, `width` noops after it, a join of them.
pub(super) fn fan(width: u64) -> String {
    let branches = (0..width).map(|n| format!("  - {{ id: b{n}, type: noop, needs: [root] }}\n"));
    let needs: Vec<_> = (0..width).map(|n| format!("b{n}")).collect();
    format!(
        "name: bench-fan\nnodes:\n  - {{ id: root, type: noop }}\n{}  - {{ id: all, type: join, needs: [{}] }}\n",
        branches.collect::<String>(),
        needs.join(", ")
    )
}

/// The body of a benchmark's map.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapBody {
    /// One noop
    Noop,
    /// Two transforms with outputs of 1 KB
    Two,
    /// One task that a handler of this process completes at once, with an output of 100 bytes
    Task,
    /// One `api-call` of 1 s to a server in this process
    Http,
    /// One execution of a workflow of one noop
    Child,
}

/// A map over the numbers from 0 on. `api-call`s go to `address`.
pub(super) fn map(items: u64, width: u32, body: MapBody, address: &str) -> String {
    let text = |bytes: usize| "x".repeat(bytes);
    let nodes = match body {
        MapBody::Noop => "{ id: n, type: noop }".to_owned(),
        MapBody::Two => format!(
            "{{ id: a, type: transform, config: {{ value: \"{0}\" }} }}, \
             {{ id: b, type: transform, needs: [a], config: {{ value: \"{0}\" }} }}",
            text(1_000)
        ),
        MapBody::Child => "{ id: n, type: workflow, config: { workflow: bench-child } }".to_owned(),
        MapBody::Task | MapBody::Http => {
            format!("{{ id: n, type: api-call, config: {{ url: \"http://{address}/\" }} }}")
        }
    };
    let config = format!("{{ items: {items}, concurrency: {width}, collect: none }}");
    format!(
        "name: bench-map\nnodes:\n  - {{ id: each, type: map, config: {config}, nodes: [{nodes}] }}\n"
    )
}

/// What the items of a map start.
pub(super) const CHILD: &str = "name: bench-child\nnodes:\n  - { id: n, type: noop }\n";

/// A loop of noops.
pub(super) fn repeat(iterations: u64) -> String {
    let test = format!("{{ until: \"iteration >= {iterations}\", maxIterations: {iterations} }}");
    format!(
        "name: bench-loop\nnodes:\n  - {{ id: again, type: loop, config: {test}, \
         nodes: [{{ id: n, type: noop }}] }}\n"
    )
}

pub(super) fn chain_of(name: &str, node: &str, nodes: u64) -> String {
    let lines = (0..nodes).map(|n| {
        let needs = n.checked_sub(1).map(|before| format!(", needs: [n{before}]"));
        format!("  - {{ id: n{n}, {node}{} }}\n", needs.unwrap_or_default())
    });
    format!("name: {name}\nnodes:\n{}", lines.collect::<String>())
}
