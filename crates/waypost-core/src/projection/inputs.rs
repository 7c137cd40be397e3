//! The inputs of tasks: their configs as they were rendered, for the rows of nodes.
//!
//! The log does not have them. Rendering is a function of plan and state, so that a projector folds the
//! log of an execution a second time, with its plan, and renders each task that an event schedules. It
//! does so only where the definition has a task with expressions; the config of any other node is its
//! input, and stands in the definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::apply::{Illegal, apply, begin};
use crate::decide::render_task;
use crate::event::{Event, NodeEvent};
use crate::expr::Contents;
use crate::id::ExecutionNo;
use crate::json::Json;
use crate::kind::{Behaviour, Family};
use crate::plan::{Plan, PlanNode};
use crate::state::State;
use crate::time::Timestamp;

/// Bytes of an input that a row shows. A longer one is cut, and marked.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// What only the catalogue of node kinds knows of definitions. Without a catalogue, a function that tells
/// families will do.
pub trait Describe: Send + Sync {
    /// The family of a node kind.
    fn family(&self, kind: &str) -> Option<Family>;

    /// The plan of a definition's canonical form.
    fn plan(&self, canonical: &[u8]) -> Option<Plan>;
}

impl<F: Fn(&str) -> Option<Family> + Send + Sync> Describe for F {
    fn family(&self, kind: &str) -> Option<Family> {
        self(kind)
    }

    fn plan(&self, _canonical: &[u8]) -> Option<Plan> {
        None
    }
}

/// The inputs that some frames lead to, as JSON, by path.
pub type Rendered = BTreeMap<Arc<str>, String>;

/// The fold of one execution.
#[derive(Debug)]
pub struct Inputs {
    plan: Arc<Plan>,
    state: Option<State>,
}

impl Inputs {
    /// Before the first event.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self { plan, state: None }
    }

    /// The last event that was folded.
    pub fn seq(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.seq)
    }

    /// Folds the next frame and renders the tasks that it schedules.
    pub fn fold(
        &mut self,
        execution: ExecutionNo,
        at: Timestamp,
        events: &[Event],
        rendered: &mut Rendered,
    ) -> Result<(), Illegal> {
        for event in events {
            let state = match &mut self.state {
                None => self.state.insert(begin(&self.plan, execution, event, at)?),
                Some(state) => {
                    apply(&self.plan, state, event, at)?;
                    state
                }
            };
            let Event::Node(NodeEvent::Scheduled { node, .. }) = event else { continue };
            let Some(at) = state.find(&self.plan, node) else { continue };
            if has_expressions(self.plan.node(at.node)) {
                // A config that cannot be rendered fails its node, which shows why.
                let config = render_task(&self.plan, state, at, &Contents::default())
                    .map(|rendered| rendered.config);
                rendered.insert(Arc::clone(node), shown(&config.unwrap_or_else(|_| Json::null())));
            }
        }
        Ok(())
    }
}

/// Has a plan tasks that must be rendered?
pub fn renders_tasks(plan: &Plan) -> bool {
    plan.nodes.iter().any(has_expressions)
}

fn has_expressions(node: &PlanNode) -> bool {
    matches!(&node.behaviour, Behaviour::Task { config, .. } if !config.is_literal())
}

/// An input as a row shows it.
fn shown(input: &Json) -> String {
    let text = input.text();
    if text.len() <= INPUT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=INPUT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let start = text.get(..end).unwrap_or_default();
    serde_json::json!({ "cut": true, "bytes": text.len(), "start": start }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_cut_and_marked() {
        let short = Json::parse(r#"{"a":1}"#).unwrap();
        assert_eq!(shown(&short), r#"{"a":1}"#);
        let text = format!("\"{}\"", "é".repeat(INPUT_BYTES_MAX));
        let cut: serde_json::Value =
            serde_json::from_str(&shown(&Json::parse(&text).unwrap())).unwrap();
        assert_eq!(cut["cut"], true);
        assert_eq!(cut["bytes"], text.len());
        let start = cut["start"].as_str().unwrap();
        assert!(text.starts_with(start) && INPUT_BYTES_MAX - start.len() < 2, "{}", start.len());
    }
}
