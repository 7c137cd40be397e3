//! Triggers that fire with events, one by one or by windows.

use std::sync::Arc;

use waypost_core::limits::{
    BATCH_SIZE_MAX, EVENT_TYPE_CHARS_MAX, EVENT_TYPES_MAX, THROTTLE_LIMIT_MAX, WINDOW_SPAN_MAX,
    WINDOW_SPAN_MIN,
};
use waypost_core::time::Millis;
use waypost_core::trigger::{EventTrigger, Over, Throttle, TriggerKind, Window, WindowMode};

use super::{Block, SeenNames};
use crate::diagnostics::{Code, quoted};

pub(super) const ONE: SeenNames = &["trigger", "event"];
const SEVERAL: SeenNames = &["trigger", "events"];
const SPANS: (Millis, Millis) = (WINDOW_SPAN_MIN, WINDOW_SPAN_MAX);
/// How many times `period` is `max` of a debounce without one.
const DEBOUNCE_PERIODS: u64 = 10;

/// The trigger, and what its expressions see.
pub(super) fn read(block: &mut Block<'_, '_, '_>) -> (Option<TriggerKind>, SeenNames) {
    let types = types(block);
    let source = block.text("source");
    let sees = if block.present("batch").is_some() { SEVERAL } else { ONE };
    let windows: Vec<_> =
        ["debounce", "batch", "throttle"].iter().filter_map(|name| block.present(name)).collect();
    if let [first, second, ..] = &windows[..] {
        let message = format!("`{}` and `{}` exclude each other", first.key, second.key);
        let hint = "`debounce` fires the last of several events, `batch` all of them together, and `throttle` \
                    each of them when it may";
        block.context.faults.error(Code::BadWindow, &second.key_span, message).hint(hint);
        return (None, sees);
    }
    let window = debounce(block).or_else(|| batch(block)).or_else(|| throttle(block));
    let source = source.map(Into::into);
    let trigger = (!types.is_empty()).then_some(EventTrigger { types, source, window });
    (trigger.map(|trigger| TriggerKind::Event(Box::new(trigger))), sees)
}

fn types(block: &mut Block<'_, '_, '_>) -> Vec<Arc<str>> {
    let hint = "`type: order.paid`, or `type: order.*` for all that begin with `order.`";
    let Some(entry) = block.required("type", hint) else { return Vec::new() };
    let texts = block.texts("type");
    if texts.len() > EVENT_TYPES_MAX {
        let message =
            format!("`type` may have at most {EVENT_TYPES_MAX} types, not {}", texts.len());
        block.context.faults.error(Code::TooLarge, &entry.value.span, message);
    }
    let mut types: Vec<Arc<str>> = Vec::new();
    for (text, tree) in texts {
        let exact = text.strip_suffix('*').unwrap_or(&text);
        let fits = !text.is_empty()
            && text.chars().count() <= EVENT_TYPE_CHARS_MAX
            && !exact.contains('*')
            && !text.chars().any(|c| c.is_whitespace() || c.is_control());
        if !fits {
            let message = format!("`type` cannot be {}", quoted(&text));
            let hint = format!(
                "use up to {EVENT_TYPE_CHARS_MAX} characters without blanks, with a `*` only at the end"
            );
            block.context.faults.error(Code::BadValue, &tree.span, message).hint(hint);
        }
        types.push(text.into());
    }
    types
}

fn debounce(block: &mut Block<'_, '_, '_>) -> Option<Window> {
    block.inner("debounce", &["key", "period", "max"], |block| {
        let key = block.expression("key", &["event"]);
        block.required("period", "how long after the last event: `period: 30s`")?;
        let period = block.duration_within("period", SPANS, Code::BadWindow)?;
        let longest = Millis(period.0.saturating_mul(DEBOUNCE_PERIODS)).min(WINDOW_SPAN_MAX);
        let max = match block.present("max") {
            Some(_) => block.duration_within("max", SPANS, Code::BadWindow)?,
            None => longest,
        };
        if max < period {
            let span = block.present("max").map_or(0..0, |entry| entry.value.span.clone());
            let message = format!("`max` of {max} is below `period` of {period}");
            let hint = "`max` is how long after the first event it fires at the latest";
            block.context.faults.error(Code::BadWindow, &span, message).hint(hint);
        }
        Some(Window { key, mode: WindowMode::Debounce { period, max } })
    })
}

fn batch(block: &mut Block<'_, '_, '_>) -> Option<Window> {
    block.inner("batch", &["key", "size", "wait"], |block| {
        let key = block.expression("key", &["event"]);
        block.required("size", "how many events fire at once: `size: 100`");
        block.required("wait", "how long after the first event: `wait: 30s`");
        let size = block.whole("size", 1, BATCH_SIZE_MAX);
        let wait = block.duration_within("wait", SPANS, Code::BadWindow);
        Some(Window { key, mode: WindowMode::Batch { size: size?, wait: wait? } })
    })
}

fn throttle(block: &mut Block<'_, '_, '_>) -> Option<Window> {
    block.inner("throttle", &["key", "limit", "per", "over"], |block| {
        let key = block.expression("key", &["event"]);
        block.required("limit", "how many executions may start: `limit: 10`");
        block.required("per", "in how long a time: `per: 1m`");
        let limit = block.whole("limit", 1, THROTTLE_LIMIT_MAX);
        let per = block.duration_within("per", SPANS, Code::BadWindow);
        let over = block.word("over", &Over::NAMES, Code::BadWindow).and_then(Over::parse);
        block.leave_out("over", "queue");
        let over = over.unwrap_or(Over::Queue);
        let throttle = Throttle { limit: limit?, per: per?, over };
        Some(Window { key, mode: WindowMode::Throttle(throttle) })
    })
}
