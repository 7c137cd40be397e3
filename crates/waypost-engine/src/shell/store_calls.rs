//! Store calls on the driver's behalf, one try at a time.
//!
//! This module turns an order into calls of the store and their answers into inputs. It has no
//! queue and does not retry: work that the store did not do comes back as an order to repeat, and
//! the caller decides when. The store thread waits and repeats; the simulator lets virtual time
//! pass, kills the process in between, or both.

mod launching;
mod mail;
mod trees;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::{error, warn};
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::nudge::Nudges;
use waypost_ports::store::{
    About, Append, ClaimRequest, Claims, Heartbeat, History, MailOf, Renewal, SUSPECT_FROM, Share,
    Store, StoreError, StoredFrame,
};

pub use self::trees::TreeCounts;
use super::{Damage, Plans, fold, ownership};
use crate::config::Config;
use crate::driver::{Answer, EndSummary, Input, Loaded, StoreWork};
use crate::panic_text;
use crate::tokens::TokenIssuer;

/// The result of one try.
#[derive(Debug, Default)]
pub struct Performed {
    pub inputs: Vec<Input>,
    /// Work that the store did not do, and that must be repeated.
    pub again: Vec<(StoreWork, StoreError)>,
}

impl Performed {
    fn with(inputs: Vec<Input>) -> Self {
        Self { inputs, again: Vec::new() }
    }

    fn not(work: StoreWork, error: StoreError) -> Self {
        Self { inputs: Vec::new(), again: vec![(work, error)] }
    }

    fn add(&mut self, other: Self) {
        self.inputs.extend(other.inputs);
        self.again.extend(other.again);
    }
}

/// See the module.
pub struct StoreCalls {
    pub store: Arc<dyn Store>,
    pub plans: Arc<Plans>,
    pub config: Config,
    pub instance: InstanceId,
    pub about: About,
    pub running: Arc<AtomicU32>,
    pub issuer: TokenIssuer,
    /// How the owners of executions with new mail are nudged.
    pub nudges: Arc<dyn Nudges>,
    pub trees: Arc<TreeCounts>,
}

impl StoreCalls {
    /// Appends frames together, and answers for all of them.
    pub fn append(&self, batch: &[Append]) -> Result<Input, StoreError> {
        let answers = self.store.append(batch)?;
        let ids = batch.iter().map(|append| append.header.execution);
        Ok(Input::Appended(ids.zip(answers).collect()))
    }

    /// Announces or renews this instance's life.
    pub fn heartbeat(&self, numbers: u32, leaving: bool) -> Result<Renewal, StoreError> {
        let (instance, fold) = (self.instance, self.config.fold);
        let about = About { running: self.running.load(Ordering::Relaxed), ..self.about.clone() };
        let lease = (!leaving).then_some(self.config.lease);
        self.store.heartbeat(&Heartbeat { instance, numbers, fold, lease, about })
    }

    /// Tries several pieces of work, those for inboxes together.
    pub fn perform_all(&self, work: Vec<StoreWork>) -> Performed {
        let (mut performed, mut requests) = (Performed::default(), Vec::new());
        for work in work {
            match work {
                StoreWork::Deliver(outgoing) => requests.push(outgoing),
                other => performed.add(self.perform(other)),
            }
        }
        if !requests.is_empty() {
            performed.add(self.deliver(requests));
        }
        performed
    }

    /// Tries one piece of work.
    pub fn perform(&self, work: StoreWork) -> Performed {
        match work {
            StoreWork::Append(append) => match self.append(std::slice::from_ref(&append)) {
                Ok(input) => Performed::with(vec![input]),
                Err(error) => Performed::not(StoreWork::Append(append), error),
            },
            StoreWork::Claim { share, limit, only, held, suspects } => {
                let (instance, fold, ahead) =
                    (self.instance, self.config.fold, self.config.claim_ahead);
                self.claim(&ClaimRequest {
                    instance,
                    fold,
                    limit,
                    share,
                    only,
                    held,
                    suspects,
                    ahead,
                })
            }
            StoreWork::Collect { share, known } => self.collect(share, known),
            StoreWork::Deliver(outgoing) => self.deliver(vec![outgoing]),
            StoreWork::Hold { execution, reason } => self.hold(execution, reason),
            StoreWork::Doubt(executions) => match self.store.doubt(self.instance, &executions) {
                Ok(owned) => Performed::with(vec![Input::Doubted { executions, owned }]),
                Err(error) => Performed::not(StoreWork::Doubt(executions), error),
            },
            StoreWork::Reload(execution) => self.reload(execution),
            StoreWork::FindEnd(execution) => match self.find_end(execution) {
                Ok(Some(answer)) => Performed::with(vec![Input::EndFound { execution, answer }]),
                Ok(None) => Performed::default(),
                Err(error) => Performed::not(StoreWork::FindEnd(execution), error),
            },
            StoreWork::LoadEnded(request, ticket) => self.load_ended(request, ticket),
            StoreWork::Launch(order) => self.launch(order),
            StoreWork::ReserveNumbers => {
                match self.heartbeat(self.config.numbers_wanted(), false) {
                    Ok(renewal) => Performed::with(vec![Input::Numbers(renewal.numbers)]),
                    Err(error) => Performed::not(StoreWork::ReserveNumbers, error),
                }
            }
        }
    }

    /// Claims, and folds the claimed executions. A failed claim is not repeated here: the driver
    /// claims again by itself, and has its current free capacity then.
    fn claim(&self, request: &ClaimRequest) -> Performed {
        let mut claims = self.store.claim(request);
        if claims.as_ref().is_ok_and(|claims| claims.lapsed) {
            // A machine that slept, or a store that forgot the last heartbeats.
            claims = self.heartbeat(0, false).and_then(|_| self.store.claim(request));
        }
        let answered = claims.is_ok();
        let claims = claims.unwrap_or_else(|error| {
            warn!(%error, "executions cannot be claimed");
            Claims::default()
        });
        let mut loaded = Vec::with_capacity(claims.claimed.len());
        let (mut inputs, mut again) = (Vec::new(), Vec::new());
        for history in claims.claimed {
            let performed = self.load(history);
            again.extend(performed.again);
            for input in performed.inputs {
                match input {
                    Input::Reloaded(one) => loaded.push(*one),
                    other => inputs.push(other),
                }
            }
        }
        ownership::log_taken_over(self.instance, &loaded);
        let Claims { copied, more, next_due, at, .. } = claims;
        let share = request.share;
        inputs.push(Input::Claimed { share, loaded, copied, more, next_due, at, answered });
        Performed { inputs, again }
    }

    fn collect(&self, share: Share, known: usize) -> Performed {
        let mut inputs = Vec::new();
        let limit = self.config.claim_batch.saturating_add(known);
        let mail = self.store.collect(MailOf::Owner(self.instance, share), limit);
        let whole = mail.as_ref().is_ok_and(|mail| mail.len() < limit);
        match mail {
            Ok(mail) if mail.is_empty() => {}
            Ok(mail) => inputs.push(Input::Mail(mail)),
            Err(error) => warn!(%error, "the inbox cannot be read"),
        }
        inputs.push(Input::Collected { share, whole });
        Performed::with(inputs)
    }

    /// Folds an execution that is owned here. No other instance takes it: if the store does not
    /// answer it is read again, and one that cannot be driven is quarantined.
    fn load(&self, history: History) -> Performed {
        let execution = history.execution;
        let needed = history.last_header().map_or(0, |last| last.requires);
        if needed > self.config.fold {
            // A claim never returns such a one; but an owner may find that a newer version has
            // written meanwhile.
            let known = self.config.fold;
            let reason = format!("it needs a newer version: fold {needed}, this one reads {known}");
            return self.hold(execution, reason);
        }
        let crashes = history.control.as_ref().map_or(0, |control| control.crashes);
        if crashes >= SUSPECT_FROM.saturating_add(self.config.crashes_max) {
            return self.hold(execution, killed_its_owners(crashes));
        }
        let loaded = fold_guarded(history, &self.plans, &*self.store);
        match loaded.and_then(|loaded| Ok(self.with_all_mail(loaded)?)) {
            Ok(loaded) => Performed::with(vec![Input::Reloaded(Box::new(loaded))]),
            Err(Damage::Store(StoreError::Corrupt(reason))) => self.hold(execution, reason),
            Err(Damage::Store(error)) => Performed::not(StoreWork::Reload(execution), error),
            Err(damage) => self.hold(execution, damage.to_string()),
        }
    }

    /// Reads the rest of the mail of a held execution: its signals are decided before everything
    /// else, so all of them must be there. The server bounds their size
    /// ([`EARLY_SIGNALS_BYTES_MAX`](waypost_core::limits::EARLY_SIGNALS_BYTES_MAX)).
    fn with_all_mail(&self, mut loaded: Loaded) -> Result<Loaded, StoreError> {
        if loaded.mail_waits && loaded.is_held() {
            let of = MailOf::Execution(loaded.state.execution);
            loaded.mail = self.store.collect(of, usize::MAX)?;
            loaded.mail_waits = false;
        }
        Ok(loaded)
    }

    fn reload(&self, execution: ExecutionNo) -> Performed {
        match self.store.load(execution) {
            // A retry would not fix it, and all other executions would wait.
            Err(StoreError::Corrupt(reason)) => self.hold(execution, reason),
            Err(error) => Performed::not(StoreWork::Reload(execution), error),
            Ok(history) => {
                let ours = |history: &History| {
                    let control = history.control.as_ref();
                    control.and_then(|control| control.owner) == Some(self.instance)
                };
                history.filter(ours).map(|history| self.load(history)).unwrap_or_default()
            }
        }
    }

    fn hold(&self, execution: ExecutionNo, reason: String) -> Performed {
        error!(%execution, reason, "execution quarantined");
        match self.store.hold(execution, self.instance, &reason) {
            Ok(()) => Performed::with(vec![Input::Held]),
            Err(error) => Performed::not(StoreWork::Hold { execution, reason }, error),
        }
    }

    /// How an execution ended, or that there is none; `None` while it lives.
    fn find_end(&self, execution: ExecutionNo) -> Result<Option<Answer>, StoreError> {
        let Some(history) = self.store.load(execution)? else {
            return Ok(Some(Answer::Unknown));
        };
        if history.control.is_some() {
            return Ok(None);
        }
        let end = self.end_of(&history)?;
        if end.is_none() {
            warn!(%execution, "the end of an execution cannot be read");
        }
        Ok(Some(end.map_or(Answer::Unknown, Answer::Ended)))
    }

    /// How an execution ended, from its last event. Nothing is folded, which would need a definition
    /// that may be gone.
    fn end_of(&self, history: &History) -> Result<Option<EndSummary>, StoreError> {
        let Some(last) = &history.last else { return Ok(history.frames.last().and_then(end_in)) };
        let page = self.store.load_after(history.execution, last.first_seq.saturating_sub(1))?;
        Ok(page.first().and_then(end_in))
    }
}

/// Why an execution that was in hand at every death is quarantined.
fn killed_its_owners(crashes: u32) -> String {
    let alone = crashes - SUSPECT_FROM;
    format!(
        "{crashes} processes died with this execution in hand, the last {alone} of them while they \
         loaded or decided no other suspect (setting crashes_max); find out why, then resume it, or \
         cancel it"
    )
}

/// How an execution ended, if this frame ends it.
fn end_in(last: &StoredFrame) -> Option<EndSummary> {
    let last = last.body.as_ref().ok()?;
    let Event::Run(event) = decode(last).ok()?.pop()? else { return None };
    let status = event.row().end()?;
    let (output, failure) = match event {
        RunEvent::Completed { output } => (Some(output), None),
        RunEvent::Failed { failure, output, .. } => (output, Some(failure)),
        _ => (None, None),
    };
    Some(EndSummary { status, output, failure })
}

/// [`fold`], with a log that makes it panic counted as damaged: one execution must not end the
/// engine.
fn fold_guarded(history: History, plans: &Plans, store: &dyn Store) -> Result<Loaded, Damage> {
    catch_unwind(AssertUnwindSafe(|| fold(history, plans, store))).unwrap_or_else(|panic| {
        Err(Damage::Log(format!("reading it panicked: {}", panic_text(&*panic))))
    })
}
