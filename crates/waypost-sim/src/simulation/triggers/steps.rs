//! What a schedule, a poll and a window may do in one statement: a second reading of their rules, time by time.

use std::collections::BTreeSet;

use waypost_core::schedule::{CatchUp, Missed};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Overlap, ScheduleCursor, TriggerCursor, TriggerKind, WindowMode};
use waypost_ports::memory::HeldGroup;
use waypost_ports::triggers::{FireOutcome, TriggerState};

use super::asks::Asked;
use super::flows::Timing;
use super::watch::{Broken, Change};
use crate::simulation::Simulation;

/// A time that is less late is not missed.
const GRACE: Millis = Millis(60_000);

/// What is to become of the times that are due at a moment.
struct Expected {
    fire: Vec<Timestamp>,
    pass: Vec<Timestamp>,
}

impl Timing {
    /// By brute force: every time after one, and what its catch-up rule says of it.
    fn expected(
        &self,
        after: Timestamp,
        now: Timestamp,
        due: &dyn Fn(Timestamp) -> Timestamp,
    ) -> Expected {
        let times = self.times(after, now).into_iter().filter(|time| due(*time) <= now);
        let times: Vec<Timestamp> = times.collect();
        let late = |time: Timestamp| now.since(due(time));
        let CatchUp { missed, window, max } = self.catch_up;
        let mut in_time: Vec<Timestamp> =
            times.iter().copied().filter(|time| late(*time) <= GRACE).collect();
        if let (true, Some(newest)) = (in_time.is_empty(), times.last()) {
            let has_successor = !self.times(*newest, newest.plus(Millis(60_000))).is_empty();
            in_time.extend(Some(*newest).filter(|time| has_successor && late(*time) <= window));
        }
        let in_window = |time: &&Timestamp| !in_time.contains(time) && late(**time) <= window;
        let most = match missed {
            Missed::None => 0,
            Missed::Last => usize::from(in_time.is_empty()),
            Missed::All => (max as usize).saturating_sub(in_time.len()),
        };
        let mut fire: Vec<Timestamp> =
            times.iter().rev().filter(in_window).take(most).copied().collect();
        fire.reverse();
        fire.extend(in_time);
        let pass = times.into_iter().filter(|time| !fire.contains(time)).collect();
        Expected { fire, pass }
    }
}

impl Simulation {
    pub(super) fn check_schedule(&mut self, change: &Change) -> Result<(), Broken> {
        let (TriggerCursor::Schedule(was), TriggerCursor::Schedule(is)) =
            (&change.was.cursor, &change.is.cursor)
        else {
            return Err(("trigger.cursor", "it has no cursor of a schedule".to_owned()));
        };
        if change.was.revision != change.is.revision {
            return self.check_asked_change(change, was, is);
        }
        if was == is {
            return Ok(());
        }
        let Some(now) = self.triggers.watch.decided_at(change) else { return Ok(()) };
        let Some(timing) = self.triggers.watch.timings.get(&change.is.definition).cloned() else {
            return Ok(());
        };
        let due = self.due_times(change);
        self.check_not_early(change, &due)?;
        if timing.overlap != Overlap::Allow && self.failovers == 0 {
            self.check_overlap(change)?;
        }
        if was.backfills != is.backfills {
            return check_backfill(change, was, is);
        }
        if is.after < was.after {
            return Err((
                "trigger.cursor",
                format!("goes back from {} to {}", was.after, is.after),
            ));
        }
        let expected = timing.expected(was.after, now, &due);
        self.check_times(change, (was, is), &timing, &expected)
    }

    /// Every time that the cursor has passed is accounted for.
    fn check_times(
        &self,
        change: &Change,
        (was, is): (&ScheduleCursor, &ScheduleCursor),
        timing: &Timing,
        expected: &Expected,
    ) -> Result<(), Broken> {
        let settled = |time: Timestamp| {
            change
                .fires
                .iter()
                .find(|row| row.nominal == Some(time) && row.outcome != FireOutcome::Missed)
        };
        let known = |time: Timestamp| self.triggers.watch.knows(&change.is, &time.to_string());
        let mut passed = Vec::new();
        for time in timing.times(was.after, is.after) {
            let fires = settled(time).is_some() || is.waiting.contains(&time) || known(time);
            let row = settled(time).is_some_and(|row| row.execution.is_some());
            if (row || is.waiting.contains(&time)) && !expected.fire.contains(&time) {
                return Err((
                    "trigger.catch-up",
                    format!("{time} fires, and is to be passed over"),
                ));
            }
            if !fires && !expected.pass.contains(&time) {
                return Err(("trigger.left-out", format!("{time} is left out")));
            }
            // One that fired before is counted with those around it that did not.
            if !row && !is.waiting.contains(&time) && expected.pass.contains(&time) {
                passed.push(time);
            }
        }
        let missed = change.fires.iter().find(|row| row.outcome == FireOutcome::Missed);
        if missed.and_then(|row| row.nominal) != passed.first().copied() {
            let what = format!("{passed:?} are passed over, and recorded is {missed:?}");
            return Err(("trigger.missed", what));
        }
        let still = |time: &&Timestamp| !is.waiting.contains(time);
        for time in was.waiting.iter().filter(still) {
            if settled(*time).is_none() && !known(*time) {
                return Err(("trigger.left-out", format!("{time} waited, and is left out")));
            }
        }
        Ok(())
    }

    fn check_not_early(
        &self,
        change: &Change,
        due: &dyn Fn(Timestamp) -> Timestamp,
    ) -> Result<(), Broken> {
        let early = |time: &Timestamp| due(*time) > change.at;
        let fired = change.fires.iter().filter_map(|row| row.nominal);
        match fired.into_iter().find(early) {
            Some(time) => Err(("trigger.early", format!("{time} is dealt with at {}", change.at))),
            None => Ok(()),
        }
    }

    /// Of a schedule whose times do not overlap, one execution at a time is unfinished. One that a person
    /// retried does not count.
    fn check_overlap(&self, change: &Change) -> Result<(), Broken> {
        let Some(new) = change.fires.iter().find_map(|row| row.execution) else { return Ok(()) };
        let open =
            self.store.with(|tables, _| tables.open_executions(change.is.number, usize::MAX));
        let other = open.into_iter().find(|open| {
            let state = self.auditor.state(*open);
            *open != new && state.is_none_or(|state| state.generation == 1)
        });
        match other {
            Some(other) => {
                let what = format!("x{} starts beside x{}", new.0, other.0);
                Err(("trigger.overlap", what))
            }
            None => Ok(()),
        }
    }

    /// When a time is due, with its jitter.
    fn due_times(&self, change: &Change) -> impl Fn(Timestamp) -> Timestamp + use<> {
        let connection = crate::store::Connection(self.store.clone());
        let plan = self.plans.get(change.is.definition, &connection).ok();
        let trigger = plan.and_then(|plan| plan.triggers.first().cloned());
        let key = trigger.as_ref().map(|trigger| trigger.jitter_key(&change.is.workflow));
        move |time| match trigger.as_ref().map(|trigger| &trigger.kind) {
            Some(TriggerKind::Schedule(schedule)) => {
                schedule.schedule.jittered(key.as_deref().unwrap_or_default(), time)
            }
            _ => time,
        }
    }

    /// A change that people asked for.
    fn check_asked_change(
        &mut self,
        change: &Change,
        was: &ScheduleCursor,
        is: &ScheduleCursor,
    ) -> Result<(), Broken> {
        let timings = &self.triggers.watch.timings;
        let times = |definition| {
            timings
                .get(definition)
                .map(|timing: &Timing| (timing.every_s, timing.offset_s, timing.is_cron()))
        };
        let same = times(&change.was.definition) == times(&change.is.definition);
        let was_active = change.was.state == TriggerState::Active;
        let stays = match self.triggers.watch.cause(change) {
            Some(Asked::Deploy(_)) if !same => {
                self.triggers.watch.anew.insert(change.is.workflow.clone());
                return Ok(());
            }
            Some(Asked::Deploy(_)) => !was_active || was == is,
            Some(Asked::Pause | Asked::Resume { catch_up: true }) => was == is,
            Some(Asked::Resume { catch_up: false }) => is.after <= change.at,
            Some(Asked::Backfill(_)) => (was.after, &was.waiting) == (is.after, &is.waiting),
            _ => true,
        };
        match stays {
            true => Ok(()),
            false => Err(("trigger.cursor", format!("a change moves {was:?} to {is:?}"))),
        }
    }

    /// The cursor of a poll moves when all items of its page are dealt with, to where the page says.
    pub(super) fn check_poll(&self, change: &Change) -> Result<(), Broken> {
        let Change { was, is, .. } = change;
        let (TriggerCursor::Poll(before), TriggerCursor::Poll(after)) = (&was.cursor, &is.cursor)
        else {
            return Err(("trigger.cursor", "it has no cursor of a poll".to_owned()));
        };
        if was.revision != is.revision || was.seq == is.seq {
            return Ok(());
        }
        if is.failures > 0 {
            return match before.cursor == after.cursor {
                true => Ok(()),
                false => Err(("trigger.cursor", "a read that failed moves it".to_owned())),
            };
        }
        let Some(page) = self.triggers.watch.page(change) else { return Ok(()) };
        if let Some(key) = page.keys.iter().find(|key| !self.triggers.watch.knows(is, key)) {
            let what = format!("the cursor passes {key}, which has not fired");
            return Err(("trigger.left-out", what));
        }
        match after.cursor.to_value().is_ok_and(|cursor| cursor == page.next) {
            true => Ok(()),
            false => Err(("trigger.cursor", format!("{} is not {}", after.cursor, page.next))),
        }
    }

    /// Events stay in their groups until these fire, when they are due.
    pub(super) fn check_window(&self, change: &Change, mode: WindowMode) -> Result<(), Broken> {
        let labels = |groups: &[HeldGroup]| -> BTreeSet<String> {
            groups.iter().flat_map(|group| &group.events).map(|label| label.to_string()).collect()
        };
        let (before, after) = (labels(&change.held.0), labels(&change.held.1));
        let mut fired = BTreeSet::new();
        for row in change.fires.iter().filter(|row| row.outcome != FireOutcome::Collected) {
            match row.execution {
                Some(execution) => fired.extend(self.events_fired(execution, mode, &row.label)),
                // A dead letter has all of its group.
                None => return Ok(()),
            }
        }
        if let Some(label) = fired.iter().find(|label| !before.contains(*label)) {
            return Err(("trigger.window", format!("{label} fires, and was not held")));
        }
        let replaced = |label: &&String| {
            let arrived = change.fires.iter().any(|row| row.outcome == FireOutcome::Collected);
            matches!(mode, WindowMode::Debounce { .. }) && arrived && !fired.contains(*label)
        };
        let gone = before.difference(&after).filter(|label| !replaced(label));
        if let Some(lost) = gone.into_iter().find(|label| !fired.contains(*label)) {
            return Err(("trigger.window", format!("{lost} is lost")));
        }
        let fires = |group: &&HeldGroup| group.events.iter().any(|label| fired.contains(&**label));
        if let Some(group) =
            change.held.0.iter().filter(fires).find(|group| group.stored.due > change.at)
        {
            return Err(("trigger.early", format!("{group:?} fires at {}", change.at)));
        }
        match change.held.1.iter().find(|group| !is_within(group, mode)) {
            Some(group) => Err(("trigger.window", format!("{group:?} is not within {mode:?}"))),
            None => Ok(()),
        }
    }

    /// The events that an execution got.
    fn events_fired(
        &self,
        execution: waypost_core::id::ExecutionNo,
        mode: WindowMode,
        label: &str,
    ) -> Vec<String> {
        if let WindowMode::Debounce { .. } = mode {
            return vec![label.to_owned()];
        }
        let input = self.created(execution).and_then(|created| created.input.to_value().ok());
        let input = input.unwrap_or_default();
        let events = input["events"].as_array().cloned().unwrap_or_default();
        let key = |event: &serde_json::Value| Some(format!("sim {}", event["id"].as_str()?));
        events.iter().filter_map(key).collect()
    }
}

fn check_backfill(
    change: &Change,
    was: &ScheduleCursor,
    is: &ScheduleCursor,
) -> Result<(), Broken> {
    if (was.after, &was.waiting) != (is.after, &is.waiting) {
        return Err(("trigger.backfill", "a backfill moves the schedule".to_owned()));
    }
    let first = was.backfills.first();
    let within =
        |time: Timestamp| first.is_some_and(|first| (first.from..first.to).contains(&time));
    match change.fires.iter().filter_map(|row| row.nominal).find(|time| !within(*time)) {
        Some(time) => Err(("trigger.backfill", format!("{time} is not of the backfill"))),
        None => Ok(()),
    }
}

/// Is a group as large and as late as it may be?
fn is_within(group: &HeldGroup, mode: WindowMode) -> bool {
    let stored = group.stored;
    match mode {
        WindowMode::Debounce { period, max } => {
            let due = stored.last_at.plus(period).min(stored.first_at.plus(max));
            group.events.len() == 1 && stored.due == due
        }
        WindowMode::Batch { size, wait } => {
            group.events.len() <= size as usize && stored.due <= stored.first_at.plus(wait)
        }
        // No flow has one.
        WindowMode::Throttle(_) => false,
    }
}
