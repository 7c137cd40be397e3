//! The simulation: one queue of events in virtual time, and what each of them does.
//!
//! ```text
//!   people ──▶ processes: Driver::step ──▶ store, statement by statement ──▶ replies
//!                    │                              │ commits
//!                    ▼                              ▼
//!               workers ──▶ the outside world     auditor, projector
//! ```
//!
//! First all faults of the seed's weather strike; then all faults end, one process stays, and every
//! execution must end or wait for an outside event. The first violation ends the run.
//!
//! | file | owns |
//! | --- | --- |
//! | `event` | what can happen |
//! | `operations`, `mail`, `leases` | what processes do at the store |
//! | `tasks` | workers and their calls |
//! | `blobs` | payloads on their way to the blob store and back; the sweep |
//! | `far` | remote workers: offers, polls, reports |
//! | `people` | submissions, requests, and the responses to them |
//! | `approvals` | people who answer approvals |
//! | `breakers`, `budgets` | an endpoint that is down for a while; models that use tokens |
//! | `services` | outside services that call back |
//! | `killer` | an execution that kills every process that decides it |
//! | `fate` | processes that die, clocks that jump, stores that fail |
//! | `trees` | executions that others start |
//! | `triggers` | workflows that start by themselves |
//! | `webhooks` | messages to webhook endpoints, and their dispatchers |
//! | `auditing`, `lines`, `verdict` | what must be true at every moment, and in the end |

mod approvals;
mod auditing;
mod blobs;
mod breakers;
mod budgets;
mod event;
mod far;
mod fate;
mod killer;
mod leases;
mod lines;
mod mail;
mod operations;
mod options;
mod people;
mod recording;
mod services;
mod tasks;
mod trees;
mod triggers;
mod verdict;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::id::AppendId;
use waypost_engine::driver::Input;
use waypost_engine::{Plans, StoreCalls};
use waypost_ports::memory::Tables;

use crate::blobs::WorldBlobs;
use crate::clock::{MachineClock, TrueTime};
use crate::coverage::Coverage;
use crate::fault::Weather;
use crate::outside::Sink;
use crate::process::{Life, Process};
use crate::program::Program;
use crate::random::Random;
use crate::record::Log;
use crate::store::SimStore;
use crate::trace::Trace;

pub use event::WorldEvent;
use event::kind_of;
pub use options::WorldOptions;

/// A violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which rule: an invariant's code, or a word.
    pub rule: String,
    pub what: String,
}

/// The result of a simulation.
pub struct WorldReport {
    /// The first thing that is wrong.
    pub finding: Option<Finding>,
    pub coverage: Coverage,
    /// Equal for two runs of one seed.
    pub hash: u64,
    /// Events in all.
    pub events: u64,
    /// Virtual time.
    pub ms: u64,
    /// The submitted programs.
    pub programs: Vec<Program>,
    /// How many workflows start by themselves.
    pub flows: usize,
    /// The trace, if requested.
    pub trace: Vec<String>,
    /// The chances of the faults.
    pub weather: String,
    /// The logs, if requested.
    pub logs: Vec<Log>,
}

/// One machine.
pub(crate) struct Machine {
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) fold: u16,
    /// The process that runs on it.
    pub(crate) life: Option<Life>,
}

/// See the module.
pub struct Simulation {
    options: WorldOptions,
    truth: TrueTime,
    queue: BTreeMap<(u64, u64), WorldEvent>,
    order: u64,
    events: u64,
    random: Random,
    trace: Trace,
    store: SimStore,
    plans: Arc<Plans>,
    machines: Vec<Machine>,
    processes: BTreeMap<Life, Process>,
    /// Of all processes that ever lived: their calls may still arrive.
    store_calls: BTreeMap<Life, Arc<StoreCalls>>,
    lives: Life,
    sink: Sink,
    blobs: WorldBlobs,
    far: far::Far,
    people: people::People,
    webhooks: webhooks::Webhooks,
    triggers: triggers::TriggerWorld,
    approvers: approvals::Approvers,
    storms: breakers::Storms,
    models: budgets::Models,
    services: services::Services,
    auditor: auditing::Auditor,
    coverage: Coverage,
    /// Appends that have been answered.
    answered: BTreeSet<u64>,
    groups: u64,
    poisoned: BTreeSet<AppendId>,
    /// The tables of a replica that is behind.
    replica: Option<(Tables, u64)>,
    failovers: u32,
    killer: killer::Killer,
    /// Processes that did not survive the end of the faults.
    kills: u32,
    faults_over: bool,
    finding: Option<Finding>,
}

/// Events after which a world that has not come to rest goes round in circles.
const EVENTS_MAX: u64 = 400_000;
/// How long things go wrong.
const CHAOS_MS: u64 = 40_000;
/// How long a world without faults may do nothing, after its last due time has passed.
const IDLE_MS: u64 = 300_000;

/// Simulates.
pub fn run(options: &WorldOptions) -> WorldReport {
    let mut simulation = Simulation::new(options.clone());
    let outcome = crate::quiet::catch(|| simulation.run());
    if let Err(panic) = outcome {
        simulation.fail("panic", panic);
    }
    simulation.into_report()
}

impl Simulation {
    fn new(options: WorldOptions) -> Self {
        let seed = Random::new(options.seed);
        let truth = TrueTime::default();
        let weather = Weather::draw(&seed, &options.without);
        let store = SimStore::new(truth.clone(), weather, &mut seed.split("pages"));
        let catalog = waypost_nodes::catalog();
        let compile = move |canonical: &str| {
            waypost_lang::compile_canonical(canonical.as_bytes(), &catalog)
                .map_err(|faults| faults.to_string())
        };
        let blobs = WorldBlobs::new(&mut seed.split("blobs"), &truth, &store);
        let people = people::People::new(&seed, &options);
        let far = far::Far::new(&seed, &truth);
        let killer = killer::Killer::new(&seed);
        let webhooks = webhooks::Webhooks::new(&seed);
        Self {
            trace: Trace::new(options.trace),
            random: seed.split("schedule"),
            plans: Arc::new(Plans::new(Box::new(compile))),
            options,
            queue: BTreeMap::new(),
            order: 0,
            events: 0,
            truth,
            store,
            machines: Vec::new(),
            processes: BTreeMap::new(),
            store_calls: BTreeMap::new(),
            lives: 0,
            sink: Sink::default(),
            blobs,
            far,
            people,
            webhooks,
            triggers: triggers::TriggerWorld::new(&seed),
            approvers: approvals::Approvers::new(&seed),
            storms: breakers::Storms::new(&seed),
            models: budgets::Models::new(&seed),
            services: services::Services::new(&seed),
            auditor: auditing::Auditor::default(),
            coverage: Coverage::default(),
            answered: BTreeSet::new(),
            groups: 0,
            poisoned: BTreeSet::new(),
            replica: None,
            failovers: 0,
            killer,
            kills: 0,
            faults_over: false,
            finding: None,
        }
    }

    fn run(&mut self) {
        self.build_machines();
        self.define_children();
        self.plan_submissions();
        self.build_far();
        self.build_triggers();
        self.build_webhooks();
        self.after(1_000, WorldEvent::Fate);
        self.after(500, WorldEvent::Request(None));
        self.after(100, WorldEvent::Project);
        self.after(1_000, WorldEvent::SweepBlobs);
        let faults_end_at = CHAOS_MS;
        while self.finding.is_none() {
            let due = self.queue.first_key_value().map(|((ms, _), _)| *ms);
            let out_of_events = self.options.events_max.is_some_and(|most| self.events >= most);
            if !self.faults_over && (due.is_none_or(|ms| ms > faults_end_at) || out_of_events) {
                self.end_faults();
                continue;
            }
            let Some(((ms, _), event)) = self.queue.pop_first() else { break };
            self.truth.advance_to(ms);
            self.events += 1;
            self.handle(event);
            if !self.triggers.is_empty() {
                self.wake_trigger_tasks();
            }
            if self.faults_over && self.is_at_rest() {
                break;
            }
            if self.events > EVENTS_MAX || self.is_stuck() {
                self.fail_stuck();
            }
        }
        if self.finding.is_none() {
            self.check_everything();
        }
    }

    fn handle(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Step(life) => self.step(life),
            WorldEvent::Heartbeat(life) => self.heartbeat(life),
            WorldEvent::Renew { life, sent, numbers } => self.renew(life, sent, numbers),
            WorldEvent::Renewed { life, sent, renewal } => self.renewed(life, sent, renewal),
            WorldEvent::Append(op, stage) => self.append(op, stage),
            WorldEvent::Put { life, outgoing } => self.put(life, outgoing),
            WorldEvent::Wake { life, outgoing } => self.wake(life, outgoing),
            WorldEvent::Perform { life, work, tries } => self.perform(life, work, tries),
            WorldEvent::Take { life, work, listed } => {
                self.store.inner().listed = Some(listed);
                self.perform_now(life, work, 0);
                self.store.inner().listed = None;
            }
            WorldEvent::Fetch { life, execution, wanted } => self.fetch(life, execution, wanted),
            WorldEvent::PutBlob { life, payload } => self.put_blob(life, &payload),
            WorldEvent::BlobsAnswer => self.blobs.failing = false,
            WorldEvent::SweepBlobs => self.sweep_blobs(),
            WorldEvent::Inputs(life, inputs) => self.inputs(life, inputs),
            WorldEvent::Call(life, order) => self.call(life, order),
            WorldEvent::Ended { life, order, outcome } => self.ended(life, &order, outcome),
            WorldEvent::Submit { at, again } => self.submit(at, again),
            WorldEvent::Request(of) => self.request(of),
            WorldEvent::Repeat(request, serial) => self.ask_an_instance(request, serial),
            WorldEvent::Steer(execution) => self.steer(execution),
            WorldEvent::Decide(execution) => self.decide_any(execution),
            WorldEvent::CallBack(outgoing) => self.call_back(outgoing),
            WorldEvent::Pay(execution) => self.pay(execution),
            WorldEvent::Release(execution) => self.release(execution),
            WorldEvent::Far(event) => self.far(event),
            WorldEvent::Webhooks(event) => self.webhook(event),
            WorldEvent::Triggers(event) => self.trigger(event),
            WorldEvent::Fate => self.fate(),
            WorldEvent::Start { machine } => self.start(machine),
            WorldEvent::Resume(life) => self.resume(life),
            WorldEvent::HandOver(life) => self.hand_over(life),
            WorldEvent::Leave(life) => self.leave(life),
            WorldEvent::OutageEnds => self.store.inner().outage = false,
            WorldEvent::SpaceComes => self.store.inner().full = false,
            WorldEvent::Project => self.project(),
            WorldEvent::Care => self.care(),
        }
    }

    fn ms(&self) -> u64 {
        self.truth.ms()
    }

    fn after(&mut self, ms: u64, event: WorldEvent) {
        self.order += 1;
        self.queue.insert((self.ms() + ms, self.order), event);
    }

    fn fail(&mut self, rule: impl Into<String>, what: impl Into<String>) {
        if self.finding.is_none() {
            let finding = Finding { rule: rule.into(), what: what.into() };
            let text = format!("{}: {}", finding.rule, finding.what);
            self.trace.note(self.truth.ms(), "FINDING", &[], || text);
            self.finding = Some(finding);
        }
    }

    fn note(&mut self, what: &'static str, numbers: &[u64], tell: impl FnOnce() -> String) {
        let ms = self.ms();
        self.trace.note(ms, what, numbers, tell);
    }

    /// Makes sure that a process takes a step soon.
    fn poke(&mut self, life: Life) {
        let soon = self.random.below(3);
        self.step_in(life, soon);
    }

    fn step_in(&mut self, life: Life, ms: u64) {
        let at = self.ms() + ms;
        let Some(process) = self.processes.get_mut(&life) else { return };
        if process.step_at.is_none_or(|before| before > at) {
            process.step_at = Some(at);
            self.after(ms, WorldEvent::Step(life));
        }
    }

    fn step(&mut self, life: Life) {
        let now = self.ms();
        let Some(process) = self.processes.get_mut(&life) else { return };
        if process.step_at != Some(now) || process.suspended.is_some() {
            return; // an earlier one has replaced it, or it stands still
        }
        process.step_at = None;
        let taken = u64::try_from(process.inputs.len()).unwrap_or(0);
        let mut outputs = Vec::new();
        let wait = process.step(&mut outputs);
        if self.killer.strikes(&outputs) {
            return self.die_deciding(life);
        }
        let put = u64::try_from(outputs.len()).unwrap_or(0);
        if taken + put > 0 {
            self.note("step", &[life.into(), taken, put], || {
                let kinds: Vec<_> = outputs.iter().map(kind_of).collect();
                format!("p{life} takes {taken}, puts {}", kinds.join(", "))
            });
        }
        self.check_spans(&outputs);
        self.carry(life, outputs);
        match wait {
            Some(0) => self.fail("busy", format!("p{life} wants to step again at once")),
            // Its clock may be slow: a wake-up that comes too early is no harm.
            Some(wait) => self.step_in(life, wait),
            None => {}
        }
    }

    fn inputs(&mut self, life: Life, inputs: Vec<Input>) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        match &mut process.suspended {
            Some(later) => later.push(WorldEvent::Inputs(life, inputs)),
            None => {
                process.inputs.extend(inputs);
                self.poke(life);
            }
        }
    }
}
