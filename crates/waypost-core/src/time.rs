//! Time as the core sees it: numbers that come in with commands. No clock is read here.
//!
//! Both types count milliseconds. Durations are parsed from what people write: `30s`, `1h 30m`,
//! `P1DT2H`, a bare number of milliseconds.

use std::fmt;

use jiff::civil::DateTime;
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

    /// This time, `span` earlier; stops at the beginning of time instead of wrapping.
    #[must_use]
    pub fn minus(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not later.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The first time that RFC 3339 can write, 0000-01-01T00:00:00Z.
    pub const FIRST: Self = Self(-62_167_219_200_000);
    /// The last one, 9999-12-31T23:59:59.999Z.
    pub const LAST: Self = Self(253_402_300_799_999);

    /// A number of milliseconds, where that is a time from [`Self::FIRST`] to [`Self::LAST`].
    pub fn from_ms(ms: i64) -> Option<Self> {
        Some(Self(ms)).filter(|time| (Self::FIRST..=Self::LAST).contains(time))
    }

    /// Reads RFC 3339 text such as `2026-01-31T09:00:00Z` or `…+02:00`. A leap second counts as the
    /// second before it.
    pub fn parse(text: &str) -> Option<Self> {
        match text.parse::<Instant>() {
            Ok(instant) => Self::from_ms(instant.as_millisecond()),
            Err(_) => parse_last_days(text).and_then(Self::from_ms),
        }
    }
}

fn epoch() -> DateTime {
    jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0)
}

/// Times of the last days of the year 9999: the library leaves them out, so that every time has a
/// local time in every zone.
fn parse_last_days(text: &str) -> Option<i64> {
    let (local, offset_ms) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => {
            let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
            (local, parse_offset(offset)?)
        }
    };
    let time: DateTime = Some(local).filter(|text| text.contains(['T', 't', ' ']))?.parse().ok()?;
    let ms = i64::try_from(time.duration_since(epoch()).as_millis()).ok()?;
    Some(ms - offset_ms)
}

/// `+02:00`, in milliseconds.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let digits = |text: &str, max: i64| {
        let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
        number.flatten().filter(|number| (0..=max).contains(number))
    };
    Some(sign * (digits(hours, 23)? * 60 + digits(minutes, 59)?) * 60_000)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Instant::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => match epoch().checked_add(SignedDuration::from_millis(self.0)) {
                Ok(time) => write!(f, "{time:.3}Z"),
                Err(_) => write!(f, "{} ms", self.0),
            },
        }
    }
}

/// The store's time, as far as it is known: between these two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// It is at least this. Timers are due by it, so that nothing happens early.
    pub least: Timestamp,
    /// It is at most this. Spans that begin now count from here, so that none is cut short.
    pub most: Timestamp,
}

impl From<Timestamp> for Now {
    /// Known exactly.
    fn from(now: Timestamp) -> Self {
        Self { least: now, most: now }
    }
}

impl Now {
    /// The time, known to be no earlier than this.
    #[must_use]
    pub fn not_before(self, earliest: Timestamp) -> Self {
        Self { least: self.least.max(earliest), most: self.most.max(earliest) }
    }
}

/// Why a text is not a duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadDuration {
    /// Neither a number, nor `30s`, nor ISO 8601.
    #[error("not a duration")]
    Syntax,
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

    /// The span as a type of the standard library.
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
    fn times_from_the_first_to_the_last_that_can_be_written() {
        for (text, shown) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
            ("9999-12-30T22:00:01Z", "9999-12-30T22:00:01.000Z"),
            ("9999-12-31T00:00:00Z", "9999-12-31T00:00:00.000Z"),
            ("9999-12-31t23:59:59.999z", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:60Z", "9999-12-31T23:59:59.000Z"),
            ("9999-12-31T23:59:59+02:00", "9999-12-31T21:59:59.000Z"),
            ("9999-12-31T18:59:59-05:00", "9999-12-31T23:59:59.000Z"),
            ("9999-12-31 23:59:59Z", "9999-12-31T23:59:59.000Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z"),
            ("2026-01-31t09:00:00z", "2026-01-31T09:00:00.000Z"),
            ("2026-01-31T09:00:00.123456+05:30", "2026-01-31T03:30:00.123Z"),
            ("2026-01-31T09:00:00-00:00", "2026-01-31T09:00:00.000Z"),
        ] {
            let time = Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(time.to_string(), shown, "{text}");
            assert_eq!(Timestamp::parse(shown).unwrap().to_string(), shown);
        }
        for text in [
            "9999-12-31T23:59:59-00:01",
            "10000-01-01T00:00:00Z",
            "+010000-01-01T00:00:00Z",
            "-000001-12-31T23:59:59Z",
            "0000-01-01T00:00:00+00:01",
            "9999-12-31T24:00:00Z",
            "9999-12-31T23:59:59",
            "9999-12-31Z",
            "9999-12-31",
            "9999-12-31T23:59:59+2:00",
            "9999-12-31T23:59:59é",
            "2026-02-30T00:00:00Z",
            "",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        let edges = [Timestamp::FIRST.to_string(), Timestamp::LAST.to_string()];
        assert_eq!(edges, ["0000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"]);
    }

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
        // Beyond the calendar library's range: rejected one way or the other.
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
