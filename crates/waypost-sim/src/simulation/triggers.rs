//! Triggers: workflows that start by themselves, in a share of the worlds. What fires is the product's
//! (`TriggerWork`, `Firing`, `TriggerControl`, `EndedTriggers`); the loop around it is here.
//!
//! ```text
//!   Turn ─▶ claim ─▶ a task for each trigger and group ─▶ wishes: Call, Start, Read ─▶ Poll: the task goes on
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `virtual_tasks`, `tasks` | tasks in virtual time; what they ask of the world |
//! | `flows`, `sources` | the workflows, drawn at random; what polls read |
//! | `asks` | people: deliveries, events, deploys, pauses, rewinds, backfills |
//! | `watch`, `steps` | what must be true after every call of the store |
//! | `settled` | what must be true in the end |

mod asks;
mod flows;
mod settled;
mod sources;
mod steps;
mod tasks;
mod virtual_tasks;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::event::LOG_FORMAT;
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_engine::triggers::{
    EndedTriggers, Firing, Surroundings, TriggerBook, TriggerControl, TriggerWakeups, TriggerWork,
    registrations,
};
use waypost_ports::clock::Clock;
use waypost_ports::outbox::{EndpointRow, MessageResult, OutboxMessage};
use waypost_ports::source::PageRequest;
use waypost_ports::store::NewDefinition;
use waypost_ports::triggers::{ClaimedTriggers, DueGroup, TriggerClaim, TriggerNo};

use self::asks::{AskEnd, TriggerAsk};
use self::flows::{Flow, FlowKind};
use self::virtual_tasks::{NoStreams, SimPages, SimSurroundings, VirtualTasks};
pub(super) use self::virtual_tasks::{PageAnswer, StoreCall};
pub(super) use self::virtual_tasks::{StartAnswer, TaskNo};
use self::watch::Watch;
use super::people::compile;
use super::{Simulation, WorldEvent};
use crate::clock::START;
use crate::process::Life;
use crate::random::Random;
use crate::store::Connection;

/// The triggers of a world.
pub(super) struct TriggerWorld {
    random: Random,
    /// How long claims last.
    lease: Millis,
    flows: Vec<Flow>,
    tasks: VirtualTasks<TaskEnd>,
    instances: BTreeMap<Life, TriggerInstance>,
    /// What people ask, by its number.
    asks: Vec<TriggerAsk>,
    watch: Watch,
}

/// The trigger runner of a process.
struct TriggerInstance {
    surroundings: Arc<SimSurroundings>,
    work: Arc<TriggerWork>,
    control: TriggerControl,
    book: TriggerBook,
    claiming: bool,
    /// When it looks again.
    turn_at: Option<u64>,
}

/// What happens around triggers.
pub enum TriggerEvent {
    /// A runner looks for what is due.
    Turn(Life),
    /// A task goes on.
    Poll(Life, TaskNo),
    /// A call of a task reaches the store.
    Call(Life, TaskNo, StoreCall),
    /// A source answers a read.
    Read(Life, Box<PageRequest>, PageAnswer),
    /// People ask for something.
    People,
    /// They do so of the trigger that fires.
    Tempted(TriggerNo),
    /// A delivery, an event or a change of a trigger gets to a process.
    Send(usize),
    /// After the faults, people resume what is paused.
    Care,
}

/// How a task ended.
enum TaskEnd {
    Claimed(Option<(ClaimedTriggers, Vec<DueGroup>, usize)>),
    Trigger(TriggerNo, Option<Timestamp>),
    Group,
    End(Uuid, Box<OutboxMessage>, Option<Delivered>),
    Asked(usize, AskEnd),
}

impl TriggerWorld {
    /// Most worlds have none. From streams of their own, so that these do not change.
    pub(super) fn new(seed: &Random) -> Self {
        let mut random = seed.split("triggers");
        let has_some = seed.split("workflows with triggers").percent(12);
        let count = if has_some { 1 + random.index(3) } else { 0 };
        let flows = (0..count).map(|at| Flow::draw(at, &mut random)).collect();
        let lease = Millis(*random.pick(&[300, 2_000, 30_000]));
        Self {
            random,
            lease,
            flows,
            tasks: VirtualTasks::default(),
            instances: BTreeMap::new(),
            asks: Vec::new(),
            watch: Watch::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.flows.len()
    }

    /// May this process fire ends?
    pub(super) fn fires_ends(&self, life: Life) -> bool {
        self.instances.contains_key(&life)
    }

    fn flow(&self, workflow: &str) -> Option<&Flow> {
        self.flows.iter().find(|flow| *flow.name == *workflow)
    }
}

impl Simulation {
    pub(super) fn build_triggers(&mut self) {
        for at in 0..self.triggers.flows.len() {
            if let FlowKind::Poll(source) = &mut self.triggers.flows[at].kind {
                source.delay_items(&mut self.store.inner().weather, &mut self.triggers.random);
            }
            let flow = &self.triggers.flows[at];
            let (definition, before) = (flow.definition(), flow.registered_before);
            self.note("flow", &[at as u64], || definition.clone());
            let now = START.minus(before);
            let new = self.definition_with_triggers(at, now);
            self.store.with(|tables, _| tables.define(&new, now));
        }
        if self.triggers.is_empty() {
            return;
        }
        self.plan_asks();
        self.watch_triggers(None);
        self.after(500, WorldEvent::Triggers(TriggerEvent::People));
    }

    /// The present version of a workflow, as it is deployed.
    fn definition_with_triggers(&mut self, at: usize, now: Timestamp) -> NewDefinition {
        let flow = &self.triggers.flows[at];
        let (definition, plan) = compile(&flow.definition());
        if let FlowKind::Schedule(timing) = &flow.kind {
            self.triggers.watch.timings.insert(definition.hash, timing.clone());
        }
        let triggers = registrations(&plan, &definition.name, now);
        self.plans.keep(plan);
        NewDefinition { triggers, ..definition }
    }

    pub(super) fn trigger(&mut self, event: TriggerEvent) {
        match event {
            TriggerEvent::Turn(life) => self.trigger_turn(life),
            TriggerEvent::Poll(life, task) => self.poll_trigger_task(life, task),
            TriggerEvent::Call(life, task, call) => {
                if self.happens(life) {
                    self.note("trigger-call", &[life.into(), task], String::new);
                    call();
                    self.watch_triggers(Some((life, task)));
                }
            }
            TriggerEvent::Read(life, request, answer) => self.read_source(life, &request, answer),
            TriggerEvent::People => self.ask_triggers(),
            TriggerEvent::Tempted(trigger) => self.ask_while_it_fires(trigger),
            TriggerEvent::Send(at) => self.send_ask(at),
            TriggerEvent::Care => self.care_for_triggers(),
        }
    }

    /// A process has started. Older versions than the newest one leave triggers to others.
    pub(super) fn start_triggers(&mut self, life: Life) {
        let Some(process) = self.processes.get(&life) else { return };
        if self.triggers.is_empty() || process.store_calls.config.fold < LOG_FORMAT {
            return;
        }
        let random = self.triggers.random.split(&format!("runner {life}"));
        let surroundings = Arc::new(SimSurroundings::new(random));
        let connection = Arc::new(Connection(self.store.clone()));
        let firing = Firing {
            engine: Arc::clone(&surroundings) as Arc<dyn Surroundings>,
            store: Arc::clone(&connection) as Arc<_>,
            triggers: Arc::clone(&connection) as Arc<_>,
            plans: Arc::clone(&self.plans),
        };
        let wakeups = TriggerWakeups::default();
        let pages = Arc::new(SimPages(Arc::clone(&surroundings)));
        let work = TriggerWork::new(firing.clone(), pages, Arc::new(NoStreams), wakeups.clone());
        let ends = EndedTriggers { firing: firing.clone(), outbox: connection };
        let instance = TriggerInstance {
            surroundings,
            work: Arc::new(work),
            control: TriggerControl { firing, ends, wakeups },
            book: TriggerBook::default(),
            claiming: false,
            turn_at: None,
        };
        self.triggers.instances.insert(life, instance);
        self.turn_in(life, 50);
    }

    pub(super) fn stop_triggers(&mut self, life: Life) {
        self.triggers.instances.remove(&life);
        self.triggers.tasks.drop_all_of(life);
    }

    /// A runner looks for what is due, unless it looks already.
    fn trigger_turn(&mut self, life: Life) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        let again = TriggerEvent::Turn(life);
        if let Some(later) = &mut process.suspended {
            return later.push(WorldEvent::Triggers(again));
        }
        if process.draining {
            return;
        }
        let is_open = process.open;
        let Some(instance) = self.triggers.instances.get_mut(&life) else { return };
        instance.turn_at = None;
        let most = 1 + self.triggers.random.index(4);
        let request = instance.book.claim(process.now().least).filter(|_| is_open);
        let Some(request) = request else { return self.turn_in(life, 200) };
        let limit = request.limit.min(most);
        if std::mem::replace(&mut instance.claiming, true) {
            return;
        }
        let (work, lease) = (Arc::clone(&instance.work), self.triggers.lease);
        let request = TriggerClaim { limit, lease, ..request };
        self.triggers.tasks.spawn(life, async move {
            let Ok(claimed) = work.claim(request).await else { return TaskEnd::Claimed(None) };
            let has_groups = claimed.next_group.is_some_and(|next| next <= claimed.at);
            let groups = match has_groups {
                true => work.claim_groups(limit, lease).await.unwrap_or_default(),
                false => Vec::new(),
            };
            TaskEnd::Claimed(Some((claimed, groups, limit)))
        });
    }

    fn trigger_task_ended(&mut self, life: Life, end: TaskEnd) {
        match end {
            TaskEnd::Claimed(claimed) => self.claimed_triggers(life, claimed),
            TaskEnd::Trigger(trigger, next) => {
                let Some(instance) = self.triggers.instances.get_mut(&life) else { return };
                instance.book.ended(trigger, next);
                self.plan_turn(life);
            }
            TaskEnd::Group => {
                let Some(instance) = self.triggers.instances.get_mut(&life) else { return };
                instance.book.group_ended();
            }
            TaskEnd::End(claim, message, delivered) => {
                let jitter = self.triggers.random.below(1 << 32);
                let jitter = Jitter(u32::try_from(jitter).unwrap_or(0));
                let result = delivered.map(|result| {
                    let name = message.name;
                    (claim, MessageResult { name, result, took: Millis(1), jitter })
                });
                self.end_fired(life, result);
            }
            TaskEnd::Asked(at, end) => self.asked_triggers(at, end),
        }
    }

    fn claimed_triggers(
        &mut self,
        life: Life,
        claimed: Option<(ClaimedTriggers, Vec<DueGroup>, usize)>,
    ) {
        let own_clock = self.processes.get(&life).map(|process| process.clock.now());
        let Some(instance) = self.triggers.instances.get_mut(&life) else { return };
        instance.claiming = false;
        let Some((claimed, groups, limit)) = claimed else {
            return self.turn_in(life, 1_000);
        };
        let at = match own_clock {
            Some(own) if is_planted(Bug::OwnClockSchedule) => own,
            _ => claimed.at,
        };
        let rows = instance.book.claimed(claimed, limit);
        if !groups.is_empty() {
            instance.book.groups_claimed(groups.len());
        }
        let work = Arc::clone(&instance.work);
        for row in rows {
            let (work, number) = (Arc::clone(&work), row.number);
            self.triggers.watch.decides(life, number, at);
            self.triggers.tasks.spawn(life, async move {
                TaskEnd::Trigger(number, work.on_trigger(row, at).await.unwrap_or_default())
            });
        }
        for group in groups {
            let work = Arc::clone(&work);
            self.triggers.tasks.spawn(life, async move {
                // A window that could not be fired is claimed again.
                drop(work.flush(&group).await);
                TaskEnd::Group
            });
        }
        self.plan_turn(life);
    }

    fn plan_turn(&mut self, life: Life) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        let now = process.now().least;
        let Some(instance) = self.triggers.instances.get(&life) else { return };
        let pause = instance.book.pause(now).0.max(20);
        self.turn_in(life, pause);
    }

    fn turn_in(&mut self, life: Life, ms: u64) {
        let at = self.ms() + ms;
        let Some(instance) = self.triggers.instances.get_mut(&life) else { return };
        if instance.turn_at.is_none_or(|before| before > at) {
            instance.turn_at = Some(at);
            self.after(ms, WorldEvent::Triggers(TriggerEvent::Turn(life)));
        }
    }

    /// A dispatcher has claimed the end of an execution for a trigger.
    pub(super) fn fire_end(
        &mut self,
        life: Life,
        claim: Uuid,
        message: OutboxMessage,
        endpoint: Arc<EndpointRow>,
    ) {
        let Some(instance) = self.triggers.instances.get(&life) else { return };
        let ends = instance.control.ends.clone();
        self.triggers.tasks.spawn(life, async move {
            let delivered = ends.deliver(&message, &endpoint).await;
            TaskEnd::End(claim, Box::new(message), delivered)
        });
    }
}
