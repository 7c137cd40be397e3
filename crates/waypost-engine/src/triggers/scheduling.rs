//! The calls of a schedule's turn.

use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;
use waypost_ports::store::StoreError;
use waypost_ports::triggers::{Advance, FireOutcome, TriggerNo, TriggerRow, TriggerState};

use super::schedules::{ScheduleTurn, TimeFired, TurnAction};
use super::wakeups::TriggerName;
use super::work::TriggerWork;
use super::{FireError, FireResult, Occurrence};

/// Unfinished executions of a schedule that are looked at.
const OPEN_MAX: usize = 1_000;
/// How often a turn begins anew because the trigger was changed meanwhile.
const TRIES: usize = 10;

/// How a turn went on.
enum Turned {
    Done(Option<Timestamp>),
    /// The row has changed.
    Stale,
    /// Not now. The claim ends by itself.
    Later,
}

impl TriggerWork {
    /// Does what is due of a schedule.
    pub(super) async fn on_schedule(
        &self,
        mut row: TriggerRow,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, FireError> {
        let trigger = TriggerName { workflow: row.workflow.clone(), name: row.name.clone() };
        let early = match is_planted(Bug::OverlapLooksTooEarly) {
            true => Some(self.open_executions(row.number).await?),
            false => None,
        };
        for _ in 0..TRIES {
            let planned = self.firing.planned(&row).await?;
            let open = match (ScheduleTurn::needs_open(&planned.trigger), &early) {
                (true, Some(early)) => early.clone(),
                (true, None) => self.open_executions(row.number).await?,
                (false, _) => Vec::new(),
            };
            let Some(turn) = ScheduleTurn::new(row, planned.trigger, now, open) else {
                return Ok(None);
            };
            match self.turn_schedule(turn, &trigger).await? {
                Turned::Done(next) => return Ok(next),
                Turned::Later => return Ok(None),
                Turned::Stale => {}
            }
            match self.firing.row(&trigger.workflow, &trigger.name).await? {
                Some(fresh) if fresh.state == TriggerState::Active => row = fresh,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn turn_schedule(
        &self,
        mut turn: ScheduleTurn,
        trigger: &TriggerName,
    ) -> Result<Turned, FireError> {
        let times = turn.times_of_backfill();
        turn.know(self.known_times(turn.row(), times).await?);
        loop {
            let settlement = match turn.next_action() {
                TurnAction::Done(next) => {
                    self.wakeups.await_ends(trigger, turn.awaited());
                    return Ok(Turned::Done(next));
                }
                TurnAction::Settle(settlement) => Some(settlement),
                TurnAction::Fire(occurrence, advance) => {
                    let Some(fired) = self.fire_time(&turn, *occurrence, advance).await? else {
                        return Ok(Turned::Later);
                    };
                    match fired {
                        Ok(fired) => turn.fired(fired),
                        Err(Stale) => return Ok(Turned::Stale),
                    }
                }
            };
            if let Some(settlement) = settlement {
                if !self.firing.store(*settlement).await? {
                    return Ok(Turned::Stale);
                }
                turn.settled();
            }
        }
    }

    /// Fires a time; `None` where it is to be fired later.
    async fn fire_time(
        &self,
        turn: &ScheduleTurn,
        mut occurrence: Occurrence,
        advance: Advance,
    ) -> Result<Option<Result<TimeFired, Stale>>, FireError> {
        let row = turn.row();
        if let Some(nominal) = occurrence.nominal {
            let last = self.successes.last(&self.firing, row, nominal).await?;
            occurrence.last_success_at = last;
        }
        let nothing = |outcome, reason| Ok(TimeFired::Nothing(outcome, reason));
        let fired = match self.firing.fire(row, &occurrence, Some(advance), None).await? {
            FireResult::Started(started) => {
                if let Some(nominal) = occurrence.nominal.filter(|_| !turn.is_backfill()) {
                    let lag = self.firing.now().since(turn.due_at(nominal));
                    self.firing.engine.metrics().trigger_lag_seconds.observe(lag.to_std());
                }
                Ok(TimeFired::Started(started.execution))
            }
            FireResult::Known(_) => Ok(TimeFired::Known),
            FireResult::Filtered => nothing(FireOutcome::Filtered, None),
            FireResult::Dead { reason } => nothing(FireOutcome::Dead, Some(reason)),
            FireResult::Rejected { holding } => {
                nothing(FireOutcome::Skipped, Some(rejected(holding)))
            }
            FireResult::Stale => Err(Stale),
            FireResult::Retry { why } => {
                tracing::warn!(%why, trigger = %row.name, workflow = %row.workflow, "a time is fired later");
                return Ok(None);
            }
        };
        Ok(Some(fired))
    }

    async fn open_executions(&self, trigger: TriggerNo) -> Result<Vec<ExecutionNo>, StoreError> {
        self.firing.call(move |triggers| triggers.open_executions(trigger, OPEN_MAX)).await
    }

    /// Those of these times that fired before.
    async fn known_times(
        &self,
        row: &TriggerRow,
        times: Vec<Timestamp>,
    ) -> Result<Vec<Timestamp>, StoreError> {
        if times.is_empty() {
            return Ok(times);
        }
        let item = |time: &Timestamp| Occurrence::of_time(*time).item(row);
        let (number, items) = (row.number, times.iter().map(item).collect::<Vec<_>>());
        let known = self.firing.call(move |triggers| triggers.fired(number, &items)).await?;
        let known = times.into_iter().zip(known).filter(|(_, row)| row.is_some());
        Ok(known.map(|(time, _)| time).collect())
    }
}

/// The trigger has changed since its row was read.
struct Stale;

/// Why an occurrence was skipped.
pub(super) fn rejected(holding: u64) -> String {
    format!(
        "{holding} executions hold the permits of its concurrency key, and its policy is to reject"
    )
}
