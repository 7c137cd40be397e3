//! The same workflows, driven by the engine itself over each backend there is: a folder, a database, a
//! database with Redis. What stands in the logs in the end is the same.
//!
//! What waits for signals leaves memory at once, and comes back through the store. What waits for a time
//! stays: whether it would leave for such a moment depends on how busy the machine is.

mod flows;
mod talking;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use waypost::backend::{self, Backend};
use waypost::cluster_services::ClusterServices;
use waypost::settings::{Flags, Settings};
use waypost::wiring;
use waypost_core::command::Request;
use waypost_core::event::Origin;
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_engine::{ControlRequest, Engine, Observer, Requested, StartRequest, Started};
use waypost_ports::query::{EventRow, EventsRequest};
use waypost_ports::secret::NoSecrets;
use waypost_ports::store::Store;
use waypost_testbed::Redis;
use waypost_testbed::postgres::Postgres;

use super::difference;
use flows::{CASES, Case, Order, Step};

/// How long anything may take. Reaching it is a failure.
const LONG: Duration = Duration::from_secs(120);

/// Longer than anything waits here for a time.
const PARK_AFTER: Millis = Millis::from_secs(24 * 3600);

#[test]
fn engines_write_the_same_logs_over_every_store() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (folder, redis) = (tempfile::tempdir().unwrap(), Redis::start());
    let database = || Some(Postgres::shared().database());
    let backends = [
        ("sqlite", None, None),
        ("postgres", database(), None),
        ("postgres with redis", database(), Some(redis.url())),
    ];
    let mut told: Option<Told> = None;
    for (name, database_url, redis_url) in backends {
        let mut flags = flags(&folder.path().join(name));
        for (setting, url) in [("database_url", database_url), ("redis_url", redis_url)] {
            flags = match url {
                Some(url) => flags.with(setting, url),
                None => flags,
            };
        }
        let tells = runtime.block_on(async { Side::open(name, &flags).await.run().await });
        match &told {
            None => told = Some(tells),
            Some(expected) => compare(name, &tells, expected),
        }
    }
}

/// By case: what each step was answered, and the log of each execution.
type Told = BTreeMap<&'static str, Vec<String>>;

fn compare(name: &str, tells: &Told, expected: &Told) {
    let mut wrong = Vec::new();
    for (case, expected) in expected {
        let (seen, expected) = (tells[case].join("\n"), expected.join("\n"));
        if seen != expected {
            wrong.push(format!("{case}:\n{}", difference(&seen, &expected)));
        }
    }
    assert!(wrong.is_empty(), "{name} is not like sqlite:\n{}", wrong.join("\n\n"));
}

/// Nothing but what is said here counts.
fn flags(folder: &Path) -> Flags {
    std::fs::create_dir_all(folder).unwrap();
    let config = folder.join("settings.toml");
    std::fs::write(&config, "").unwrap();
    let mut flags = Flags::default().with("data", folder.join("data").display().to_string());
    flags.config = Some(config);
    flags
}

/// An engine over one of the backends.
struct Side {
    name: &'static str,
    backend: Arc<dyn Backend>,
    engine: Engine,
    seen: Arc<Seen>,
}

impl Side {
    async fn open(name: &'static str, flags: &Flags) -> Arc<Self> {
        let settings = Settings::load(flags).unwrap();
        let open = move || {
            let backend = backend::open_engine(&settings).unwrap();
            let around = ClusterServices::of(&backend, &settings).unwrap();
            (backend, around, settings)
        };
        let (backend, around, settings) = tokio::task::spawn_blocking(open).await.unwrap();
        let seen = Arc::new(Seen::default());
        let config = Config { park_after: PARK_AFTER, ..Config::default() };
        let store = Arc::clone(&backend) as Arc<dyn Store>;
        let (secrets, observer) = (Arc::new(NoSecrets), Some(seen.observer()));
        let nodes = &settings.nodes;
        let engine = wiring::open_engine_in(&around, store, nodes, secrets, config, observer);
        Arc::new(Self { name, backend, engine: engine.unwrap(), seen })
    }
}

/// What was committed, by execution: each event's type and node.
#[derive(Default)]
struct Seen {
    events: Mutex<HashMap<ExecutionNo, Vec<(&'static str, String)>>>,
    changes: watch::Sender<()>,
}

impl Seen {
    fn observer(self: &Arc<Self>) -> Observer {
        let seen = Arc::clone(self);
        Arc::new(move |committed| {
            let events = committed.events.iter().map(|event| {
                (event.name(), event.node().map(ToString::to_string).unwrap_or_default())
            });
            seen.events.lock().entry(committed.execution).or_default().extend(events);
            seen.changes.send_replace(());
        })
    }

    /// Waits for an event after the first so many; gives how many there are up to it.
    async fn until(
        &self,
        case: &str,
        execution: ExecutionNo,
        after: usize,
        wanted: (&str, &str),
    ) -> usize {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(events) = self.events.lock().get(&execution)
                && let Some(at) = events
                    .iter()
                    .skip(after)
                    .position(|(name, node)| (*name, node.as_str()) == wanted)
            {
                return after + at + 1;
            }
            if timeout(LONG, changes.changed()).await.is_err() {
                let events = self.events.lock().get(&execution).cloned();
                panic!("{case}: no {wanted:?} after {after} events of {events:?}");
            }
        }
    }
}

impl Side {
    /// Everything that is told of all cases.
    async fn run(self: Arc<Self>) -> Told {
        let mut running = JoinSet::new();
        for case in CASES.iter().chain(talking::CASES) {
            let side = Arc::clone(&self);
            running.spawn(async move { (case.name, side.drive(case).await) });
        }
        let mut told = Told::new();
        while let Some(done) = running.join_next().await {
            told.extend([done.unwrap()]);
        }
        self.engine.stop(Duration::from_secs(5)).await;
        told
    }

    async fn drive(&self, case: &'static Case) -> Vec<String> {
        let mut driving = Driving { side: self, case, executions: Vec::new(), answers: Vec::new() };
        for step in case.steps {
            driving.step(*step).await;
        }
        driving.end().await
    }

    /// The log of an execution as lines; after it those of the executions that it started, in the order in which
    /// it did.
    async fn log(&self, execution: ExecutionNo, order: Order) -> Vec<String> {
        let mut told = Vec::new();
        let mut next = vec![execution];
        while let Some(execution) = next.pop() {
            let backend = Arc::clone(&self.backend);
            let request = EventsRequest::all(execution);
            let events = tokio::task::spawn_blocking(move || backend.events(&request).unwrap());
            let events = events.await.unwrap();
            let mut lines: Vec<_> = events.iter().map(|event| line(event, order)).collect();
            if order == Order::Any {
                lines.sort();
            }
            told.extend(lines);
            let started = events.iter().rev().filter(|event| event.kind == "ChildStarted");
            next.extend(started.filter_map(|event| {
                Some(ExecutionNo(event.fields.to_value().ok()?.get("execution")?.as_i64()?))
            }));
        }
        told
    }
}

/// One case on one side, under way.
struct Driving<'a> {
    side: &'a Side,
    case: &'static Case,
    /// Each with how many of its events were waited for.
    executions: Vec<(Started, usize)>,
    answers: Vec<String>,
}

impl Driving<'_> {
    async fn step(&mut self, step: Step) {
        let signal = |name: &str, body: &str| Request::Signal {
            name: name.into(),
            body: Json::parse(body).unwrap(),
        };
        match step {
            Step::Start => self.start().await,
            Step::Until(of, event, node) => self.until(of, event, node).await,
            Step::Signal(of, name, body) => self.ask(of, signal(name, body)).await,
            Step::Pause(of, now) => self.ask(of, Request::Pause { now, reason: None }).await,
            Step::Resume(of) => self.ask(of, Request::Resume { reason: None }).await,
            Step::Cancel(of) => {
                self.ask(of, Request::Cancel { reason: Some("enough".to_owned()) }).await;
            }
            Step::SignalTwice(of, name, body) => {
                let mut request = self.request(of, signal(name, body));
                request.origin.message = Some(format!("{}-twice", self.case.name).into());
                self.send(request.clone()).await;
                self.until(of, "SignalReceived", "").await;
                self.send(request).await;
            }
        }
    }

    async fn start(&mut self) {
        let source = format!("name: {}\n{}", self.case.name, self.case.source);
        let compiled = wiring::compile(source.as_bytes())
            .unwrap_or_else(|faults| panic!("{}: {faults:?}", self.case.name));
        let backend = Arc::clone(&self.side.backend);
        let define = move || (wiring::define(&*backend, &compiled).unwrap().version, compiled.plan);
        let (version, plan) = tokio::task::spawn_blocking(define).await.unwrap();
        let key = format!("{}-{}", self.case.name, self.executions.len());
        let input = Json::parse(self.case.input).unwrap();
        let request = StartRequest {
            key: Some(ExecutionId(key.into())),
            actor: Some("somebody".into()),
            ..StartRequest::new(Arc::new(plan), version, input)
        };
        match self.side.engine.start(request).await {
            Ok(started) => self.executions.push((started, 0)),
            Err(error) => self.answers.push(error.to_string()),
        }
    }

    async fn until(&mut self, of: usize, event: &'static str, node: &'static str) {
        let (started, seen) = &mut self.executions[of];
        let (case, execution, all) = (self.case.name, started.execution, &self.side.seen);
        *seen = all.until(case, execution, *seen, (event, node)).await;
        // After these it waits for signals and nothing else. Until it has left memory for that, what is
        // asked of it goes another way.
        if matches!(event, "NodeWaiting" | "SignalReceived" | "RunResumed") {
            *seen = all.until(case, execution, *seen, ("RunPaused", "")).await;
        }
    }

    async fn ask(&mut self, of: usize, body: Request) {
        let request = self.request(of, body);
        self.send(request).await;
    }

    /// Under an id that is made for it. Whoever chooses one is told of the end, and not that the request
    /// was accepted, where the request itself has ended the execution by then.
    fn request(&self, of: usize, body: Request) -> ControlRequest {
        let execution = self.executions[of].0.execution;
        let origin = Origin { actor: Some("somebody".into()), message: None };
        ControlRequest { origin, ..ControlRequest::new(execution, body) }
    }

    async fn send(&mut self, request: ControlRequest) {
        let answer = match self.side.engine.request(request).await {
            Ok(Requested::Done { status, .. }) => format!("done: {status}"),
            Ok(Requested::Accepted { .. }) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        self.answers.push(answer);
    }

    /// Waits for all ends; gives the answers and the logs.
    async fn end(mut self) -> Vec<String> {
        let name = self.case.name;
        let executions: Vec<_> =
            self.executions.iter().map(|(started, _)| started.execution).collect();
        let mut ends = Vec::new();
        for (started, _) in std::mem::take(&mut self.executions) {
            let ended = timeout(LONG, started.ended()).await;
            let ended =
                ended.unwrap_or_else(|_| panic!("{name} does not end on {}", self.side.name));
            ends.push(ended.unwrap().status.to_string());
        }
        assert_eq!(ends, self.case.ends, "{name} on {}", self.side.name);
        let mut told = self.answers;
        for execution in executions {
            told.extend(self.side.log(execution, self.case.order).await);
        }
        told
    }
}

/// An event, without what is new with every execution. Where several nodes are under way at once, it is
/// left open when it happened.
fn line(event: &EventRow, order: Order) -> String {
    let EventRow { seq, epoch, kind, node, attempt, fields, .. } = event;
    let mut fields = fields.to_value().unwrap();
    normalize(&mut fields);
    if order == Order::Any
        && let Some(fields) = fields.as_object_mut()
    {
        fields.remove("cause");
    }
    let place = match order {
        Order::Fixed => format!("{seq}"),
        Order::Any => "at any time".to_owned(),
    };
    let node = node.as_deref().unwrap_or_default();
    format!("{place} owner {epoch}: {kind} {node} {attempt:?} {fields}")
}

/// Fields whose values are new with every execution: who, under which right, when.
const NEW: &[&str] = &[
    "instance",
    "worker",
    "token",
    "due",
    "deadline",
    "grace",
    "retry_at",
    "abandoned",
    "execution",
    "remind",
    "at",
];

fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // Of a handler that does not end in time, the engine may hear a little more or nothing.
            if fields.get("kind").is_some_and(|kind| kind == "timeout") {
                fields.remove("details");
            }
            for (name, value) in fields {
                // The wait before a retry has a random part.
                let is_retry_wait = name == "wait" && value.is_number();
                match is_retry_wait || NEW.contains(&name.as_str()) {
                    true => *value = "*".into(),
                    false => normalize(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        // Ids that are made for messages, and one that names the execution which took somebody's place.
        Value::String(text) if text.starts_with("msg_") => *text = "msg_*".to_owned(),
        Value::String(text) if text.starts_with("permit-") => *text = "permit-*".to_owned(),
        Value::String(text) if text.starts_with("emit-") => *text = "emit-*".to_owned(),
        Value::String(text) if text.starts_with("delivery_") => *text = "delivery_*".to_owned(),
        Value::String(text) if text.starts_with("child-") => *text = "child-*".to_owned(),
        Value::String(text) if text.starts_with("parent-") => *text = "parent-*".to_owned(),
        // Generated ids of executions, alone and in messages.
        Value::String(text) if text.contains("exe_") => *text = without_ids(text),
        _ => {}
    }
}

/// A text with all ids of executions in it made equal.
fn without_ids(text: &str) -> String {
    let mut parts = text.split("exe_");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
        format!("{text}exe_*{rest}")
    })
}
