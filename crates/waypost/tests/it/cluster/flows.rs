//! The workflows of these tests.

use serde_json::json;
use waypost_testbed::Sink;

use super::rig::{Cluster, LONG};

/// Remembers something, waits for `go`, and gives both.
pub(super) const GATE: &str = r#"
name: gate
nodes:
  - id: first
    type: transform
    config: { value: { remembered: "${{ input.text }}" } }
  - id: gate
    type: wait-for-events
    needs: [first]
    config: { name: go }
  - id: last
    type: output
    needs: [gate]
    config: { value: { text: "${{ nodes.first.output.remembered }}", by: "${{ nodes.gate.output.by }}" } }
"#;

/// Two calls to a sink, one after the other, and a sleep between them.
pub(super) fn calls(sink: &str) -> String {
    format!(
        r#"
name: calls
nodes:
  - id: one
    type: api-call
    config: {{ method: POST, url: "{sink}", body: {{ n: "${{{{ input.n }}}}" }} }}
    retry: {{ maxAttempts: 5, waitDuration: 100ms }}
  - id: pause
    type: delay
    needs: [one]
    config: {{ duration: "${{{{ input.ms | default(50) }}}}", unit: ms }}
  - id: two
    type: api-call
    needs: [pause]
    config: {{ method: POST, url: "{sink}", body: {{ n: "${{{{ input.n }}}}" }} }}
    retry: {{ maxAttempts: 5, waitDuration: 100ms }}
  - id: done
    type: output
    needs: [two]
    config: {{ value: "${{{{ input.n }}}}" }}
"#
    )
}

/// Starts so many of them at the first instance, whose sink holds them.
pub(super) fn held_calls(cluster: &Cluster, sink: &Sink, count: usize) -> Vec<String> {
    sink.hold();
    cluster.deploy(&calls(&sink.url("/held")));
    let api = &cluster.api;
    let ids = cluster.block_on(async {
        let mut ids = Vec::new();
        for n in 0..count {
            ids.push(api.start(0, "calls", &json!({ "n": n }), &format!("h{n}")).await);
        }
        ids
    });
    sink.wait_for(count, LONG);
    ids
}

/// Sleeps until a time, and gives it.
pub(super) const SLEEPER: &str = r#"
name: sleeper
nodes:
  - { id: sleep, type: delay, config: { until: "${{ input.until }}" } }
  - { id: done, type: output, needs: [sleep], config: { value: "${{ input.n }}" } }
"#;

/// Ten nodes in a row.
pub(super) const CHAIN: &str = r#"
name: chain
nodes:
  - { id: n0, type: noop }
  - { id: n1, type: noop, needs: [n0] }
  - { id: n2, type: noop, needs: [n1] }
  - { id: n3, type: noop, needs: [n2] }
  - { id: n4, type: noop, needs: [n3] }
  - { id: n5, type: noop, needs: [n4] }
  - { id: n6, type: noop, needs: [n5] }
  - { id: n7, type: noop, needs: [n6] }
  - { id: n8, type: noop, needs: [n7] }
  - { id: n9, type: noop, needs: [n8] }
"#;
