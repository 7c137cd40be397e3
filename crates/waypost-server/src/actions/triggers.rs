//! Triggers: looking at them, and what people ask of them.

use std::sync::Arc;

use serde::Deserialize;
use waypost_core::failure::Failure;
use waypost_core::id::{ExecutionId, ExecutionNo};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Prepared, TriggerKind, TriggerKindName};
use waypost_engine::triggers::{
    BACKFILL_RATE, BackfillRequest, ByHand, ControlError, FireError, FireResult, RewindTo,
    TriggerControl,
};
use waypost_engine::{EngineError, Started};
use waypost_ports::query::EventsRequest;
use waypost_ports::triggers::{
    DeadFireState, DeadFiresRequest, FireOutcome, FiresRequest, TriggerRow, TriggerState,
    TriggersRequest,
};

use super::page_size;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader::trigger_views as views;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{Labels, OwnId, Payload, Time};

/// Times of a schedule that are shown at once.
pub(crate) const TIMES_MAX: u64 = 1_000;
/// Times of a backfill that its reply has.
const BACKFILL_TIMES_SHOWN: usize = 100;

/// What changes and fires triggers.
pub(super) fn control(server: &Server) -> Result<&TriggerControl, Problem> {
    let none = || Problem::new(Code::UnknownTrigger, "this server has no triggers");
    server.triggers.as_ref().ok_or_else(none)
}

/// A definition that the row of a trigger names, but that cannot be used.
pub(super) fn definition(error: FireError) -> Problem {
    match error {
        FireError::Store(error) => error.into(),
        FireError::Definition(reason) => Problem::internal(&reason),
    }
}

pub(super) fn busy() -> Problem {
    Problem::new(Code::TriggerState, "the trigger changes all the time").retry_after(1)
}

fn unknown(workflow: &str, name: &str) -> Problem {
    let detail = format!("workflow {workflow:?} has no trigger {name:?}");
    Problem::new(Code::UnknownTrigger, detail).hint("GET /v1/triggers lists those that exist")
}

fn refused(error: ControlError, (workflow, name): (&str, &str)) -> Problem {
    match error {
        ControlError::Unknown => unknown(workflow, name),
        ControlError::State(TriggerState::Retired) => {
            let detail = "the trigger is retired: the current version does not have it";
            Problem::new(Code::TriggerState, detail)
        }
        ControlError::State(state) => {
            Problem::new(Code::TriggerState, format!("the trigger is {}", state.name()))
                .hint("POST /v1/triggers/{workflow}/{trigger}/resume first")
        }
        ControlError::Invalid(reason) => Problem::new(Code::InvalidTriggerChange, reason),
        ControlError::Busy => busy(),
        ControlError::Fire(error) => definition(error),
    }
}

/// The trigger that a request names.
fn name(call: &Call) -> (&str, &str) {
    (call.values.text("workflow"), call.values.text("trigger"))
}

fn subject((workflow, name): (&str, &str)) -> String {
    format!("{workflow}/{name}")
}

async fn row(server: &Server, call: &Call) -> Result<TriggerRow, Problem> {
    let (workflow, name) = name(call);
    let row = control(server)?.firing.row(workflow, name).await?;
    row.ok_or_else(|| unknown(workflow, name))
}

fn changed(row: &TriggerRow) -> Result<Reply, Problem> {
    Ok(Reply::ok(&views::trigger(row))?.about(subject((&row.workflow, &row.name))))
}

pub(crate) async fn list(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let triggers = Arc::clone(&control(&server)?.firing.triggers);
    let after = match call.values.get("cursor") {
        None => None,
        Some(text) => {
            let wrong = || Problem::new(Code::BadParameter, "`cursor` is `next` of a page");
            let (workflow, name) = text.split_once('/').ok_or_else(wrong)?;
            Some((workflow.into(), name.into()))
        }
    };
    let state = call.values.get("state");
    let request = TriggersRequest {
        workflow: call.values.get("workflow").map(Into::into),
        kind: call.values.get("kind").and_then(TriggerKindName::parse),
        state: TriggerState::ALL.into_iter().find(|known| Some(known.name()) == state),
        topic: None,
        after,
        limit: page_size(&call),
    };
    let page = server.blocking(move |_| Ok(triggers.triggers(&request)?)).await?;
    let next = page.rows.last().filter(|_| page.more);
    Reply::ok(&wire::TriggerList {
        next: next.map(|row| subject((&row.workflow, &row.name))),
        triggers: page.rows.iter().map(views::trigger).collect(),
    })
}

pub(crate) async fn show(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let row = row(&server, &call).await?;
    let (number, mut shown) = (row.number, views::trigger(&row));
    if row.kind == TriggerKindName::Event {
        let triggers = Arc::clone(&control(&server)?.firing.triggers);
        let waiting = server.blocking(move |_| Ok(triggers.waiting_events(number)?)).await?;
        shown.waiting = Some(waiting.events).filter(|events| *events > 0);
        shown.next_due_at = waiting.next_due.map(Time);
    }
    Reply::ok(&shown)
}

pub(crate) async fn times(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let control = control(&server)?;
    let row = row(&server, &call).await?;
    let planned = control.firing.planned(&row).await.map_err(definition)?;
    let TriggerKind::Schedule(schedule) = &planned.trigger.kind else {
        let detail = format!("a trigger of kind {} has no times", row.kind.name());
        return Err(Problem::new(Code::InvalidTriggerChange, detail));
    };
    let count = call.values.number("count").and_then(|count| usize::try_from(count).ok());
    let after = call.values.time("after").unwrap_or_else(|| control.firing.now());
    let key = planned.trigger.jitter_key(&row.workflow);
    let schedule = &schedule.schedule;
    let times = schedule.ticks(after).take(count.unwrap_or(20));
    let times = times.map(|time| wire::TriggerTime {
        at: Time(time.at),
        local: schedule.local_text(time.at),
        fires_at: Time(schedule.jittered(&key, time.at)),
        remark: time.remark.map(|remark| remark.to_string()),
    });
    let times = times.collect();
    Reply::ok(&wire::TriggerTimes { zone: schedule.zone().to_owned(), times })
}

pub(crate) async fn fire(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::FireTrigger = call.json()?;
    let (workflow, trigger) = name(&call);
    let key = asked.message_id.as_ref().map(|id| id.0.as_str());
    let by_hand = ByHand { payload: &asked.payload.0, headers: &asked.headers.0 };
    let fired = control(&server)?.fire(workflow, trigger, key, by_hand).await;
    let fired = fired.map_err(|error| refused(error, name(&call)))?;
    Ok(result(&server, fired).await?.about(subject(name(&call))))
}

/// Nothing can be started now, and the same request may be sent again.
pub(super) fn later(why: EngineError) -> Problem {
    tracing::warn!(%why, "a trigger could not fire");
    Problem::from(why).retry_after(1)
}

/// What a fire led to, as a person gets it.
async fn result(server: &Arc<Server>, result: FireResult) -> Result<Reply, Problem> {
    let (outcome, id, reason) = match result {
        FireResult::Started(started) => ("started", id_of(&started), None),
        FireResult::Known(Some(execution)) => ("repeated", key_of(server, execution).await?, None),
        FireResult::Known(None) => ("repeated", None, None),
        FireResult::Filtered => ("filtered", None, None),
        FireResult::Dead { reason } => ("dead", None, Some(reason)),
        FireResult::Rejected { holding } => {
            let reason = format!("{holding} executions of its concurrency key are under way");
            ("rejected", None, Some(reason))
        }
        FireResult::Stale => return Err(busy()),
        FireResult::Retry { why } => return Err(later(why)),
    };
    Reply::ok(&wire::TriggerFired { outcome: outcome.to_owned(), id, reason })
}

pub(super) fn id_of(started: &Started) -> Option<String> {
    started.new.as_ref().map(|new| new.key.to_string())
}

/// The id of an execution, if its log is still there.
async fn key_of(server: &Arc<Server>, execution: ExecutionNo) -> Result<Option<String>, Problem> {
    server.blocking(move |server| key_in_log(server, execution)).await
}

fn key_in_log(server: &Server, execution: ExecutionNo) -> Result<Option<String>, Problem> {
    #[derive(Deserialize)]
    struct Created {
        key: ExecutionId,
    }
    let request = EventsRequest { limit: 1, ..EventsRequest::all(execution) };
    let events = server.reader.backend().events(&request)?;
    let created = events.first().and_then(|event| serde_json::from_str(event.fields.text()).ok());
    Ok(created.map(|created: Created| created.key.to_string()))
}

pub(crate) async fn pause(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::PauseTrigger = call.json()?;
    let (workflow, trigger) = name(&call);
    let reason = asked.reason.map(|reason| reason.0.into());
    let row = control(&server)?.pause(workflow, trigger, reason).await;
    changed(&row.map_err(|error| refused(error, name(&call)))?)
}

pub(crate) async fn resume(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let (workflow, trigger) = name(&call);
    let row = control(&server)?.resume(workflow, trigger, call.values.flag("catchUp")).await;
    changed(&row.map_err(|error| refused(error, name(&call)))?)
}

pub(crate) async fn rewind(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::RewindTrigger = call.json()?;
    let to = match (asked.to, asked.cursor) {
        (Some(Time(to)), None) => RewindTo::Time(to),
        (None, Some(Payload(cursor))) => RewindTo::Cursor(cursor),
        _ => return Err(Problem::new(Code::BadBody, "exactly one of `to` and `cursor` is needed")),
    };
    let (workflow, trigger) = name(&call);
    let row = control(&server)?.rewind(workflow, trigger, &to, asked.again).await;
    changed(&row.map_err(|error| refused(error, name(&call)))?)
}

pub(crate) async fn backfill(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::BackfillTrigger = call.json()?;
    let request = BackfillRequest {
        from: asked.from.0,
        to: asked.to.0,
        again: asked.again,
        rate: asked.rate.map_or(BACKFILL_RATE, |rate| rate.0),
        dry_run: asked.dry_run,
    };
    let (workflow, trigger) = name(&call);
    let accepted = control(&server)?.backfill(workflow, trigger, request).await;
    let accepted = accepted.map_err(|error| refused(error, name(&call)))?;
    let shown = accepted.times.iter().take(BACKFILL_TIMES_SHOWN);
    let reply = wire::TriggerBackfill {
        id: accepted.id,
        count: accepted.times.len() as u64,
        times: shown.map(|time: &Timestamp| Time(*time)).collect(),
    };
    Ok(Reply::ok(&reply)?.about(subject(name(&call))))
}

pub(crate) async fn cancel_backfill(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let (workflow, trigger) = name(&call);
    let id = call.values.number("backfill").unwrap_or_default();
    let row = control(&server)?.cancel_backfill(workflow, trigger, id).await;
    changed(&row.map_err(|error| refused(error, name(&call)))?)
}

pub(crate) async fn fires(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let triggers = Arc::clone(&control(&server)?.firing.triggers);
    let outcome = call.values.get("outcome");
    let request = FiresRequest {
        trigger: row(&server, &call).await?.number,
        outcome: FireOutcome::ALL.into_iter().find(|known| Some(known.name()) == outcome),
        before: before(&call),
        limit: page_size(&call),
    };
    let read = move |server: &Server| {
        let page = triggers.fires(&request)?;
        let next = page.rows.last().filter(|_| page.more).map(|row| row.place.to_string());
        let fires = page.rows.iter().map(|row| {
            let id = row.execution.map(|execution| key_in_log(server, execution)).transpose()?;
            Ok(views::fire(row, id.flatten()))
        });
        Ok(wire::TriggerFireList { fires: fires.collect::<Result<_, Problem>>()?, next })
    };
    Reply::ok(&server.blocking(read).await?)
}

fn before(call: &Call) -> Option<i64> {
    call.values.number("cursor").and_then(|place| i64::try_from(place).ok())
}

pub(crate) async fn dead_letters(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let triggers = Arc::clone(&control(&server)?.firing.triggers);
    let (limit, state) = (page_size(&call), call.values.get("state"));
    let request = DeadFiresRequest {
        trigger: Some(row(&server, &call).await?.number),
        state: DeadFireState::ALL.into_iter().find(|known| Some(known.name()) == state),
        id: None,
        before: before(&call),
        limit: limit + 1,
    };
    let mut rows = server.blocking(move |_| Ok(triggers.dead_fires(&request)?)).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| row.id.to_string());
    let dead_letters = rows.iter().map(views::dead_letter).collect();
    Reply::ok(&wire::TriggerDeadLetterList { dead_letters, next })
}

fn letter(call: &Call) -> i64 {
    call.values.number("letter").and_then(|id| i64::try_from(id).ok()).unwrap_or_default()
}

pub(crate) async fn retry_dead(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let (workflow, trigger) = name(&call);
    let (control, id) = (control(&server)?, letter(&call));
    let row = row(&server, &call).await?;
    known_letter(&server, &row, id).await?;
    let fired = control.retry_dead(workflow, trigger, id).await;
    let fired = fired.map_err(|error| refused(error, name(&call)))?;
    Ok(result(&server, fired).await?.about(subject(name(&call))))
}

pub(crate) async fn discard_dead(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let triggers = Arc::clone(&control(&server)?.firing.triggers);
    let (row, id) = (row(&server, &call).await?, letter(&call));
    known_letter(&server, &row, id).await?;
    let discard = move |_: &Server| Ok(triggers.settle_dead_fire(id, DeadFireState::Discarded)?);
    server.blocking(discard).await?;
    Ok(Reply::empty().about(subject(name(&call))))
}

async fn known_letter(server: &Arc<Server>, row: &TriggerRow, id: i64) -> Result<(), Problem> {
    let triggers = Arc::clone(&control(server)?.firing.triggers);
    let trigger = Some(row.number);
    let request = DeadFiresRequest { trigger, id: Some(id), limit: 1, ..Default::default() };
    let found = server.blocking(move |_| Ok(triggers.dead_fires(&request)?)).await?;
    match found.is_empty() {
        false => Ok(()),
        true => {
            let detail = format!("the trigger has no dead letter {id}");
            Err(Problem::new(Code::UnknownDeadLetter, detail))
        }
    }
}

pub(crate) async fn test(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::FireTrigger = call.json()?;
    let (workflow, trigger) = name(&call);
    let by_hand = ByHand { payload: &asked.payload.0, headers: &asked.headers.0 };
    let prepared = control(&server)?.test(workflow, trigger, by_hand).await;
    let nothing = |outcome: &str, reason: Option<String>| wire::TriggerTested {
        outcome: outcome.to_owned(),
        input: None,
        id: None,
        labels: None,
        reason,
    };
    Reply::ok(&match prepared {
        Ok(Prepared::Start(start)) => wire::TriggerTested {
            outcome: "start".to_owned(),
            input: Some(Payload(start.input)),
            id: start.id.map(|id| OwnId(id.to_string())),
            labels: Some(Labels(start.labels)),
            reason: None,
        },
        Ok(Prepared::Filtered) => nothing("filtered", None),
        Ok(Prepared::Failed(Failure { message, .. })) => nothing("failed", Some(message)),
        Err(ControlError::Invalid(reason)) => nothing("failed", Some(reason)),
        Err(error) => return Err(refused(error, name(&call))),
    })
}
