//! Decisions: what follows a command.

use super::Refusal;
use crate::child::{Birth, SentMessage};
use crate::event::Event;
use crate::expr::Wanted;
use crate::id::{ExecutionNo, Token, WorkerId};
use crate::path::At;
use crate::published::PublishedSignal;

/// An action that follows a decision, once it is committed.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Send [`Command::Evaluate`](super::Command::Evaluate).
    Evaluate { node: At, attempt: u32 },
    /// Run the attempt in a slot, which is reserved.
    Run { node: At, attempt: u32, token: Token },
    /// Find out what the node starts, then send [`Command::Launch`](super::Command::Launch).
    Launch { node: At, attempt: u32 },
    /// Find a slot, then send [`Command::Start`](super::Command::Start); or, if the handler is remote, offer the task to
    /// workers until one reports that it has started.
    Offer { node: At, attempt: u32 },
    /// Cancel the attempt at its worker. In one decision with the attempt's `Run`: do neither, and
    /// report the attempt as cancelled.
    Cancel {
        /// The right to report, which names the attempt.
        token: Token,
        /// The remote worker that holds it.
        worker: Option<WorkerId>,
    },
}

/// A decision: its events, and the effects that follow.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// Facts, in order; already folded into the state that was decided on.
    pub events: Vec<Event>,
    /// Held back until the events are durable.
    pub effects: Vec<Effect>,
    /// Executions that begin with the events.
    pub births: Vec<Birth>,
    /// Messages to other executions, sent with the events.
    pub sent: Vec<SentMessage>,
    /// Signals for every execution that waits for them, published with the events.
    pub published: Vec<PublishedSignal>,
    /// Executions that are reopened with the events, see [`Launch::Again`](crate::child::Launch::Again).
    pub reopened: Vec<ExecutionNo>,
    /// Why nothing changed, where all that happened is that a message was consumed.
    pub refusal: Option<Refusal>,
    /// What was missed by what could not be decided now. When it is at hand, [`Command::GoOn`](super::Command::GoOn)
    /// continues.
    pub missed: Vec<Wanted>,
}
