//! The load: so many executions, so many at once, each timed from its start to its durable end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use waypost_core::event::{Event, NodeEvent};
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::{Engine, Observer, StartRequest};

use crate::backend::{Closed, Flow, MeasuredBackend};
use crate::beside::{self, Beside};
use crate::report::{Printout, milliseconds, percentiles};
use crate::{Common, EngineSetup, Host, disk};

/// Nodes at each end of a long execution that are compared with each other, at least.
const SAMPLE_MIN: u64 = 1_000;

/// What is executed, and how.
pub(super) struct Load<'a> {
    pub(super) scenario: &'static str,
    pub(super) flow: String,
    pub(super) input: Json,
    pub(super) executions: u64,
    /// Nodes of each.
    pub(super) nodes: u64,
    pub(super) common: &'a Common,
    pub(super) setup: EngineSetup,
    /// Are small executions measured beside it?
    pub(super) beside: bool,
    /// The definition that its nodes start.
    pub(super) child: Option<&'static str>,
}

impl<'a> Load<'a> {
    pub(super) fn new(
        scenario: &'static str,
        flow: String,
        (executions, nodes): (u64, u64),
        common: &'a Common,
    ) -> Self {
        let (input, setup) = (Json::null(), EngineSetup::default());
        Self { scenario, flow, input, executions, nodes, common, setup, beside: false, child: None }
    }
}

pub(super) async fn run(load: Load<'_>, host: &dyn Host) -> Result<Printout> {
    let Load { scenario, flow, input, executions, nodes, common, setup, beside, child } = load;
    let marks = Arc::new(Marks::new(executions == 1 && nodes >= 2 * SAMPLE_MIN, nodes));
    let observer: Option<Observer> = marks.wanted.then(|| {
        let marks = Arc::clone(&marks);
        let observer: Observer = Arc::new(move |committed| marks.note(&committed.events));
        observer
    });
    let backend = MeasuredBackend::open_with(common, host, EngineSetup { observer, ..setup })?;
    if let Some(child) = child {
        backend.define(child)?;
    }
    let flow = backend.define(&flow)?;
    let small = match beside {
        true => {
            let small = backend.define(&beside::small_flow())?;
            Some(Beside::start(backend.engine(), small).await?)
        }
        false => None,
    };
    let start = Instant::now();
    let (mut times, probed) = drive(&backend, &flow, &input, executions, common).await?;
    let seconds = start.elapsed() - probed.spent;
    let small = match small {
        Some(small) => Some(small.stop().await?),
        None => None,
    };
    backend.system.wait_projected()?;
    let projected = start.elapsed() - probed.spent;
    let closed = backend.close().await?;

    let nodes = executions * nodes;
    let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    let [p50, p99] = percentiles(&mut times, [50, 99]).map(milliseconds);
    let nodes_per_commit = nodes as f64 / closed.committed.commits.max(1) as f64;
    let nodes_per_second = per_second(nodes, seconds);
    let nodes_projected = per_second(nodes, projected);
    let mut report = Printout::of(scenario);
    report.plain("executions", "executions", executions);
    report.plain("nodes", "nodes", nodes);
    report.plain("concurrency", "concurrency", common.concurrency);
    report.rounded("seconds", "seconds", seconds.as_secs_f64(), (3, ""));
    let executions_per_second = per_second(executions, seconds);
    report.rounded(
        "executions_per_second",
        "executions_per_second",
        executions_per_second,
        (0, ""),
    );
    report.rounded("nodes_per_second", "nodes_per_second", nodes_per_second, (0, ""));
    let projected = "nodes_per_second_projected";
    report.rounded(projected, projected, nodes_projected, (0, ""));
    report.rounded("p50_ms", "p50 per execution", p50, (3, " ms"));
    report.rounded("p99_ms", "p99 per execution", p99, (3, " ms"));
    report.plain("commits", "commits", closed.committed.commits);
    report.rounded("nodes_per_commit", "nodes per commit", nodes_per_commit, (1, ""));
    let longest = closed.committed.decide_max_ms;
    report.rounded("decide_max_ms", "longest decision", longest, (3, " ms"));
    report.extend(resources(&closed, probed, (executions, nodes), p50));
    if let Some(small) = small {
        report.extend(small);
    }
    if let Some(ratio) = marks.ratio() {
        let name = "last tenth / first tenth";
        report.rounded("last_tenth_over_first_tenth", name, ratio, (2, ""));
    }
    Ok(report)
}

/// The resources that the executions have used. A cluster's disk is PostgreSQL's, and cannot be
/// measured from here.
fn resources(
    closed: &Closed,
    probed: Probed,
    (executions, nodes): (u64, u64),
    p50: f64,
) -> Printout {
    let per_node = |count: u64| count as f64 / nodes.max(1) as f64;
    let mut report = Printout::default();
    let bytes = per_node(closed.bytes);
    report.rounded("bytes_on_disk_per_node", "bytes on disk per node", bytes, (0, ""));
    report.memory("peak_rss_bytes", "peak RSS", disk::peak_rss("self"));
    let Some(sent) = closed.sent else {
        let disk = milliseconds(probed.median().unwrap_or(closed.disk));
        let commits_each = closed.committed.frames as f64 / executions.max(1) as f64;
        let bytes_per_commit = closed.committed.bytes_per_commit();
        report.plain("bytes_per_commit", "bytes per commit", bytes_per_commit);
        report.rounded("disk_append_fdatasync_ms", "disk append+fdatasync", disk, (3, " ms"));
        let name = "p50 / (commits of one execution × disk)";
        report.rounded("p50_over_commits_of_disk", name, p50 / (commits_each * disk), (2, ""));
        return report;
    };
    let statements = per_node(sent.statements);
    report.rounded("sql_statements_per_node", "SQL statements per node", statements, (4, ""));
    if let Some(trips) = sent.round_trips.map(per_node) {
        report.rounded("redis_round_trips_per_node", "Redis round trips per node", trips, (4, ""));
    }
    report
}

/// The disk's times between executions, and the time spent on measuring them.
#[derive(Default)]
struct Probed {
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
    flow: &Flow,
    input: &Json,
    executions: u64,
    common: &Common,
) -> Result<(Vec<Duration>, Probed)> {
    let (engine, flow, input) = (backend.engine(), flow.clone(), input.clone());
    let complete = move |_| complete_one(Arc::clone(&engine), flow.request(input.clone()));
    let mut probed = Probed::default();
    if common.concurrency != 1 {
        let times = for_each(executions, common.concurrency, complete).await?;
        return Ok((times, probed));
    }
    let mut times = Vec::new();
    let mut probe = disk::Probe::open(&backend.folder)?;
    for n in 0..executions {
        times.push(complete(n).await?);
        let begin = Instant::now();
        probed.times.push(probe.append_and_sync(backend.committed()?.bytes_per_commit())?);
        probed.spent += begin.elapsed();
    }
    Ok((times, probed))
}

/// Calls `one` with every number below `count`, in so many tasks at once, and returns the results.
pub(super) async fn for_each<T, F>(
    count: u64,
    concurrency: usize,
    one: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..concurrency.clamp(1, usize::try_from(count.max(1))?) {
        let (next, one) = (Arc::clone(&next), one.clone());
        clients.spawn(async move {
            let mut results = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return Ok::<_, anyhow::Error>(results);
                }
                results.push(one(n).await?);
            }
        });
    }
    let mut results = Vec::new();
    while let Some(client) = clients.join_next().await {
        results.extend(client??);
    }
    Ok(results)
}

/// One execution, from its start to its durable end.
pub(super) async fn complete_one(engine: Arc<Engine>, request: StartRequest) -> Result<Duration> {
    let start = Instant::now();
    let started = engine.start(request).await?;
    match started.ended().await {
        Some(end) if end.status == Status::Completed => Ok(start.elapsed()),
        other => bail!("an execution did not complete: {other:?}"),
    }
}

/// When the first and the last tenth of the nodes of a long execution were completed.
struct Marks {
    wanted: bool,
    nodes: u64,
    sample: u64,
    start: Instant,
    completed: AtomicU64,
    /// When the first node was completed, the first tenth, all but the last tenth, and all.
    times_us: [AtomicU64; 4],
}

impl Marks {
    fn new(wanted: bool, nodes: u64) -> Self {
        Self {
            wanted,
            nodes,
            sample: (nodes / 10).max(SAMPLE_MIN),
            start: Instant::now(),
            completed: AtomicU64::new(0),
            times_us: Default::default(),
        }
    }

    fn note(&self, events: &[Event]) {
        let done =
            events.iter().filter(|e| matches!(e, Event::Node(NodeEvent::Completed { .. }))).count();
        let done = u64::try_from(done).unwrap_or(0);
        let before = self.completed.fetch_add(done, Ordering::Relaxed);
        let now = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let counts = [1, self.sample, self.nodes - self.sample, self.nodes];
        for (count, time) in counts.into_iter().zip(&self.times_us) {
            if before < count && before + done >= count {
                time.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Time of the last tenth of the nodes over the time of the first tenth.
    fn ratio(&self) -> Option<f64> {
        let [begin, first, before_last, last] =
            self.times_us.each_ref().map(|time| time.load(Ordering::Relaxed) as f64);
        self.wanted.then(|| (last - before_last) / (first - begin))
    }
}
