//! The result of a scenario, as a table and as JSON.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::DatabaseUsage;

/// The result of a scenario, ready to be printed.
pub struct Printout {
    /// One JSON document, indented.
    pub json: Box<RawValue>,
    /// The report as names and values.
    pub rows: Vec<(String, String)>,
    /// Set where the scenario ran to its end and some of its requests failed.
    pub failure: Option<anyhow::Error>,
}

impl Printout {
    pub(super) fn new(wire: &impl Serialize, rows: Vec<(String, String)>) -> Result<Self> {
        let json = RawValue::from_string(serde_json::to_string_pretty(wire)?)?;
        Ok(Self { json, rows, failure: None })
    }
}

/// What was sent to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) commits: u64,
    pub(super) frames: u64,
    pub(super) commit_bytes: u64,
}

impl Counts {
    pub(super) fn bytes_per_commit(&self) -> usize {
        usize::try_from(self.commit_bytes / self.commits.max(1)).unwrap_or(usize::MAX)
    }
}

/// How long executions took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) p50: Duration,
    pub(super) p95: Duration,
    pub(super) p99: Duration,
    pub(super) max: Duration,
}

impl Latency {
    pub(super) fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let position = times.len().saturating_sub(1) * percent / 100;
            times.get(position).copied().unwrap_or_default()
        };
        Self { p50: at(50), p95: at(95), p99: at(99), max: at(100) }
    }
}

/// Everything that a load scenario found.
pub(super) struct LoadReport {
    pub(super) scenario: &'static str,
    pub(super) executions: u64,
    pub(super) nodes: u64,
    pub(super) concurrency: usize,
    pub(super) seconds: Duration,
    pub(super) seconds_projected: Duration,
    pub(super) latency: Latency,
    pub(super) counts: Counts,
    pub(super) disk: Duration,
    pub(super) bytes_per_node: f64,
    pub(super) peak_rss: Option<u64>,
    pub(super) sent: Option<DatabaseUsage>,
    /// For one long chain: the last thousand nodes over the first thousand.
    pub(super) ends: Option<f64>,
}

#[derive(Serialize)]
struct Wire {
    scenario: &'static str,
    executions: u64,
    nodes: u64,
    concurrency: usize,
    seconds: f64,
    executions_per_second: f64,
    nodes_per_second: f64,
    nodes_per_second_projected: f64,
    p50_ms: f64,
    p99_ms: f64,
    commits: u64,
    nodes_per_commit: f64,
    #[serde(flatten)]
    disk: Option<Disk>,
    bytes_on_disk_per_node: f64,
    peak_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_statements_per_node: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redis_round_trips_per_node: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_1000_over_first_1000: Option<f64>,
}

/// The disk's part of the time. A cluster's disk is PostgreSQL's, and cannot be measured from here.
#[derive(Serialize)]
struct Disk {
    bytes_per_commit: usize,
    disk_append_fdatasync_ms: f64,
    p50_over_commits_of_disk: f64,
}

impl LoadReport {
    pub(super) fn printout(&self) -> Result<Printout> {
        let wire = self.wire();
        Printout::new(&wire, rows(&wire))
    }

    fn wire(&self) -> Wire {
        let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let per_node = |count: u64| count as f64 / self.nodes.max(1) as f64;
        let frames_each = self.counts.frames as f64 / self.executions.max(1) as f64;
        Wire {
            scenario: self.scenario,
            executions: self.executions,
            nodes: self.nodes,
            concurrency: self.concurrency,
            seconds: self.seconds.as_secs_f64(),
            executions_per_second: per_second(self.executions, self.seconds),
            nodes_per_second: per_second(self.nodes, self.seconds),
            nodes_per_second_projected: per_second(self.nodes, self.seconds_projected),
            p50_ms: ms(self.latency.p50),
            p99_ms: ms(self.latency.p99),
            commits: self.counts.commits,
            nodes_per_commit: self.nodes as f64 / self.counts.commits.max(1) as f64,
            disk: self.sent.is_none().then(|| Disk {
                bytes_per_commit: self.counts.bytes_per_commit(),
                disk_append_fdatasync_ms: ms(self.disk),
                p50_over_commits_of_disk: ms(self.latency.p50) / (frames_each * ms(self.disk)),
            }),
            bytes_on_disk_per_node: self.bytes_per_node,
            peak_rss_bytes: self.peak_rss,
            sql_statements_per_node: self.sent.map(|sent| per_node(sent.statements)),
            redis_round_trips_per_node: self.sent.and_then(|sent| sent.round_trips).map(per_node),
            last_1000_over_first_1000: self.ends,
        }
    }
}

fn rows(wire: &Wire) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("scenario", wire.scenario.to_owned()),
        row("executions", wire.executions.to_string()),
        row("nodes", wire.nodes.to_string()),
        row("concurrency", wire.concurrency.to_string()),
        row("seconds", format!("{:.3}", wire.seconds)),
        row("executions_per_second", format!("{:.0}", wire.executions_per_second)),
        row("nodes_per_second", format!("{:.0}", wire.nodes_per_second)),
        row("nodes_per_second_projected", format!("{:.0}", wire.nodes_per_second_projected)),
        row("p50 per execution", format!("{:.3} ms", wire.p50_ms)),
        row("p99 per execution", format!("{:.3} ms", wire.p99_ms)),
        row("commits", wire.commits.to_string()),
        row("nodes per commit", format!("{:.1}", wire.nodes_per_commit)),
        row("bytes on disk per node", format!("{:.0}", wire.bytes_on_disk_per_node)),
        row("peak RSS", wire.peak_rss_bytes.map_or("unknown".to_owned(), mebibytes)),
    ];
    if let Some(disk) = &wire.disk {
        rows.extend([
            row("bytes per commit", disk.bytes_per_commit.to_string()),
            row("disk append+fdatasync", format!("{:.3} ms", disk.disk_append_fdatasync_ms)),
            row(
                "p50 / (commits of one execution × disk)",
                format!("{:.2}", disk.p50_over_commits_of_disk),
            ),
        ]);
    }
    rows.extend(
        wire.sql_statements_per_node
            .map(|ratio| row("SQL statements per node", format!("{ratio:.4}"))),
    );
    rows.extend(
        wire.redis_round_trips_per_node
            .map(|ratio| row("Redis round trips per node", format!("{ratio:.4}"))),
    );
    rows.extend(
        wire.last_1000_over_first_1000
            .map(|ratio| row("last 1,000 nodes / first 1,000", format!("{ratio:.2}"))),
    );
    rows
}

pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / 1_048_576.0)
}
