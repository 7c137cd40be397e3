//! Circuit breakers on the wire.

use super::payload::{Short, Time};

wire! {
    /// A page of circuit breakers.
    pub struct BreakerList {
        /// Those that are not closed, or had a failure within their period, by key.
        pub breakers: Vec<Breaker>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }

    /// A circuit breaker.
    pub struct Breaker {
        /// What nodes share it by.
        pub key: String,
        /// `closed`, `open`, or `half-open`: the next attempt is a probe.
        pub status: String,
        /// How many failures opened it, or were counted so far.
        pub failures: u32,
        /// Since when it is open.
        pub since?: Time,
        /// When the next probe may be made; in the past for one that is half-open.
        pub until?: Time,
        /// Probes since it opened.
        pub probes?: u64,
        /// The last failure.
        pub last_failure?: String,
    }

    /// Which circuit breaker to reset.
    #[serde(deny_unknown_fields)]
    pub struct BreakerReset {
        /// Its key.
        pub key: Short<256>,
    }
}
