//! Small executions beside a load: how long they take, and how long they take without it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use waypost_core::json::Json;
use waypost_engine::Engine;

use crate::backend::Flow;
use crate::flows;
use crate::load::complete_one;
use crate::report::{Printout, milliseconds, percentiles};

/// Nodes of a small execution.
const NODES: u64 = 3;

/// How often one is started, whether the earlier ones have ended or not.
const EVERY: Duration = Duration::from_millis(10);

/// How long they run alone, before the load begins.
const ALONE: Duration = Duration::from_secs(5);

pub(super) fn small_flow() -> String {
    flows::chain_of("bench-beside", "type: noop", NODES)
}

/// Small executions that are started at a steady rate.
pub(super) struct Beside {
    alone: Vec<Duration>,
    stop: CancellationToken,
    running: JoinSet<Result<Vec<Duration>>>,
}

impl Beside {
    /// Measures them alone, and leaves them running.
    pub(super) async fn start(engine: Arc<Engine>, flow: Flow) -> Result<Self> {
        let first = CancellationToken::new();
        let ends = first.clone();
        let (alone, _) = tokio::join!(start_steadily(&engine, &flow, &first), async move {
            tokio::time::sleep(ALONE).await;
            ends.cancel();
        });
        let stop = CancellationToken::new();
        let mut running = JoinSet::new();
        let until = stop.clone();
        running.spawn(async move { start_steadily(&engine, &flow, &until).await });
        Ok(Self { alone: alone?, stop, running })
    }

    /// Stops starting them, and reports how long they took.
    pub(super) async fn stop(mut self) -> Result<Printout> {
        self.stop.cancel();
        let mut beside = Vec::new();
        while let Some(times) = self.running.join_next().await {
            beside.extend(times??);
        }
        let [idle_p50, idle_p99] = percentiles(&mut self.alone, [50, 99]).map(milliseconds);
        let [p50, p99] = percentiles(&mut beside, [50, 99]).map(milliseconds);
        let mut report = Printout::default();
        report.plain("beside_executions", "small executions beside", beside.len());
        report.rounded("beside_idle_p50_ms", "their p50 without it", idle_p50, (3, " ms"));
        report.rounded("beside_idle_p99_ms", "their p99 without it", idle_p99, (3, " ms"));
        report.rounded("beside_p50_ms", "their p50 beside it", p50, (3, " ms"));
        report.rounded("beside_p99_ms", "their p99 beside it", p99, (3, " ms"));
        let name = "their p99 / p99 without it";
        report.rounded("beside_p99_ratio", name, p99 / idle_p99, (2, ""));
        Ok(report)
    }
}

async fn start_steadily(
    engine: &Arc<Engine>,
    flow: &Flow,
    stop: &CancellationToken,
) -> Result<Vec<Duration>> {
    let mut ticks = tokio::time::interval(EVERY);
    // A delayed start counts from when it was due: the times show what a caller would see.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut executions = JoinSet::new();
    loop {
        // Both are cancel-safe.
        let due = tokio::select! {
            due = ticks.tick() => due,
            () = stop.cancelled() => break,
        };
        let (engine, request) = (Arc::clone(engine), flow.request(Json::null()));
        executions.spawn(async move {
            complete_one(engine, request).await?;
            Ok::<_, anyhow::Error>(Instant::now().duration_since(due.into_std()))
        });
    }
    let mut times = Vec::new();
    while let Some(time) = executions.join_next().await {
        times.push(time??);
    }
    Ok(times)
}
