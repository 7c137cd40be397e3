//! Outputs of the driver, by destination.

use std::sync::Arc;

use waypost_core::event::Event;
use waypost_core::expr::Wanted;
use waypost_core::id::{ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::time::Timestamp;
use waypost_ports::handler::Task;
use waypost_ports::mirror::Context;
use waypost_ports::store::{Append, Mail, Share};
use waypost_ports::tasks::OfferId;

use super::answer::Answer;
use super::children::LaunchOrder;
use super::io::{ControlRequest, Input, Ticket};
use crate::sealed::OfferedTask;

/// Something to be done, by destination.
#[derive(Debug)]
pub enum Output {
    Store(StoreWork),
    Tasks(TaskWork),
    /// Run an attempt on this instance; answered with [`Input::Report`](super::Input::Report).
    Run(TaskOrder),
    /// Stop an attempt that runs on this instance.
    Cancel(Token),
    Answer(Ticket, Answer),
    /// Read what a decision needs: contents of blobs, items and results of maps; answered with
    /// [`Input::Fetched`](super::Input::Fetched).
    Fetch {
        execution: ExecutionNo,
        wanted: Wanted,
    },
    /// Renew the instance's lease ahead of time; answered with
    /// [`Input::Renewed`](super::Input::Renewed).
    Renew,
    /// An input for other drivers of this instance: those whose bits are set.
    Forward {
        to: u64,
        input: Input,
    },
    /// Events are durable: for observers.
    Committed(Committed),
    /// For the mirror: an execution was parked with this context.
    Keep(Box<Context>),
    /// For the mirror: an execution that may have been parked has ended, so no instance claims it.
    Forget(ExecutionId),
}

/// Something to be done at the store. Each is repeated until the store has answered.
#[derive(Clone, Debug)]
pub enum StoreWork {
    /// Append a frame; answered with [`Input::Appended`](super::Input::Appended).
    Append(Append),
    /// Claim executions; answered with [`Input::Claimed`](super::Input::Claimed).
    Claim {
        share: Share,
        limit: usize,
        only: Option<Vec<ExecutionNo>>,
        /// For a reconciliation: the executions in memory.
        held: Option<Vec<ExecutionNo>>,
        /// May one suspect be among them?
        suspects: bool,
    },
    /// Read the inbox; answered with [`Input::Mail`](super::Input::Mail), then
    /// [`Input::Collected`](super::Input::Collected). The oldest `known` messages were read before
    /// and stay until a frame deletes them: the read is larger by so many.
    Collect { share: Share, known: usize },
    /// Put mail into an inbox; answered with [`Input::Delivered`](super::Input::Delivered).
    Deliver(Outgoing),
    /// Quarantine an execution in its control row alone.
    Hold { execution: ExecutionNo, reason: String },
    /// These executions were in memory at a process death and are about to be decided: mark them as
    /// in doubt; answered with [`Input::Doubted`](super::Input::Doubted).
    Doubt(Vec<ExecutionNo>),
    /// A frame was refused: read the execution again. Answered with
    /// [`Input::Reloaded`](super::Input::Reloaded) if the control row names this instance as the owner,
    /// else not at all.
    Reload(ExecutionNo),
    /// A caller awaits the end of an execution that is not in memory. Answered with
    /// [`Input::EndFound`](super::Input::EndFound) if it has ended or does not exist, else not at all.
    FindEnd(ExecutionNo),
    /// Read an execution that has ended and is to be retried; answered with
    /// [`Input::Reopen`](super::Input::Reopen), or with
    /// [`Input::Delivered`](super::Input::Delivered) if it cannot be retried.
    LoadEnded(Box<ControlRequest>, Ticket),
    /// Find out what a `workflow` node starts; answered with [`Input::Launched`](super::Input::Launched).
    Launch(Box<LaunchOrder>),
    /// Reserve numbers for new executions; answered with [`Input::Numbers`](super::Input::Numbers).
    ReserveNumbers,
}

impl StoreWork {
    /// Does it change stored rows, other than by frames?
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Deliver(_) | Self::ReserveNumbers | Self::Hold { .. } | Self::Doubt(_))
    }
}

/// Something to be done where tasks for remote workers wait.
#[derive(Debug)]
pub enum TaskWork {
    Offer(OfferOrder),
    /// Withdraw an offer, unless a worker has taken it.
    Withdraw(OfferId),
    Cancel(WorkerId, Token),
    /// Check whether workers are alive and have the attempts that they started; answered with
    /// [`Input::WorkersSeen`](super::Input::WorkersSeen).
    Look(Look),
}

/// A request on its way to an inbox.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub mail: Mail,
    /// Did the sender choose the message's id? Then a message of this id that is there already was
    /// sent before; otherwise it is this very one.
    pub chosen: bool,
    pub ticket: Ticket,
}

impl Outgoing {
    /// This request after a try that was not answered: mail in the inbox may be from that try.
    #[must_use]
    pub fn again(self) -> Self {
        Self { chosen: false, ..self }
    }
}

/// A task, with the execution that its report goes to.
#[derive(Clone, Debug)]
pub struct TaskOrder {
    pub execution: ExecutionNo,
    pub task: Task,
    /// Since when the attempt might have been made.
    pub since: Timestamp,
}

/// A task for remote workers.
#[derive(Clone, PartialEq, Debug)]
pub struct OfferOrder {
    pub id: OfferId,
    pub handler: Arc<str>,
    pub task: OfferedTask,
}

/// A question about the remote workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// Of the driver that asks.
    pub share: Share,
    /// Are these workers alive, and do they have these attempts?
    pub held: Vec<(WorkerId, Token)>,
    /// Which handlers are served?
    pub serving: bool,
}

/// Events that have become durable together.
#[derive(Clone, Debug)]
pub struct Committed {
    pub execution: ExecutionNo,
    pub key: ExecutionId,
    pub first_seq: u64,
    /// The store's time.
    pub at: Timestamp,
    pub events: Arc<[Event]>,
    /// May there be messages to webhook endpoints?
    pub announces: bool,
}
