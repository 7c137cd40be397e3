//! A crash and the restart after it.
//!
//! The child process starts executions that all stay in memory, owned and unfinished, and is killed
//! with -9. The parent then opens the folder, and measures how soon it takes new work, how soon the
//! last orphan is owned again, and that every one of them can still be finished.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::sync::Notify;
use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent, RunEvent, Wait};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_engine::{ControlRequest, Observer};
use waypost_ports::query::ListRequest;

use crate::backend::MeasuredBackend;
use crate::load::for_each;
use crate::report::Printout;
use crate::{Common, EngineSetup, Host, disk, flows};

/// The word that the child prints when all its executions are in flight.
const READY: &str = "in-flight";
/// Executions that are started or finished at once.
const AT_ONCE: usize = 500;

pub(super) async fn run(executions: u64, common: &Common, host: &dyn Host) -> Result<Printout> {
    let folder = common.place.fresh_folder()?;
    kill_in_flight(&folder, executions)?;
    restart(folder, executions, common.place.keep, host).await
}

fn kill_in_flight(folder: &Path, executions: u64) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(program)
        .args(["bench-recover-child", &executions.to_string()])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the child process")?;
    let stdout = child.stdout.take().context("the child has no output")?;
    let ready = BufReader::new(stdout).lines().map_while(Result::ok).any(|line| line == READY);
    child.kill()?; // SIGKILL
    child.wait()?;
    if !ready {
        bail!("the child process ended before its executions were in flight");
    }
    Ok(())
}

/// The child: starts the executions, prints `READY`, and waits to be killed.
pub async fn child(executions: u64, folder: PathBuf, host: &dyn Host) -> Result<()> {
    let waits = |event: &Event| {
        matches!(event, Event::Node(NodeEvent::Waiting { wait: Wait::Signal { .. }, .. }))
    };
    let (waiting, observer) = EventCounter::observe(executions, waits);
    let system = host.open_folder(&folder)?;
    let config = stay_in_memory(executions);
    let setup = EngineSetup { config, observer: Some(observer), ..EngineSetup::default() };
    let backend = MeasuredBackend::over(system, folder, true, setup)?;
    let (engine, flow) = (backend.engine(), backend.define(flows::HELD)?);
    let start = move |_| {
        let (engine, request) = (Arc::clone(&engine), flow.request(Json::null()));
        async move { Ok(engine.start(request).await?) }
    };
    let started = for_each(executions, AT_ONCE, start).await?;
    waiting.all.notified().await;
    writeln!(std::io::stdout(), "{READY}")?;
    std::future::pending::<()>().await;
    drop(started);
    Ok(())
}

/// Counts events of one kind, of which each execution has one.
struct EventCounter {
    count: AtomicU64,
    /// As many as there are executions.
    all: Notify,
}

impl EventCounter {
    fn observe(executions: u64, wanted: fn(&Event) -> bool) -> (Arc<Self>, Observer) {
        let seen = Arc::new(Self { count: AtomicU64::new(0), all: Notify::new() });
        let observed = Arc::clone(&seen);
        let observer: Observer = Arc::new(move |committed| {
            let new = committed.events.iter().filter(|event| wanted(event)).count();
            let new = u64::try_from(new).unwrap_or(0);
            if observed.count.fetch_add(new, Ordering::Relaxed) + new >= executions {
                observed.all.notify_one();
            }
        });
        (seen, observer)
    }
}

/// Nothing leaves memory, so that everything is owned when the process dies.
fn stay_in_memory(executions: u64) -> Config {
    Config {
        park_after: Millis::from_secs(24 * 3600),
        active_max: usize::try_from(executions).unwrap_or(usize::MAX).saturating_add(1_000),
        ..Config::default()
    }
}

async fn restart(
    folder: PathBuf,
    executions: u64,
    keep: bool,
    host: &dyn Host,
) -> Result<Printout> {
    let taken_over =
        |event: &Event| matches!(event, Event::Run(RunEvent::Owned { epoch, .. }) if *epoch == 2);
    let (taken, observer) = EventCounter::observe(executions, taken_over);
    let begin = Instant::now();
    let system = host.open_folder(&folder)?;
    let setup = EngineSetup { observer: Some(observer), ..EngineSetup::default() };
    let backend = MeasuredBackend::over(system, folder, keep, setup)?;
    let opened = begin.elapsed().as_secs_f64();
    let probe = backend.define(&flows::chain(1))?;
    let probe = backend.engine().start(probe.request(Json::null())).await?;
    if probe.ended().await.is_none() {
        bail!("the first new execution after the restart did not end");
    }
    let ready = begin.elapsed().as_secs_f64();
    taken.all.notified().await;
    let recovered = begin.elapsed().as_secs_f64();
    let finished = finish_all(&backend, executions).await?;
    let per_second = executions as f64 / recovered;
    let mut report = Printout::of("recover");
    report.plain("executions", "executions in flight", executions);
    report.rounded("open_seconds", "store open after", opened, (3, " s"));
    report.rounded("ready_seconds", "first new execution ended after", ready, (3, " s"));
    report.rounded("recovered_seconds", "last orphan taken over after", recovered, (3, " s"));
    report.rounded("recovered_per_second", "taken over per second", per_second, (0, ""));
    report.unlisted("taken_over", taken.count.load(Ordering::Relaxed));
    report.plain("finished", "finished afterwards", finished);
    report.memory("peak_rss_bytes", "peak RSS", disk::peak_rss("self"));
    backend.close().await?;
    Ok(report)
}

/// Sends every orphan the signal it waits for and awaits its end. Returns how many have ended.
async fn finish_all(backend: &MeasuredBackend, executions: u64) -> Result<usize> {
    backend.system.wait_projected()?;
    let all = ids_of(backend, "bench-held")?;
    if u64::try_from(all.len())? != executions {
        bail!("{} of {executions} executions are in the store", all.len());
    }
    let engine = backend.engine();
    let finish = move |n: u64| {
        let (engine, all) = (Arc::clone(&engine), Arc::clone(&all));
        async move {
            let execution = *all.get(usize::try_from(n)?).context("there are as many")?;
            let end = engine.adopt(execution);
            let body = Request::Signal { name: "go".into(), body: Json::null() };
            engine.request(ControlRequest::new(execution, body)).await?;
            Ok(end.ended().await.is_some())
        }
    };
    let ended = for_each(executions, AT_ONCE, finish).await?;
    Ok(ended.into_iter().filter(|ended| *ended).count())
}

fn ids_of(backend: &MeasuredBackend, workflow: &str) -> Result<Arc<[ExecutionNo]>> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let workflow = Some(workflow.to_owned());
        let request = ListRequest { workflow, before, limit: 1_000, ..ListRequest::default() };
        let page = backend.system.list(&request)?;
        ids.extend(page.rows.iter().map(|row| row.execution));
        match page.next {
            Some(next) => before = Some(next),
            None => return Ok(ids.into()),
        }
    }
}
