//! Time as the core sees it: numbers that come in with commands. No clock is read here.
//!
//! Both types count milliseconds. Durations are parsed from what people write: `30s`, `1h 30m`,
//! `P1DT2H`, a bare number of milliseconds.

use std::fmt;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp as Instant};
use serde::{Deserialize, Serialize};

/// The longest duration that a definition or an expression may name: a hundred years.
pub const DURATION_MAX: Millis = Millis(100 * 366 * 24 * 3_600_000);

/// A point in time: milliseconds since 1970-01-01 UTC.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// A span of time in milliseconds, never negative.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Timestamp {
    /// This time, `span` later; stops at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not later.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Reads RFC 3339 text such as `2026-01-31T09:00:00Z` or `…+02:00`.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<Instant>().ok().map(|instant| Self(instant.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Instant::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// Why a text is not a duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadDuration {
    /// Neither a number, nor `30s`, nor ISO 8601.
    #[error("not a duration")]
    Syntax,
    /// Below zero.
    #[error("a duration cannot be negative")]
    Negative,
    /// Above [`DURATION_MAX`].
    #[error("longer than a hundred years")]
    TooLong,
}

impl Millis {
    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The same span for the standard library.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }

    /// Reads what people write: `250ms`, `30s`, `1h 30m`, `3d`, `PT30S`, or a bare number of ms.
    pub fn parse(text: &str) -> Result<Self, BadDuration> {
        let text = text.trim();
        if let Ok(number) = text.parse::<f64>() {
            return Self::from_f64(number, 1.0);
        }
        if text.is_empty() {
            return Err(BadDuration::Syntax);
        }
        if let Ok(span) = text.parse::<Span>() {
            let relative = SpanRelativeTo::days_are_24_hours();
            let span = match (span.get_years(), span.get_months()) {
                (0, 0) => span,
                // Calendar units have no fixed length; a year and a month are taken as 365 and
                // 30 days, as ISO durations are commonly read where no calendar is at hand.
                (years, months) => {
                    let days = i64::from(years) * 365 + i64::from(months) * 30;
                    let rest = span.years(0).months(0);
                    rest.try_days(i64::from(rest.get_days()) + days)
                        .map_err(|_| BadDuration::TooLong)?
                }
            };
            let exact = span.to_duration(relative).map_err(|_| BadDuration::TooLong)?;
            return Self::from_signed(exact);
        }
        match text.parse::<SignedDuration>() {
            Ok(exact) => Self::from_signed(exact),
            Err(_) => Err(BadDuration::Syntax),
        }
    }

    /// `number` units of `unit_ms` milliseconds; refuses NaN, negatives and spans above the limit.
    pub fn from_f64(number: f64, unit_ms: f64) -> Result<Self, BadDuration> {
        let ms = (number * unit_ms).round();
        if number.is_nan() {
            Err(BadDuration::Syntax)
        } else if ms < 0.0 {
            Err(BadDuration::Negative)
        } else if ms > DURATION_MAX.0 as f64 {
            Err(BadDuration::TooLong)
        } else {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked above: whole, not negative, at most DURATION_MAX"
            )]
            Ok(Self(ms as u64))
        }
    }

    fn from_signed(exact: SignedDuration) -> Result<Self, BadDuration> {
        if exact.is_negative() {
            return Err(BadDuration::Negative);
        }
        match u64::try_from(exact.as_millis()) {
            Ok(ms) if ms <= DURATION_MAX.0 => Ok(Self(ms)),
            _ => Err(BadDuration::TooLong),
        }
    }
}

/// A unit name as definitions write it, in milliseconds: `ms`, `seconds`, `minutes`, `hours`,
/// `days`, and their short and singular forms.
pub fn unit_ms(name: &str) -> Option<u32> {
    Some(match name.to_ascii_lowercase().as_str() {
        "ms" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return None,
    })
}

impl fmt::Display for Millis {
    /// The largest two units that matter: `850ms`, `12.5s`, `3m 20s`, `2h 5m`, `4d 1h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let (seconds, minutes, hours, days) =
            (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
        let pair = |f: &mut fmt::Formatter<'_>, high: u64, h: &str, low: u64, l: &str| {
            if low == 0 { write!(f, "{high}{h}") } else { write!(f, "{high}{h} {low}{l}") }
        };
        match ms {
            0..1_000 => write!(f, "{ms}ms"),
            1_000..60_000 if ms.is_multiple_of(1000) => write!(f, "{seconds}s"),
            1_000..60_000 => write!(f, "{}.{}s", seconds, (ms % 1000) / 100),
            60_000..3_600_000 => pair(f, minutes, "m", seconds % 60, "s"),
            3_600_000..86_400_000 => pair(f, hours, "h", minutes % 60, "m"),
            _ => pair(f, days, "d", hours % 24, "h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("1500", Ok(1500)),
            ("250ms", Ok(250)),
            ("30s", Ok(30_000)),
            ("1h 30m", Ok(5_400_000)),
            ("3d", Ok(259_200_000)),
            ("PT30S", Ok(30_000)),
            ("P1DT2H", Ok(93_600_000)),
            ("P1Y", Ok(365 * 86_400_000)),
            ("", Err(BadDuration::Syntax)),
            ("soon", Err(BadDuration::Syntax)),
            ("NaN", Err(BadDuration::Syntax)),
            ("-1", Err(BadDuration::Negative)),
            ("-5s", Err(BadDuration::Negative)),
            ("1e308", Err(BadDuration::TooLong)),
            ("9223372036854775807", Err(BadDuration::TooLong)),
            ("P19000Y", Err(BadDuration::TooLong)),
        ] {
            assert_eq!(Millis::parse(text).map(|ms| ms.0), expected, "{text:?}");
        }
        // Beyond what the calendar library can hold at all: refused one way or the other.
        assert!(Millis::parse("P292277026Y").is_err());
    }

    #[test]
    fn durations_read_aloud() {
        for (ms, text) in [
            (0, "0ms"),
            (850, "850ms"),
            (12_500, "12.5s"),
            (30_000, "30s"),
            (200_000, "3m 20s"),
            (7_500_000, "2h 5m"),
            (349_200_000, "4d 1h"),
        ] {
            assert_eq!(Millis(ms).to_string(), text);
        }
    }

    #[test]
    fn timestamps_round_trip_and_saturate() {
        let time = Timestamp::parse("2026-01-31T09:00:00.250Z").unwrap();
        assert_eq!(time.to_string(), "2026-01-31T09:00:00.250Z");
        assert_eq!(Timestamp(i64::MAX).plus(Millis(u64::MAX)), Timestamp(i64::MAX));
        assert_eq!(Timestamp(5).since(Timestamp(9)), Millis(0));
    }
}
