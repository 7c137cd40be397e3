//! Published events: to the triggers and to the waits that want them.
//!
//! The answer comes when everything that an event led to is durable. A publisher that gets none publishes
//! again: its events are known by source and id.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use waypost_core::time::Timestamp;
use waypost_engine::Started;
use waypost_engine::triggers::{FireResult, Firing, Occurrence, TriggerControl, arrival};
use waypost_ports::triggers::{Arrival, Arrived, DueGroup, FireOutcome, GroupFence, TriggerRow};

use super::triggers::{busy, control, definition, id_of, later};
use crate::cloud_events::{CloudEvent, parse};
use crate::event_triggers::{EventTriggerEntry, EventTriggers};
use crate::http::call::{Call, Reply};
use crate::problem::{Code, FaultAt, Problem};
use crate::server::Server;
use crate::wire;

/// Triggers that one event may reach.
pub(crate) const MATCHES_MAX: usize = 100;
/// Fires of one request that are under way at once.
const FIRES_AT_ONCE: usize = 32;
/// How often triggers are read again that change while they fire.
const TRIES: usize = 3;

/// Which event of a request is for which trigger: its position, the workflow, the trigger's name.
type MatchName = (usize, Arc<str>, Arc<str>);

/// An event for a trigger.
type Match = (usize, Arc<CloudEvent>, Arc<EventTriggerEntry>);

pub(crate) async fn publish(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let events = parse(&call.headers, &call.body)?;
    let events: Vec<_> = events.into_iter().map(Arc::new).collect();
    let control = control(&server)?;
    let firing = &control.firing;
    let mut published = wire::EventsPublished {
        accepted: events.len() as u64,
        started: Vec::new(),
        woken: 0,
        held: 0,
        duplicates: 0,
        filtered: 0,
        skipped: 0,
        dead: 0,
    };
    wake(&server, call.actor(), &events, &mut published).await?;
    let mut open: Option<Vec<MatchName>> = None;
    for _ in 0..TRIES {
        let triggers = server.event_triggers.current(firing).await.map_err(definition)?;
        if let Some(row) = events.iter().find_map(|event| triggers.unreadable(&event.kind)) {
            return Err(unreadable(row));
        }
        let mut matches = matches(&triggers, &events)?;
        // Another try is for those alone whose trigger had changed.
        if let Some(open) = &open {
            matches.retain(|(at, _, to)| {
                let is_open = |(event, workflow, name): &MatchName| {
                    event == at && *workflow == to.row.workflow && *name == to.row.name
                };
                open.iter().any(is_open)
            });
        }
        let stale = deliver(control, matches, &mut published).await?;
        if stale.is_empty() {
            return Reply::ok(&published);
        }
        open = Some(stale);
    }
    Err(busy())
}

/// Sends events to the executions that wait for them. A repetition is known by the ids of the messages.
async fn wake(
    server: &Arc<Server>,
    actor: Option<Arc<str>>,
    events: &[Arc<CloudEvent>],
    published: &mut wire::EventsPublished,
) -> Result<(), Problem> {
    let events = events.to_vec();
    let woken = server.blocking(move |server| server.reader.wake(&events, actor.as_ref())).await?;
    server.engine.announce_mail(woken.owners.into_iter());
    published.woken = woken.woken;
    published.duplicates += woken.duplicates;
    Ok(())
}

/// Every trigger of every event, in the order of the events.
fn matches(triggers: &EventTriggers, events: &[Arc<CloudEvent>]) -> Result<Vec<Match>, Problem> {
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for (at, event) in events.iter().enumerate() {
        let found = triggers.of(&event.kind, &event.source);
        if found.len() > MATCHES_MAX {
            faults.push(FaultAt {
                message: format!(
                    "{} triggers want events of this type and source; at most {MATCHES_MAX} may",
                    found.len()
                ),
                pointer: Some(format!("/{at}")),
                ..FaultAt::default()
            });
        }
        all.extend(found.into_iter().map(|to| (at, Arc::clone(event), to)));
    }
    match faults.is_empty() {
        true => Ok(all),
        false => {
            let detail = "an event has too many triggers; no event was taken";
            Err(Problem::new(Code::BadEvent, detail).errors(faults))
        }
    }
}

/// Fires and collects. Returns what is to be done again, since its trigger has changed. What cannot be taken
/// now keeps the event from no other trigger: its problem is reported after all of them.
async fn deliver(
    control: &TriggerControl,
    matches: Vec<Match>,
    published: &mut wire::EventsPublished,
) -> Result<Vec<MatchName>, Problem> {
    let firing = &control.firing;
    let (broken, sound): (Vec<_>, Vec<_>) =
        matches.into_iter().partition(|(_, _, to)| to.is_broken());
    let (collected, fired): (Vec<_>, Vec<_>) =
        sound.into_iter().partition(|(_, _, to)| to.window().is_some());
    let (mut stale, mut failed) = (Vec::new(), None);
    for (_, event, to) in broken {
        match is_filtered(firing, &event, &to) {
            true => published.filtered += 1,
            false => failed = Some(is_broken(&to.row)),
        }
    }
    let fires = fired.into_iter().map(|found| fire(firing, found));
    let mut results = stream::iter(fires).buffered(FIRES_AT_ONCE);
    while let Some((at, to, result)) = results.next().await {
        match result {
            Ok(FireResult::Started(started)) => {
                published.started.push(started_by(&to.row, &started));
            }
            Ok(FireResult::Known(_)) => published.duplicates += 1,
            Ok(FireResult::Filtered) => published.filtered += 1,
            Ok(FireResult::Rejected { .. }) => published.skipped += 1,
            Ok(FireResult::Dead { .. }) => published.dead += 1,
            Ok(FireResult::Stale) => stale.push(name_of(at, &to)),
            Ok(FireResult::Retry { why }) => failed = Some(later(why)),
            Err(problem) => failed = Some(problem),
        }
    }
    stale.extend(collect(control, collected, published).await?);
    failed.map_or(Ok(stale), Err)
}

/// Does the trigger not want the event?
fn is_filtered(firing: &Firing, event: &CloudEvent, to: &EventTriggerEntry) -> bool {
    let occurrence = occurrence(event);
    let fired = occurrence.fired(&to.trigger, firing.now());
    matches!(to.trigger.admits(&fired, &occurrence.payload), Ok(false))
}

/// The event would be lost for it.
fn is_broken(row: &TriggerRow) -> Problem {
    let (workflow, name) = (&row.workflow, &row.name);
    let detail = format!("the trigger {workflow}/{name} is broken, and cannot take the event");
    Problem::new(Code::StoreUnavailable, detail)
        .hint("resume or pause the trigger, and publish the same events again")
        .retry_after(60)
}

/// Of a newer build, or damaged: the event would be lost for it, and another instance may be able to read it.
fn unreadable(row: &TriggerRow) -> Problem {
    let detail = format!(
        "this instance cannot read the definition of the trigger {}/{}",
        row.workflow, row.name
    );
    Problem::new(Code::StoreUnavailable, detail)
        .hint("publish the same events to an upgraded instance, or pause the trigger")
        .retry_after(5)
}

fn occurrence(event: &CloudEvent) -> Occurrence {
    Occurrence::of_event(&event.key(), &event.json)
}

async fn fire(
    firing: &Firing,
    (at, event, to): Match,
) -> (usize, Arc<EventTriggerEntry>, Result<FireResult, Problem>) {
    let occurrence = occurrence(&event);
    let result = match firing.fire(&to.row, &occurrence, None, None).await {
        Err(error) => Err(definition(error)),
        Ok(result) => settle(firing, &to, &occurrence, result).await,
    };
    (at, to, result)
}

/// Records what started nothing; a trigger that has changed meanwhile gets the event again.
async fn settle(
    firing: &Firing,
    to: &EventTriggerEntry,
    occurrence: &Occurrence,
    result: FireResult,
) -> Result<FireResult, Problem> {
    let (outcome, reason) = match &result {
        FireResult::Dead { reason } => (FireOutcome::Dead, reason.clone()),
        FireResult::Rejected { holding } => {
            let reason = format!("{holding} executions of its concurrency key were under way");
            (FireOutcome::Skipped, reason)
        }
        _ => return Ok(result),
    };
    let settled = firing.settle(&to.row, occurrence, outcome, Some(&reason)).await?;
    Ok(if settled { result } else { FireResult::Stale })
}

/// Puts events into the windows of triggers and before their throttles, in order, and fires those that a throttle
/// lets start.
async fn collect(
    control: &TriggerControl,
    matches: Vec<Match>,
    published: &mut wire::EventsPublished,
) -> Result<Vec<MatchName>, Problem> {
    let firing = &control.firing;
    let (mut sent, mut arrivals, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    for (at, event, to) in matches {
        let occurrence = occurrence(&event);
        match arrival(&to.row, &to.trigger, (&occurrence, &event.json), firing.now()) {
            Ok(None) => published.filtered += 1,
            Ok(Some(arrival)) => {
                arrivals.push(arrival);
                sent.push((at, to));
            }
            Err(reason) => {
                let dead = FireOutcome::Dead;
                match firing.settle(&to.row, &occurrence, dead, Some(&reason)).await? {
                    true => published.dead += 1,
                    false => stale.push(name_of(at, &to)),
                }
            }
        }
    }
    if arrivals.is_empty() {
        return Ok(stale);
    }
    let arrived = firing.arrive(arrivals.clone()).await?;
    let (mut permitted, mut is_full) = (Vec::new(), false);
    for ((arrived, arrival), (at, to)) in arrived.into_iter().zip(arrivals).zip(sent) {
        match arrived {
            Arrived::Held | Arrived::Replaced => {
                published.held += 1;
                control.wakeups.arrived(arrival.rule);
            }
            Arrived::Skipped => published.skipped += 1,
            Arrived::Permitted { seq } => permitted.push(permit(arrival, seq, &to, firing.now())),
            Arrived::Duplicate => published.duplicates += 1,
            Arrived::Stale => stale.push(name_of(at, &to)),
            Arrived::Full => is_full = true,
        }
    }
    flush(firing, permitted, published).await;
    if is_full {
        let detail =
            "a trigger holds as many groups of events as it may, or a throttle as many events";
        return Err(Problem::new(Code::RateLimited, detail)
            .hint("publish the same events again later")
            .retry_after(60));
    }
    Ok(stale)
}

/// Fires events that a throttle lets start.
async fn flush(firing: &Firing, permitted: Vec<DueGroup>, published: &mut wire::EventsPublished) {
    let fire = async |group: DueGroup| {
        let fired = firing.flush(&group).await;
        (group, fired)
    };
    let fires = permitted.into_iter().map(fire);
    let mut fires = stream::iter(fires).buffered(FIRES_AT_ONCE);
    while let Some((group, fired)) = fires.next().await {
        match fired {
            Ok(FireResult::Started(started)) => {
                published.started.push(started_by(&group.row, &started));
            }
            Ok(FireResult::Filtered) => published.filtered += 1,
            Ok(FireResult::Rejected { .. }) => published.skipped += 1,
            Ok(FireResult::Dead { .. }) => published.dead += 1,
            // It is durable: another instance has fired it, or one fires it when that is possible.
            Ok(FireResult::Known(_) | FireResult::Stale) => published.held += 1,
            Ok(FireResult::Retry { why }) => {
                tracing::warn!(%why, trigger = %group.row.name, "an event is fired later");
                published.held += 1;
            }
            Err(error) => {
                tracing::warn!(%error, trigger = %group.row.name, "an event is fired later");
                published.held += 1;
            }
        }
    }
}

fn name_of(at: usize, to: &EventTriggerEntry) -> MatchName {
    (at, Arc::clone(&to.row.workflow), Arc::clone(&to.row.name))
}

fn started_by(row: &TriggerRow, started: &Started) -> wire::StartedByTrigger {
    wire::StartedByTrigger {
        workflow: row.workflow.to_string(),
        trigger: row.name.to_string(),
        id: id_of(started).unwrap_or_default(),
    }
}

/// The group that an event is which a throttle lets start.
fn permit(arrival: Arrival, seq: u64, to: &EventTriggerEntry, now: Timestamp) -> DueGroup {
    DueGroup {
        row: Arc::new(to.row.clone()),
        fence: GroupFence { group: arrival.group, seq },
        first_at: now,
        last_at: now,
        payloads: vec![(arrival.payload, arrival.label)],
    }
}
