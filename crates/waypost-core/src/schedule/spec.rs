//! A schedule as definitions write it.
//!
//! Times stay texts here: a wall time without an offset means something only together with the zone.
//! Durations are written as in all definitions, `15m` or a number of milliseconds, and come out as the
//! latter.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::Millis;

/// When something fires: exactly one of `cron`, `every` and `at`, and what goes with it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleSpec {
    /// One cron line or several.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "one_or_many")]
    pub cron: Vec<String>,
    /// An interval, counted from 1970-01-01T00:00Z and not from the start of a process.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "duration")]
    pub every: Option<Millis>,
    /// How long after each multiple of `every`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "duration")]
    pub offset: Option<Millis>,
    /// One time or several. Without an offset from UTC, it is a wall time of the zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "one_or_many")]
    pub at: Vec<String>,
    /// The zone of cron lines and wall times; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The first time that may fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first time that may not fire any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Each time is put off by a part of this.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "duration")]
    pub jitter: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub catch_up: CatchUp,
}

/// What happens to times that passed while no instance fired them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CatchUp {
    pub missed: Missed,
    /// No time that is later than this fires, unless it is less than a minute late.
    #[serde(with = "required_duration")]
    pub window: Millis,
    /// How many times fire at once, at most.
    pub max: u32,
}

/// Which of the missed times fire after all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    None,
    /// The newest one, unless a time that is not missed fires now.
    #[default]
    Last,
    /// The newest `max`, the oldest of these first.
    All,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { missed: Missed::Last, window: Millis::from_secs(24 * 3_600), max: 100 }
    }
}

fn is_default(catch_up: &CatchUp) -> bool {
    *catch_up == CatchUp::default()
}

/// A text, or a list of them.
mod one_or_many {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    pub(super) fn serialize<S: Serializer>(list: &[String], to: S) -> Result<S::Ok, S::Error> {
        match list {
            [one] => one.serialize(to),
            many => many.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match OneOrMany::deserialize(from)? {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        })
    }
}

/// `15m`, or a number of milliseconds.
mod duration {
    use super::{Deserializer, Millis, Serialize, Serializer, required_duration};

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Millis>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Millis>, D::Error> {
        required_duration::deserialize(from).map(Some)
    }
}

mod required_duration {
    use super::{Deserialize, Deserializer, Millis, Serialize, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a duration such as 15m, or a number of milliseconds")]
    enum Written {
        Number(f64),
        Text(String),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(span: &Millis, to: S) -> Result<S::Ok, S::Error> {
        span.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
        let span = match Written::deserialize(from)? {
            Written::Number(number) => Millis::from_f64(number, 1.0),
            Written::Text(text) => Millis::parse(&text),
        };
        span.map_err(de::Error::custom)
    }
}
