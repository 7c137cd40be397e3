//! An execution as its log, its control row and its inbox have it, and what requests it would refuse.

use std::sync::Arc;

use waypost_core::budget::SpendingLimits;
use waypost_core::command::Refusal;
use waypost_core::event::{MessageId, PauseReason};
use waypost_core::plan::Plan;
use waypost_core::state::{PAUSED, Quarantine, State};
use waypost_core::status::Status;
use waypost_engine::Receipt;
use waypost_ports::store::Control;

use crate::wire;
use crate::wire::payload::Time;

/// An execution as the log has it.
pub struct Found {
    pub plan: Arc<Plan>,
    pub state: State,
    /// Its control row; absent once it has ended.
    pub control: Option<Control>,
    /// The messages in its inbox, of which this is the oldest page.
    pub mail: Vec<MessageId>,
    pub mail_waits: bool,
}

impl Found {
    /// Does nothing but a request to resume or cancel reach it?
    pub fn is_held(&self) -> bool {
        let held = self.control.as_ref().is_some_and(|control| control.held.is_some());
        held || self.state.paused == Some(PauseReason::User)
    }

    /// The status that users see. The store quarantines executions that it cannot read back or that
    /// kill their processes, whatever their logs contain.
    pub fn status(&self) -> Status {
        match self.quarantine() {
            Some(_) => Status::Quarantined,
            None => self.state.shown_status(),
        }
    }

    /// Why and since when it is quarantined: by its log, or by the store.
    pub fn quarantine(&self) -> Option<wire::execution::Quarantine> {
        if let Some(Quarantine { reason, since }) = &self.state.quarantine {
            return Some(wire::execution::Quarantine {
                reason: reason.clone(),
                since: Time(*since),
            });
        }
        let control = self.control.as_ref().filter(|control| control.owner.is_none())?;
        let held = control.held.clone().filter(|reason| reason != PAUSED && !self.is_queued())?;
        Some(wire::execution::Quarantine { reason: held, since: Time(self.state.updated_at) })
    }

    /// The ids of the nodes that a retry with these limits of the budget would run again.
    pub fn retries_with(&self, budget: Option<SpendingLimits>) -> Result<Vec<String>, Refusal> {
        let nodes = self.state.retries_with(&self.plan, budget)?;
        Ok(nodes.into_iter().map(|at| self.plan.node(at).id.to_string()).collect())
    }

    /// The receipt of a message to it that the store has accepted.
    pub fn receipt(&self, message: &str) -> Receipt {
        let in_inbox = self.mail_waits || self.mail.iter().any(|mail| **mail == *message);
        Receipt::of(message, &self.state, self.control.as_ref(), in_inbox)
    }

    /// Is all that holds it the line of its concurrency key?
    pub fn is_queued(&self) -> bool {
        let held = self.control.as_ref().and_then(|control| control.held.as_deref());
        self.state.status == Status::Scheduling && held == self.state.held_for().as_deref()
    }

    /// Why it would not be paused.
    pub fn refuses_pause(&self) -> Option<Refusal> {
        self.state.refuses_pause().or(self.is_held().then_some(Refusal::AlreadyPaused))
    }

    /// Why it would not be resumed. One that the store holds can be, whatever its log contains.
    pub fn refuses_resume(&self) -> Option<Refusal> {
        self.state.refuses_resume().filter(|_| !self.is_held() || self.is_queued())
    }
}
