//! Time, as the engine asks for it.

use waypost_core::time::Timestamp;

/// Where the engine gets the time from.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970. May jump; the engine never fires a timer because of it.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_1970 =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }
}
