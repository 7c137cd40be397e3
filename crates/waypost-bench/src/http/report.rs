//! The figures of a run over HTTP.

use std::time::Duration;

use super::HttpOptions;
use super::bystanders::BystanderCounts;
use super::load::Tally;
use crate::committed::Committed;
use crate::report::{Printout, milliseconds, percentiles};

/// One run of the load.
pub(super) struct Phase {
    pub(super) committed: Committed,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    figures: Printout,
    p50_ms: f64,
    p95_ms: f64,
    frames_per_execution: f64,
}

impl Phase {
    pub(super) fn new(mut tally: Tally, committed: Committed, nodes: u64) -> Self {
        let executions = tally.times.len() as f64;
        let (seconds, nodes) = (tally.seconds.as_secs_f64(), executions * nodes as f64);
        let [p50_ms, p95_ms, p99_ms, max_ms] =
            percentiles(&mut tally.times, [50, 95, 99, 100]).map(milliseconds);
        let (per_second, nodes_per_second) = (executions / seconds, nodes / seconds);
        let nodes_per_commit = nodes / committed.commits.max(1) as f64;
        let frames_per_execution = committed.frames as f64 / executions.max(1.0);
        let mut figures = Printout::default();
        figures.rounded("seconds", "seconds", seconds, (3, ""));
        figures.rounded("executions_per_second", "executions_per_second", per_second, (0, ""));
        figures.rounded("nodes_per_second", "nodes_per_second", nodes_per_second, (0, ""));
        figures.rounded("p50_ms", "p50 per execution", p50_ms, (3, " ms"));
        figures.rounded("p95_ms", "p95 per execution", p95_ms, (3, " ms"));
        figures.rounded("p99_ms", "p99 per execution", p99_ms, (3, " ms"));
        figures.rounded("max_ms", "max per execution", max_ms, (3, " ms"));
        figures.plain("errors", "errors", tally.errors);
        if let Some(first) = &tally.first_error {
            figures.unlisted("first_error", first.as_str());
        }
        figures.plain("commits", "commits", committed.commits);
        figures.rounded("nodes_per_commit", "nodes per commit", nodes_per_commit, (1, ""));
        figures.unlisted("frames_per_execution", frames_per_execution);
        let Tally { errors, first_error, .. } = tally;
        Self { committed, errors, first_error, figures, p50_ms, p95_ms, frames_per_execution }
    }
}

/// The result of the load without bystanders.
pub(super) fn alone(
    scenario: &'static str,
    options: &HttpOptions,
    phase: Phase,
    peak_rss: Option<u64>,
    disk: Option<Duration>,
) -> Printout {
    let disk = disk.map(milliseconds);
    let over = disk.map(|disk| phase.p50_ms / (phase.frames_per_execution * disk));
    let mut report = Printout::of(scenario);
    report.plain("clients", "clients", options.clients);
    report.plain("executions", "executions", options.executions);
    report.plain("nodes", "nodes", options.executions * options.nodes);
    report.extend(phase.figures);
    report.memory("server_peak_rss_bytes", "peak RSS of the server", peak_rss);
    report.rounded("disk_append_fdatasync_ms", "disk append+fdatasync", disk, (3, " ms"));
    let name = "p50 / (commits of one execution × disk)";
    report.rounded("p50_over_commits_of_disk", name, over, (2, ""));
    report
}

/// The result of the same load among bystanders.
pub(super) fn crowded(
    options: &HttpOptions,
    seen: &BystanderCounts,
    phase: Phase,
    peak_rss: Option<u64>,
    alone: &Phase,
) -> Printout {
    let closed = "  closed by the server, and opened again";
    let mut report = Printout::default();
    report.plain("idle_streams", "with idle streams", options.crowd.idle_streams);
    report.plain("idle_streams_lost", "  of them lost", seen.streams_lost());
    report.plain("slow_connections", "with slow connections", options.crowd.slow_connections);
    report.plain("slow_connections_closed", closed, seen.slow_closed());
    report.plain("slow_readers", "with readers that do not read", options.crowd.slow_readers);
    let ratio = phase.p95_ms / alone.p95_ms;
    report.extend(phase.figures);
    report.memory("crowded_peak_rss_bytes", "peak RSS of the server among them", peak_rss);
    report.rounded("p95_ratio", "p95 / p95 without them", ratio, (2, ""));
    report
}
