//! Metrics: what an engine tells of itself while it runs.
//!
//! ```text
//!   driver ── Measures of a step ──▶ EngineMetrics ◀── how long an append took ── store thread
//!                                         │
//!                                      render ──▶ a page in the text format of Prometheus
//! ```
//!
//! The instruments are for other crates as well: whoever serves the page has things to count, too.

mod instruments;
mod text;

use std::time::Duration;

use waypost_core::status::Status;

use crate::driver::{AttemptEnd, Driver, Measures, Queue};

pub use instruments::{
    Counter, CounterFamily, Gauge, Histogram, POWERS_OF_TWO, SECONDS, SecondsGauge,
};
pub use text::{Decimal, Metric, Sample, write_metric};

/// The statuses that an execution ends with.
const ENDS: [Status; 4] = [Status::Completed, Status::Failed, Status::Cancelled, Status::TimedOut];

/// What becomes of a report that is sent straight to whoever owns its execution.
const RELAYED: [&str; 3] = ["committed", "refused", "unanswered"];

/// The metrics of one engine. Fields are named as on the page, without `waypost_` and `_total`.
#[derive(Debug)]
#[expect(missing_docs, reason = "the page says what each is, in one place")]
pub struct EngineMetrics {
    pub queue_depth: Gauge,
    pub queue_oldest_age_seconds: SecondsGauge,
    pub nodes_queued_too_long: Gauge,
    pub schedule_to_start_seconds: Histogram,
    pub append_seconds: Histogram,
    pub append_frames: Histogram,
    pub timer_lateness_seconds: Histogram,
    pub takeovers: Counter,
    pub report_to_commit_seconds: Histogram,
    pub executions_started: Counter,
    pub executions_ended: CounterFamily,
    pub executions_active: Gauge,
    pub attempts_ended: CounterFamily,
    pub executions_quarantined: Counter,
    pub commits_fenced: Counter,
    pub claims: Counter,
    /// Those of them whose logs were not read, since a copy was at hand.
    pub contexts_used: Counter,
    pub ownership_lost: Counter,
    pub executions_scheduled_too_long: Gauge,
    pub attempts_remote: Gauge,
    pub offers_repeated: Counter,
    pub offers_broken: Counter,
    pub reports_refused: Counter,
    pub reports_relayed: CounterFamily,
    pub slots_busy: Gauge,
    pub slots: Gauge,
}

impl EngineMetrics {
    /// Everything at 0.
    pub(crate) fn new(slots: u32) -> Self {
        let metrics = Self {
            queue_depth: Gauge::default(),
            queue_oldest_age_seconds: SecondsGauge::default(),
            nodes_queued_too_long: Gauge::default(),
            schedule_to_start_seconds: Histogram::new(SECONDS),
            append_seconds: Histogram::new(SECONDS),
            append_frames: Histogram::new(POWERS_OF_TWO),
            timer_lateness_seconds: Histogram::new(SECONDS),
            takeovers: Counter::default(),
            report_to_commit_seconds: Histogram::new(SECONDS),
            executions_started: Counter::default(),
            executions_ended: CounterFamily::new("status", &ENDS.map(Status::name)),
            executions_active: Gauge::default(),
            attempts_ended: CounterFamily::new("outcome", &AttemptEnd::ALL.map(AttemptEnd::name)),
            executions_quarantined: Counter::default(),
            commits_fenced: Counter::default(),
            claims: Counter::default(),
            contexts_used: Counter::default(),
            ownership_lost: Counter::default(),
            executions_scheduled_too_long: Gauge::default(),
            attempts_remote: Gauge::default(),
            offers_repeated: Counter::default(),
            offers_broken: Counter::default(),
            reports_refused: Counter::default(),
            reports_relayed: CounterFamily::new("outcome", &RELAYED),
            slots_busy: Gauge::default(),
            slots: Gauge::default(),
        };
        metrics.slots.set(slots.into());
        metrics
    }

    /// Writes the page.
    pub fn render(&self, out: &mut String) {
        let page: [(&str, &str, &dyn Metric); 12] = [
            (
                "waypost_queue_depth",
                "Nodes that wait for a slot or a remote worker.",
                &self.queue_depth,
            ),
            (
                "waypost_queue_oldest_age_seconds",
                "Age of the oldest queued node.",
                &self.queue_oldest_age_seconds,
            ),
            (
                "waypost_nodes_queued_too_long",
                "Nodes that have waited too long for a slot or a worker.",
                &self.nodes_queued_too_long,
            ),
            (
                "waypost_schedule_to_start_seconds",
                "Time from when an attempt may start to when it is handed to a worker.",
                &self.schedule_to_start_seconds,
            ),
            ("waypost_append_seconds", "Duration of a store commit.", &self.append_seconds),
            ("waypost_append_frames", "Frames of one transaction.", &self.append_frames),
            (
                "waypost_timer_lateness_seconds",
                "Delay between the due time of a wait, retry or deadline and the decision on it.",
                &self.timer_lateness_seconds,
            ),
            (
                "waypost_takeovers_total",
                "Executions taken over from a dead owner.",
                &self.takeovers,
            ),
            (
                "waypost_report_to_commit_seconds",
                "Time from a worker's report to the commit of its consequences.",
                &self.report_to_commit_seconds,
            ),
            (
                "waypost_executions_started_total",
                "Executions that were accepted here.",
                &self.executions_started,
            ),
            (
                "waypost_executions_ended_total",
                "Executions that ended here, by status.",
                &self.executions_ended,
            ),
            ("waypost_executions_active", "Executions in memory.", &self.executions_active),
        ];
        for (name, help, metric) in page.into_iter().chain(self.ownership()).chain(self.attempts())
        {
            write_metric(name, help, metric, out);
        }
    }

    /// The part of the page about who owns what.
    fn ownership(&self) -> [(&str, &str, &dyn Metric); 6] {
        [
            (
                "waypost_executions_quarantined_total",
                "Executions quarantined.",
                &self.executions_quarantined,
            ),
            (
                "waypost_commits_fenced_total",
                "Frames rejected because another instance owns the execution.",
                &self.commits_fenced,
            ),
            ("waypost_claims_total", "Executions that this instance has claimed.", &self.claims),
            (
                "waypost_contexts_used_total",
                "Claimed executions that were loaded from a copy instead of their log.",
                &self.contexts_used,
            ),
            (
                "waypost_ownership_lost_total",
                "Executions dropped because another instance owns them.",
                &self.ownership_lost,
            ),
            (
                "waypost_executions_scheduled_too_long",
                "Executions in memory with a node that has waited too long to start.",
                &self.executions_scheduled_too_long,
            ),
        ]
    }

    /// The part of the page about attempts, and where they are made.
    fn attempts(&self) -> [(&str, &str, &dyn Metric); 8] {
        [
            (
                "waypost_attempts_ended_total",
                "Attempts that ended here, by outcome.",
                &self.attempts_ended,
            ),
            ("waypost_slots_busy", "Slots in which an attempt runs.", &self.slots_busy),
            ("waypost_slots", "Slots for attempts that run at once.", &self.slots),
            (
                "waypost_attempts_remote",
                "Attempts that remote workers are running for executions in memory.",
                &self.attempts_remote,
            ),
            (
                "waypost_tasks_repeated_total",
                "Offers to remote workers repeated because no worker had started them.",
                &self.offers_repeated,
            ),
            (
                "waypost_tasks_broken_total",
                "Offers dropped because their seal did not verify.",
                &self.offers_broken,
            ),
            (
                "waypost_reports_refused_total",
                "Reports of remote workers rejected as stale or foreign.",
                &self.reports_refused,
            ),
            (
                "waypost_reports_relayed_total",
                "Reports sent straight to the owner of their execution, by what it answered.",
                &self.reports_relayed,
            ),
        ]
    }

    /// Takes in what a step of the driver measured.
    pub(crate) fn publish(&self, driver: &Driver) {
        self.executions_active.set(u64::try_from(driver.live()).unwrap_or(u64::MAX));
        self.slots_busy.set(driver.slots_busy().into());
        let remote = u64::try_from(driver.running_remote()).unwrap_or(u64::MAX);
        self.attempts_remote.set(remote);
        let measures = driver.measures();
        if !measures.is_empty() {
            self.take_in(measures);
        }
    }

    fn take_in(&self, measures: &Measures) {
        self.executions_started.add(measures.started);
        self.takeovers.add(measures.takeovers);
        self.executions_quarantined.add(measures.quarantined);
        self.commits_fenced.add(measures.fenced);
        self.claims.add(measures.claimed);
        self.contexts_used.add(measures.copied);
        self.ownership_lost.add(u64::try_from(measures.lost.len()).unwrap_or(u64::MAX));
        self.offers_repeated.add(measures.offers_repeated);
        self.reports_refused.add(measures.reports_refused);
        for status in &measures.ended {
            self.executions_ended.add(status.name(), 1);
        }
        for (end, count) in AttemptEnd::ALL.into_iter().zip(measures.attempts) {
            if count > 0 {
                self.attempts_ended.add(end.name(), count);
            }
        }
        for (spans, histogram) in [
            (&measures.schedule_to_start, &self.schedule_to_start_seconds),
            (&measures.timer_lateness, &self.timer_lateness_seconds),
            (&measures.report_to_commit, &self.report_to_commit_seconds),
        ] {
            spans.iter().for_each(|span| histogram.observe(span.to_std()));
        }
    }

    /// Takes in how the queue stands.
    pub(crate) fn look_at(&self, queue: &Queue) {
        self.queue_depth.set(queue.depth);
        self.queue_oldest_age_seconds.set(queue.oldest.to_std());
        self.nodes_queued_too_long.set(queue.too_long);
        self.executions_scheduled_too_long.set(queue.scheduled_too_long);
    }

    /// A transaction of so many frames was committed in this time.
    pub(crate) fn appended(&self, frames: usize, took: Duration) {
        self.append_seconds.observe(took);
        self.append_frames.observe_number(u64::try_from(frames).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests;
