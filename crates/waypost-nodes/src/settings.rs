//! An operator's settings for handlers, with the defaults.

use waypost_core::time::Millis;

use crate::egress::Egress;

/// How long a call may take in all when its node names no `timeout`.
pub const CALL_TIMEOUT: Millis = Millis::from_secs(60);
/// How long terminated processes may take before they are killed, and how long the output of an
/// exited one is awaited.
pub const SHELL_GRACE: Millis = Millis::from_secs(2);

/// The environment of handlers.
#[derive(Clone, Debug)]
pub struct Settings {
    pub egress: Egress,
    /// May definitions run commands on this machine? Off by default: otherwise everyone who may
    /// deploy a definition could run anything as the engine's user.
    pub shell_enabled: bool,
    /// How long a call may take in all when its node names no `timeout`.
    pub call_timeout: Millis,
    /// How long a command's processes may take to end by themselves.
    pub shell_grace: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            egress: Egress::default(),
            shell_enabled: false,
            call_timeout: CALL_TIMEOUT,
            shell_grace: SHELL_GRACE,
        }
    }
}
