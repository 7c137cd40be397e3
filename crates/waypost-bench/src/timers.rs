//! Many sleepers: each wakes once, none early, and how late.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinSet;
use waypost_core::event::{Event, NodeEvent, Wait};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_engine::Observer;
use waypost_engine::driver::Committed;
use waypost_ports::clock::{Clock, SystemClock};

use crate::backend::{Flow, MeasuredBackend};
use crate::report::{Printout, mebibytes};
use crate::{Common, Host, disk, flows};

/// Default for due waits per second.
const DUES_PER_SECOND: u64 = 1_000;
/// Submissions a second that are assumed when the first due time is chosen.
const STARTS_PER_SECOND: u64 = 8_000;

#[derive(Serialize)]
struct Wire {
    scenario: &'static str,
    executions: u64,
    seconds: u64,
    started_per_second: f64,
    fired: u64,
    fired_early: u64,
    fired_twice: u64,
    lateness_p50_ms: i64,
    lateness_p99_ms: i64,
    lateness_max_ms: i64,
    peak_rss_bytes: Option<u64>,
}

pub(super) async fn run(
    executions: u64,
    seconds: Option<u64>,
    common: &Common,
    host: &dyn Host,
) -> Result<Printout> {
    let seconds = seconds.unwrap_or(executions.div_ceil(DUES_PER_SECOND)).max(1);
    let fires = Arc::new(Fires::default());
    let observer: Observer = {
        let fires = Arc::clone(&fires);
        Arc::new(move |committed| fires.note(committed))
    };
    let backend = MeasuredBackend::open(common, host, Some(observer), |_| {})?;
    let flow = backend.define(&flows::timer())?;
    let begin = Instant::now();
    let lead = Duration::from_secs(3 + executions / STARTS_PER_SECOND);
    let first_due = SystemClock.now().0 + i64::try_from(lead.as_millis())?;
    let due = move |n: u64| {
        let offset = n.wrapping_mul(seconds * 1000) / executions.max(1);
        Timestamp(first_due + i64::try_from(offset).unwrap_or(0))
    };
    let ends = start_all(&backend, &flow, &due, executions, common.concurrency).await?;
    let started = begin.elapsed();
    if SystemClock.now().0 > first_due {
        bail!("starting took longer than {lead:?}: the first dues had passed; lower --executions");
    }
    for end in ends {
        if end.ended().await.is_none() {
            bail!("an execution did not end");
        }
    }
    let (mut lateness, early, twice) = fires.results();
    lateness.sort_unstable();
    let at = |percent: usize| {
        let position = lateness.len().saturating_sub(1) * percent / 100;
        lateness.get(position).copied().unwrap_or_default()
    };
    let wire = Wire {
        scenario: "timers",
        executions,
        seconds,
        started_per_second: executions as f64 / started.as_secs_f64(),
        fired: u64::try_from(lateness.len())?,
        fired_early: early,
        fired_twice: twice,
        lateness_p50_ms: at(50),
        lateness_p99_ms: at(99),
        lateness_max_ms: at(100),
        peak_rss_bytes: disk::peak_rss("self"),
    };
    let counts = backend.counts();
    backend.close(&counts).await?;
    Printout::new(&wire, rows(&wire))
}

async fn start_all(
    backend: &MeasuredBackend,
    flow: &Flow,
    due: &(impl Fn(u64) -> Timestamp + Clone + Send + 'static),
    executions: u64,
    concurrency: usize,
) -> Result<Vec<waypost_engine::Started>> {
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..concurrency.max(1) {
        let (engine, flow, next, due) =
            (backend.engine(), flow.clone(), Arc::clone(&next), due.clone());
        clients.spawn(async move {
            let mut started = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= executions {
                    return Ok::<_, waypost_engine::EngineError>(started);
                }
                let input = Json::from_value(&serde_json::json!({ "until": due(n).0 }));
                started.push(engine.start(flow.request(input)).await?);
            }
        });
    }
    let mut started = Vec::new();
    while let Some(client) = clients.join_next().await {
        started.extend(client??);
    }
    Ok(started)
}

/// When each sleeper should wake and when it did.
#[derive(Default)]
struct Fires {
    due: Mutex<HashMap<ExecutionNo, Timestamp>>,
    lateness: Mutex<Vec<i64>>,
    early: AtomicU64,
    twice: AtomicU64,
}

impl Fires {
    fn note(&self, committed: &Committed) {
        for event in committed.events.iter() {
            match event {
                Event::Node(NodeEvent::Waiting { wait: Wait::Delay { due }, .. }) => {
                    self.due.lock().insert(committed.execution, *due);
                }
                Event::Node(NodeEvent::Resumed { .. }) => {
                    match self.due.lock().remove(&committed.execution) {
                        Some(due) => {
                            let late = committed.at.0 - due.0;
                            self.early.fetch_add(u64::from(late < 0), Ordering::Relaxed);
                            self.lateness.lock().push(late);
                        }
                        None => {
                            self.twice.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn results(&self) -> (Vec<i64>, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (self.lateness.lock().clone(), load(&self.early), load(&self.twice))
    }
}

fn rows(wire: &Wire) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    vec![
        row("scenario", wire.scenario.to_owned()),
        row("executions", wire.executions.to_string()),
        row("dues spread over", format!("{} s", wire.seconds)),
        row("started per second", format!("{:.0}", wire.started_per_second)),
        row("fired", wire.fired.to_string()),
        row("fired early", wire.fired_early.to_string()),
        row("fired twice", wire.fired_twice.to_string()),
        row("lateness p50", format!("{} ms", wire.lateness_p50_ms)),
        row("lateness p99", format!("{} ms", wire.lateness_p99_ms)),
        row("lateness max", format!("{} ms", wire.lateness_max_ms)),
        row("peak RSS", wire.peak_rss_bytes.map_or("unknown".to_owned(), mebibytes)),
    ]
}
