//! What people and other systems ask of triggers, through any process: deliveries and events, which are sent
//! again until they are answered; deploys, pauses, resumptions, rewinds and backfills.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::oneshot;
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::Payload;
use waypost_engine::triggers::{
    BackfillRequest, FireError, FireResult, Firing, Occurrence, RewindTo, Surroundings,
    TriggerControl, arrival,
};
use waypost_ports::store::{NewDefinition, Store, StoreError};
use waypost_ports::triggers::{Arrived, FireOutcome, TriggerNo, TriggerRow, TriggerState};

use super::flows::{EVENT_TYPE, Flow, FlowKind, TRIGGER};
use super::sources::BEGINNING;
use super::{TaskEnd, TriggerEvent};
use crate::clock::START;
use crate::fault::Fault;
use crate::simulation::{Simulation, WorldEvent};

/// How often a delivery is tried again whose trigger changes meanwhile.
const TRIES: usize = 3;

/// Something that is asked.
pub(super) struct TriggerAsk {
    pub(super) flow: Arc<str>,
    pub(super) what: Asked,
    /// Is there an answer, after which it is not asked again?
    pub(super) is_over: bool,
    /// Did the trigger take it?
    pub(super) is_taken: bool,
}

#[derive(Clone)]
pub(super) enum Asked {
    Delivery { key: String },
    Event { key: String, event: Json, has_window: bool },
    Deploy(Box<NewDefinition>),
    Pause,
    Resume { catch_up: bool },
    Rewind { to: RewindTo, again: bool },
    Backfill(BackfillRequest),
}

/// The answer to it.
pub(super) enum AskEnd {
    /// It is durable.
    Taken,
    /// The trigger takes nothing, or the request is refused.
    Refused,
    /// To be asked again.
    Later,
    /// A backfill of these times was accepted.
    Backfills(Vec<Timestamp>),
}

impl Asked {
    /// Is it sent again until it is answered?
    fn repeats(&self) -> bool {
        matches!(self, Self::Delivery { .. } | Self::Event { .. })
    }
}

impl Simulation {
    /// Deliveries and events, at any moment of the faults.
    pub(super) fn plan_asks(&mut self) {
        let mut asks = Vec::new();
        let random = &mut self.triggers.random;
        for flow in &self.triggers.flows {
            let (FlowKind::Webhook | FlowKind::Event(_)) = &flow.kind else { continue };
            for serial in 0..random.between(2, 25) {
                let what = match &flow.kind {
                    FlowKind::Event(window) => {
                        let id = format!("event-{serial}");
                        let event = json!({
                            "specversion": "1.0", "type": EVENT_TYPE, "source": "sim", "id": id,
                            "data": { "group": format!("g{}", random.below(2)) },
                        });
                        let has_window = window.is_some();
                        let (key, event) = (format!("sim {id}"), Json::from_value(&event));
                        Asked::Event { key, event, has_window }
                    }
                    _ => Asked::Delivery { key: format!("delivery-{serial}") },
                };
                let flow = Arc::clone(&flow.name);
                asks.push((
                    random.below(38_000),
                    TriggerAsk { flow, what, is_over: false, is_taken: false },
                ));
            }
        }
        for (at, (ms, ask)) in asks.into_iter().enumerate() {
            self.triggers.asks.push(ask);
            self.after(ms, WorldEvent::Triggers(TriggerEvent::Send(at)));
        }
    }

    /// People ask something of a trigger.
    pub(super) fn ask_triggers(&mut self) {
        if self.faults_over {
            return self.after(1, WorldEvent::Triggers(TriggerEvent::Care));
        }
        let next = self.triggers.random.between(500, 8_000);
        self.after(next, WorldEvent::Triggers(TriggerEvent::People));
        let at = self.triggers.random.index(self.triggers.flows.len());
        self.ask_of(at);
    }

    /// The same of a trigger that fires.
    pub(super) fn ask_while_it_fires(&mut self, trigger: TriggerNo) {
        let row = self.triggers.watch.rows.get(&trigger);
        let is_it = |flow: &Flow| row.is_some_and(|row| row.workflow == flow.name);
        let at = self.triggers.flows.iter().position(is_it);
        if let Some(at) = at.filter(|_| !self.faults_over) {
            self.ask_of(at);
        }
    }

    fn ask_of(&mut self, at: usize) {
        let flow = Arc::clone(&self.triggers.flows[at].name);
        let what = match self.triggers.random.below(10) {
            0..3 => self.new_version(at),
            3 | 4 => Some(Asked::Pause),
            5 | 6 => Some(Asked::Resume { catch_up: self.triggers.random.percent(50) }),
            7 => self.rewind(at),
            _ => self.backfill(at),
        };
        // An end that comes during a pause is left out, which would hide one that is lost.
        let is_of_ends = matches!(self.triggers.flows[at].kind, FlowKind::Ended);
        let what = what.filter(|what| !is_of_ends || !matches!(what, Asked::Pause));
        if let Some(what) = what {
            self.ask_trigger(flow, what);
        }
    }

    fn ask_trigger(&mut self, flow: Arc<str>, what: Asked) {
        self.triggers.asks.push(TriggerAsk { flow, what, is_over: false, is_taken: false });
        self.send_ask(self.triggers.asks.len() - 1);
    }

    fn new_version(&mut self, at: usize) -> Option<Asked> {
        let now = self.truth.now();
        let changes = self.triggers.random.percent(30);
        let flow = &mut self.triggers.flows[at];
        flow.version += 1;
        if changes {
            flow.draw_timing(&mut self.triggers.random);
        }
        Some(Asked::Deploy(Box::new(self.definition_with_triggers(at, now))))
    }

    fn rewind(&mut self, at: usize) -> Option<Asked> {
        let random = &mut self.triggers.random;
        let again = random.percent(40);
        let to = match &self.triggers.flows[at].kind {
            FlowKind::Schedule(_) => {
                let back = if random.percent(50) { 20_000 } else { 400_000 };
                RewindTo::Time(self.truth.now().minus(Millis(random.below(back))))
            }
            FlowKind::Poll(_) => {
                let since = json!({ "since": BEGINNING.to_string() });
                RewindTo::Cursor(Json::from_value(&since))
            }
            FlowKind::Webhook | FlowKind::Event(_) | FlowKind::Ended => return None,
        };
        Some(Asked::Rewind { to, again })
    }

    fn backfill(&mut self, at: usize) -> Option<Asked> {
        let FlowKind::Schedule(_) = &self.triggers.flows[at].kind else { return None };
        let random = &mut self.triggers.random;
        let from = START.minus(Millis(random.below(30_000)));
        let to = from.plus(Millis(random.between(1_000, 40_000)));
        let (again, rate) = (random.percent(30), u32::try_from(random.between(1, 20)).unwrap_or(1));
        Some(Asked::Backfill(BackfillRequest { from, to, again, rate, dry_run: false }))
    }

    pub(super) fn send_ask(&mut self, at: usize) {
        let Some(ask) = self.triggers.asks.get(at).filter(|ask| !ask.is_over) else { return };
        let (flow, what) = (Arc::clone(&ask.flow), ask.what.clone());
        if what.repeats() {
            let patience = self.triggers.random.between(2_000, 20_000);
            self.after(patience, WorldEvent::Triggers(TriggerEvent::Send(at)));
        }
        let random = &mut self.triggers.random;
        let twice =
            what.repeats() && self.store.inner().weather.strikes_apart(Fault::HookTwice, random);
        for _ in 0..=u8::from(twice) {
            self.send_to_any(at, &flow, &what);
        }
    }

    fn send_to_any(&mut self, at: usize, flow: &Arc<str>, what: &Asked) {
        let Some(life) = self.any_process() else { return };
        let Some(instance) = self.triggers.instances.get(&life) else { return };
        let (control, flow, what) = (instance.control.clone(), Arc::clone(flow), what.clone());
        self.note("ask-trigger", &[life.into(), at as u64], || {
            format!("p{life} {flow}: {}", describe(&what))
        });
        let cause = what.clone();
        let task = self
            .triggers
            .tasks
            .spawn(life, async move { TaskEnd::Asked(at, answer(&control, &flow, what).await) });
        self.triggers.watch.causes(task, cause);
    }

    pub(super) fn asked_triggers(&mut self, at: usize, end: AskEnd) {
        let Some(ask) = self.triggers.asks.get_mut(at) else { return };
        match end {
            AskEnd::Later => {}
            AskEnd::Refused => ask.is_over = true,
            AskEnd::Taken => (ask.is_over, ask.is_taken) = (true, true),
            AskEnd::Backfills(times) => {
                ask.is_over = true;
                let flow = Arc::clone(&ask.flow);
                self.triggers.watch.backfills(&flow, times);
            }
        }
        self.check_asked(at);
    }

    /// After the faults, whatever is paused or broken is resumed.
    pub(super) fn care_for_triggers(&mut self) {
        self.after(5_000, WorldEvent::Triggers(TriggerEvent::Care));
        let rests: Vec<Arc<str>> = self.store.with(|tables, _| {
            let rests = tables.trigger_rows().filter(|row| row.state != TriggerState::Active);
            rests.map(|row| Arc::clone(&row.workflow)).collect()
        });
        for flow in rests {
            self.ask_trigger(flow, Asked::Resume { catch_up: false });
        }
    }
}

/// As a server does it.
async fn answer(control: &TriggerControl, flow: &str, what: Asked) -> AskEnd {
    let firing = &control.firing;
    let later = |_| AskEnd::Later;
    match what {
        Asked::Delivery { key } => {
            let body = Json::from_value(&json!({ "id": key }));
            let nothing = Json::from_value(&json!({}));
            let occurrence = Occurrence::new(&key, Payload::request(&body, &nothing, &nothing));
            deliver(firing, flow, &occurrence).await.unwrap_or_else(later)
        }
        Asked::Event { key, event, has_window } => {
            let occurrence = Occurrence::new(&key, Payload::event(&event));
            match has_window {
                true => collect(firing, flow, (&occurrence, &event)).await.unwrap_or_else(later),
                false => deliver(firing, flow, &occurrence).await.unwrap_or_else(later),
            }
        }
        Asked::Deploy(new) => match deploy(control, *new).await {
            Ok(()) => AskEnd::Taken,
            Err(_) => AskEnd::Refused,
        },
        Asked::Pause => done(control.pause(flow, TRIGGER, None).await.is_ok()),
        Asked::Resume { catch_up } => done(control.resume(flow, TRIGGER, catch_up).await.is_ok()),
        Asked::Rewind { to, again } => {
            done(control.rewind(flow, TRIGGER, &to, again).await.is_ok())
        }
        Asked::Backfill(request) => match control.backfill(flow, TRIGGER, request).await {
            Ok(accepted) if accepted.id.is_some() => AskEnd::Backfills(accepted.times),
            _ => AskEnd::Refused,
        },
    }
}

fn done(is_done: bool) -> AskEnd {
    if is_done { AskEnd::Taken } else { AskEnd::Refused }
}

async fn active(firing: &Firing, flow: &str) -> Result<Option<TriggerRow>, FireError> {
    let row = firing.row(flow, TRIGGER).await?;
    Ok(row.filter(|row| row.state == TriggerState::Active))
}

/// A request to a webhook, or an event for a trigger without a window.
async fn deliver(
    firing: &Firing,
    flow: &str,
    occurrence: &Occurrence,
) -> Result<AskEnd, FireError> {
    for _ in 0..TRIES {
        let Some(row) = active(firing, flow).await? else { return Ok(AskEnd::Refused) };
        match firing.fire(&row, occurrence, None, None).await? {
            FireResult::Started(_) | FireResult::Known(_) => return Ok(AskEnd::Taken),
            FireResult::Filtered => return Ok(AskEnd::Refused),
            FireResult::Stale => {}
            FireResult::Dead { reason } => {
                if firing.settle(&row, occurrence, FireOutcome::Dead, Some(&reason)).await? {
                    return Ok(AskEnd::Taken);
                }
            }
            FireResult::Rejected { .. } | FireResult::Retry { .. } => return Ok(AskEnd::Later),
        }
    }
    Ok(AskEnd::Later)
}

/// An event for a trigger with a window.
async fn collect(
    firing: &Firing,
    flow: &str,
    event: (&Occurrence, &Json),
) -> Result<AskEnd, FireError> {
    for _ in 0..TRIES {
        let Some(row) = active(firing, flow).await? else { return Ok(AskEnd::Refused) };
        let planned = firing.planned(&row).await?;
        let Ok(Some(arrival)) = arrival(&row, &planned.trigger, event, firing.now()) else {
            return Ok(AskEnd::Refused);
        };
        let triggers = Arc::clone(&firing.triggers);
        let arrived = call(&*firing.engine, move || triggers.arrive(&[arrival])).await?;
        match arrived.first() {
            Some(
                Arrived::Held
                | Arrived::Duplicate
                | Arrived::Replaced
                | Arrived::Skipped
                | Arrived::Permitted { .. },
            ) => return Ok(AskEnd::Taken),
            Some(Arrived::Stale) => {}
            Some(Arrived::Full) | None => return Ok(AskEnd::Later),
        }
    }
    Ok(AskEnd::Later)
}

async fn deploy(control: &TriggerControl, new: NewDefinition) -> Result<(), FireError> {
    let store: Arc<dyn Store> = Arc::clone(&control.firing.store);
    call(&*control.firing.engine, move || store.define(&new)).await?;
    control.deployed().await
}

async fn call<T: Send + 'static>(
    engine: &dyn Surroundings,
    call: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (tell, told) = oneshot::channel();
    engine.run(Box::new(move || drop(tell.send(call()))));
    told.await.unwrap_or_else(|_| Err(StoreError::Unavailable("no reply".to_owned())))
}

fn describe(what: &Asked) -> String {
    match what {
        Asked::Delivery { key } => key.clone(),
        Asked::Event { key, .. } => key.clone(),
        Asked::Deploy(new) => format!("deploy {}", new.canonical),
        Asked::Pause => "pause".to_owned(),
        Asked::Resume { catch_up } => format!("resume, catch up: {catch_up}"),
        Asked::Rewind { to, again } => format!("rewind to {to:?}, again: {again}"),
        Asked::Backfill(request) => format!("{request:?}"),
    }
}
