//! The result of a run over HTTP, as a table and as JSON.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::HttpOptions;
use super::bystanders::BystanderCounts;
use super::load::Tally;
use super::serving::Committed;
use crate::report::{Latency, Printout, mebibytes};

/// Everything that was found.
#[derive(Serialize)]
pub(super) struct HttpReport {
    scenario: &'static str,
    clients: usize,
    executions: u64,
    nodes: u64,
    #[serde(flatten)]
    alone: Phase,
    server_peak_rss_bytes: Option<u64>,
    disk_append_fdatasync_ms: Option<f64>,
    p50_over_commits_of_disk: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_bystanders: Option<Crowded>,
}

/// One run of the load.
#[derive(Serialize)]
pub(super) struct Phase {
    seconds: f64,
    executions_per_second: f64,
    nodes_per_second: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
    commits: u64,
    nodes_per_commit: f64,
    frames_per_execution: f64,
}

/// The same load among bystanders.
#[derive(Serialize)]
pub(super) struct Crowded {
    idle_streams: usize,
    idle_streams_lost: u64,
    slow_connections: usize,
    slow_connections_closed: u64,
    slow_readers: usize,
    crowded_peak_rss_bytes: Option<u64>,
    #[serde(flatten)]
    phase: Phase,
    p95_ratio: f64,
}

impl Phase {
    pub(super) fn new(mut tally: Tally, committed: &Committed, nodes: u64) -> Self {
        let executions = tally.times.len() as f64;
        let (seconds, nodes) = (tally.seconds.as_secs_f64(), executions * nodes as f64);
        let latency = Latency::of(&mut tally.times);
        Self {
            seconds,
            executions_per_second: executions / seconds,
            nodes_per_second: nodes / seconds,
            p50_ms: ms(latency.p50),
            p95_ms: ms(latency.p95),
            p99_ms: ms(latency.p99),
            max_ms: ms(latency.max),
            errors: tally.errors,
            first_error: tally.first_error,
            commits: committed.commits,
            nodes_per_commit: nodes / committed.commits.max(1) as f64,
            frames_per_execution: committed.frames as f64 / executions.max(1.0),
        }
    }
}

impl Crowded {
    pub(super) fn new(
        options: &HttpOptions,
        seen: &BystanderCounts,
        phase: Phase,
        peak_rss: Option<u64>,
        alone: &Phase,
    ) -> Self {
        Self {
            slow_readers: options.slow_readers,
            crowded_peak_rss_bytes: peak_rss,
            idle_streams: options.idle_streams,
            idle_streams_lost: seen.streams_lost(),
            slow_connections: options.slow_connections,
            slow_connections_closed: seen.slow_closed(),
            p95_ratio: phase.p95_ms / alone.p95_ms,
            phase,
        }
    }
}

impl HttpReport {
    pub(super) fn new(
        options: &HttpOptions,
        alone: Phase,
        with_bystanders: Option<Crowded>,
        server_peak_rss_bytes: Option<u64>,
        disk: Option<Duration>,
    ) -> Self {
        let commits_of_disk = |disk| alone.p50_ms / (alone.frames_per_execution * ms(disk));
        Self {
            scenario: "http",
            clients: options.clients,
            executions: options.executions,
            nodes: options.executions * options.nodes,
            server_peak_rss_bytes,
            disk_append_fdatasync_ms: disk.map(ms),
            p50_over_commits_of_disk: disk.map(commits_of_disk),
            alone,
            with_bystanders,
        }
    }

    /// All errors, and the first of them.
    pub(super) fn errors(&self) -> (u64, Option<&str>) {
        let crowded = self.with_bystanders.as_ref();
        let phases = [Some(&self.alone), crowded.map(|crowded| &crowded.phase)];
        let first = phases.iter().flatten().find_map(|phase| phase.first_error.as_deref());
        let failed: u64 = phases.iter().flatten().map(|phase| phase.errors).sum();
        (failed + crowded.map_or(0, |crowded| crowded.idle_streams_lost), first)
    }

    pub(super) fn printout(&self) -> Result<Printout> {
        Printout::new(self, self.rows())
    }

    fn rows(&self) -> Vec<(String, String)> {
        let unknown = || "unknown".to_owned();
        let mut rows = vec![
            row("scenario", self.scenario.to_owned()),
            row("clients", self.clients.to_string()),
            row("executions", self.executions.to_string()),
            row("nodes", self.nodes.to_string()),
        ];
        rows.extend(self.alone.rows());
        let rss = self.server_peak_rss_bytes.map_or_else(unknown, mebibytes);
        let disk = self.disk_append_fdatasync_ms.map_or_else(unknown, |ms| format!("{ms:.3} ms"));
        let over = self.p50_over_commits_of_disk.map_or_else(unknown, |over| format!("{over:.2}"));
        rows.push(row("peak RSS of the server", rss));
        rows.push(row("disk append+fdatasync", disk));
        rows.push(row("p50 / (commits of one execution × disk)", over));
        if let Some(crowded) = &self.with_bystanders {
            rows.push(row("", String::new()));
            rows.push(row("with idle streams", crowded.idle_streams.to_string()));
            rows.push(row("  of them lost", crowded.idle_streams_lost.to_string()));
            rows.push(row("with slow connections", crowded.slow_connections.to_string()));
            rows.push(row(
                "  closed by the server, and opened again",
                crowded.slow_connections_closed.to_string(),
            ));
            rows.push(row("with readers that do not read", crowded.slow_readers.to_string()));
            rows.extend(crowded.phase.rows());
            let rss = crowded.crowded_peak_rss_bytes.map_or_else(unknown, mebibytes);
            rows.push(row("peak RSS of the server among them", rss));
            rows.push(row("p95 / p95 without them", format!("{:.2}", crowded.p95_ratio)));
        }
        rows
    }
}

impl Phase {
    fn rows(&self) -> Vec<(String, String)> {
        let ms = |value: f64| format!("{value:.3} ms");
        vec![
            row("seconds", format!("{:.3}", self.seconds)),
            row("executions_per_second", format!("{:.0}", self.executions_per_second)),
            row("nodes_per_second", format!("{:.0}", self.nodes_per_second)),
            row("p50 per execution", ms(self.p50_ms)),
            row("p95 per execution", ms(self.p95_ms)),
            row("p99 per execution", ms(self.p99_ms)),
            row("max per execution", ms(self.max_ms)),
            row("errors", self.errors.to_string()),
            row("commits", self.commits.to_string()),
            row("nodes per commit", format!("{:.1}", self.nodes_per_commit)),
        ]
    }
}

fn row(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
