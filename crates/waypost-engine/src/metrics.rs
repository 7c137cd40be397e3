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
            slots_busy: Gauge::default(),
            slots: Gauge::default(),
        };
        metrics.slots.set(slots.into());
        metrics
    }

    /// Writes the page.
    pub fn render(&self, out: &mut String) {
        let page: [(&str, &str, &dyn Metric); 17] = [
            ("waypost_queue_depth", "Nodes that wait for a slot.", &self.queue_depth),
            (
                "waypost_queue_oldest_age_seconds",
                "How long the node has waited that has waited longest for a slot.",
                &self.queue_oldest_age_seconds,
            ),
            (
                "waypost_nodes_queued_too_long",
                "Nodes that have waited for a slot for longer than they should.",
                &self.nodes_queued_too_long,
            ),
            (
                "waypost_schedule_to_start_seconds",
                "From the moment that an attempt may be made until it is handed to a worker.",
                &self.schedule_to_start_seconds,
            ),
            (
                "waypost_append_seconds",
                "How long the store takes to commit one transaction of frames.",
                &self.append_seconds,
            ),
            ("waypost_append_frames", "Frames of one transaction.", &self.append_frames),
            (
                "waypost_timer_lateness_seconds",
                "How long after its due time a wait, retry or deadline is acted upon.",
                &self.timer_lateness_seconds,
            ),
            (
                "waypost_takeovers_total",
                "Executions taken over from an owner that was gone.",
                &self.takeovers,
            ),
            (
                "waypost_report_to_commit_seconds",
                "From a worker's report until what follows from it is durable.",
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
            (
                "waypost_attempts_ended_total",
                "Attempts that ended here, by outcome.",
                &self.attempts_ended,
            ),
            (
                "waypost_executions_quarantined_total",
                "Executions that were set aside until a person looks.",
                &self.executions_quarantined,
            ),
            (
                "waypost_commits_fenced_total",
                "Frames that were refused because somebody else owns the execution.",
                &self.commits_fenced,
            ),
            ("waypost_slots_busy", "Slots in which an attempt runs.", &self.slots_busy),
            ("waypost_slots", "Slots for attempts that run at once.", &self.slots),
        ];
        for (name, help, metric) in page {
            write_metric(name, help, metric, out);
        }
    }

    /// Takes in what a step of the driver measured.
    pub(crate) fn publish(&self, driver: &Driver) {
        self.executions_active.set(u64::try_from(driver.live()).unwrap_or(u64::MAX));
        self.slots_busy.set(driver.slots_busy().into());
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
    }

    /// A transaction of so many frames was committed in this time.
    pub(crate) fn appended(&self, frames: usize, took: Duration) {
        self.append_seconds.observe(took);
        self.append_frames.observe_number(u64::try_from(frames).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests;
