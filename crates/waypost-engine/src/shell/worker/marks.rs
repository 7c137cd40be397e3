//! The marks and signs of life of one attempt, between its handler and the log.
//!
//! ```text
//!   handler ─▶ record ─▶ the newest mark not sent ─▶ scrubbed ─▶ reporter: one at a time, until it
//!           └▶ beat ───▶ the heartbeat's timer                   is committed or refused
//! ```
//!
//! Marks that come faster than commits replace each other here, so an attempt never has more than one
//! mark waiting and one on its way.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use waypost_core::command::{Mark, Outcome};
use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::time::Millis;
use waypost_ports::handler::MarkSink;

use super::Scrubber;

/// Reports the marks of one attempt.
pub trait MarkReporter: Send + Sync {
    /// Returns when the mark is committed or refused; the next one is sent then.
    fn report_mark(&self, mark: Mark) -> BoxFuture<'_, ()>;
}

#[derive(Default)]
pub(super) struct AttemptMarks {
    recorded: Mutex<Recorded>,
    changed: Notify,
    alive: Notify,
}

#[derive(Default)]
struct Recorded {
    /// How many marks the attempt recorded.
    count: u32,
    unsent: Option<Mark>,
    /// Has the attempt ended, so that no mark follows?
    is_over: bool,
}

impl MarkSink for AttemptMarks {
    fn record(&self, data: Json) {
        let mut recorded = self.recorded.lock();
        recorded.count = recorded.count.saturating_add(1);
        recorded.unsent = Some(Mark { data, number: recorded.count });
        drop(recorded);
        self.changed.notify_one();
        self.beat();
    }

    fn beat(&self) {
        self.alive.notify_one();
    }
}

impl AttemptMarks {
    /// Sends the marks until [`end`](Self::end) was called and the last one is sent.
    pub(super) async fn send(&self, scrubber: &Scrubber, to: &dyn MarkReporter) {
        loop {
            let (mark, is_over) = {
                let mut recorded = self.recorded.lock();
                (recorded.unsent.take(), recorded.is_over)
            };
            match mark {
                Some(mark) => match scrubber.outcome(Outcome::Checkpoint(mark)) {
                    Outcome::Checkpoint(mark) if mark.data.bytes() <= PAYLOAD_BYTES_MAX => {
                        to.report_mark(mark).await;
                    }
                    _ => tracing::warn!("dropped a mark that is too large without its secrets"),
                },
                None if is_over => return,
                None => self.changed.notified().await,
            }
        }
    }

    /// The attempt has ended.
    pub(super) fn end(&self) {
        self.recorded.lock().is_over = true;
        self.changed.notify_one();
    }

    /// Returns when the attempt has given no sign of life for so long.
    pub(super) async fn fall_silent(&self, heartbeat: Option<Millis>) {
        let Some(heartbeat) = heartbeat else { return std::future::pending().await };
        // Cancel-safe, and a sign of life wins over the timer.
        while tokio::time::timeout(heartbeat.to_std(), self.alive.notified()).await.is_ok() {}
    }
}
