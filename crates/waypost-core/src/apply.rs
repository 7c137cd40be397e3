//! `apply`: one event folded into the state. Evaluates nothing and reads no clock: every outcome is
//! in the event. Rejects arrows that the state machines do not have, so that a damaged log is
//! noticed. A rejected event has changed nothing.
//!
//! ```text
//!   apply ── execution.rs   the machine of executions: owners, pauses, ends, generations
//!         ├─ node.rs        the machine of nodes: attempts, waits, how a node settles
//!         ├─ body.rs        the scopes of containers
//!         ├─ budget.rs      what attempts reserve and use
//!         ├─ children.rs    executions that nodes start
//!         └─ edges.rs       the effect of a settled node on the nodes that need it
//! ```

mod body;
mod budget;
mod children;
mod edges;
mod execution;
mod node;
mod waits;

use std::sync::Arc;

use crate::event::{Event, RunEvent};
use crate::id::ExecutionNo;
use crate::path::At;
use crate::plan::Plan;
use crate::state::State;
use crate::time::{Millis, Timestamp};

pub(crate) use edges::is_taken;

/// How long attempts that were cancelled are awaited when an execution ends.
pub const GRACE: Millis = Millis::from_secs(10);
/// How long beyond its timeout a silent attempt is awaited.
pub const SILENCE: Millis = Millis::from_secs(5);

/// An event that the state machines have no arrow for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{event} is not possible at seq {seq}: {why}")]
pub struct Illegal {
    pub event: &'static str,
    /// Where it would have gone.
    pub seq: u64,
    pub why: String,
}

/// Folds one event, decided at `at`, into the state.
pub fn apply(plan: &Plan, state: &mut State, event: &Event, at: Timestamp) -> Result<(), Illegal> {
    let node = event.node().and_then(|path| state.find(plan, path));
    apply_at(plan, state, event, node, at)
}

/// Folds one event into the state; an event about a node comes with its place.
pub(crate) fn apply_at(
    plan: &Plan,
    state: &mut State,
    event: &Event,
    node: Option<At>,
    at: Timestamp,
) -> Result<(), Illegal> {
    let step = match (event, node) {
        (Event::Run(event), _) => execution::apply(plan, state, event, at),
        (Event::Node(event), Some(node)) => node::apply(plan, state, node, event, at),
        (Event::Node(event), None) => {
            Err(format!("the definition has no node {:?}, or it is not open", event.node()))
        }
    };
    step.map_err(|why| Illegal { event: event.name(), seq: state.seq + 1, why })?;
    state.seq += 1;
    state.updated_at = at;
    Ok(())
}

/// Starts a fold with the first event of a log.
pub fn begin(
    plan: &Plan,
    execution: ExecutionNo,
    first: &Event,
    at: Timestamp,
) -> Result<State, Illegal> {
    let Event::Run(RunEvent::Created(created)) = first else {
        let why = "a log begins with RunCreated".to_owned();
        return Err(Illegal { event: first.name(), seq: 1, why });
    };
    let mut state = State::new(plan, execution, Arc::new((**created).clone()), at);
    state.seq = 1;
    Ok(state)
}

/// The result of a step: nothing, or why it is rejected.
type Step = Result<(), String>;

fn refuse(why: &str) -> Step {
    Err(why.to_owned())
}
