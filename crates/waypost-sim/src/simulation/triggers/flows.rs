//! The workflows with triggers of a world: their definitions, drawn at random.

use std::sync::Arc;

use serde_json::{Value, json};
use waypost_core::schedule::{CatchUp, Missed};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Overlap, WindowMode};

use super::sources::SimSource;
use crate::clock::START;
use crate::program::NAME;
use crate::random::Random;

/// The name of every trigger.
pub(super) const TRIGGER: &str = "it";
/// The type of all events.
pub(super) const EVENT_TYPE: &str = "thing.happened";

/// A workflow with a trigger.
pub(super) struct Flow {
    pub(super) name: Arc<str>,
    pub(super) kind: FlowKind,
    /// How long its executions wait.
    delay_ms: u64,
    /// Do its executions wait for each other?
    keyed: bool,
    /// How often it was deployed.
    pub(super) version: u32,
    /// How long before the beginning of the world it was registered.
    pub(super) registered_before: Millis,
}

pub(super) enum FlowKind {
    Schedule(Timing),
    Poll(SimSource),
    Webhook,
    Event(Option<WindowMode>),
    Ended,
}

/// A schedule: every so many seconds.
#[derive(Clone)]
pub(super) struct Timing {
    pub(super) every_s: i64,
    pub(super) offset_s: i64,
    as_cron: bool,
    pub(super) until: Timestamp,
    pub(super) jitter_ms: u64,
    pub(super) overlap: Overlap,
    pub(super) catch_up: CatchUp,
}

impl Flow {
    pub(super) fn draw(at: usize, random: &mut Random) -> Self {
        let kind = match random.below(20) {
            0..7 => FlowKind::Schedule(Timing::draw(random)),
            7..11 => FlowKind::Poll(SimSource::draw(random)),
            11 | 12 => FlowKind::Webhook,
            13..17 => FlowKind::Event(window(random)),
            _ => FlowKind::Ended,
        };
        let was_away = matches!(kind, FlowKind::Schedule(_)) && random.percent(40);
        Self {
            name: format!("flow-{at}").into(),
            kind,
            delay_ms: *random.pick(&[0, 0, 800, 4_000, 9_000]),
            keyed: random.percent(25),
            version: 1,
            registered_before: Millis(if was_away { random.between(60_000, 400_000) } else { 0 }),
        }
    }

    /// Draws another time for a schedule to fire at; `false` for other kinds.
    pub(super) fn draw_timing(&mut self, random: &mut Random) -> bool {
        let FlowKind::Schedule(timing) = &mut self.kind else { return false };
        let before = (timing.every_s, timing.offset_s);
        let Timing { every_s, offset_s, as_cron, jitter_ms, .. } = Timing::draw(random);
        *timing = Timing { every_s, offset_s, as_cron, jitter_ms, ..timing.clone() };
        before != (every_s, offset_s)
    }

    /// The definition of its present version.
    pub(super) fn definition(&self) -> String {
        let mut trigger = match &self.kind {
            FlowKind::Schedule(timing) => timing.json(),
            FlowKind::Poll(source) => source.trigger_json(&self.name),
            FlowKind::Webhook => json!({ "webhook": TRIGGER, "verify": "none" }),
            FlowKind::Event(window) => {
                let mut event = json!({ "event": TRIGGER, "type": EVENT_TYPE });
                match window {
                    Some(WindowMode::Debounce { period, max }) => {
                        event["debounce"] =
                            json!({ "key": "event.data.group", "period": period.0, "max": max.0 });
                    }
                    Some(WindowMode::Batch { size, wait }) => {
                        event["batch"] =
                            json!({ "key": "event.data.group", "size": size, "wait": wait.0 });
                    }
                    // No flow has a throttle.
                    Some(WindowMode::Throttle(_)) | None => {}
                }
                event
            }
            FlowKind::Ended => json!({ "workflow-ended": TRIGGER, "workflow": NAME }),
        };
        trigger["description"] = json!(format!("version {}", self.version));
        let mut top = json!({
            "name": &*self.name,
            "on": [trigger],
            "nodes": [
                { "id": "wait", "type": "delay", "config": { "duration": self.delay_ms } },
                { "id": "done", "type": "output", "needs": ["wait"], "config": { "value": "done" } },
            ],
        });
        if self.keyed {
            top["concurrency"] = json!({ "key": &*self.name, "limit": 1, "policy": "queue" });
        }
        top.to_string()
    }
}

impl Timing {
    fn draw(random: &mut Random) -> Self {
        let every_s = *random.pick(&[1, 2, 3, 5, 7, 10, 20]);
        let missed = *random.pick(&[Missed::None, Missed::Last, Missed::All]);
        let max = u32::try_from(random.between(1, 6)).unwrap_or(1);
        let window = Millis(*random.pick(&[30_000, 100_000, 86_400_000]));
        Self {
            every_s,
            offset_s: i64::try_from(random.index(3)).unwrap_or(0) % every_s,
            as_cron: 60 % every_s == 0 && random.percent(40),
            until: START.plus(Millis(random.between(15_000, 45_000))),
            jitter_ms: if random.percent(40) { 700 } else { 0 },
            overlap: *random.pick(&Overlap::ALL),
            catch_up: CatchUp { missed, window, max },
        }
    }

    pub(super) fn is_cron(&self) -> bool {
        self.as_cron
    }

    fn json(&self) -> Value {
        let missed = match self.catch_up.missed {
            Missed::None => "none",
            Missed::Last => "last",
            Missed::All => "all",
        };
        let CatchUp { window, max, .. } = self.catch_up;
        let mut trigger = json!({
            "schedule": TRIGGER,
            "until": self.until.to_string(),
            "overlap": self.overlap.name(),
            "catchUp": { "missed": missed, "window": window.0, "max": max },
        });
        if self.as_cron {
            let seconds = (0..60).filter(|second| second % self.every_s == self.offset_s);
            let seconds: Vec<String> = seconds.map(|second| second.to_string()).collect();
            trigger["cron"] = json!(format!("{} * * * * *", seconds.join(",")));
        } else {
            trigger["every"] = json!(format!("{}s", self.every_s));
            trigger["offset"] = json!(format!("{}s", self.offset_s));
        }
        if self.jitter_ms > 0 {
            trigger["jitter"] = json!(self.jitter_ms);
        }
        trigger
    }

    /// Its times after one and up to another, found second by second.
    pub(super) fn times(&self, after: Timestamp, upto: Timestamp) -> Vec<Timestamp> {
        let last = upto.0.min(self.until.0 - 1);
        let seconds = after.0.div_euclid(1_000)..=last.div_euclid(1_000);
        let fires = |second: &i64| second.rem_euclid(self.every_s) == self.offset_s;
        let times = seconds.filter(fires).map(|second| Timestamp(second * 1_000));
        times.filter(|time| *time > after && time.0 <= last).collect()
    }
}

fn window(random: &mut Random) -> Option<WindowMode> {
    match random.below(3) {
        0 => None,
        1 => {
            let period = random.between(300, 4_000);
            let max = Millis(period + random.below(8_000));
            Some(WindowMode::Debounce { period: Millis(period), max })
        }
        _ => {
            let size = u32::try_from(random.between(2, 5)).unwrap_or(2);
            Some(WindowMode::Batch { size, wait: Millis(random.between(300, 8_000)) })
        }
    }
}
