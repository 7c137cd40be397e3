//! The load: so many executions, so many at once, each timed from its start to its durable end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use waypost_core::event::{Event, NodeEvent};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::{Engine, Observer};

use crate::backend::MeasuredBackend;
use crate::report::{Latency, LoadReport, Printout};
use crate::{Common, Host, disk};

/// Nodes at each end of a long chain that are compared with each other.
const SAMPLE: u64 = 1_000;

/// Returns the input of the n-th execution.
pub(super) type Inputs = dyn Fn(u64) -> Json + Send + Sync;

pub(super) fn no_input(_: u64) -> Json {
    Json::null()
}

pub(super) async fn run(
    scenario: &'static str,
    flow: &str,
    inputs: &Inputs,
    (executions, nodes): (u64, u64),
    common: &Common,
    host: &dyn Host,
) -> Result<Printout> {
    let marks = Arc::new(Marks::new(executions == 1 && nodes >= 2 * SAMPLE, nodes));
    let observer: Option<Observer> = marks.wanted.then(|| {
        let marks = Arc::clone(&marks);
        let observer: Observer = Arc::new(move |committed| marks.note(&committed.events));
        observer
    });
    let backend = MeasuredBackend::open(common, host, observer, |_| {})?;
    let flow = backend.define(flow)?;
    let start = Instant::now();
    let (mut latencies, probed) = drive(&backend, &flow, inputs, executions, common).await?;
    let committed = start.elapsed() - probed.spent;
    backend.wait_projected()?;
    let projected = start.elapsed() - probed.spent;
    let counts = backend.counts();
    let total = executions * nodes;
    let (folder, disk_afterwards) = backend.close(&counts).await?;
    let disk = probed.median().unwrap_or(disk_afterwards);
    LoadReport {
        scenario,
        executions,
        nodes: total,
        concurrency: common.concurrency,
        seconds: committed,
        seconds_projected: projected,
        latency: Latency::of(&mut latencies),
        counts,
        disk,
        bytes_per_node: folder.bytes as f64 / total.max(1) as f64,
        peak_rss: disk::peak_rss("self"),
        sent: folder.sent,
        ends: marks.ratio(),
    }
    .printout()
}

/// The disk's times between executions, and the time spent on measuring them.
#[derive(Default)]
pub(super) struct Probed {
    times: Vec<Duration>,
    spent: Duration,
}

impl Probed {
    fn median(mut self) -> Option<Duration> {
        self.times.sort_unstable();
        self.times.get(self.times.len() / 2).copied()
    }
}

/// Starts all executions, `concurrency` at a time, and returns the time each took.
///
/// A single client measures the disk between its executions: on a shared disk one operation may
/// take twice the time a second later, and only neighbours can be compared.
async fn drive(
    backend: &MeasuredBackend,
    flow: &crate::backend::Flow,
    inputs: &Inputs,
    executions: u64,
    common: &Common,
) -> Result<(Vec<Duration>, Probed)> {
    if common.concurrency == 1 {
        return drive_alone(backend, flow, &inputs(0), executions).await;
    }
    let next = Arc::new(AtomicU64::new(0));
    let inputs: Vec<Json> = match executions {
        // One input for all is the common case and costs no memory.
        0 => Vec::new(),
        _ => vec![inputs(0)],
    };
    let mut clients = JoinSet::new();
    for _ in 0..common.concurrency.clamp(1, usize::try_from(executions.max(1))?) {
        let (engine, flow, next) = (backend.engine(), flow.clone(), Arc::clone(&next));
        let input = inputs.first().cloned().unwrap_or_else(Json::null);
        clients.spawn(async move {
            let mut times = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < executions {
                times.push(one(&engine, &flow, &input).await?);
            }
            Ok::<_, anyhow::Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(client) = clients.join_next().await {
        times.extend(client??);
    }
    Ok((times, Probed::default()))
}

async fn drive_alone(
    backend: &MeasuredBackend,
    flow: &crate::backend::Flow,
    input: &Json,
    executions: u64,
) -> Result<(Vec<Duration>, Probed)> {
    let engine = backend.engine();
    let (mut times, mut probed) = (Vec::new(), Probed::default());
    let mut probe = disk::Probe::open(backend.folder())?;
    for _ in 0..executions {
        times.push(one(&engine, flow, input).await?);
        let begin = Instant::now();
        probed.times.push(probe.append_and_sync(backend.counts().bytes_per_commit())?);
        probed.spent += begin.elapsed();
    }
    Ok((times, probed))
}

/// One execution, from its start to its durable end.
async fn one(engine: &Engine, flow: &crate::backend::Flow, input: &Json) -> Result<Duration> {
    let start = Instant::now();
    let started = engine.start(flow.request(input.clone())).await?;
    match started.ended().await {
        Some(end) if end.status == Status::Completed => Ok(start.elapsed()),
        other => bail!("an execution did not complete: {other:?}"),
    }
}

/// When the first and the last thousand nodes of a long chain were completed.
struct Marks {
    wanted: bool,
    nodes: u64,
    start: Instant,
    completed: AtomicU64,
    first_us: AtomicU64,
    before_last_us: AtomicU64,
    last_us: AtomicU64,
}

impl Marks {
    fn new(wanted: bool, nodes: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            wanted,
            nodes,
            start: Instant::now(),
            completed: zero(),
            first_us: zero(),
            before_last_us: zero(),
            last_us: zero(),
        }
    }

    fn note(&self, events: &[Event]) {
        let done =
            events.iter().filter(|e| matches!(e, Event::Node(NodeEvent::Completed { .. }))).count();
        let done = u64::try_from(done).unwrap_or(0);
        let completed = self.completed.fetch_add(done, Ordering::Relaxed) + done;
        let now = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mark = match completed {
            SAMPLE => &self.first_us,
            n if n == self.nodes - SAMPLE => &self.before_last_us,
            n if n == self.nodes => &self.last_us,
            1 => {
                self.first_us.store(now, Ordering::Relaxed);
                return;
            }
            _ => return,
        };
        let before = if completed == SAMPLE { mark.load(Ordering::Relaxed) } else { 0 };
        mark.store(now - before, Ordering::Relaxed);
    }

    /// Time of the last thousand nodes over the time of the first thousand.
    fn ratio(&self) -> Option<f64> {
        if !self.wanted {
            return None;
        }
        let load = |mark: &AtomicU64| mark.load(Ordering::Relaxed) as f64;
        Some((load(&self.last_us) - load(&self.before_last_us)) / load(&self.first_us))
    }
}
