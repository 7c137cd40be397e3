//! From the description of a schedule to the schedule, or to all that is wrong with it.

use jiff::civil::DateTime;

use super::cron::CronLine;
use super::fault::{ScheduleCode as Code, ScheduleFault as Fault};
use super::ticks::Ticks;
use super::zone::{Resolved, Zone, wall_seconds};
use super::{Nominal, Remark, Schedule, ScheduleSpec, Times};
use crate::limits::{CATCH_UP_MAX, CRON_LINES_MAX, SCHEDULE_INTERVAL_MIN, SCHEDULE_TIMES_MAX};
use crate::spelling::quoted;
use crate::time::{Millis, Timestamp};

/// Where intervals are looked at if the schedule has no `from`: 2026-01-01.
const SAMPLE_FROM: Timestamp = Timestamp(1_767_225_600_000);
/// How many times are looked at in order to find the shortest interval, and for how long at least.
const SAMPLE: usize = 400;
const SAMPLE_SPAN: Millis = Millis::from_secs(2 * 24 * 3_600);

impl Schedule {
    /// Checks a description. Returns all faults, not only the first one.
    pub fn compile(spec: &ScheduleSpec) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let zone = zone(spec, &mut faults);
        let at = zone.as_ref().map(|zone| bounds(spec, zone, &mut faults));
        let times = times(spec, zone.as_ref(), &mut faults);
        catch_up(spec, &mut faults);
        let (Some(zone), Some((from, until)), Some(times)) = (zone, at, times) else {
            return Err(faults);
        };
        let jitter = spec.jitter.unwrap_or_default();
        let schedule = Self { times, zone, from, until, jitter, catch_up: spec.catch_up };
        if !faults.is_empty() {
            return Err(faults);
        }
        schedule
            .check_times(spec)
            .and_then(|()| schedule.check_jitter())
            .map_err(|fault| vec![fault])?;
        Ok(schedule)
    }

    fn check_times(&self, spec: &ScheduleSpec) -> Result<(), Fault> {
        if self.ticks(Timestamp::FIRST).next().is_some() {
            return Ok(());
        }
        let field = if spec.cron.is_empty() { "at" } else { "cron" };
        let field = if spec.every.is_some() { "every" } else { field };
        let message = "this schedule never fires: it has no time from `from` to `until`";
        let hint = "`from` is the first time that may fire, `until` the first one that may not";
        Err(Fault::new(Code::NeverFires, field, None, message).hint(hint))
    }

    /// Jitter must not reach the next time: fires would be due in another order than their times, and a
    /// time would be missed because of its own jitter.
    fn check_jitter(&self) -> Result<(), Fault> {
        if self.jitter == Millis(0) {
            return Ok(());
        }
        let after = match self.times {
            Times::Cron(_) | Times::Every { .. } if self.from == Timestamp::FIRST => SAMPLE_FROM,
            Times::Cron(_) | Times::Every { .. } | Times::At(_) => self.from.minus(Millis(1)),
        };
        let mut shortest: Option<(Millis, Timestamp, Timestamp)> = None;
        let (mut last, mut begin) = (None, None);
        for (count, tick) in Ticks::new(self, after, self.until).enumerate() {
            let begin = *begin.get_or_insert(tick.at);
            if count >= SAMPLE && tick.at.since(begin) > SAMPLE_SPAN {
                break;
            }
            if let Some(last) = last {
                let found = (tick.at.since(last), last, tick.at);
                shortest = Some(shortest.map_or(found, |known| known.min(found)));
            }
            last = Some(tick.at);
        }
        let Some((interval, first, second)) = shortest.filter(|found| found.0 <= self.jitter)
        else {
            return Ok(());
        };
        let jitter = self.jitter;
        let message = format!("`jitter` of {jitter} is not below the interval of {interval}");
        let hint = format!(
            "{} and {} are {interval} apart: a jitter must be shorter than that",
            self.local_text(first),
            self.local_text(second),
        );
        Err(Fault::new(Code::BadJitter, "jitter", None, message).hint(hint))
    }
}

fn zone(spec: &ScheduleSpec, faults: &mut Vec<Fault>) -> Option<Zone> {
    let name = spec.zone.as_deref().unwrap_or("UTC");
    let near = match Zone::find(name) {
        Ok(zone) => return Some(zone),
        Err(near) => near,
    };
    let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let hint = if names.is_empty() {
        "zones have names such as `Europe/Berlin` or `America/New_York`; an offset or an abbreviation is \
         none"
            .to_owned()
    } else {
        format!("did you mean {}?", names.join(" or "))
    };
    let message = format!("there is no time zone {}", quoted(name));
    let fault = Fault::new(Code::UnknownZone, "zone", None, message).hint(hint);
    faults.push(fault.range(0..name.len()));
    None
}

/// `from` and `until`.
fn bounds(spec: &ScheduleSpec, zone: &Zone, faults: &mut Vec<Fault>) -> (Timestamp, Timestamp) {
    let mut bound = |name: &'static str, text: &Option<String>| {
        let text = text.as_deref()?;
        time(name, None, text, zone).map_err(|fault| faults.push(fault)).ok()
    };
    let from = bound("from", &spec.from).map_or(Timestamp::FIRST, |time| time.at);
    let until = bound("until", &spec.until).map_or(Timestamp::LAST, |time| time.at);
    if until <= from {
        let message = "`until` is not after `from`: this schedule never fires";
        faults.push(Fault::new(Code::NeverFires, "until", None, message));
    }
    (from, until)
}

fn times(spec: &ScheduleSpec, zone: Option<&Zone>, faults: &mut Vec<Fault>) -> Option<Times> {
    let given = [!spec.cron.is_empty(), spec.every.is_some(), !spec.at.is_empty()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        let message = if given.contains(&true) {
            "`cron`, `every` and `at` exclude each other"
        } else {
            "a schedule needs `cron`, `every` or `at`"
        };
        let hint =
            "write one of `cron: \"0 2 * * *\"`, `every: 15m` and `at: [2026-12-24T18:00:00Z]`";
        faults.push(Fault::new(Code::BadSchedule, "", None, message).hint(hint));
        return None;
    }
    if let (Some(_), None) = (spec.offset, spec.every) {
        let fault = Fault::new(Code::BadInterval, "offset", None, "`offset` belongs to `every`");
        faults.push(fault.hint("put the time into the cron line, or leave `offset` out"));
    }
    match spec.every {
        Some(every) => interval(every, spec.offset.unwrap_or_default(), faults),
        None if spec.at.is_empty() => lines(&spec.cron, faults),
        None => list(&spec.at, zone?, faults),
    }
}

fn interval(every: Millis, offset: Millis, faults: &mut Vec<Fault>) -> Option<Times> {
    if every < SCHEDULE_INTERVAL_MIN {
        let message = format!("`every` must be at least {SCHEDULE_INTERVAL_MIN}, not {every}");
        faults.push(Fault::new(Code::BadInterval, "every", None, message));
        return None;
    }
    if offset >= every {
        let message = format!("`offset` of {offset} is not below `every` of {every}");
        let hint = "times are multiples of `every` since 1970-01-01T00:00Z, and `offset` later";
        faults.push(Fault::new(Code::BadInterval, "offset", None, message).hint(hint));
        return None;
    }
    Some(Times::Every { every: every.0.try_into().ok()?, offset: offset.0.try_into().ok()? })
}

fn lines(texts: &[String], faults: &mut Vec<Fault>) -> Option<Times> {
    if texts.len() > CRON_LINES_MAX {
        let message =
            format!("`cron` may have at most {CRON_LINES_MAX} lines, not {}", texts.len());
        faults.push(Fault::new(Code::BadSchedule, "cron", None, message));
        return None;
    }
    let mut lines = Vec::new();
    for (position, text) in texts.iter().enumerate() {
        let index = (texts.len() > 1).then_some(position);
        match CronLine::parse(text) {
            Ok(line) if line.first_from(0, None).is_none() => {
                let message = format!("{} never fires: no month has such a day", quoted(text));
                let hint = "a day that only some months have needs one of these months; `L` is the last \
                            day of every month";
                let fault = Fault::new(Code::NeverFires, "cron", index, message).hint(hint);
                faults.push(fault.range(0..text.len()));
            }
            Ok(line) => lines.push(line),
            Err(fault) => {
                let found = Fault::new(Code::BadCron, "cron", index, fault.message);
                faults.push(found.hint(fault.hint).range(fault.range));
            }
        }
    }
    Some(Times::Cron(lines))
}

fn list(texts: &[String], zone: &Zone, faults: &mut Vec<Fault>) -> Option<Times> {
    if texts.len() > SCHEDULE_TIMES_MAX {
        let message =
            format!("`at` may have at most {SCHEDULE_TIMES_MAX} times, not {}", texts.len());
        faults.push(Fault::new(Code::BadSchedule, "at", None, message));
        return None;
    }
    let mut times = Vec::new();
    for (position, text) in texts.iter().enumerate() {
        let index = (texts.len() > 1).then_some(position);
        match time("at", index, text, zone) {
            Ok(time) => times.push((time, position)),
            Err(fault) => faults.push(fault),
        }
    }
    times.sort_by_key(|(time, position)| (time.at, *position));
    for pair in times.windows(2) {
        let [(first, _), (second, position)] = pair else { continue };
        if second.at.since(first.at) < SCHEDULE_INTERVAL_MIN {
            let message = format!("{} and {} are less than 1s apart", first.at, second.at);
            let hint = "a time fires once: take one of them out";
            faults.push(Fault::new(Code::BadInterval, "at", Some(*position), message).hint(hint));
        }
    }
    Some(Times::At(times.into_iter().map(|(time, _)| time).collect()))
}

/// RFC 3339, or a wall time of the zone.
fn time(
    field: &'static str,
    index: Option<usize>,
    text: &str,
    zone: &Zone,
) -> Result<Nominal, Fault> {
    if let Some(at) = Timestamp::parse(text) {
        return Ok(Nominal { at, remark: None });
    }
    wall(text, zone).ok_or_else(|| {
        let message = format!("{} is not a time", quoted(text));
        let hint = "write `2026-12-24T18:00:00Z`, `2026-12-24T18:00:00+01:00`, or `2026-12-24T18:00:00` for a \
                    time on the clock of `zone`";
        Fault::new(Code::BadTime, field, index, message).hint(hint).range(0..text.len())
    })
}

fn wall(text: &str, zone: &Zone) -> Option<Nominal> {
    let is_wall = |c: char| c.is_ascii_digit() || "-:.Tt ".contains(c);
    let wall: DateTime = Some(text).filter(|text| text.chars().all(is_wall))?.parse().ok()?;
    let (second, resolved) = zone.resolve(wall_seconds(wall));
    let (fraction, remark) = match resolved {
        Resolved::Only => (i64::from(wall.millisecond()), None),
        Resolved::First(second) => {
            let second = Timestamp(second * 1000 + i64::from(wall.millisecond()));
            (i64::from(wall.millisecond()), Some(Remark::SecondLeftOut { second }))
        }
        Resolved::AfterGap => (0, Some(Remark::MovedOutOfGap { wall })),
    };
    Some(Nominal { at: Timestamp::from_ms(second * 1000 + fraction)?, remark })
}

fn catch_up(spec: &ScheduleSpec, faults: &mut Vec<Fault>) {
    let max = spec.catch_up.max;
    if !(1..=CATCH_UP_MAX).contains(&max) {
        let message = format!("`catchUp.max` must be from 1 to {CATCH_UP_MAX}, not {max}");
        let hint = "`missed: none` catches nothing up; `backfill` fires longer spans";
        faults.push(Fault::new(Code::BadCatchUp, "catchUp.max", None, message).hint(hint));
    }
}
