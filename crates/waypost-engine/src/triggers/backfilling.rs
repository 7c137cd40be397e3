//! Backfills: times of the past that a schedule fires on request, beside its own.

use waypost_core::schedule::TooManyTimes;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Backfill, ScheduleCursor, TriggerCursor, TriggerKind};
use waypost_ports::triggers::{ITEM_KEPT, TriggerChange, TriggerRow};

use super::control::{ControlError, TriggerControl, invalid};

/// Fires of a backfill in a second, unless it says otherwise.
pub const BACKFILL_RATE: u32 = 10;
/// Fires of a backfill in a second, at most.
pub const BACKFILL_RATE_MAX: u32 = 100;
/// Backfills of one trigger that are under way.
pub const BACKFILLS_MAX: usize = 10;

impl From<TooManyTimes> for ControlError {
    fn from(error: TooManyTimes) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The times of the past that a schedule is to fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackfillRequest {
    /// The first time that fires.
    pub from: Timestamp,
    /// The first one that does not.
    pub to: Timestamp,
    /// Do times fire that fired before?
    pub again: bool,
    /// Fires in a second, from 1 to [`BACKFILL_RATE_MAX`].
    pub rate: u32,
    /// Is it only counted?
    pub dry_run: bool,
}

/// A backfill that was accepted, or counted.
#[derive(Clone, PartialEq, Debug)]
pub struct BackfillAccepted {
    /// As [`TriggerControl::cancel_backfill`] takes it; absent where it was only counted.
    pub id: Option<u64>,
    pub times: Vec<Timestamp>,
    pub row: TriggerRow,
}

impl TriggerControl {
    /// Fires times of the past, beside the schedule.
    pub async fn backfill(
        &self,
        workflow: &str,
        name: &str,
        request: BackfillRequest,
    ) -> Result<BackfillAccepted, ControlError> {
        let now = self.firing.now();
        let (mut id, mut times) = (None, Vec::new());
        let row = self
            .change(workflow, name, |row, planned| {
                let (TriggerCursor::Schedule(cursor), TriggerKind::Schedule(schedule)) =
                    (&row.cursor, &planned?.trigger.kind)
                else {
                    return invalid("only schedules have times to fire");
                };
                let BackfillRequest { from, to, again, rate, dry_run } = request;
                if !(1..=BACKFILL_RATE_MAX).contains(&rate) {
                    return invalid(&format!("the rate must be from 1 to {BACKFILL_RATE_MAX}"));
                }
                if from >= to {
                    return invalid(&format!("`from` ({from}) must be before `to` ({to})"));
                }
                let to = to.min(now);
                let found = schedule.schedule.backfill(from, to)?;
                times = found.iter().map(|time| time.at).collect();
                let forgotten = now.minus(ITEM_KEPT);
                let first = cursor.backfilled.unwrap_or(row.registered_at).min(row.registered_at);
                let may_have_fired = |time: &&Timestamp| (first..forgotten).contains(*time);
                if let Some(time) = times.iter().find(may_have_fired).filter(|_| !again) {
                    return invalid(&format!(
                        "{time} may have fired before: a time that fired is remembered for {ITEM_KEPT}. Begin \
                         after {forgotten}, or fire all these times with `again`"
                    ));
                }
                if dry_run || times.is_empty() {
                    return Ok(None);
                }
                if cursor.backfills.len() >= BACKFILLS_MAX {
                    return invalid(&format!("{BACKFILLS_MAX} backfills are under way already"));
                }
                let mut cursor = cursor.clone();
                let backfill = Backfill {
                    id: row.seq + 1,
                    from,
                    to,
                    again,
                    rate,
                    fired: 0,
                    known: 0,
                    total: times.len() as u64,
                    not_before: now,
                };
                id = Some(backfill.id);
                let oldest = cursor.backfilled.into_iter().chain(times.first().copied()).min();
                cursor.backfilled = oldest;
                cursor.backfills.push(backfill);
                Ok(Some(moved(row, cursor, Some(now))))
            })
            .await?;
        Ok(BackfillAccepted { id, times, row })
    }

    /// Ends a backfill; what it has fired stays.
    pub async fn cancel_backfill(
        &self,
        workflow: &str,
        name: &str,
        id: u64,
    ) -> Result<TriggerRow, ControlError> {
        self.change(workflow, name, |row, _| {
            let TriggerCursor::Schedule(cursor) = &row.cursor else {
                return invalid("only schedules have backfills");
            };
            let mut cursor = cursor.clone();
            let before = cursor.backfills.len();
            cursor.backfills.retain(|backfill| backfill.id != id);
            if cursor.backfills.len() == before {
                return invalid("there is no such backfill under way");
            }
            Ok(Some(moved(row, cursor, row.next_due)))
        })
        .await
    }
}

/// A change of the backfills in the cursor of a schedule.
fn moved(row: &TriggerRow, cursor: ScheduleCursor, next_due: Option<Timestamp>) -> TriggerChange {
    let (seq, cursor) = (Some(row.seq), TriggerCursor::Schedule(cursor));
    TriggerChange::Move { seq, cursor, next_due, again: false }
}
