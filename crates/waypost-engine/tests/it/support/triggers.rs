//! Engines with triggers, over one store in memory and a clock that stands still.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use waypost_core::expr::{Expression, Template};
use waypost_core::failure::Failure;
use waypost_core::flow;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::schedule::{Schedule, ScheduleSpec};
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_core::trigger::{
    EventTrigger, Over, Overlap, PollTrigger, RowMark, ScheduleTrigger, StreamSource, StreamStart,
    StreamTrigger, TableName, TableSafety, Throttle, Trigger, TriggerKind, Window, WindowMode,
    WorkflowEndedTrigger,
};
use waypost_engine::check::{CheckOptions, check};
use waypost_engine::driver::Committed;
use waypost_engine::triggers::{
    EndedTriggers, Firing, Surroundings, TriggerControl, TriggerRunner, TriggerWakeups,
    registrations,
};
use waypost_engine::{Engine, Observer, Plans};
use waypost_ports::memory::MemoryStore;
use waypost_ports::source::{
    PageRequest, PageSource, SourcePage, StreamFault, StreamPage, StreamReader, StreamRequest,
};
use waypost_ports::store::{NewDefinition, Store};
use waypost_ports::triggers::{FireOutcome, FireRow, FiresRequest, TriggerRow, Triggers};

use super::lab::Lab;

/// The name of the workflow and of its trigger.
pub(crate) const WORKFLOW: &str = "flow";
pub(crate) const TRIGGER: &str = "it";

/// An instance: its engine, and its runner, which works when a test asks it to.
pub(crate) struct Instance {
    _checked: Checked,
    engine: Arc<Engine>,
    pub(crate) runner: TriggerRunner,
    pub(crate) control: TriggerControl,
    pub(crate) source: Arc<Source>,
    pub(crate) streams: Arc<StreamPages>,
}

/// The pages that polls are given, in order; after the last one, an empty one.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) pages: Mutex<VecDeque<Result<Value, Failure>>>,
    pub(crate) requests: Mutex<Vec<String>>,
}

impl PageSource for Source {
    fn read(&self, request: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>> {
        self.requests.lock().push(request.config.text().to_owned());
        let page = self.pages.lock().pop_front().unwrap_or_else(|| Ok(json!({ "items": [] })));
        let page = page.map(|body| SourcePage {
            status: 200,
            headers: Json::from_value(&json!({})),
            body: Json::from_value(&body),
        });
        std::future::ready(page).boxed()
    }
}

/// The pages that streams are given, in order; after the last one, nothing new.
#[derive(Default)]
pub(crate) struct StreamPages {
    pub(crate) pages: Mutex<VecDeque<Result<StreamPage, StreamFault>>>,
    /// Reads, and the keys that were marked before each.
    pub(crate) reads: AtomicUsize,
    pub(crate) marked: Mutex<Vec<String>>,
}

impl StreamReader for StreamPages {
    fn read(&self, request: StreamRequest) -> BoxFuture<'static, Result<StreamPage, StreamFault>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        assert!(request.cursor.unmarked.is_empty(), "what has fired is marked first");
        let nothing = || Ok(StreamPage { cursor: request.cursor.clone(), ..StreamPage::default() });
        let page = self.pages.lock().pop_front().unwrap_or_else(nothing);
        std::future::ready(page).boxed()
    }

    fn mark(&self, request: StreamRequest) -> BoxFuture<'static, Result<(), StreamFault>> {
        self.marked.lock().extend(request.cursor.unmarked);
        std::future::ready(Ok(())).boxed()
    }
}

/// Waits in the virtual time of a test whose clock is paused, which stands still while the store is asked.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
    for _ in 0..10_000 {
        if done() {
            return;
        }
        ticks.tick().await;
    }
    panic!("what the test waits for has not happened");
}

/// So many starts in ten minutes; other events wait.
pub(crate) fn throttle(limit: u32) -> Throttle {
    Throttle { limit, per: Millis(600_000), over: Over::Queue }
}

/// A definition: a line with its trigger as JSON, then the flow.
fn compile(text: &str) -> Result<Plan, String> {
    let Some((trigger, rest)) = text.split_once('\n') else { return flow::compile(text) };
    let mut plan = flow::compile(rest)?;
    plan.hash = DefinitionHash::of(text.as_bytes());
    plan.triggers = vec![Arc::new(compile_trigger(&serde_json::from_str(trigger).unwrap()))];
    Ok(plan)
}

fn compile_trigger(fields: &Value) -> Trigger {
    let expression =
        |name: &str| fields[name].as_str().map(|text| Expression::compile(text).unwrap());
    let template = |name: &str| fields.get(name).map(|value| Template::compile(value).unwrap());
    let kind = if let Some(spec) = fields.get("schedule") {
        let spec: ScheduleSpec = serde_json::from_value(spec.clone()).unwrap();
        let overlap =
            fields["overlap"].as_str().map_or(Overlap::Allow, |text| Overlap::parse(text).unwrap());
        let schedule = Schedule::compile(&spec).unwrap();
        TriggerKind::Schedule(Box::new(ScheduleTrigger { spec, schedule, overlap }))
    } else if let Some(workflow) = fields["ended"].as_str() {
        let statuses = vec![Status::Completed];
        let ended = WorkflowEndedTrigger { workflow: workflow.into(), statuses };
        TriggerKind::WorkflowEnded(Box::new(ended))
    } else if let Some(spec) = fields.get("stream") {
        let source = match spec["table"].as_str() {
            None => StreamSource::Redis { source: "shop".into(), stream: "orders".into() },
            Some(table) => StreamSource::Postgres {
                source: "shop".into(),
                table: TableName { schema: "public".into(), table: table.into() },
                key: "id".into(),
                safety: TableSafety::Mark { mark: RowMark::Column("sent".into()), order: None },
            },
        };
        TriggerKind::Stream(Box::new(StreamTrigger {
            source,
            every: Millis::from_secs(1),
            key: expression("key"),
            from: StreamStart::Beginning,
        }))
    } else if fields.get("event").is_some() {
        let number = |name: &str| Some(u32::try_from(fields[name].as_u64()?).unwrap());
        let mode = match (number("batch"), number("throttle")) {
            (Some(size), _) => WindowMode::Batch { size, wait: Millis(10_000) },
            (None, Some(limit)) => WindowMode::Throttle(throttle(limit)),
            (None, None) => WindowMode::Debounce { period: Millis(10_000), max: Millis(60_000) },
        };
        let window = Some(Window { key: None, mode });
        TriggerKind::Event(Box::new(EventTrigger {
            types: vec!["order.*".into()],
            source: None,
            window,
        }))
    } else {
        TriggerKind::Poll(Box::new(PollTrigger {
            every: Millis::from_secs(60),
            request: Template::compile(&json!({ "since": "${{ cursor }}" })).unwrap(),
            items: Expression::compile("body['items']").unwrap(),
            key: Some(Expression::compile("item.id").unwrap()),
            next: Some(
                Template::compile(&json!({ "at": "${{ body.next | default(0) }}" })).unwrap(),
            ),
            more: Some(Expression::compile("body.more | default(false)").unwrap()),
            lookback: None,
            start: None,
        }))
    };
    Trigger {
        name: TRIGGER.into(),
        description: None,
        node: None,
        enabled: true,
        condition: expression("if"),
        input: template("input"),
        id: template("id"),
        labels: Vec::new(),
        kind,
    }
}

impl Lab {
    /// Deploys a flow with a trigger.
    pub(crate) fn deploy(&self, trigger: &Value, flow: &str) {
        self.deploy_as(WORKFLOW, trigger, flow);
    }

    pub(crate) fn deploy_as(&self, workflow: &str, trigger: &Value, flow: &str) {
        let text = format!("{trigger}\n{flow}");
        let plan = compile(&text).unwrap();
        let now = waypost_ports::clock::Clock::now(&*self.clock);
        let definition = NewDefinition {
            name: workflow.into(),
            hash: plan.hash,
            canonical: text.as_str().into(),
            make_current: true,
            triggers: registrations(&plan, workflow, now),
            paused: false,
        };
        self.store.define(&definition).unwrap();
    }

    /// An instance with a trigger runner.
    pub(crate) fn instance(&self) -> Instance {
        self.instance_of(compile)
    }

    /// An instance of a build that compiles definitions so.
    pub(crate) fn instance_of(&self, build: fn(&str) -> Result<Plan, String>) -> Instance {
        let wakeups = TriggerWakeups::default();
        let plans = Arc::new(Plans::new(Box::new(build)));
        let engine = self.engine_with(|parts| {
            parts.plans = Arc::clone(&plans);
            let (log, ends) = (parts.observer.take().unwrap(), wakeups.clone());
            let observer: Observer = Arc::new(move |committed: &Committed| {
                log(committed);
                ends.committed(committed);
            });
            parts.observer = Some(observer);
        });
        let engine = Arc::new(engine);
        let firing = Firing {
            engine: Arc::clone(&engine) as Arc<dyn Surroundings>,
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            triggers: Arc::new(self.store.inner.clone()),
            plans,
        };
        let source = Arc::new(Source::default());
        let pages = Arc::clone(&source) as Arc<dyn PageSource>;
        let outbox = Arc::new(self.store.inner.clone());
        let ends = EndedTriggers { firing: firing.clone(), outbox };
        let control =
            TriggerControl { firing: firing.clone(), ends: ends.clone(), wakeups: wakeups.clone() };
        let plans = Plans::new(Box::new(compile));
        let checked = Checked { store: self.store.inner.clone(), plans };
        let streams = Arc::new(StreamPages::default());
        let reader = Arc::clone(&streams) as Arc<dyn StreamReader>;
        let runner = TriggerRunner { firing, pages, streams: reader, ends, wakeups };
        Instance { _checked: checked, engine, runner, control, source, streams }
    }

    pub(crate) fn trigger(&self) -> TriggerRow {
        self.store.inner.trigger(WORKFLOW, TRIGGER).unwrap().unwrap()
    }

    /// What the trigger did, the oldest first.
    pub(crate) fn fires(&self) -> Vec<FireRow> {
        let trigger = self.trigger().number;
        let request = FiresRequest { trigger, outcome: None, before: None, limit: 10_000 };
        let mut rows = self.store.inner.fires(&request).unwrap().rows;
        rows.reverse();
        rows
    }

    /// The outcomes of its items, in order, with how often each came in a row.
    pub(crate) fn outcomes(&self) -> Vec<(FireOutcome, usize)> {
        let mut runs: Vec<(FireOutcome, usize)> = Vec::new();
        for fire in self.fires() {
            match runs.last_mut() {
                Some((outcome, count)) if *outcome == fire.outcome => *count += 1,
                _ => runs.push((fire.outcome, 1)),
            }
        }
        runs
    }

    /// The executions that the trigger started, in order.
    pub(crate) fn started(&self) -> Vec<ExecutionNo> {
        self.fires().into_iter().filter_map(|fire| fire.execution).collect()
    }
}

/// A store that is checked when an instance on it is dropped.
struct Checked {
    store: MemoryStore,
    plans: Plans,
}

impl Drop for Checked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let options = CheckOptions::default();
        let report = check(&self.store, &self.plans, &options, &|_| {}).unwrap();
        assert_eq!(report.findings, [], "after the test");
    }
}

impl Instance {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Does what is due.
    pub(crate) async fn run_due(&self) {
        self.runner.run_due().await.unwrap();
    }
}
