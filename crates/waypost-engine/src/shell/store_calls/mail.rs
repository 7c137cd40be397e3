//! Requests for executions that are not in memory here: known answers, and delivery to inboxes.
//! Nothing here waits or repeats; see `store_calls`.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{debug, warn};
use waypost_core::command::{Refusal, Request};
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::refused::AdmittedReport;
use waypost_core::state::State;
use waypost_ports::nudge::Nudge;
use waypost_ports::store::{Append, History, Mail, MailBody, MailDelivery, StoreError};

use super::{Damage, Performed, StoreCalls, fold_guarded};
use crate::driver::{Answer, ControlRequest, Input, Loaded, Outgoing, StoreWork, Ticket};

impl StoreCalls {
    /// Puts requests into inboxes, those that need it, all in one call.
    pub(super) fn deliver(&self, requests: Vec<Outgoing>) -> Performed {
        let mut performed = Performed::default();
        let mut news = Vec::with_capacity(requests.len());
        for outgoing in requests {
            match self.known(&outgoing) {
                Ok(None) => news.push(outgoing),
                Ok(Some(answer)) => performed.add(self.answered(&outgoing, answer)),
                Err(error) => performed.again.push((StoreWork::Deliver(outgoing), error)),
            }
        }
        if news.is_empty() {
            return performed;
        }
        let mail: Vec<Mail> = news.iter().map(|outgoing| outgoing.mail.clone()).collect();
        match self.store.deliver(&mail) {
            Ok(delivered) => {
                let deliveries = delivered.iter().chain(std::iter::repeat(&MailDelivery::Unknown));
                for (outgoing, delivery) in news.into_iter().zip(deliveries) {
                    performed.add(self.delivered(outgoing, delivery));
                }
            }
            Err(error) => {
                let again = news.into_iter().map(Outgoing::again).map(StoreWork::Deliver);
                performed.again.extend(again.map(|work| (work, error.clone())));
            }
        }
        performed
    }

    /// Nudges the instances that own the receivers of mail that went out with these frames, and of signals
    /// by key that they published. Receivers without an owner are claimed by the sender, and its own are in
    /// its memory. Best effort: without it, the mail is read with the next poll.
    pub fn nudge_receivers(&self, batch: &[Append]) {
        match self.receiving_owners(batch) {
            Ok(owners) => {
                let others = owners.into_iter().filter(|owner| *owner != self.instance);
                others.for_each(|owner| self.nudges.send(Nudge::Mail(owner)));
            }
            Err(error) => debug!(%error, "the owners of receivers cannot be read"),
        }
    }

    fn receiving_owners(&self, batch: &[Append]) -> Result<BTreeSet<InstanceId>, StoreError> {
        let mut owners = BTreeSet::new();
        let mail = batch.iter().flat_map(|append| &append.side.mail);
        let receivers: BTreeSet<ExecutionNo> = mail.map(|mail| mail.execution).collect();
        if !receivers.is_empty() {
            let receivers: Vec<ExecutionNo> = receivers.into_iter().collect();
            owners.extend(self.store.owners(&receivers)?.into_iter().map(|(_, owner)| owner));
        }
        // A wait that begins gets a signal that was kept: the execution is in the sender's memory.
        let topics = batch.iter().filter_map(|append| append.side.topics.as_ref());
        let published = topics.flat_map(|topics| &topics.published);
        let names: BTreeSet<Arc<str>> = published.map(|signal| Arc::clone(&signal.name)).collect();
        if !names.is_empty() {
            let names: Vec<Arc<str>> = names.into_iter().collect();
            owners.extend(self.store.signal_owners(&names)?);
        }
        Ok(owners)
    }

    /// Loads an execution that is to be retried, or returns why it cannot be.
    pub(super) fn load_ended(&self, request: Box<ControlRequest>, ticket: Ticket) -> Performed {
        let execution = request.execution;
        let answer = |answer| Performed::with(vec![Input::Delivered { execution, ticket, answer }]);
        let history = match self.store.load(execution) {
            Ok(Some(history)) => history,
            Ok(None) => return answer(Answer::Unknown),
            Err(StoreError::Corrupt(reason)) => return answer(Answer::Poisoned(reason)),
            Err(error) => return Performed::not(StoreWork::LoadEnded(request, ticket), error),
        };
        let loaded = match fold_guarded(history, &self.plans, &*self.store) {
            Ok(loaded) => loaded,
            Err(Damage::Store(error)) if !matches!(error, StoreError::Corrupt(_)) => {
                return Performed::not(StoreWork::LoadEnded(request, ticket), error);
            }
            Err(damage) => return answer(Answer::Poisoned(damage.to_string())),
        };
        let message = request.origin.message.as_ref();
        if message.is_some_and(|message| loaded.state.messages.contains(message)) {
            return answer(Answer::Refused(Refusal::Duplicate));
        }
        let budget = match &request.request {
            Request::Retry { budget, .. } => *budget,
            _ => None,
        };
        match loaded.state.retries_with(&loaded.plan, budget) {
            Ok(_) => Performed::with(vec![Input::Reopen(Box::new((loaded, *request, ticket)))]),
            Err(refusal) => answer(Answer::Refused(refusal)),
        }
    }

    /// The answer to a request that is known without delivering it.
    fn known(&self, outgoing: &Outgoing) -> Result<Option<Answer>, StoreError> {
        if let Some(answer) = self.report_answer(outgoing)? {
            return Ok(Some(answer));
        }
        Ok(self.was_received(outgoing)?.then_some(Answer::Refused(Refusal::Duplicate)))
    }

    /// Folds an execution; `None` if it is damaged, so that no instance can drive it as it is.
    fn fold_sound(&self, history: History) -> Result<Option<Loaded>, StoreError> {
        match fold_guarded(history, &self.plans, &*self.store) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(Damage::Store(error)) if !matches!(error, StoreError::Corrupt(_)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Was a message of this id consumed before? The inbox forgets consumed messages, the execution
    /// does not. Needed only for ids that the sender chose.
    pub fn was_received(&self, outgoing: &Outgoing) -> Result<bool, StoreError> {
        let Outgoing { mail: Mail { execution, message, .. }, chosen: true, .. } = outgoing else {
            return Ok(false);
        };
        let history = match self.store.load(*execution) {
            // A retry would not fix it, and all other mail would wait.
            Err(StoreError::Corrupt(_)) => return Ok(false),
            loaded => loaded?.filter(|history| history.control.is_some()),
        };
        let Some(history) = history else { return Ok(false) };
        // Where it is damaged, the message is not consumed twice.
        let loaded = self.fold_sound(history)?;
        Ok(loaded.is_some_and(|loaded| loaded.state.messages.contains(message)))
    }

    /// The answer to a report that need not be delivered: it is a repeat, or would be rejected.
    /// Judged by what is committed; the rest is up to the execution's owner.
    pub fn report_answer(&self, outgoing: &Outgoing) -> Result<Option<Answer>, StoreError> {
        let Mail { execution, body: MailBody::Report(report), .. } = &outgoing.mail else {
            return Ok(None);
        };
        let history = match self.store.load(*execution) {
            // As below.
            Err(StoreError::Corrupt(_)) => return Ok(None),
            loaded => loaded?,
        };
        let Some(history) = history else { return Ok(Some(Answer::Unknown)) };
        let owned = history.control.as_ref().is_some_and(|row| row.owner.is_some());
        // Where it is damaged, the report waits in the inbox until a person has looked.
        let Some(Loaded { plan, state, .. }) = self.fold_sound(history)? else { return Ok(None) };
        if let Err(refusal) = self.issuer.admit(&plan, &state, report) {
            return Ok(Some(Answer::Refused(refusal)));
        }
        Ok(match state.admit_report(&plan, report) {
            Ok(AdmittedReport::New) => None,
            Ok(AdmittedReport::Repeated) => Some(done(&state)),
            // A failover lost commits that its owner still has in memory. The owner finds that out
            // when it appends the report's events.
            Err(Refusal::Stale { attempt, .. }) if attempt < report.attempt && owned => None,
            Err(refusal) => Some(Answer::Refused(refusal)),
        })
    }

    /// The answer to a request that went into no inbox.
    pub fn answered(&self, outgoing: &Outgoing, answer: Answer) -> Performed {
        let (execution, ticket) = (outgoing.mail.execution, outgoing.ticket);
        Performed::with(vec![Input::Delivered { execution, ticket, answer }])
    }

    /// The answer to a delivery.
    pub fn delivered(&self, outgoing: Outgoing, delivery: &MailDelivery) -> Performed {
        if let MailDelivery::Accepted { owner: Some(owner) } = delivery
            && *owner != self.instance
        {
            self.nudges.send(Nudge::Mail(*owner));
        }
        let answer = match delivery {
            MailDelivery::Duplicate if outgoing.chosen => Answer::Refused(Refusal::Duplicate),
            MailDelivery::Accepted { .. } | MailDelivery::Duplicate => {
                Answer::Accepted(Arc::clone(&outgoing.mail.message))
            }
            MailDelivery::Ended => match self.answer_of_ended(&outgoing) {
                Ok(answer) => answer,
                Err(error) => return Performed::not(StoreWork::Deliver(outgoing), error),
            },
            MailDelivery::Unknown => Answer::Unknown,
        };
        self.answered(&outgoing, answer)
    }

    /// The answer to mail whose addressee has ended. It may have ended with this very mail: after
    /// the mail was inserted and before its addressee was woken, or since a try whose answer was
    /// lost. Then the mail was taken, and the answer must say so.
    fn answer_of_ended(&self, outgoing: &Outgoing) -> Result<Answer, StoreError> {
        let mail = &outgoing.mail;
        let Some(history) = self.store.load(mail.execution)? else {
            return Ok(Answer::Unknown);
        };
        if history.control.is_some() {
            // It was opened again since.
            return Ok(Answer::Moved);
        }
        let Some(end) = self.end_of(&history)? else {
            warn!(execution = %mail.execution, "the end of an execution cannot be read");
            return Ok(Answer::Unknown);
        };
        let ended = Answer::Refused(Refusal::Ended(end.status));
        let Loaded { plan, state, .. } = match fold_guarded(history, &self.plans, &*self.store) {
            Ok(loaded) => loaded,
            Err(Damage::Store(error)) => return Err(error),
            Err(_) => return Ok(ended),
        };
        Ok(match &mail.body {
            MailBody::Report(report) => match state.admit_report(&plan, report) {
                Ok(_) => done(&state),
                Err(refusal) => Answer::Refused(refusal),
            },
            // Of a message whose id was chosen, its sender finds out what became of it before.
            MailBody::Request(_) if !outgoing.chosen && state.messages.contains(&mail.message) => {
                Answer::Accepted(Arc::clone(&mail.message))
            }
            MailBody::Request(_) | MailBody::ChildEnded(_) => ended,
        })
    }
}

fn done(state: &State) -> Answer {
    Answer::Done { status: state.shown_status(), pausing: state.pausing }
}
