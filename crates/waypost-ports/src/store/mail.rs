//! Mail: messages to an execution from outside its owner's memory, and how far they get through.

use std::sync::Arc;

use waypost_core::command::Report;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::Json;

/// A message from outside the owner's memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Mail {
    /// To whom.
    pub execution: ExecutionNo,
    /// By which duplicates are known.
    pub message: MessageId,
    /// Who sent it.
    pub actor: Option<Arc<str>>,
    /// What it says.
    pub body: MailBody,
}

/// What a message says.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailBody {
    /// A signal.
    Signal {
        /// Its name.
        name: Arc<str>,
        /// Its body.
        body: Json,
    },
    /// A request to cancel.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// A request to pause.
    Pause {
        /// Cancel what runs?
        now: bool,
    },
    /// A request to go on.
    Resume,
    /// A request to end one wait now.
    #[serde(alias = "resume_wait")]
    CompleteWait {
        /// The event that opened it.
        wait: u64,
        /// What a wait for a signal gives.
        body: Json,
    },
    /// A request to run again what failed, and what follows it. Executions that have ended have no
    /// inbox: their next owner takes it from memory, see `StoreWork::LoadEnded` of the engine.
    Retry {
        /// Why.
        reason: Option<String>,
    },
    /// What a remote worker says of an attempt.
    Report(Report),
}

/// How far mail gets through to an execution that nobody owns: it makes ready what asks for no
/// more than this. A parked one listens to all mail, a held one to [`Cancel`](Self::Cancel) and
/// above, one that was set aside by [`Store::hold`](super::Store::hold) to [`Resume`](Self::Resume) alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// Signals, reports, requests to pause and requests to end a wait.
    Ordinary,
    /// Requests to cancel.
    Cancel,
    /// Requests to go on.
    Resume,
}

impl MailBody {
    /// How far it gets through.
    pub fn urgency(&self) -> Urgency {
        match self {
            Self::Signal { .. }
            | Self::Pause { .. }
            | Self::CompleteWait { .. }
            | Self::Retry { .. }
            | Self::Report(_) => Urgency::Ordinary,
            Self::Cancel { .. } => Urgency::Cancel,
            Self::Resume => Urgency::Resume,
        }
    }
}

/// What became of a piece of mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It is in the inbox; the owner, if there is one, should be nudged.
    Accepted {
        /// The owner.
        owner: Option<InstanceId>,
    },
    /// A message of this id is there already.
    Duplicate,
    /// The execution has ended.
    Ended,
    /// There is no such execution.
    Unknown,
}
