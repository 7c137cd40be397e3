//! The definitions that the scenarios execute, in the language that users write.

use std::fmt::Write;

use anyhow::Result;
use waypost_core::json::Json;

/// `n0 → n1 → …`, all noops.
pub(super) fn chain(nodes: u64) -> String {
    let mut flow = String::from("name: bench-chain\nnodes:\n");
    for node in 0..nodes {
        match node.checked_sub(1) {
            None => line(&mut flow, &format!("  - {{ id: n{node}, type: noop }}")),
            Some(before) => {
                line(&mut flow, &format!("  - {{ id: n{node}, type: noop, needs: [n{before}] }}"));
            }
        }
    }
    flow
}

/// One noop, `width` noops after it, a join of them.
pub(super) fn fan(width: u64) -> String {
    let mut flow = String::from("name: bench-fan\nnodes:\n  - { id: root, type: noop }\n");
    let mut needs = Vec::new();
    for branch in 0..width {
        line(&mut flow, &format!("  - {{ id: b{branch}, type: noop, needs: [root] }}"));
        needs.push(format!("b{branch}"));
    }
    line(&mut flow, &format!("  - {{ id: all, type: join, needs: [{}] }}", needs.join(", ")));
    flow
}

/// A chain whose nodes each give the input as their output.
pub(super) fn payload(nodes: u64) -> String {
    let mut flow = String::from("name: bench-payload\nnodes:\n");
    for node in 0..nodes {
        let needs = node.checked_sub(1).map(|before| format!(", needs: [n{before}]"));
        let needs = needs.unwrap_or_default();
        let config = "config: { value: \"${{ input.payload }}\" }";
        line(&mut flow, &format!("  - {{ id: n{node}, type: transform{needs}, {config} }}"));
    }
    flow
}

/// An input with a text of so many bytes.
pub(super) fn payload_input(bytes: u64) -> Result<Json> {
    let text = "x".repeat(usize::try_from(bytes)?);
    Ok(Json::from_value(&serde_json::json!({ "payload": text })))
}

/// One delay until a time that the input names.
pub(super) fn timer() -> String {
    "name: bench-timer\nnodes:\n  - { id: nap, type: delay, config: { until: \"${{ input.until }}\" } }\n"
        .to_owned()
}

/// A noop, then the first of a signal and an hour, then a noop. The hour is there so that an engine
/// that is configured to keep executions due within a day keeps this one in memory.
pub(super) fn held() -> String {
    concat!(
        "name: bench-held\nnodes:\n",
        "  - { id: before, type: noop }\n",
        "  - { id: hold, type: wait-for-events, needs: [before], config: { name: go } }\n",
        "  - { id: hour, type: delay, needs: [before], config: { duration: 1h } }\n",
        "  - { id: after, type: noop, needs: [hold, hour], join: { count: any, cancelRest: true } }\n",
    )
    .to_owned()
}

/// One wait for a signal that never comes.
pub(super) fn parked() -> String {
    "name: bench-parked\nnodes:\n  - { id: hold, type: wait-for-events, config: { name: go } }\n"
        .to_owned()
}

fn line(flow: &mut String, text: &str) {
    writeln!(flow, "{text}").expect("writing to a String does not fail");
}
