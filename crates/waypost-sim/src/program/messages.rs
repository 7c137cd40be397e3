//! What programs send: messages to webhook endpoints, and signals by the id of an execution.

use serde_json::{Value as Json, json};

use super::{Signal, Value};

/// A message to webhook endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notify {
    /// What it says.
    pub values: Vec<Value>,
    /// Does the node wait until every endpoint has it, or it was given up?
    pub wait: bool,
    /// How long at most; only where it waits.
    pub timeout_ms: Option<u64>,
}

impl Notify {
    /// The config of its node.
    pub(super) fn config(&self, values: &Json) -> Json {
        let mut config = json!({ "message": values });
        if self.wait {
            config["wait"] = json!(true);
        }
        if let Some(timeout) = self.timeout_ms {
            config["timeout"] = json!(timeout);
        }
        config
    }

    /// How long its node can take; `None`: as long as an endpoint is down.
    pub(super) fn span_ms_max(&self) -> Option<u64> {
        if self.wait { self.timeout_ms } else { Some(0) }
    }

    /// On one line, for people.
    pub(super) fn text(&self, values: &str) -> String {
        let wait = if self.wait { " wait" } else { "" };
        let timeout = self.timeout_ms.map_or_else(String::new, |ms| format!(" {ms}"));
        format!("notify [{values}]{wait}{timeout}")
    }

    /// The same, but for one thing.
    pub(super) fn simpler(&self) -> Option<Self> {
        if self.timeout_ms.is_some() {
            return Some(Self { timeout_ms: None, ..self.clone() });
        }
        let fewer = self.values.get(1..)?.to_vec();
        Some(Self { values: fewer, ..self.clone() })
    }

    /// What a simpler one has less of.
    pub(super) fn weight(&self) -> usize {
        1 + self.values.len() + usize::from(self.timeout_ms.is_some())
    }
}

/// The config of a node that sends a signal to its own execution, by id. Only nodes outside of bodies do, so
/// that no two signals of an execution have the same body.
pub(super) fn emit_config(signal: Signal, node: &str) -> Json {
    let body = json!({ "ok": true, "serial": format!("${{{{ execution.id }}}}/{node}") });
    json!({ "to": "${{ execution.id }}", "signal": signal.name(), "body": body })
}
