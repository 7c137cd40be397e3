//! What programs wait for: delays and signals.

use serde_json::{Value as Json, json};

/// How long a delay is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelaySpan {
    /// So many milliseconds.
    Fixed(u64),
    /// Computed: `n * times - minus` milliseconds, at once where that is below zero.
    Computed {
        /// For each one of `n`.
        times: u64,
        /// Taken off.
        minus: u64,
    },
}

/// A signal that programs wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Signal {
    Go,
    Stop,
    /// `approval`, which counts only if its body has `ok`.
    Approval,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Go, Self::Stop, Self::Approval];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Stop => "stop",
            Self::Approval => "approval",
        }
    }

    /// Do waits for it have a filter?
    pub fn is_filtered(self) -> bool {
        self == Self::Approval
    }

    /// A body that no other signal has: give each a serial number of its own.
    pub fn body(self, serial: u64, ok: bool) -> Json {
        json!({ "ok": ok, "serial": serial })
    }

    /// Does a body pass the filter of the waiting nodes?
    pub fn accepts(self, body: &Json) -> bool {
        !self.is_filtered() || body.get("ok") == Some(&Json::Bool(true))
    }
}

impl DelaySpan {
    /// How long it is, given the input's `n`.
    pub fn ms(self, n: u64) -> u64 {
        match self {
            Self::Fixed(ms) => ms,
            Self::Computed { times, minus } => (n * times).saturating_sub(minus),
        }
    }
}
