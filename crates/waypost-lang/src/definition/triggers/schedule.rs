//! Triggers that fire at times.

use waypost_core::schedule::{
    CatchUp, Missed, Schedule, ScheduleCode, ScheduleFault, ScheduleSpec,
};
use waypost_core::trigger::{Overlap, ScheduleTrigger, TriggerKind};

use super::Block;
use crate::diagnostics::Code;
use crate::tree::Tree;

const UTC: &str = "UTC";
const MISSED: &[&str] = &["none", "last", "all"];

pub(super) fn read(block: &mut Block<'_, '_, '_>) -> Option<TriggerKind> {
    let errors = block.context.faults.errors();
    let texts = |block: &mut Block<'_, '_, '_>, name| -> Vec<String> {
        block.texts(name).into_iter().map(|(text, _)| text).collect()
    };
    let spec = ScheduleSpec {
        cron: texts(block, "cron"),
        every: block.duration("every"),
        offset: block.duration("offset"),
        at: texts(block, "at"),
        zone: block.text("zone").filter(|zone| zone != UTC),
        from: block.text("from"),
        until: block.text("until"),
        jitter: block.duration("jitter"),
        catch_up: catch_up(block),
    };
    let overlaps = Overlap::ALL.map(Overlap::name);
    let overlap = block.word("overlap", &overlaps, Code::BadOverlap).and_then(Overlap::parse);
    block.leave_out("zone", UTC);
    block.leave_out("overlap", Overlap::Allow.name());
    if block.context.faults.errors() > errors {
        return None;
    }
    match Schedule::compile(&spec) {
        Ok(schedule) => {
            let overlap = overlap.unwrap_or_default();
            Some(TriggerKind::Schedule(Box::new(ScheduleTrigger { spec, schedule, overlap })))
        }
        Err(faults) => {
            faults.into_iter().for_each(|fault| report(block, fault));
            None
        }
    }
}

fn catch_up(block: &mut Block<'_, '_, '_>) -> CatchUp {
    let defaults = CatchUp::default();
    let read = block.inner("catchUp", &["missed", "window", "max"], |block| {
        let missed = match block.word("missed", MISSED, Code::BadCatchUp) {
            Some("none") => Missed::None,
            Some("all") => Missed::All,
            _ => Missed::Last,
        };
        let window = block.duration("window").unwrap_or(defaults.window);
        // Its bounds are those of the schedule.
        let max = block.whole("max", 0, u32::MAX).unwrap_or(defaults.max);
        block.leave_out("missed", "last");
        block.leave_out("window", defaults.window.0);
        block.leave_out("max", defaults.max);
        Some(CatchUp { missed, window, max })
    });
    read.unwrap_or(defaults)
}

/// A fault of the schedule, at the bytes of the field that it is about.
fn report(block: &mut Block<'_, '_, '_>, fault: ScheduleFault) {
    let mut path = fault.field.name.split('.');
    let entry = path.next().and_then(|name| block.present(name));
    let span = match entry {
        None => block.span.clone(),
        Some(entry) => {
            let inner = entry.value.at(path);
            let tree: &Tree = match (fault.field.index, inner.as_list()) {
                (Some(index), Some(items)) => items.get(index).unwrap_or(inner),
                (None, Some([only])) => only,
                _ => inner,
            };
            match &fault.range {
                Some(range) => tree.span_within(block.context.source, range),
                None => tree.span.clone(),
            }
        }
    };
    let code = match fault.code {
        ScheduleCode::BadCron => Code::BadCron,
        ScheduleCode::UnknownZone => Code::UnknownZone,
        ScheduleCode::NeverFires => Code::NeverFires,
        ScheduleCode::BadJitter => Code::BadJitter,
        ScheduleCode::BadInterval => Code::BadInterval,
        ScheduleCode::BadTime => Code::BadTime,
        ScheduleCode::BadCatchUp => Code::BadCatchUp,
        ScheduleCode::BadSchedule => Code::BadSchedule,
    };
    block.context.faults.error(code, &span, fault.message).hint = fault.hint;
}
