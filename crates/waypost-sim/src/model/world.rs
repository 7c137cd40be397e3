//! The world of an execution: the actions of people, and the faults.

use serde_json::Value as Json;
use waypost_core::command::Tuning;

/// The actions of people, and the faults. Everything that did not happen must be `false`: the judge
/// is the stricter for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct World {
    /// Was a cancellation requested?
    pub cancel_requested: bool,
    /// Was it paused, or released from a quarantine?
    pub paused: bool,
    /// The signals that were sent, in any order; serial numbers distinguish their bodies.
    pub signals: Vec<SentSignal>,
    /// The waits that people asked to complete.
    pub resumptions: Vec<Resumption>,
    /// What people decided about its approvals.
    pub decisions: Vec<AskedDecision>,
    /// The callbacks of the services that it started operations of.
    pub callbacks: Vec<SentCallback>,
    /// How people asked to steer its maps.
    pub steered: Vec<Steered>,
    /// Could attempts be lost: did an instance die, lose its lease or panic?
    pub attempts_lost: bool,
    /// Could replies of the sink be lost or late, so that a good call failed?
    pub replies_lost: bool,
    /// Did the store lose its latest commits? Then the sink has seen more than the log has.
    pub starts_lost: bool,
    /// Could a worker's second report, which contradicts the first, come to be the only one?
    pub contradicted: bool,
    /// Were there remote workers, two of which may take one attempt?
    pub shared: bool,
    /// Were there instances of an older version, which cannot read what a new one starts?
    pub mixed: bool,
    /// Was the store away, perhaps for longer than an attempt may take? Its end is then stored after its timeout.
    pub away: bool,
    /// Could things happen later than due by more than [`super::SLACK_MS`], so that limits struck
    /// that would not have? A crash, a pause, a queue for slots make things late.
    pub late: bool,
}

/// A signal that was sent.
#[derive(Clone, PartialEq, Debug)]
pub struct SentSignal {
    pub name: String,
    pub body: Json,
}

/// A request to complete a wait.
#[derive(Clone, PartialEq, Debug)]
pub struct Resumption {
    /// The event that opened it.
    pub wait: u64,
    /// The body of the request, if the wait was for a signal.
    pub body: Json,
}

/// The decision of a person about an approval, which may come too late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedDecision {
    /// The event that asked for it.
    pub wait: u64,
    /// The branch that it selects.
    pub branch: &'static str,
    pub by: &'static str,
    /// No other decision has this comment.
    pub comment: String,
}

/// A callback that a service made with the token that it was given. It may come too late, or be the second.
#[derive(Clone, PartialEq, Debug)]
pub struct SentCallback {
    /// The name of the signal that records it, which names the operation.
    pub signal: String,
    /// Did the operation fail?
    pub failed: bool,
    /// No other callback has this body.
    pub body: Json,
}

/// A request to steer a map, by its path: of the map, or of one of its items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Steered {
    ItemCancelled(String),
    Tuned(String, Tuning),
}

impl World {
    /// Was there a request to complete this wait, with this body where it matters?
    pub fn was_to_end(&self, wait: u64, body: Option<&Json>) -> bool {
        let fits =
            |asked: &Resumption| asked.wait == wait && body.is_none_or(|body| *body == asked.body);
        let decided = |decision: &AskedDecision| decision.wait == wait && body.is_none();
        self.resumptions.iter().any(fits) || self.decisions.iter().any(decided)
    }

    /// Did anything happen that the definition and the input do not foretell?
    pub fn is_disturbed(&self) -> bool {
        let asked = self.cancel_requested || self.paused || !self.steered.is_empty();
        asked || self.attempts_lost || self.replies_lost || self.late
    }
}
