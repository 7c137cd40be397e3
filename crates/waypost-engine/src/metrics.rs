//! Metrics: one line each in the table below. The driver's counts come from `driver/measures.rs`.
//!
//! ```text
//!   driver ── Measures of a step ──▶ EngineMetrics ◀── how long an append took ── store thread
//!                                         │
//!                                      render ──▶ a page in the text format of Prometheus
//! ```
//!
//! The server declares its own metrics with the same macro and the same instruments.

mod instruments;
mod table;
mod text;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use waypost_core::slot::SlotCounts;
use waypost_core::status::Status;
use waypost_ports::triggers::FireOutcome;

use crate::dispatcher::DELIVERY_RESULTS;
use crate::driver::{AttemptEnd, Driver, Measures, Queue};

pub use instruments::{
    Counter, CounterFamily, Gauge, Histogram, POWERS_OF_TWO, SECONDS, SecondsGauge,
};
pub use text::{Decimal, Metric, Sample, write_metric};

/// The outcomes of a report that is forwarded to the owner of its execution.
const RELAYED: [&str; 3] = ["committed", "refused", "unanswered"];

crate::metrics! {
    /// The metrics of one engine.
    pub struct EngineMetrics {
        queue_depth: Gauge, "Nodes that wait for a slot or a remote worker.";
        queue_oldest_age_seconds: SecondsGauge, "Age of the oldest queued node.";
        nodes_queued_too_long: Gauge, "Nodes that have waited for a slot or a worker for longer than the setting queued_too_long.";
        schedule_to_start_seconds: Histogram(SECONDS), "Time from when an attempt may start until it is handed to a worker, including the commit in between.";
        decide_seconds: Histogram(SECONDS), "Time for which one execution occupied the decision thread: to decide commands, or to act on a commit.";
        decide_seconds_max: SecondsGauge, "The longest of these times since the instance started.";
        append_seconds: Histogram(SECONDS), "Duration of a store commit.";
        append_frames: Histogram(POWERS_OF_TWO), "Frames per transaction.";
        timer_lateness_seconds: Histogram(SECONDS), "Time between the due time of a wait, retry or deadline and the decision on it, including time in which no engine ran.";
        takeovers_total: Counter, "Executions taken over from a dead owner.";
        report_to_commit_seconds: Histogram(SECONDS), "Time from a worker's report to the commit of its consequences.";
        executions_started_total: Counter, "Executions accepted by this instance.";
        executions_ended_total: CounterFamily("status", &Status::ENDS.map(Status::name)), "Executions that ended on this instance, by status.";
        executions_active: Gauge, "Executions in memory; parked executions are not.";
        executions_quarantined_total: Counter, "Executions quarantined.";
        commits_fenced_total: Counter, "Frames rejected because another instance owns the execution.";
        claims_total: Counter, "Executions claimed by this instance.";
        contexts_used_total: Counter, "Claimed executions that were loaded from their copy in Redis, without reading the log.";
        ownership_lost_total: Counter, "Executions dropped because another instance owns them.";
        executions_scheduled_too_long: Gauge, "Executions in memory with a node that has waited too long to start.";
        attempts_ended_total: CounterFamily("outcome", &AttemptEnd::NAMES), "Attempts that ended on this instance, including nodes that the engine evaluates itself, by outcome; handed_over: interrupted by an orderly stop.";
        breaker_waits_total: Counter, "Attempts that this instance did not make because of a circuit breaker; an attempt that asks several times is counted as often.";
        breaker_probes_total: Counter, "Attempts of this instance that were the probe of a circuit breaker.";
        breaker_reports_lost_total: Counter, "Ends of calls that were not reported to their circuit breaker because the store failed.";
        tokens_used_total: CounterFamily("direction", &["input", "output"]), "Tokens that attempts of executions on this instance reported as used, by direction: of requests and of replies. What the reply of an attempt that was lost would have said is not counted.";
        tokens_cost_millionths_total: Counter, "Cost of these tokens, in millionths of the unit of the prices, as far as definitions have prices.";
        budget_reservations_refused_total: Counter, "Attempts that were not made because the budget of their execution has no room for them; each failed its node or paused its execution.";
        budget_pauses_total: Counter, "Executions paused because their budget was exhausted; each waits until a person raises the budget and resumes it.";
        slots_busy: Gauge, "Slots in use, without those of attempts that only await I/O.";
        slots: Gauge, "Slots for concurrent attempts: the setting slots.";
        io_slots_busy: Gauge, "Slots in use by attempts that only await I/O.";
        io_slots: Gauge, "Slots for concurrent attempts that only await I/O: the setting io_slots.";
        attempts_remote: Gauge, "Attempts that remote workers are running for executions in memory.";
        tasks_repeated_total: Counter, "Tasks published again because no remote worker had started them.";
        tasks_broken_total: Counter, "Tasks dropped because their seal did not verify.";
        reports_refused_total: Counter, "Reports of remote workers that came too late, or with a token of another attempt.";
        reports_relayed_total: CounterFamily("outcome", &RELAYED), "Reports of remote workers forwarded to the owner through Redis, by outcome; all but the committed ones went through the inbox.";
        deliveries_total: CounterFamily("result", &DELIVERY_RESULTS), "Attempts of this instance to deliver a message to a webhook endpoint, by result; gone: the endpoint answered 410 and was disabled.";
        trigger_fires_total: CounterFamily("outcome", &FireOutcome::ALL.map(FireOutcome::name)), "Items of triggers that this instance dealt with, by outcome; dead: kept as a dead letter.";
        trigger_lag_seconds: Histogram(SECONDS), "Time from when a schedule was due, its jitter included, until its execution was durable, including time in which no server ran.";
        trigger_reads_failed_total: Counter, "Reads of the sources of polls and streams that failed on this instance.";
        trigger_entries_behind: Gauge, "Entries of Redis streams that the triggers which this instance reads have not fired yet.";
        trigger_entries_removed_total: Counter, "Entries of Redis streams that were removed before a trigger on this instance had read them.";
        blob_bytes_put_total: Counter, "Bytes of blobs put on this instance, before compression.";
        blobs_swept_total: Counter, "Blobs deleted by this instance because no execution names them.";
        blob_bytes_swept_total: Counter, "Bytes of those blobs, as they were stored.";
    }
}

/// What one driver adds to the gauges of its engine.
#[derive(Default)]
pub(crate) struct DriverGauges {
    live: u64,
    work: u64,
    io: u64,
    remote: u64,
    attempts: u32,
}

impl DriverGauges {
    /// Adds the attempts that run for this driver to those of all.
    pub(crate) fn attempts(&mut self, running: u32, all: &AtomicU32) {
        if running != self.attempts {
            all.fetch_add(running.wrapping_sub(self.attempts), Ordering::Relaxed);
            self.attempts = running;
        }
    }
}

impl EngineMetrics {
    /// Takes in what a step of the driver measured.
    pub(crate) fn publish(&self, driver: &Driver, shown: &mut DriverGauges) {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        self.executions_active.change(&mut shown.live, count(driver.live()));
        let SlotCounts { work, io } = driver.slots_busy();
        self.slots_busy.change(&mut shown.work, work.into());
        self.io_slots_busy.change(&mut shown.io, io.into());
        self.attempts_remote.change(&mut shown.remote, count(driver.running_remote()));
        let measures = driver.measures();
        if !measures.is_empty() {
            self.take_in(measures);
        }
    }

    fn take_in(&self, measures: &Measures) {
        self.executions_started_total.add(measures.started);
        self.takeovers_total.add(measures.takeovers);
        self.executions_quarantined_total.add(measures.quarantined);
        self.commits_fenced_total.add(measures.fenced);
        self.claims_total.add(measures.claimed);
        self.contexts_used_total.add(measures.copied);
        self.ownership_lost_total.add(u64::try_from(measures.lost.len()).unwrap_or(u64::MAX));
        self.tasks_repeated_total.add(measures.offers_repeated);
        self.reports_refused_total.add(measures.reports_refused);
        for (direction, count) in ["input", "output"].into_iter().zip(measures.tokens) {
            if count > 0 {
                self.tokens_used_total.add(direction, count);
            }
        }
        self.tokens_cost_millionths_total.add(measures.cost);
        self.budget_reservations_refused_total.add(measures.reservations_refused);
        self.budget_pauses_total.add(measures.budget_pauses);
        for status in &measures.ended {
            self.executions_ended_total.add(status.name(), 1);
        }
        for (end, count) in AttemptEnd::NAMES.into_iter().zip(measures.attempts) {
            if count > 0 {
                self.attempts_ended_total.add(end, count);
            }
        }
        for span in &measures.decided {
            self.decide_seconds.observe(*span);
            self.decide_seconds_max.raise(*span);
        }
        for (spans, histogram) in [
            (&measures.schedule_to_start, &self.schedule_to_start_seconds),
            (&measures.timer_lateness, &self.timer_lateness_seconds),
            (&measures.report_to_commit, &self.report_to_commit_seconds),
        ] {
            spans.iter().for_each(|span| histogram.observe(span.to_std()));
        }
    }

    pub(crate) fn look_at(&self, queue: &Queue) {
        self.queue_depth.set(queue.depth);
        self.queue_oldest_age_seconds.set(queue.oldest.to_std());
        self.nodes_queued_too_long.set(queue.too_long);
        self.executions_scheduled_too_long.set(queue.scheduled_too_long);
    }

    pub(crate) fn appended(&self, frames: usize, took: Duration) {
        self.append_seconds.observe(took);
        self.append_frames.observe_number(u64::try_from(frames).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests;
