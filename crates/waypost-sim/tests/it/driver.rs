//! The core, driven by hand: what is ready is done in random order, time passes only when nothing
//! is, and the sink plays its scripts. The simplest engine there is, to hold the model against.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;
use waypost_core::command::{Command, Decision, Effect, Env, Outcome, Refusal, Report, Request};
use waypost_core::decide::{create, decide, idempotency_key, render_task};
use waypost_core::event::{Event, Origin, RunCreated};
use waypost_core::expr::Contents;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::limits::{ITEMS_OPENED_MAX, MAP_RESULTS_BYTES_MAX, TAKERS_MAX};
use waypost_core::path::At;
use waypost_core::plan::Plan;
use waypost_core::slot::SlotCounts;
use waypost_core::state::State;
use waypost_core::time::{Millis, Timestamp};
use waypost_sim::model::{Calls, End, Ran, SentSignal, World};
use waypost_sim::program::{Program, Script};
use waypost_sim::random::Random;

/// Where tasks call.
pub(crate) const SINK: &str = "http://sink.test";

const START: Timestamp = Timestamp(1_780_000_000_000);

/// The only remote worker.
const WORKER: WorkerId = WorkerId(Uuid::from_u128(9));

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) cancels: bool,
    pub(crate) pauses: bool,
    pub(crate) losses: bool,
    /// Replies that do not arrive.
    pub(crate) silence: bool,
    /// Time that passes unnoticed.
    pub(crate) lateness: bool,
}

/// Something that can be done now.
#[derive(Clone, Debug)]
enum Todo {
    Evaluate(At, u32),
    Call(At, u32, Token),
    Report(Report),
}

impl Todo {
    fn token(&self) -> Option<Token> {
        match self {
            Self::Evaluate(..) => None,
            Self::Call(_, _, token) => Some(*token),
            Self::Report(report) => Some(report.token),
        }
    }
}

struct Driver<'a> {
    program: &'a Program,
    plan: &'a Plan,
    state: State,
    now: Timestamp,
    random: Random,
    trouble: Trouble,
    log: Vec<Event>,
    todo: Vec<Todo>,
    later: Vec<(Timestamp, Todo)>,
    sink: BTreeMap<String, BTreeMap<String, Calls>>,
    world: World,
    decisions: u128,
}

/// Runs a program to its end, or to where it waits for ever.
pub(crate) fn run(program: &Program, input: &Value, random: &Random, trouble: Trouble) -> Ran {
    let compiled =
        waypost_lang::parse(program.definition().as_bytes(), &waypost_nodes::catalog()).unwrap();
    let plan = compiled.plan;
    let created = RunCreated {
        key: ExecutionId("exe_1".into()),
        workflow: plan.workflow.clone(),
        version: 1,
        definition: plan.hash,
        input: Json::from_value(input),
        labels: BTreeMap::new(),
        deadline: plan.timeout.map(|span| START.plus(span)),
        origin: Origin::default(),
        parent: None,
        trigger: None,
    };
    let (state, decision) = create(&plan, ExecutionNo(1), created, None, &env(START, 0));
    let mut driver = Driver {
        program,
        plan: &plan,
        state,
        now: START,
        random: random.split("driver"),
        trouble,
        log: Vec::new(),
        todo: Vec::new(),
        later: Vec::new(),
        sink: BTreeMap::new(),
        world: World::default(),
        decisions: 0,
    };
    driver.follow(decision);
    driver.drive();
    let mut ran = Ran::read(&driver.log);
    if !driver.state.status.is_end() && !driver.state.moves() {
        ran.end = End::Held;
    }
    (ran.sink, ran.world) = (driver.sink, driver.world);
    ran
}

fn env(now: Timestamp, entropy: u128) -> Env {
    let (instance, slots) = (InstanceId(Uuid::from_u128(1)), SlotCounts::each(1_000));
    let items_opened_max = if entropy.is_multiple_of(2) { 1 } else { ITEMS_OPENED_MAX };
    Env {
        now,
        now_max: now,
        instance,
        slots,
        entropy,
        items_opened_max,
        takers_max: Some(if entropy.is_multiple_of(3) { 1 } else { TAKERS_MAX }),
        map_results_bytes_max: MAP_RESULTS_BYTES_MAX,
        contents: Contents::default(),
    }
}

impl Driver<'_> {
    fn drive(&mut self) {
        for _ in 0..10_000 {
            self.make_trouble();
            if self.random.percent(3) {
                self.signal();
            }
            if self.state.status.is_end() {
                return;
            }
            let opens = self.todo.is_empty() || self.random.percent(50);
            if opens && self.state.wants_items() {
                self.command(Command::OpenItems).unwrap();
            } else if opens && self.state.wants_delivery() {
                self.command(Command::Deliver).unwrap();
            } else if !self.todo.is_empty() {
                let at = self.random.index(self.todo.len());
                let todo = self.todo.swap_remove(at);
                self.perform(todo);
            } else if !self.pass_time() && !self.nudge() {
                return;
            }
        }
        panic!("it never ends: {}", self.program);
    }

    /// Moves on to the next thing that time does; false where there is none.
    fn pass_time(&mut self) -> bool {
        let reports = self.later.iter().map(|(due, _)| *due).min();
        let timers = self.state.next_due();
        let Some(next) = reports.into_iter().chain(timers).min() else { return false };
        self.now = self.now.max(next);
        if self.trouble.lateness && self.random.percent(30) {
            self.world.late = true;
            self.now = self.now.plus(Millis(self.random.below(100_000)));
        }
        let now = self.now;
        let due: Vec<_> = self.later.extract_if(.., |(due, _)| *due <= now).collect();
        self.todo.extend(due.into_iter().map(|(_, todo)| todo));
        self.command(Command::Tick).unwrap();
        true
    }

    /// Nothing happens by itself any more: a person lets it go on, or the signals come, or not.
    fn nudge(&mut self) -> bool {
        if !self.state.moves() {
            self.world.paused = true;
            self.command(Command::Request(Request::Resume { reason: None }, Origin::default()))
                .unwrap();
            return true;
        }
        if self.random.percent(20) {
            return false;
        }
        self.signal();
        true
    }

    fn make_trouble(&mut self) {
        let Trouble { cancels, pauses, losses, .. } = self.trouble;
        let origin = Origin::default;
        if cancels && self.random.percent(3) {
            self.world.cancel_requested = true;
            let _ended = self.command(Command::Request(Request::Cancel { reason: None }, origin()));
        }
        if pauses && self.random.percent(5) {
            self.world.paused = true;
            let now = self.random.percent(50);
            let _paused =
                self.command(Command::Request(Request::Pause { now, reason: None }, origin()));
        }
        if pauses && self.random.percent(10) {
            let _resumed =
                self.command(Command::Request(Request::Resume { reason: None }, origin()));
        }
        if losses && !self.state.status.is_end() && self.random.percent(3) {
            self.world.attempts_lost = true;
            // All but what a remote worker does: it lives on.
            let remote = self.state.nodes().filter(|(_, node)| node.remote.is_some());
            let tokens: Vec<Token> = remote.filter_map(|(_, node)| node.token).collect();
            let lives_on = |todo: &Todo| todo.token().is_some_and(|token| tokens.contains(&token));
            self.todo.retain(lives_on);
            self.later.retain(|(_, todo)| lives_on(todo));
            self.command(Command::TakeOver).unwrap();
            self.command(Command::Recover).unwrap();
        }
    }

    fn signal(&mut self) {
        let needed = self.program.signals();
        if needed.is_empty() {
            return;
        }
        let signal = *self.random.pick(&needed);
        let serial = u64::try_from(self.world.signals.len()).unwrap();
        let body = signal.body(serial, self.random.percent(70));
        let name = signal.name();
        let sent = Json::from_value(&body);
        let origin = Origin::default();
        let full = signal.full_name(self.state.created.key.as_str()).into();
        let command = Command::Request(Request::Signal { name: full, body: sent }, origin);
        let _accepted = self.command(command);
        self.world.signals.push(SentSignal { name: name.into(), body });
    }

    fn perform(&mut self, todo: Todo) {
        match todo {
            Todo::Evaluate(node, attempt) => {
                self.command(Command::Evaluate { node, attempt }).unwrap();
            }
            Todo::Call(node, attempt, token) => self.call(node, attempt, token),
            Todo::Report(report) => {
                // Refused where the attempt is not wanted any more.
                let _accepted = self.command(Command::Report(report));
            }
        }
    }

    fn call(&mut self, node: At, attempt: u32, token: Token) {
        let path = self.state.path(self.plan, node);
        let report = |outcome| {
            Todo::Report(Report { node: path.clone(), attempt, token, worker: None, outcome })
        };
        let lost = || report(Outcome::Lost(Failure::transient("panic", "it panicked")));
        let loses = self.trouble.losses && self.random.percent(10);
        self.world.attempts_lost |= loses;
        if loses && self.random.percent(50) {
            return self.todo.push(lost());
        }
        let rendered = render_task(self.plan, &self.state, node, &Contents::default()).unwrap();
        let config = rendered.config.to_value().unwrap();
        let url = config["url"].as_str().unwrap();
        let script = Script::parse(url.strip_prefix(SINK).unwrap()).unwrap();
        let key = idempotency_key(self.plan, &self.state, node);
        let seen = self.sink.entry(path.to_string()).or_default().entry(key.clone()).or_default();
        seen.calls += 1;
        let reply = script.reply(seen.calls, &key);
        seen.effects += u32::from(reply.as_ref().is_some_and(|reply| reply.effect));
        let silent = self.trouble.silence && self.random.percent(15);
        self.world.replies_lost |= silent;
        let outcome = match reply {
            _ if loses => return self.todo.push(lost()),
            Some(_) if silent => {
                let kind = *self.random.pick(&[kind::CONNECTION, kind::TIMEOUT]);
                Outcome::Failed(Failure::transient(kind, "the reply was lost"))
            }
            None => {
                let due = self.now.plus(self.plan.node(node.node).timeout.unwrap());
                let failure = Failure::transient(kind::TIMEOUT, "no answer");
                return self.later.push((due, report(Outcome::Failed(failure))));
            }
            Some(reply) if reply.status < 400 => {
                let output = json!({ "status": 200, "headers": {}, "body": reply.body });
                Outcome::Completed(Json::from_value(&output))
            }
            Some(reply) => Outcome::Failed(Failure {
                status: Some(reply.status),
                retryable: reply.status >= 500,
                ..Failure::permanent(kind::HTTP, "refused")
            }),
        };
        self.todo.push(report(outcome));
    }

    fn command(&mut self, command: Command) -> Result<(), Refusal> {
        self.decisions += 1;
        let env = env(self.now, self.decisions);
        let decision = decide(self.plan, &mut self.state, command, &env)?;
        self.follow(decision);
        Ok(())
    }

    fn follow(&mut self, decision: Decision) {
        self.log.extend(decision.events);
        for effect in decision.effects {
            match effect {
                Effect::Evaluate { node, attempt } => self.todo.push(Todo::Evaluate(node, attempt)),
                Effect::Run { node, attempt, token } => {
                    self.todo.push(Todo::Call(node, attempt, token));
                }
                // There are slots for all; so it is a remote worker, who takes it at once.
                Effect::Offer { node, attempt } => self.start_remote(node, attempt),
                Effect::Cancel { token, .. } => self.stop(token),
                Effect::Launch { .. } => unreachable!("the programs of this test start no others"),
            }
        }
    }

    fn start_remote(&mut self, at: At, attempt: u32) {
        self.decisions += 1;
        let token = Token(1 << 100 | self.decisions);
        let (node, outcome) = (self.state.path(self.plan, at), Outcome::Started);
        let report = Report { node, attempt, token, worker: Some(WORKER), outcome };
        // One decision may offer an attempt twice; the first start counts.
        if self.command(Command::Report(report)).is_ok() {
            self.todo.push(Todo::Call(at, attempt, token));
        }
    }

    /// Stops an attempt, and says so.
    fn stop(&mut self, token: Token) {
        let stopped = |todo: &Todo| todo.token() == Some(token);
        self.todo.retain(|todo| !stopped(todo));
        self.later.retain(|(_, todo)| !stopped(todo));
        let held = self.state.nodes().find(|(_, node)| node.token == Some(token));
        if let Some((at, held)) = held {
            let node = self.state.path(self.plan, at);
            let attempt = held.attempt;
            let outcome = Outcome::Cancelled;
            self.todo.push(Todo::Report(Report { node, attempt, token, worker: None, outcome }));
        }
    }
}
