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
use serde::Serialize;
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
use crate::report::{Printout, mebibytes};
use crate::{Common, Host, disk, flows};

/// The word that the child prints when all its executions are in flight.
const READY: &str = "in-flight";

#[derive(Serialize)]
struct Wire {
    scenario: &'static str,
    executions: u64,
    open_seconds: f64,
    ready_seconds: f64,
    recovered_seconds: f64,
    recovered_per_second: f64,
    taken_over: u64,
    finished: u64,
    peak_rss_bytes: Option<u64>,
}

pub(super) async fn run(executions: u64, common: &Common, host: &dyn Host) -> Result<Printout> {
    let folder = common.place.fresh_folder()?;
    kill_in_flight(&folder, executions)?;
    let wire = restart(&folder, executions, common.place.keep, host).await?;
    Printout::new(&wire, rows(&wire))
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
    let waiting = Arc::new((AtomicU64::new(0), Notify::new()));
    let observer: Observer = {
        let waiting = Arc::clone(&waiting);
        Arc::new(move |committed| {
            let waits = |event: &Event| {
                matches!(event, Event::Node(NodeEvent::Waiting { wait: Wait::Signal { .. }, .. }))
            };
            let (count, all) = &*waiting;
            let new =
                u64::try_from(committed.events.iter().filter(|e| waits(e)).count()).unwrap_or(0);
            if count.fetch_add(new, Ordering::Relaxed) + new >= executions {
                all.notify_one();
            }
        })
    };
    let backend = MeasuredBackend::open_at(folder, true, host, Some(observer), |config| {
        stay_in_memory(config, executions);
    })?;
    let flow = backend.define(&flows::held())?;
    let mut started = Vec::new();
    for _ in 0..executions.div_ceil(500) {
        let batch = (0..500).map(|_| backend.engine()).map(|engine| {
            let request = flow.request(Json::null());
            async move { engine.start(request).await }
        });
        let left = executions.saturating_sub(u64::try_from(started.len())?);
        let batch = batch.take(usize::try_from(left)?);
        for one in futures_util::future::join_all(batch).await {
            started.push(one?);
        }
    }
    waiting.1.notified().await;
    writeln!(std::io::stdout(), "{READY}")?;
    std::future::pending::<()>().await;
    drop(started);
    Ok(())
}

/// Nothing leaves memory, so that everything is owned when the process dies.
fn stay_in_memory(config: &mut Config, executions: u64) {
    config.park_after = Millis::from_secs(24 * 3600);
    config.active_max = usize::try_from(executions).unwrap_or(usize::MAX).saturating_add(1_000);
}

async fn restart(folder: &Path, executions: u64, keep: bool, host: &dyn Host) -> Result<Wire> {
    let taken = Arc::new((AtomicU64::new(0), Notify::new()));
    let observer: Observer = {
        let taken = Arc::clone(&taken);
        Arc::new(move |committed| {
            let owned = |event: &Event| matches!(event, Event::Run(RunEvent::Owned { epoch, .. }) if *epoch == 2);
            if committed.events.iter().any(owned)
                && taken.0.fetch_add(1, Ordering::Relaxed) + 1 == executions
            {
                taken.1.notify_one();
            }
        })
    };
    let begin = Instant::now();
    let backend = MeasuredBackend::open_at(folder.to_owned(), keep, host, Some(observer), |_| {})?;
    let opened = begin.elapsed();
    let probe = backend.define(&flows::chain(1))?;
    let probe = backend.engine().start(probe.request(Json::null())).await?;
    if probe.ended().await.is_none() {
        bail!("the first new execution after the restart did not end");
    }
    let ready = begin.elapsed();
    taken.1.notified().await;
    let recovered = begin.elapsed();
    let finished = finish_all(&backend, executions).await?;
    let counts = backend.counts();
    let peak_rss_bytes = disk::peak_rss("self");
    backend.close(&counts).await?;
    Ok(Wire {
        scenario: "recover",
        executions,
        open_seconds: opened.as_secs_f64(),
        ready_seconds: ready.as_secs_f64(),
        recovered_seconds: recovered.as_secs_f64(),
        recovered_per_second: executions as f64 / recovered.as_secs_f64(),
        taken_over: taken.0.load(Ordering::Relaxed),
        finished,
        peak_rss_bytes,
    })
}

/// Sends every orphan the signal it waits for and awaits its end.
async fn finish_all(backend: &MeasuredBackend, executions: u64) -> Result<u64> {
    let mut finished = 0;
    backend.wait_projected()?;
    let all = ids_of(backend, "bench-held")?;
    if u64::try_from(all.len())? != executions {
        bail!("{} of {executions} executions are in the store", all.len());
    }
    for chunk in all.chunks(500) {
        let ends = chunk.iter().map(|execution| {
            let engine = backend.engine();
            let execution = *execution;
            async move {
                let end = engine.adopt(execution);
                let body = Request::Signal { name: "go".into(), body: Json::null() };
                engine.request(ControlRequest::new(execution, body)).await?;
                Ok::<_, anyhow::Error>(end.ended().await.is_some())
            }
        });
        for end in futures_util::future::join_all(ends).await {
            finished += u64::from(end?);
        }
    }
    Ok(finished)
}

fn ids_of(backend: &MeasuredBackend, workflow: &str) -> Result<Vec<ExecutionNo>> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let workflow = Some(workflow.to_owned());
        let request = ListRequest { workflow, before, limit: 1_000, ..ListRequest::default() };
        let page = backend.list(&request)?;
        ids.extend(page.rows.iter().map(|row| row.execution));
        match page.next {
            Some(next) => before = Some(next),
            None => return Ok(ids),
        }
    }
}

fn rows(wire: &Wire) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let seconds = |value: f64| format!("{value:.3} s");
    vec![
        row("scenario", wire.scenario.to_owned()),
        row("executions in flight", wire.executions.to_string()),
        row("store open after", seconds(wire.open_seconds)),
        row("first new execution ended after", seconds(wire.ready_seconds)),
        row("last orphan taken over after", seconds(wire.recovered_seconds)),
        row("taken over per second", format!("{:.0}", wire.recovered_per_second)),
        row("finished afterwards", wire.finished.to_string()),
        row("peak RSS", wire.peak_rss_bytes.map_or("unknown".to_owned(), mebibytes)),
    ]
}
