//! Schedules, step by step: which times fire, which do not, and when to look again.

use std::collections::BTreeSet;

use super::*;
use crate::schedule::{CatchUp, Missed, Schedule, ScheduleSpec};

/// 2026-05-28T20:26:40Z, a multiple of ten minutes from 1970 on.
const START: Timestamp = Timestamp(1_780_000_000_000);
const MINUTE: u64 = 60_000;

fn at(minutes: u64) -> Timestamp {
    START.plus(Millis(minutes * MINUTE))
}

/// What became of the times, in minutes after [`START`]: `!5` fired, `b5` is of a backfill, `B5` fires again,
/// `s5` was skipped, `m1-5` were missed, `r5` was replaced, `f5` found the queue full; `x` cancels.
struct Simulated {
    trigger: ScheduleTrigger,
    cursor: ScheduleCursor,
    open: usize,
    known: BTreeSet<Timestamp>,
    log: Vec<String>,
    due: Option<Timestamp>,
}

impl Simulated {
    fn new(overlap: Overlap, missed: Missed) -> Self {
        let spec = ScheduleSpec {
            every: Some(Millis(10 * MINUTE)),
            offset: Some(Millis(START.0 as u64 % (10 * MINUTE))),
            catch_up: CatchUp { missed, max: 5, ..CatchUp::default() },
            ..ScheduleSpec::default()
        };
        let schedule = Schedule::compile(&spec).unwrap();
        let cursor = ScheduleCursor {
            after: START,
            waiting: vec![],
            previous: None,
            reached: None,
            backfilled: None,
            backfills: vec![],
        };
        Self {
            trigger: ScheduleTrigger { spec, schedule, overlap },
            cursor,
            open: 0,
            known: BTreeSet::new(),
            log: Vec::new(),
            due: None,
        }
    }

    fn backfill(mut self, from: u64, to: u64, again: bool, rate: u32) -> Self {
        self.cursor.backfills.push(Backfill {
            id: 7,
            from: at(from),
            to: at(to),
            again,
            rate,
            fired: 0,
            known: 0,
            total: 0,
            not_before: Timestamp::default(),
        });
        self
    }

    /// Steps until there is nothing to do, so many minutes after the start.
    fn turn(&mut self, minutes: u64) {
        let now = at(minutes);
        let mut allowed = self.cursor.backfills.first().map_or(0, |first| first.rate);
        for _ in 0..1_000 {
            let step = ScheduleNow {
                key: "w/t",
                schedule: &self.trigger,
                cursor: &self.cursor,
                now,
                open: self.open,
                allowed,
                known: &self.known,
            }
            .step();
            let next = match step {
                ScheduleStep::Wait(due) => {
                    self.due = due;
                    return;
                }
                ScheduleStep::Fire { time, backfill, next, .. } => {
                    allowed -= u32::from(backfill != BackfillFire::None);
                    let mark = match backfill {
                        BackfillFire::None => '!',
                        BackfillFire::Once => 'b',
                        BackfillFire::Again { .. } => 'B',
                    };
                    self.log.push(format!("{mark}{}", minute(time)));
                    self.open += 1;
                    next
                }
                ScheduleStep::Settle { times, cancel, next } => {
                    self.log.extend(times.iter().map(|settled| match settled.why {
                        NotFired::Missed { last, .. } => {
                            format!("m{}-{}", minute(settled.time), minute(last))
                        }
                        NotFired::Overlaps => format!("s{}", minute(settled.time)),
                        NotFired::Replaced => format!("r{}", minute(settled.time)),
                        NotFired::QueueFull => format!("f{}", minute(settled.time)),
                    }));
                    self.log.extend(cancel.then(|| "x".to_owned()));
                    next
                }
            };
            let NextCursor { cursor, due } = next;
            assert!(due.is_none_or(|due| due > now), "others would work on it at the same time");
            self.cursor = cursor;
        }
        panic!("it does not end: {:?}", self.log);
    }

    fn end(&mut self) {
        self.open = 0;
    }

    #[track_caller]
    fn said(&mut self, expected: &str) {
        assert_eq!(std::mem::take(&mut self.log).join(" "), expected);
    }
}

fn minute(time: Timestamp) -> u64 {
    time.since(START).0 / MINUTE
}

#[test]
fn schedule_that_was_away_fires_what_its_catch_up_says() {
    // Every ten minutes; looked at after 95 minutes, at most five times at once.
    for (missed, expected) in [
        (Missed::None, "m10-80 !90"),
        (Missed::Last, "m10-80 !90"),
        (Missed::All, "m10-40 !50 !60 !70 !80 !90"),
    ] {
        let mut schedule = Simulated::new(Overlap::Allow, missed);
        schedule.turn(95);
        schedule.said(expected);
        assert_eq!(schedule.due, Some(at(100)));
        schedule.turn(96);
        schedule.said("");
    }
}

#[test]
fn schedule_in_time_fires_each_time_once_and_knows_the_one_before() {
    let mut schedule = Simulated::new(Overlap::Allow, Missed::Last);
    for minutes in [9, 10, 10, 19, 20, 21] {
        schedule.turn(minutes);
    }
    schedule.said("!10 !20");
    assert_eq!(schedule.cursor.previous, Some(at(20)));
}

#[test]
fn skip_drops_times_while_an_execution_is_open() {
    let mut schedule = Simulated::new(Overlap::Skip, Missed::Last);
    schedule.turn(10);
    schedule.turn(20);
    schedule.turn(30);
    schedule.end();
    schedule.turn(40);
    schedule.said("!10 s20 s30 !40");
    assert_eq!(schedule.cursor.previous, Some(at(40)));
}

#[test]
fn queue_fires_waiting_times_in_order_one_at_a_time() {
    let mut schedule = Simulated::new(Overlap::Queue, Missed::Last);
    for minutes in [10, 20, 30] {
        schedule.turn(minutes);
    }
    schedule.said("!10");
    assert_eq!(schedule.cursor.waiting, [at(20), at(30)]);
    assert_eq!(
        schedule.due,
        Some(at(30).plus(LOOK_EVERY)),
        "an end on another instance is seen soon"
    );
    schedule.end();
    schedule.turn(31);
    schedule.turn(40);
    schedule.end();
    schedule.turn(41);
    schedule.said("!20 !30");
    assert_eq!(schedule.cursor.waiting, [at(40)]);
}

#[test]
fn queue_that_is_full_skips_the_newest_times() {
    let mut schedule = Simulated::new(Overlap::Queue, Missed::Last);
    schedule.open = 1;
    let full = u64::from(Overlap::QUEUE_MAX);
    (1..=full + 2).for_each(|tick| schedule.turn(tick * 10));
    schedule.said(&format!("f{} f{}", (full + 1) * 10, (full + 2) * 10));
    assert_eq!(schedule.cursor.waiting.len(), Overlap::QUEUE_MAX as usize);
}

#[test]
fn cancel_running_keeps_the_newest_time_and_fires_it_after_the_end() {
    let mut schedule = Simulated::new(Overlap::CancelRunning, Missed::Last);
    for minutes in [10, 20, 30] {
        schedule.turn(minutes);
    }
    schedule.said("!10 x r20 x");
    schedule.end();
    schedule.turn(31);
    schedule.said("!30");
}

#[test]
fn backfill_fires_at_its_rate_and_never_moves_the_schedule() {
    let mut schedule = Simulated::new(Overlap::Allow, Missed::Last).backfill(10, 60, false, 2);
    schedule.cursor.after = at(90);
    schedule.known = [at(20), at(30)].into();
    schedule.turn(91);
    schedule.said("b10 b40");
    assert_eq!(schedule.due, Some(at(91).plus(LOOK_EVERY)));
    assert_eq!((schedule.cursor.after, schedule.cursor.previous), (at(90), None));
    let [backfill] = &schedule.cursor.backfills[..] else { panic!() };
    assert_eq!((backfill.fired, backfill.known, backfill.from), (2, 2, at(50)));
    schedule.turn(91);
    schedule.said("");
    schedule.turn(101);
    schedule.said("!100 b50");
    assert!(schedule.cursor.backfills.is_empty());
}

#[test]
fn backfill_waits_for_open_executions_and_may_fire_again() {
    let mut schedule = Simulated::new(Overlap::Skip, Missed::Last).backfill(10, 25, true, 10);
    schedule.cursor.after = at(90);
    schedule.known = [at(10)].into();
    schedule.turn(91);
    schedule.turn(92);
    schedule.said("B10");
    schedule.end();
    schedule.turn(93);
    schedule.said("B20");
    assert!(schedule.cursor.backfills.is_empty());
}

#[test]
fn backfill_without_times_ends() {
    let mut schedule = Simulated::new(Overlap::Allow, Missed::Last).backfill(11, 19, false, 10);
    schedule.cursor.after = at(90);
    schedule.turn(91);
    assert!(schedule.cursor.backfills.is_empty() && schedule.log.is_empty());
}

#[test]
fn schedule_that_has_ended_is_never_due() {
    let mut schedule = Simulated::new(Overlap::Allow, Missed::Last);
    schedule.trigger.spec.until = Some(at(15).to_string());
    schedule.trigger.schedule = Schedule::compile(&schedule.trigger.spec).unwrap();
    schedule.turn(10);
    schedule.turn(60);
    schedule.said("!10");
    assert_eq!(schedule.due, None);
}
