//! Access control: API keys, the identities behind them, rate limits, and the audit log.
//!
//! | file | owns |
//! | --- | --- |
//! | `keys` | creating and recognising keys |
//! | `rate` | the rate limit of each caller |
//! | `audit` | the audit log |

pub mod audit;
pub mod keys;
pub mod rate;

use std::sync::Arc;

use waypost_ports::access::Role;

/// The caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// As the log and the audit log name them: `key:<id>`, or `local`.
    pub actor: Arc<str>,
    /// The name of the key; `local` for local callers.
    pub name: Arc<str>,
    pub role: Role,
}

impl Identity {
    /// Local callers, if no keys are required.
    pub fn local() -> Self {
        Self { actor: "local".into(), name: "local".into(), role: Role::Admin }
    }
}
