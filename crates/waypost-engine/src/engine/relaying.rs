//! The fast path for reports: straight to the instance that the mirror shows as owner, past the inbox.
//!
//! ```text
//!   here: Relaying ── who is shown? ──▶ mirror
//!            └────── send, wait ──────▶ relay ──▶ there: on_mail ──▶ driver ── COMMIT ──▶ answer
//! ```
//!
//! Any step may fail; the report then goes to the inbox. This path never decides: only an instance that
//! reads the log can refuse a report for good.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tracing::debug;
use waypost_ports::mirror::Mirror;
use waypost_ports::relay::{OnMail, Relay, Relayed};

use crate::driver::{Answer, Input, TaskReport};
use crate::shell::Shared;

/// Reports that may be forwarded at once. Each has a waiting thread; a report that finds no place
/// goes through the inbox, which is always available.
const ON_THEIR_WAY_MAX: usize = 128;

/// The sender's side.
pub(super) struct Relaying {
    shared: Arc<Shared>,
    relay: Arc<dyn Relay>,
    mirror: Arc<dyn Mirror>,
    places: Arc<Semaphore>,
}

impl Relaying {
    pub(super) fn new(shared: Arc<Shared>, relay: Arc<dyn Relay>, mirror: Arc<dyn Mirror>) -> Self {
        let places = Arc::new(Semaphore::new(ON_THEIR_WAY_MAX));
        Self { shared, relay, mirror, places }
    }

    /// Sends a report to the owner that the mirror names. Returns whether it is committed there; if
    /// not, it may still be, and goes through the inbox.
    pub(super) async fn send(self: &Arc<Self>, report: TaskReport) -> bool {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return false };
        let relaying = Arc::clone(self);
        let sent = tokio::task::spawn_blocking(move || {
            // Held by the thread: the caller may be gone while the thread still waits.
            let _place = place;
            relaying.send_now(report)
        });
        sent.await.unwrap_or(false)
    }

    fn send_now(&self, report: TaskReport) -> bool {
        let execution = report.execution;
        let owner = report.key.as_ref().and_then(|key| self.mirror.owner(key));
        let Some(owner) = owner.filter(|owner| *owner != self.shared.instance) else {
            return false;
        };
        let relayed = self.relay.send(owner, report.mail()).unwrap_or_else(|error| {
            debug!(%error, "a report cannot be relayed");
            Relayed::Unknown
        });
        let outcome = match &relayed {
            Relayed::Committed => "committed",
            Relayed::Refused(reason) => {
                debug!(%execution, %owner, reason, "a relayed report was refused");
                "refused"
            }
            Relayed::Unknown => "unanswered",
        };
        self.shared.metrics.reports_relayed_total.add(outcome, 1);
        relayed == Relayed::Committed
    }
}

/// The receiver's side: passes mail to the driver, and answers when it is committed; or at once, if
/// it will not be here.
pub(super) fn on_mail(shared: Arc<Shared>) -> OnMail {
    Arc::new(move |mail, answer| {
        let Some(report) = TaskReport::from_mail(mail) else {
            return answer.refused("it is not a worker's report");
        };
        // None left, or this engine stops.
        let Ok(permit) = Arc::clone(&shared.requests).try_acquire_owned() else {
            return answer.refused("nothing more is taken here");
        };
        let ticket = shared.questions.ask_then(permit, move |outcome| match outcome {
            Answer::Done { .. } => answer.committed(),
            Answer::Refused(refusal) => answer.refused(refusal.to_string()),
            Answer::NotHere | Answer::Moved => answer.refused("it is not in memory here"),
            Answer::Draining => answer.refused("this engine stops"),
            // The sender reads the log, which has the details; an output must not be part of a
            // refusal.
            _ => answer.refused("it is not taken here"),
        });
        if let Some(ticket) = ticket {
            shared.inputs.push(Input::TaskReport { report, ticket, only_here: true });
        }
    })
}
