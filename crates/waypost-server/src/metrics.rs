//! The server's metrics: its own counts, and the values that it reads from the store and the engine
//! when the page is requested.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use waypost_core::time::Millis;
use waypost_engine::metrics::{
    Counter, CounterFamily, Decimal, Histogram, Metric, SECONDS, Sample,
};

/// The classes of replies.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

waypost_engine::metrics! {
    /// What the server counts.
    pub struct HttpMetrics {
        http_requests_total: CounterFamily("class", &CLASSES), "Requests answered, by class of status.";
        http_request_seconds: Histogram(SECONDS), "Response times, without streams.";
        http_connections: Level, "Open connections.";
        http_connections_refused_total: Counter, "Connections refused because there were too many.";
        http_streams: Level, "Open streams.";
        http_streams_dropped_total: Counter, "Streams closed because the client did not read.";
    }
}

waypost_engine::metrics! {
    /// What is read when the page is requested; made for one page.
    pub struct Readings {
        http_reply_bytes: Reading, "Bytes of responses and streams in transit.";
        http_reply_bytes_peak: Reading, "Highest number of bytes in transit so far.";
        http_replies_waiting: Reading, "Responses and streams that wait for memory.";
        http_slow_connections_closed_total: Counter, "Connections closed because their clients read too slowly while others waited.";
        lease_seconds: Reading, "Lease duration of this instance.";
        lease_remaining_seconds: Reading, "Remaining lease time of this instance; normally above two thirds of the lease.";
        tasks_waiting: ByHandler, "Tasks that wait for remote workers, by handler; the same on every instance.";
        tasks_oldest_age_seconds: ByHandler, "Age of the oldest task that waits for a remote worker, by handler.";
        redis_up: Reading, "Whether Redis responds, 1 or 0; only if Redis is configured.";
        projection_lag_frames: Reading, "Commits that projections do not contain yet; absent while the store does not respond.";
        executions_due_unclaimed: Reading, "Executions that are due or have mail and are not claimed; the same on every instance; at most 100,000 of either kind are counted; absent while the store does not respond.";
        executions_due_oldest_lateness_seconds: Reading, "Lateness of the longest due execution that is not claimed; 0 if there is none.";
        outbox_depth: Reading, "Messages that wait for a webhook endpoint; the same on every instance; absent while the store does not respond.";
        outbox_oldest_seconds: Reading, "How long the oldest message of an active webhook endpoint has waited; 0 if there is none.";
        dead_letters: Reading, "Messages that were given up and are kept for a replay.";
        webhook_endpoints: ByState, "Webhook endpoints, by state; cooling: active, and left alone for a while after failures.";
        breakers_open: Reading, "Circuit breakers that are open or half-open; the same on every instance; at most 1,000 are counted; absent while the store does not respond.";
        audit_dropped_total: Counter, "Audit log entries that could not be written.";
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Level(AtomicI64);

impl Level {
    /// Up, or down.
    pub fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

impl Metric for Level {
    fn kind(&self) -> &'static str {
        "gauge"
    }

    fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
        let value = u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0);
        each(Sample::plain(Decimal::whole(value)));
    }
}

/// A value that was read for one page; none if its source did not respond.
#[derive(Debug, Default)]
pub struct Reading(Option<Decimal>);

impl Reading {
    /// Sets a number of things.
    pub fn set(&mut self, value: impl TryInto<u64>) {
        self.0 = Some(Decimal::whole(value.try_into().unwrap_or(u64::MAX)));
    }

    /// Sets a duration.
    pub fn set_seconds(&mut self, value: Millis) {
        self.0 = Some(seconds(value));
    }
}

impl Metric for Reading {
    fn kind(&self) -> &'static str {
        "gauge"
    }

    fn is_known(&self) -> bool {
        self.0.is_some()
    }

    fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
        self.0.into_iter().for_each(|value| each(Sample::plain(value)));
    }
}

/// A value for each handler.
#[derive(Debug, Default)]
pub struct ByHandler(Vec<(Arc<str>, Decimal)>);

impl ByHandler {
    /// Adds a number of things.
    pub fn add(&mut self, handler: &Arc<str>, value: u64) {
        self.0.push((Arc::clone(handler), Decimal::whole(value)));
    }

    /// Adds a duration.
    pub fn add_seconds(&mut self, handler: &Arc<str>, value: Millis) {
        self.0.push((Arc::clone(handler), seconds(value)));
    }
}

impl Metric for ByHandler {
    fn kind(&self) -> &'static str {
        "gauge"
    }

    fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
        for (handler, value) in &self.0 {
            each(Sample { suffix: "", label: Some(("handler", handler)), value: *value });
        }
    }
}

/// The states of webhook endpoints.
const ENDPOINT_STATES: [&str; 4] = ["active", "cooling", "paused", "disabled"];

/// A number for each state of webhook endpoints; none if the store did not respond.
#[derive(Debug, Default)]
pub struct ByState(Option<[u64; ENDPOINT_STATES.len()]>);

impl ByState {
    /// Sets the numbers, in the order of the states.
    pub fn set(&mut self, counts: [u64; ENDPOINT_STATES.len()]) {
        self.0 = Some(counts);
    }
}

impl Metric for ByState {
    fn kind(&self) -> &'static str {
        "gauge"
    }

    fn is_known(&self) -> bool {
        self.0.is_some()
    }

    fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
        for (state, count) in ENDPOINT_STATES.into_iter().zip(self.0.unwrap_or_default()) {
            let label = Some(("state", state));
            each(Sample { suffix: "", label, value: Decimal::whole(count) });
        }
    }
}

fn seconds(value: Millis) -> Decimal {
    Decimal::parts(value.0.saturating_mul(1_000))
}

impl HttpMetrics {
    /// Counts a reply. Streams have no duration: they last as long as their client reads.
    pub fn request(&self, status: StatusCode, took: Option<Duration>) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        self.http_requests_total.add(CLASSES.get(class).copied().unwrap_or("5xx"), 1);
        if let Some(took) = took {
            self.http_request_seconds.observe(took);
        }
    }
}
