//! Scripts: how the outside world behaves towards a task. The script is the path of the URL that is
//! called, so that any sink, simulated or real, can play it without knowing the program.

use std::fmt;

use serde_json::{Value, json};

/// How the outside world answers a task's calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Script {
    /// `good`: always 200.
    Good,
    /// `flaky/<k>`: 503 to the first k calls under one idempotency key, then as good.
    Flaky(u32),
    /// `bad`: always 400, which a retry does not fix.
    Bad,
    /// `down`: always 503.
    Down,
    /// `hang`: never answers.
    Hang,
    /// `storm`: 503 while the endpoint is down, then as good. Its tasks share a circuit breaker.
    Storm,
    /// `poll/<d>/<k>/<i>`: as `flaky/<k>`, and says that an operation is done from the d-th poll on; this
    /// is the i-th. In a program, where every iteration is another one, i is 0.
    Poll { done_at: u64, refusals: u32, at: u64 },
    /// `model`: a language model, which is down when the endpoint of [`Self::Storm`] is.
    Model,
}

/// What the outside world answers to one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutsideReply {
    /// The HTTP status.
    pub status: u16,
    /// The body, as JSON.
    pub body: Value,
    /// Did the call have its effect?
    pub effect: bool,
}

impl Script {
    /// The script of a path, with or without slashes around it.
    pub fn parse(path: &str) -> Option<Self> {
        let mut words = path.trim_matches('/').split('/');
        let number = |word: Option<&str>| word?.parse::<u64>().ok();
        let script = match (words.next()?, words.next()) {
            ("good", None) => Self::Good,
            ("flaky", Some(times)) => Self::Flaky(times.parse().ok()?),
            ("bad", None) => Self::Bad,
            ("down", None) => Self::Down,
            ("hang", None) => Self::Hang,
            ("storm", None) => Self::Storm,
            ("model", None) => Self::Model,
            ("poll", Some(done_at)) => Self::Poll {
                done_at: done_at.parse().ok()?,
                refusals: number(words.next())?.try_into().ok()?,
                at: number(words.next())?,
            },
            _ => return None,
        };
        words.next().is_none().then_some(script)
    }

    /// The answer to the n-th call (from 1) under an idempotency key; `None`: there is none, ever.
    pub fn reply(self, call: u32, key: &str) -> Option<OutsideReply> {
        let refuse =
            |status: u16| OutsideReply { status, body: json!({ "no": status }), effect: false };
        match self {
            Self::Flaky(times) | Self::Poll { refusals: times, .. } if call <= times => {
                Some(refuse(503))
            }
            Self::Good | Self::Flaky(_) | Self::Poll { .. } | Self::Storm | Self::Model => {
                Some(OutsideReply { status: 200, body: self.body(key), effect: true })
            }
            Self::Bad => Some(refuse(400)),
            Self::Down => Some(refuse(503)),
            Self::Hang => None,
        }
    }

    /// The body of an answer with status 200: it identifies its call.
    pub fn body(self, key: &str) -> Value {
        let mut body = json!({ "script": self.to_string(), "key": key });
        if let Self::Poll { done_at, at, .. } = self {
            body["done"] = json!(at >= done_at);
        }
        body
    }

    /// As it is in an iteration.
    #[must_use]
    pub fn in_iteration(self, at: u64) -> Self {
        match self {
            Self::Poll { done_at, refusals, .. } => Self::Poll { done_at, refusals, at },
            other => other,
        }
    }

    /// May it answer with an error?
    pub fn fails(self) -> bool {
        !matches!(self, Self::Good | Self::Hang | Self::Poll { refusals: 0, .. })
    }

    /// Is its endpoint down for a while?
    pub fn is_stormy(self) -> bool {
        matches!(self, Self::Storm | Self::Model)
    }

    /// How many calls under one key fail before the first that does not; `None` where all do.
    pub fn refusals(self) -> Option<u32> {
        match self {
            Self::Good | Self::Storm | Self::Model => Some(0),
            Self::Flaky(times) | Self::Poll { refusals: times, .. } => Some(times),
            Self::Bad | Self::Down | Self::Hang => None,
        }
    }
}

/// As part of the URL.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Flaky(times) => write!(f, "flaky/{times}"),
            Self::Bad => f.write_str("bad"),
            Self::Down => f.write_str("down"),
            Self::Hang => f.write_str("hang"),
            Self::Storm => f.write_str("storm"),
            Self::Model => f.write_str("model"),
            Self::Poll { done_at, refusals, at } => write!(f, "poll/{done_at}/{refusals}/{at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_it_was_written() {
        for script in [
            Script::Good,
            Script::Flaky(3),
            Script::Bad,
            Script::Down,
            Script::Hang,
            Script::Storm,
            Script::Model,
            Script::Poll { done_at: 3, refusals: 1, at: 2 },
        ] {
            assert_eq!(Script::parse(&format!("/{script}")), Some(script));
        }
        for path in [
            "",
            "/",
            "good/1",
            "flaky",
            "flaky/x",
            "flaky/1/2",
            "poll/1/2",
            "poll/1/2/3/4",
            "other",
        ] {
            assert_eq!(Script::parse(path), None, "{path}");
        }
    }

    #[test]
    fn a_flaky_sink_becomes_good() {
        let status = |call| Script::Flaky(2).reply(call, "k").unwrap().status;
        assert_eq!([1, 2, 3, 4].map(status), [503, 503, 200, 200]);
    }
}
