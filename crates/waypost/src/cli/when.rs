//! Points in time as people write them on the command line: a time, or how long ago.

use anyhow::Result;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::{Clock, SystemClock};

use super::Usage;

/// The time that the value of a flag means.
pub(crate) fn parse(flag: &str, text: &str) -> Result<Timestamp> {
    parse_at(flag, text, SystemClock.now())
}

fn parse_at(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    if let Some(time) = Timestamp::parse(text) {
        return Ok(time);
    }
    match Millis::parse(text) {
        Ok(Millis(span)) => {
            Ok(Timestamp(now.0.saturating_sub(i64::try_from(span).unwrap_or(i64::MAX))))
        }
        Err(_) => Err(Usage(format!(
            "{flag} {text:?} is neither a duration, such as 2h, nor a time, such as \
             2026-01-31T09:00:00Z"
        ))
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_time_or_a_span() {
        let now = Timestamp::parse("2026-01-31T09:00:00Z").unwrap();
        let hour = Timestamp::parse("2026-01-31T08:00:00Z").unwrap();
        assert_eq!(parse_at("--since", "1h", now).unwrap(), hour);
        assert_eq!(parse_at("--since", "2026-01-31T08:00:00Z", now).unwrap(), hour);
        let error = parse_at("--until", "yesterday", now).unwrap_err();
        assert!(error.to_string().contains("--until \"yesterday\" is neither"), "{error}");
    }
}
