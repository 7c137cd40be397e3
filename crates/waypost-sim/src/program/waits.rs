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
    /// `ping`, which is published under the execution's id.
    Ping,
}

/// Several signals that a node waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signals {
    /// At least one; the same may come twice.
    pub wanted: Vec<Signal>,
    /// How many of them end the wait.
    pub need: usize,
    /// How long at most.
    pub timeout_ms: Option<u64>,
    /// Does it select branch [`LATE`] then, instead of failing?
    pub late: bool,
}

/// The branch of a wait that took too long.
pub const LATE: &str = "late";

impl Signals {
    /// The config of its node.
    pub(super) fn config(&self) -> Json {
        let events: Vec<Json> = self.wanted.iter().map(|signal| signal.config()).collect();
        let need = match self.need {
            1 => json!("any"),
            need if need == self.wanted.len() => json!("all"),
            need => json!(need),
        };
        let mut config = json!({ "events": events, "need": need });
        if let Some(timeout) = self.timeout_ms {
            config["timeout"] = json!(timeout);
        }
        if self.late {
            config["onTimeout"] = json!(LATE);
        }
        config
    }

    /// On one line, for people.
    pub(super) fn text(&self) -> String {
        let names: Vec<&str> = self.wanted.iter().map(|signal| signal.name()).collect();
        let timeout = self.timeout_ms.map_or_else(String::new, |ms| format!(" {ms}"));
        let late = if self.late { " late" } else { "" };
        format!("wait {} of {}{timeout}{late}", self.need, names.join("+"))
    }
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Go, Self::Stop, Self::Approval, Self::Ping];
    /// Those that are sent to one execution.
    pub const PLAIN: [Self; 3] = [Self::Go, Self::Stop, Self::Approval];

    /// The config of a wait for it.
    pub(super) fn config(self) -> Json {
        let mut config = json!({ "name": self.name() });
        if self.is_filtered() {
            config["filter"] = json!("signal.ok == true");
        }
        if self == Self::Ping {
            config["key"] = json!("${{ execution.id }}");
        }
        config
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Stop => "stop",
            Self::Approval => "approval",
            Self::Ping => "ping",
        }
    }

    /// Its name in the log of an execution of this id: with the key, if it has one.
    pub fn full_name(self, execution: &str) -> String {
        match self {
            Self::Ping => format!("{}[{execution}]", self.name()),
            Self::Go | Self::Stop | Self::Approval => self.name().to_owned(),
        }
    }

    /// The signal of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.name() == name)
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
