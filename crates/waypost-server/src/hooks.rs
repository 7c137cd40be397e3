//! Requests of other systems that fire webhook triggers.
//!
//! | file | owns |
//! | --- | --- |
//! | `verify` | whether a request comes from where it claims to come from; pure |
//! | `payload` | the request as expressions see it; pure |
//! | `identity` | what identifies a delivery |
//! | `rows` | rows of triggers, for a short while |
//!
//! The order of the checks is in `actions/hooks`.

pub(crate) mod identity;
pub(crate) mod payload;
pub(crate) mod rows;
pub mod verify;

use crate::access::rate::RateLimit;
use crate::config::Config;

/// What requests to webhook triggers share.
pub(crate) struct Hooks {
    /// Requests that fire one trigger.
    pub(crate) rate: RateLimit,
    /// Requests that were refused, by address.
    pub(crate) failures: RateLimit,
    pub(crate) rows: rows::HookRows,
}

impl Hooks {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            rate: RateLimit::new(config.hook_requests_per_second),
            failures: RateLimit::new(config.hook_failures_per_second),
            rows: rows::HookRows::default(),
        }
    }
}
