//! `delay`: waits for a span, or until a time.

use serde_json::Value;
use waypost_core::expr::Template;
use waypost_core::kind::{Behaviour, ConfigFault, Delay, Family, KindSpec, Shape};
use waypost_core::time::{Timestamp, unit_ms};

use crate::NodeKind;
use crate::config::{ConfigMap, duration, exactly_one, optional, required_template};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile: |config| read(config).map(Behaviour::Delay).map_err(|fault| vec![fault]),
    handler: None,
};

static SPEC: KindSpec = KindSpec {
    name: "delay",
    aliases: &[],
    family: Family::Logic,
    body: None,
    summary: "Waits for a span or until a time. Any length; nothing is held in memory meanwhile.",
    fields: &[
        optional("duration", Shape::Duration, "How long: a number of `unit`, `30s`, or `PT30S`."),
        optional("unit", Shape::OneOf(UNITS), "What a bare number counts; milliseconds if absent."),
        optional("until", Shape::Text, "The time to wait for, as RFC 3339 text."),
        optional(
            "persistState",
            Shape::Boolean,
            "Accepted for the sake of older definitions; every delay is durable.",
        ),
    ],
};

#[rustfmt::skip]
const UNITS: &[&str] = &[
    "ms", "millisecond", "milliseconds",
    "s", "second", "seconds",
    "m", "minute", "minutes",
    "h", "hour", "hours",
    "d", "day", "days",
];

fn read(config: &ConfigMap) -> Result<Delay, ConfigFault> {
    exactly_one(config, "duration", "until")?;
    let unit = config.get("unit").map(read_unit).transpose()?;
    if let Some(span) = duration(config, "duration", unit)? {
        return Ok(Delay::For(span));
    }
    if unit.is_some() {
        return Err(ConfigFault::at("unit", "`unit` is only allowed with `duration`"));
    }
    let until = required_template(config, "until")?;
    check_literal_time(&until)?;
    Ok(Delay::Until(until))
}

fn read_unit(value: &Value) -> Result<u32, ConfigFault> {
    value.as_str().and_then(unit_ms).ok_or_else(|| {
        ConfigFault::at("unit", format!("{value} is not a unit of time"))
            .hint("one of ms, seconds, minutes, hours, days")
    })
}

fn check_literal_time(until: &Template) -> Result<(), ConfigFault> {
    let Some(literal) = until.as_literal() else { return Ok(()) };
    let text: Option<String> = serde_json::from_str(literal.text()).ok();
    match text.as_deref().and_then(Timestamp::parse) {
        Some(_) => Ok(()),
        None => Err(ConfigFault::at("until", format!("{literal} is not a time"))
            .hint("write it as RFC 3339, with a zone, up to 9999: 2026-01-31T09:00:00Z")),
    }
}
