//! What people ask of a trigger.

use std::sync::Arc;

use uuid::Uuid;
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::decide::schedule_due;
use waypost_core::trigger::{
    PollCursor, ScheduleCursor, StreamCursor, StreamSource, StreamStart, StreamTrigger,
    TableSafety, TriggerCursor, TriggerKind, TriggerKindName,
};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::{TriggerChange, TriggerRow, TriggerState};

use super::polls::CURSOR_BYTES_MAX;
use super::{
    ByHand, EndedTriggers, FireError, FireResult, Firing, Occurrence, PlannedTrigger,
    TriggerWakeups,
};

/// How much later than the store's time the time of a rewind may be: "now" is what the clock of its sender shows.
const CLOCKS_APART: Millis = Millis::from_secs(60);
/// How often a change is tried again that met another one.
const TRIES: usize = 10;

/// Changes triggers and fires them by hand. Cheap to clone.
#[derive(Clone)]
pub struct TriggerControl {
    pub firing: Firing,
    /// Keeps the endpoints of ends in order.
    pub ends: EndedTriggers,
    /// Of the runner of this instance.
    pub wakeups: TriggerWakeups,
}

/// Why a trigger was not changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ControlError {
    #[error("there is no such trigger")]
    Unknown,
    /// It is paused, broken or retired, and that does not go with it.
    #[error("the trigger is {}", .0.name())]
    State(TriggerState),
    /// What is asked for does not go with its kind, or not with what it is.
    #[error("{0}")]
    Invalid(String),
    /// Others change it all the time.
    #[error("the trigger changes all the time")]
    Busy,
    #[error(transparent)]
    Fire(#[from] FireError),
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Self::Fire(FireError::Store(error))
    }
}

/// Where a trigger is to go on.
#[derive(Clone, PartialEq, Debug)]
pub enum RewindTo {
    /// A schedule, after this time.
    Time(Timestamp),
    /// A poll or a stream, from this cursor on.
    Cursor(Json),
}

impl TriggerControl {
    /// To be called after a deploy, before it is answered: ends are fired from then on, and what is due is
    /// looked for.
    pub async fn deployed(&self) -> Result<(), FireError> {
        self.wakeups.wake();
        self.ends.reconcile().await
    }

    /// Fires it now, once for each `key`.
    pub async fn fire(
        &self,
        workflow: &str,
        name: &str,
        key: Option<&str>,
        by_hand: ByHand<'_>,
    ) -> Result<FireResult, ControlError> {
        let made_up = || Uuid::new_v4().simple().to_string();
        let key = key.map_or_else(made_up, str::to_owned);
        let planned = self.firing.planned(&self.row(workflow, name).await?).await?;
        match by_hand.is_admitted(&planned.trigger, self.firing.now()) {
            Ok(true) => {}
            Ok(false) => return Ok(FireResult::Filtered),
            Err(failure) => return Ok(FireResult::Dead { reason: failure.message }),
        }
        self.retrying(workflow, name, |_, PlannedTrigger { trigger, .. }| {
            let payload = by_hand.payload_of(&trigger.kind).map_err(ControlError::Invalid)?;
            Ok(Occurrence::new(&format!("by hand {key}"), payload).own())
        })
        .await
    }

    /// Fires until the row that it was fired by is the present one.
    pub(super) async fn retrying(
        &self,
        workflow: &str,
        name: &str,
        occurrence: impl Fn(&TriggerRow, &PlannedTrigger) -> Result<Occurrence, ControlError>,
    ) -> Result<FireResult, ControlError> {
        for _ in 0..TRIES {
            let row = self.row(workflow, name).await?;
            if row.state != TriggerState::Active {
                return Err(ControlError::State(row.state));
            }
            let planned = self.firing.planned(&row).await?;
            let occurrence = occurrence(&row, &planned)?;
            match self.firing.fire(&row, &occurrence, None, None).await? {
                FireResult::Stale => {}
                result => return Ok(result),
            }
        }
        Err(ControlError::Busy)
    }

    /// Nothing starts by it once this is answered.
    pub async fn pause(
        &self,
        workflow: &str,
        name: &str,
        reason: Option<Arc<str>>,
    ) -> Result<TriggerRow, ControlError> {
        self.change(workflow, name, |row, _| match row.state {
            TriggerState::Retired => Err(ControlError::State(row.state)),
            TriggerState::Paused => Ok(None),
            TriggerState::Active | TriggerState::Broken => {
                Ok(Some(TriggerChange::Pause { reason: reason.clone() }))
            }
        })
        .await
    }

    /// It goes on. A schedule leaves out the times that have passed meanwhile, unless it is to catch up as far
    /// as its `catchUp` says. Polls and streams go on from their cursor in either case.
    pub async fn resume(
        &self,
        workflow: &str,
        name: &str,
        catch_up: bool,
    ) -> Result<TriggerRow, ControlError> {
        let now = self.firing.now();
        self.change(workflow, name, |row, planned| {
            match row.state {
                TriggerState::Retired => return Err(ControlError::State(row.state)),
                TriggerState::Active => return Ok(None),
                TriggerState::Paused | TriggerState::Broken => {}
            }
            let planned = planned?;
            let (cursor, next_due) = match (&row.cursor, &planned.trigger.kind) {
                (TriggerCursor::Schedule(cursor), TriggerKind::Schedule(schedule)) if !catch_up => {
                    let cursor =
                        ScheduleCursor { after: now, waiting: Vec::new(), ..cursor.clone() };
                    let key = planned.trigger.jitter_key(&row.workflow);
                    let due = schedule_due(&key, schedule, &cursor, now);
                    (TriggerCursor::Schedule(cursor), due)
                }
                (TriggerCursor::Poll(cursor), _) => {
                    let cursor = PollCursor { dead_in_a_row: 0, ..cursor.clone() };
                    (TriggerCursor::Poll(cursor), Some(now))
                }
                (TriggerCursor::Stream(cursor), _) => {
                    // A table that was created again is accepted with the resumption.
                    let (dead_in_a_row, incarnation) = (0, None);
                    let cursor = StreamCursor { dead_in_a_row, incarnation, ..cursor.clone() };
                    (TriggerCursor::Stream(cursor), Some(now))
                }
                (TriggerCursor::None, _) => (TriggerCursor::None, None),
                (cursor, _) => (cursor.clone(), Some(now)),
            };
            Ok(Some(TriggerChange::Resume { cursor, next_due }))
        })
        .await
    }

    /// It goes on from another place. Items that fired before fire again only if they may.
    pub async fn rewind(
        &self,
        workflow: &str,
        name: &str,
        to: &RewindTo,
        again: bool,
    ) -> Result<TriggerRow, ControlError> {
        let now = self.firing.now();
        self.change(workflow, name, |row, planned| {
            let seq = (row.kind != TriggerKindName::Poll).then_some(row.seq);
            let cursor = match (&row.cursor, to) {
                (TriggerCursor::Schedule(_), RewindTo::Time(after))
                    if after.since(now) > CLOCKS_APART =>
                {
                    return invalid(&format!(
                        "{after} is in the future: the schedule would fire nothing until then"
                    ));
                }
                (TriggerCursor::Schedule(cursor), RewindTo::Time(after)) => {
                    let reached = cursor.reached.max(Some(cursor.after));
                    let (after, waiting) = ((*after).min(now), Vec::new());
                    let cursor = ScheduleCursor { after, waiting, reached, ..cursor.clone() };
                    TriggerCursor::Schedule(cursor)
                }
                (TriggerCursor::Poll(_), RewindTo::Cursor(cursor))
                    if cursor.bytes() > CURSOR_BYTES_MAX =>
                {
                    return invalid(&format!(
                        "the cursor has {} bytes; at most {CURSOR_BYTES_MAX} are kept",
                        cursor.bytes()
                    ));
                }
                (TriggerCursor::Poll(_), RewindTo::Cursor(cursor)) => {
                    let cursor = cursor.clone();
                    TriggerCursor::Poll(PollCursor { cursor, etag: None, dead_in_a_row: 0 })
                }
                (TriggerCursor::Schedule(_), RewindTo::Cursor(_)) => {
                    return invalid("a schedule goes on after a time: name one");
                }
                (TriggerCursor::Poll(_), RewindTo::Time(_)) => {
                    return invalid("a poll goes on from a cursor: name one");
                }
                (TriggerCursor::Stream(cursor), RewindTo::Cursor(place)) => {
                    let TriggerKind::Stream(stream) = &planned?.trigger.kind else {
                        return invalid("the trigger is not a stream any more");
                    };
                    TriggerCursor::Stream(rewound(stream, cursor, place, again)?)
                }
                (TriggerCursor::Stream(_), RewindTo::Time(_)) => {
                    return invalid(
                        "a stream goes on from a cursor: \"now\", \"beginning\" or the id of an entry",
                    );
                }
                (TriggerCursor::None, _) => {
                    return invalid("only schedules, polls and streams have a place to go on from");
                }
            };
            Ok(Some(TriggerChange::Move { seq, cursor, next_due: Some(now), again }))
        })
        .await
    }

    /// Changes a trigger as it is now; `None` leaves it as it is.
    pub(super) async fn change(
        &self,
        workflow: &str,
        name: &str,
        mut decide: impl FnMut(
            &TriggerRow,
            Result<PlannedTrigger, FireError>,
        ) -> Result<Option<TriggerChange>, ControlError>,
    ) -> Result<TriggerRow, ControlError> {
        for _ in 0..TRIES {
            let row = self.row(workflow, name).await?;
            // A trigger can be paused though its definition cannot be used.
            let planned = self.firing.planned(&row).await;
            let Some(change) = decide(&row, planned)? else { return Ok(row) };
            if row.state == TriggerState::Retired {
                return Err(ControlError::State(row.state));
            }
            let at = row.at();
            let changed = self.firing.call(move |triggers| triggers.change_trigger(at, &change));
            if let Some(row) = changed.await? {
                self.wakeups.wake();
                return Ok(row);
            }
        }
        Err(ControlError::Busy)
    }

    async fn row(&self, workflow: &str, name: &str) -> Result<TriggerRow, ControlError> {
        self.firing.row(workflow, name).await?.ok_or(ControlError::Unknown)
    }
}

/// The cursor of a stream that goes on from another place.
fn rewound(
    stream: &StreamTrigger,
    cursor: &StreamCursor,
    place: &Json,
    again: bool,
) -> Result<StreamCursor, ControlError> {
    let place: Option<String> = serde_json::from_str(place.text()).ok();
    let place = place.as_deref().map(StreamStart::parse);
    let fits = match (&stream.source, &place) {
        (StreamSource::Redis { .. }, Some(place)) => place.is_for_redis(),
        // The rows without the mark are read, from wherever: only their items are new.
        (StreamSource::Postgres { safety: TableSafety::Mark { .. }, .. }, place) => {
            return match (place, again) {
                (Some(StreamStart::Beginning), true) => Ok(cursor.clone()),
                _ => invalid(
                    "rows without the mark are read, and each key fires once: to fire rows again, rewind to \
                     \"beginning\" with `again`, then remove their marks",
                ),
            };
        }
        (StreamSource::Postgres { .. }, Some(place)) => !matches!(place, StreamStart::After(_)),
        (_, None) => false,
    };
    let Some(place) = place.filter(|_| fits) else {
        return invalid(
            "the cursor of a stream is \"now\", \"beginning\", or for Redis the id of an entry, such as \
             \"1700000000000-0\"",
        );
    };
    let from = Some(place.name().to_owned());
    Ok(StreamCursor { from, removed: cursor.removed, ..StreamCursor::default() })
}

pub(super) fn invalid<T>(reason: &str) -> Result<T, ControlError> {
    Err(ControlError::Invalid(reason.to_owned()))
}
