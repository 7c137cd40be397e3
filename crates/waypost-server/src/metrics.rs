//! What is measured at the target.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use waypost_core::time::Millis;
use waypost_engine::metrics::{
    Counter, CounterFamily, Decimal, Gauge, Histogram, Metric, SECONDS, Sample, SecondsGauge,
    write_metric,
};
use waypost_ports::query::{Backlog, ProjectionLag};
use waypost_ports::tasks::Depth;

use crate::budget::Budget;

/// The classes of replies.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What is measured at the target.
pub struct HttpMetrics {
    requests: CounterFamily,
    seconds: Histogram,
    /// Connections that are open.
    pub connections: Level,
    /// Connections that were refused.
    pub connections_refused: Counter,
    /// Streams that are open.
    pub streams: Level,
    /// Streams whose reader was let go.
    pub streams_dropped: Counter,
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Level(AtomicI64);

impl Level {
    /// Up, or down.
    pub fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn gauge(&self) -> Gauge {
        let gauge = Gauge::default();
        gauge.set(u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0));
        gauge
    }
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            requests: CounterFamily::new("class", &CLASSES),
            seconds: Histogram::new(SECONDS),
            connections: Level::default(),
            connections_refused: Counter::default(),
            streams: Level::default(),
            streams_dropped: Counter::default(),
        }
    }
}

/// What is known of the world around the engine when the page is asked for.
pub struct Around {
    /// How far behind lists are, where that can be told.
    pub lag: Option<ProjectionLag>,
    /// What no instance has claimed, where that can be told.
    pub backlog: Option<Backlog>,
    /// What waits for remote workers.
    pub depths: Vec<Depth>,
    /// This instance's lease, and what is left of it.
    pub lease: (Millis, Millis),
    /// Does Redis answer? `None` where there is none.
    pub redis_up: Option<bool>,
}

/// One number for each handler.
struct ByHandler(Vec<(Arc<str>, Decimal)>);

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

impl HttpMetrics {
    /// Notes a reply; how long it took is left out for streams, which last as long as they like.
    pub fn request(&self, status: StatusCode, took: Option<Duration>) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        self.requests.add(CLASSES.get(class).copied().unwrap_or("5xx"), 1);
        if let Some(took) = took {
            self.seconds.observe(took);
        }
    }

    /// Writes the page, with what others measure.
    pub fn render(&self, around: &Around, audit_dropped: u64, budget: &Budget, out: &mut String) {
        let dropped = Counter::default();
        let by_handler = |value: fn(&Depth) -> Decimal| {
            let of = |depth: &Depth| (Arc::clone(&depth.handler), value(depth));
            ByHandler(around.depths.iter().map(of).collect())
        };
        let depth = by_handler(|depth| Decimal::whole(depth.waiting));
        let oldest = by_handler(|depth| Decimal::parts(depth.oldest.0.saturating_mul(1_000)));
        dropped.add(audit_dropped);
        let (connections, streams) = (self.connections.gauge(), self.streams.gauge());
        let (lease, left) = (SecondsGauge::default(), SecondsGauge::default());
        lease.set(around.lease.0.to_std());
        left.set(around.lease.1.to_std());
        let page: [(&str, &str, &dyn Metric); 11] = [
            ("waypost_lease_seconds", "Lease duration of this instance.", &lease),
            ("waypost_lease_remaining_seconds", "Remaining lease time of this instance.", &left),
            (
                "waypost_http_requests_total",
                "Requests answered, by class of status.",
                &self.requests,
            ),
            ("waypost_http_request_seconds", "How long replies took.", &self.seconds),
            ("waypost_http_connections", "Connections that are open.", &connections),
            (
                "waypost_http_connections_refused_total",
                "Connections that were refused.",
                &self.connections_refused,
            ),
            ("waypost_http_streams", "Streams that are open.", &streams),
            (
                "waypost_http_streams_dropped_total",
                "Streams closed because the client did not read.",
                &self.streams_dropped,
            ),
            ("waypost_tasks_waiting", "Tasks that wait for remote workers, by handler.", &depth),
            (
                "waypost_tasks_oldest_age_seconds",
                "Age of the oldest task that waits for a worker, by handler.",
                &oldest,
            ),
            ("waypost_audit_dropped_total", "Inspect entries that could not be written.", &dropped),
        ];
        for (name, help, metric) in page {
            write_metric(name, help, metric, out);
        }
        Self::render_known(around, budget, out);
    }

    /// Writes what is asked for at this moment, where it is known.
    fn render_known(around: &Around, budget: &Budget, out: &mut String) {
        let (slow, bytes) = (Counter::default(), |bytes: usize| Some(bytes as u64));
        slow.add(budget.dropped());
        let help = "Connections closed because their clients read too slowly while others waited.";
        write_metric("waypost_http_slow_connections_closed_total", help, &slow, out);
        for (name, help, known) in [
            (
                "waypost_http_reply_bytes",
                "Bytes of replies and streams that are being sent to clients.",
                bytes(budget.in_flight()),
            ),
            (
                "waypost_http_reply_bytes_peak",
                "The most bytes of replies and streams that were on their way at once.",
                bytes(budget.peak()),
            ),
            (
                "waypost_http_replies_waiting",
                "Replies and streams that wait for room in memory.",
                bytes(budget.waiting()),
            ),
            (
                "waypost_projection_lag_frames",
                "Commits that projections do not contain yet.",
                around.lag.map(|lag| lag.frames),
            ),
            (
                "waypost_executions_due_unclaimed",
                "Executions that are ready or due and unclaimed.",
                around.backlog.map(|backlog| backlog.executions),
            ),
            ("waypost_redis_up", "Does Redis answer? 1 or 0.", around.redis_up.map(u64::from)),
        ] {
            let Some(known) = known else { continue };
            let gauge = Gauge::default();
            gauge.set(known);
            write_metric(name, help, &gauge, out);
        }
        if let Some(backlog) = around.backlog {
            let late = SecondsGauge::default();
            late.set(backlog.oldest.to_std());
            let help =
                "How late the execution is that was due first and that no instance has claimed.";
            write_metric("waypost_executions_due_oldest_lateness_seconds", help, &late, out);
        }
    }
}
