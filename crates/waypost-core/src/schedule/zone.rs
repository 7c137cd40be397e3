//! Time zones: from the database inside of the program, never from the machine's, so that all instances
//! of a cluster compute the same times.
//!
//! All that schedules need of a zone is its [`Stretch`]es: the spans of constant offset, and the offsets
//! of the neighbours. Gaps and repeated times follow from these.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp as Instant, civil::DateTime};

use super::calendar::DAY;
use crate::spelling::{folded, mistakes};

/// How many names an unknown zone's hint lists.
const NEAR_MAX: usize = 3;

/// A zone of the bundled database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Zone(TimeZone);

/// A span of time in which the zone's offset from UTC does not change, in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stretch {
    /// The first second.
    pub(super) from: i64,
    /// The second after the last one.
    pub(super) until: i64,
    /// What the wall clock is ahead of UTC.
    pub(super) offset: i64,
    /// The offset before `from`.
    pub(super) before: i64,
    /// The offset from `until` on.
    pub(super) after: i64,
}

impl Stretch {
    /// Is this a wall time that comes again after this stretch?
    pub(super) fn comes_again(&self, wall: i64) -> bool {
        self.after < self.offset && wall >= self.until.saturating_add(self.after)
    }

    /// Is this a wall time that was on the clock before this stretch?
    pub(super) fn was_before(&self, wall: i64) -> bool {
        self.before > self.offset && wall < self.from.saturating_add(self.before)
    }
}

impl Zone {
    /// The zone of this name, or the names that may have been meant.
    pub(super) fn find(name: &str) -> Result<Self, Vec<String>> {
        let database = TimeZoneDatabase::bundled();
        match database.get(name) {
            Ok(zone) if !zone.is_unknown() => Ok(Self(zone)),
            _ => Err(near(name, database.available().map(|known| known.as_str().to_owned()))),
        }
    }

    /// As the database spells it.
    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The stretch that a second is in.
    pub(super) fn stretch(&self, second: i64) -> Stretch {
        let at = instant(second);
        let offset_at = |at: Instant| i64::from(self.0.to_offset(at).seconds());
        let offset = offset_at(at);
        let (mut from, mut before) = (i64::MIN, offset);
        for change in self.0.preceding(instant(second.saturating_add(1))) {
            let begin = change.timestamp().as_second();
            let earlier = offset_at(instant(begin.saturating_sub(1)));
            if earlier != offset {
                (from, before) = (begin, earlier);
                break;
            }
        }
        let (mut until, mut after) = (i64::MAX, offset);
        // Transitions may also change no more than a zone's abbreviation.
        for change in self.0.following(at) {
            if i64::from(change.offset().seconds()) != offset {
                (until, after) = (change.timestamp().as_second(), change.offset().seconds().into());
                break;
            }
        }
        Stretch { from, until, offset, before, after }
    }

    /// The second at which a wall time is reached: for a repeated one its first, for one that is left out
    /// the first after the gap. Also says which of these it is.
    pub(super) fn resolve(&self, wall: i64) -> (i64, Resolved) {
        // No zone is that far from UTC, so that the search begins before the time.
        let mut stretch = self.stretch(wall.saturating_sub(2 * DAY));
        loop {
            let second = wall.saturating_sub(stretch.offset);
            if second < stretch.until {
                let again = stretch.comes_again(wall);
                let second_time = wall.saturating_sub(stretch.after);
                return (second, if again { Resolved::First(second_time) } else { Resolved::Only });
            }
            if wall < stretch.until.saturating_add(stretch.after) {
                return (stretch.until, Resolved::AfterGap);
            }
            stretch = self.stretch(stretch.until);
        }
    }

    /// A time on this zone's clock, as text: `2026-03-29T03:00:00+02:00[Europe/Berlin]`.
    pub(super) fn text(&self, ms: i64) -> Option<String> {
        Some(Instant::from_millisecond(ms).ok()?.to_zoned(self.0.clone()).to_string())
    }
}

/// How a wall time became an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resolved {
    /// It comes once.
    Only,
    /// It comes again at this second.
    First(i64),
    /// It does not exist.
    AfterGap,
}

/// A second, or the nearest one that the library has.
fn instant(second: i64) -> Instant {
    let (min, max) = (Instant::MIN.as_second(), Instant::MAX.as_second());
    Instant::from_second(second.clamp(min, max)).unwrap_or(Instant::UNIX_EPOCH)
}

/// A wall time in seconds, from the library's type; its fraction is left out.
pub(super) fn wall_seconds(time: DateTime) -> i64 {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    time.duration_since(epoch).as_millis().div_euclid(1000).try_into().unwrap_or(i64::MAX)
}

/// A wall time as the library's type.
pub(super) fn wall_time(seconds: i64) -> DateTime {
    let min = wall_seconds(DateTime::MIN) + 1;
    let max = wall_seconds(DateTime::MAX) - 1;
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let span = jiff::SignedDuration::from_secs(seconds.clamp(min, max));
    epoch.checked_add(span).unwrap_or(epoch)
}

/// The known names that a mistyped one may mean, the likeliest first: a city without its continent, then
/// the fewest typing mistakes.
fn near(name: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    let typed = folded(name);
    if typed.is_empty() {
        return Vec::new();
    }
    let most = (typed.len() / 4).max(1);
    let mut found: Vec<(usize, String)> = Vec::new();
    for known in known {
        let city = known.rsplit('/').next().map(folded).unwrap_or_default();
        let whole = mistakes(&typed, &folded(&known), most);
        let city = match mistakes(&typed, &city, most) {
            Some(0) => Some(0),
            some => some.map(|count| count + 1).filter(|count| *count <= most),
        };
        if let Some(fewest) = whole.into_iter().chain(city).min() {
            found.push((fewest, known));
        }
    }
    found.sort();
    found.into_iter().take(NEAR_MAX).map(|(_, name)| name).collect()
}
