//! The victim: a process that runs the real engine over a real folder, and does as it is told.
//!
//! Orders come on standard input, one a line; it ends when there are no more. What it did goes to
//! standard output, each line after the fact: an `ack` is printed when the submission is durable.
//!
//! ```text
//!   submit <n>                  ack <n> <execution> | not <n> <why> | wrong <n> <why>
//!   <request> <id> <n> <body>   done <id> | refused <id> <why>          signal, pause, resume, cancel
//!   await <n>                   over <n>
//!   stop                        (ends)
//!                               commit, ended <n>, held <n>: as things become durable
//!                               late: it did not get to run for a while
//! ```

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use waypost::wiring;
use waypost_core::command::Request;
use waypost_core::event::{Event, PauseReason, RunEvent};
use waypost_core::json::Json;
use waypost_engine::{ControlRequest, Engine, EngineError, Observer, StartRequest};
use waypost_ports::query::Query;
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::Store;
use waypost_sim::program::Signal;
use waypost_sqlite::SqliteStore;

use super::workload::{self, Submission};

/// Set in the environment of a victim: its parameters.
const PARAMETERS: &str = "WAYPOST_CHAOS_VICTIM";
/// How long attempts that run may take to end when it is told to stop.
const STOP_GRACE: Duration = Duration::from_millis(300);
/// The number of SIGXFSZ: a file would become too large.
const XFSZ: i32 = 25;

/// What a victim is started with.
pub(super) struct Parameters {
    pub(super) folder: PathBuf,
    pub(super) sink: String,
    pub(super) seed: u64,
    pub(super) life: u32,
}

impl Parameters {
    /// This binary, started again to run the victim alone.
    pub(super) fn command(&self) -> Command {
        let Self { folder, sink, seed, life } = self;
        let parameters = json!({ "folder": folder, "sink": sink, "seed": seed, "life": life });
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["chaos::victim", "--exact", "--nocapture"])
            .env(PARAMETERS, parameters.to_string());
        command
    }

    fn from_environment() -> Option<Self> {
        let text = std::env::var(PARAMETERS).ok()?;
        let value: Value = serde_json::from_str(&text).unwrap();
        Some(Self {
            folder: value["folder"].as_str().unwrap().into(),
            sink: value["sink"].as_str().unwrap().to_owned(),
            seed: value["seed"].as_u64().unwrap(),
            life: value["life"].as_u64().unwrap().try_into().unwrap(),
        })
    }
}

/// Runs the victim, where this process is one.
pub(super) fn run() {
    let Some(parameters) = Parameters::from_environment() else { return };
    // The test harness may have begun a line of its own.
    say("\nbegun");
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .init();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Err(error) = runtime.block_on(serve(parameters)) {
        say(&format!("failed {error:#}"));
    }
    // Not the runtime's own end, which awaits what blocks; everything that counts is durable.
    runtime.shutdown_background();
}

/// Each line goes out at once and whole, so that what was said before a kill can be read after it.
fn say(line: &str) {
    // A parent that is gone needs no answer; standard input tells.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap_or_default();
}

async fn serve(parameters: Parameters) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    // Where a full disk is played by a limit on files, a write beyond it is to fail, not to kill.
    let _xfsz = signal(SignalKind::from_raw(XFSZ))?;
    let store = Arc::new(wiring::open_engine_store(&parameters.folder)?);
    say("stored");
    let seed = parameters.seed;
    let observer: Observer = Arc::new(move |committed| {
        say("commit");
        let Some(n) = workload::number(seed, &committed.key.0) else { return };
        for event in committed.events.iter() {
            match event {
                Event::Run(
                    RunEvent::Paused { reason: PauseReason::User } | RunEvent::Quarantined { .. },
                ) => {
                    say(&format!("held {n}"));
                }
                event if event.is_end() => say(&format!("ended {n}")),
                _ => {}
            }
        }
    });
    let nodes = waypost_nodes::Settings {
        egress: waypost_nodes::egress::Egress::new(["127.0.0.0/8".parse()?]),
        ..waypost_nodes::Settings::default()
    };
    let config = workload::temper(seed, parameters.life).config;
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let blobs = waypost::backend::folder_blobs(&parameters.folder);
    let engine =
        wiring::open_engine((shared, blobs), &nodes, Arc::new(NoSecrets), config, Some(observer))?;
    say("open");
    let victim = Arc::new(Victim { engine, store, parameters });
    let mut tasks = JoinSet::new();
    tasks.spawn(notice_lateness());
    let mut orders = orders();
    loop {
        tokio::select! { // both are cancel-safe: what came is kept
            _ = terminate.recv() => break,
            order = orders.recv() => match order.as_deref() {
                None | Some("stop") => break,
                Some(order) => drop(tasks.spawn(Arc::clone(&victim).obey(order.to_owned()))),
            },
        }
    }
    victim.engine.stop(STOP_GRACE).await;
    Ok(())
}

/// Standard input, line by line.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|line| sender.send(line).unwrap_or_default());
    });
    orders
}

/// Says so when this process did not get to run in time, as on a machine with too much to do.
async fn notice_lateness() {
    const EVERY: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_millis(300);
    let mut ticks = tokio::time::interval(EVERY);
    let mut last = Instant::now();
    loop {
        ticks.tick().await;
        if last.elapsed() > LATE {
            say("late");
        }
        last = Instant::now();
    }
}

struct Victim {
    engine: Engine,
    store: Arc<SqliteStore>,
    parameters: Parameters,
}

impl Victim {
    async fn obey(self: Arc<Self>, order: String) {
        let mut words = order.splitn(4, ' ');
        let (verb, second) = (words.next().unwrap(), words.next().unwrap_or_default());
        let answer = match verb {
            "submit" => self.submit(second.parse().unwrap()).await,
            "await" => self.wait(second.parse().unwrap()).await,
            request => {
                let n = words.next().unwrap().parse().unwrap();
                match self.request(request, n, words.next().unwrap_or_default()).await {
                    Ok(()) => format!("done {second}"),
                    Err(error) => format!("refused {second} {error:#}"),
                }
            }
        };
        say(&answer);
    }

    async fn submit(&self, n: u64) -> String {
        let started = match self.start_request(n) {
            Ok(request) => self.engine.start(request).await,
            Err(error) => return format!("not {n} {error:#}"),
        };
        match started {
            Ok(started) => format!("ack {n} {}", started.execution.0),
            Err(EngineError::Stopping | EngineError::Unanswered | EngineError::Store(_)) => {
                format!("not {n} stopping")
            }
            Err(error) => format!("wrong {n} {error}"),
        }
    }

    fn start_request(&self, n: u64) -> Result<StartRequest> {
        let submission = Submission::new(self.parameters.seed, n, &self.parameters.sink);
        let compiled = wiring::compile(submission.program.definition().as_bytes())
            .map_err(|faults| anyhow!("{faults}"))?;
        let definition = wiring::define(&*self.store, &compiled)?;
        let (version, input) = (definition.version, submission.input());
        let seed = self.parameters.seed;
        let idempotency = workload::idempotency(seed, n, &definition, &input);
        Ok(StartRequest {
            key: Some(workload::key(seed, n)),
            idempotency: Some(idempotency),
            ..StartRequest::new(Arc::new(compiled.plan), version, input)
        })
    }

    async fn request(&self, verb: &str, n: u64, body: &str) -> Result<()> {
        let body = match verb {
            "pause" => Request::Pause { now: body == "now", reason: None },
            "resume" => Request::Resume { reason: None },
            "cancel" => Request::Cancel { reason: None },
            name => {
                let signal = Signal::parse(name).ok_or_else(|| anyhow!("no signal {name}"))?;
                let name = signal.full_name(workload::key(self.parameters.seed, n).as_str());
                Request::Signal { name: name.into(), body: Json::parse(body)? }
            }
        };
        let execution = self.find(n)?;
        self.engine.request(ControlRequest::new(execution, body)).await?;
        Ok(())
    }

    async fn wait(&self, n: u64) -> String {
        match self.find(n) {
            Ok(execution) => match self.engine.adopt(execution).ended().await {
                Some(end) => format!("over {n} {}", end.status),
                None => format!("not {n} stopping"),
            },
            Err(error) => format!("wrong {n} {error:#}"),
        }
    }

    fn find(&self, n: u64) -> Result<waypost_core::id::ExecutionNo> {
        let key = workload::key(self.parameters.seed, n);
        self.store.find(Some(&key.0))?.context("there is no such execution")
    }
}
