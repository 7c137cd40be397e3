//! Children: executions that a `workflow` node starts.
//!
//! ```text
//!   parent                        its commit                       child
//!   NodeStarted ─▶ Launch ─▶ ChildStarted + birth ───────────▶ RunCreated { parent }
//!   WAITING(child)                                             …
//!   ChildEnded  ◀───────────────── mail + RunCompleted, RunFailed, … ◀── its last commit
//! ```
//!
//! What one execution brings about in another is a part of the commit that records it, so that neither
//! can be lost or doubled between two commits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::Request;
use crate::event::{MessageId, RunCreated};
use crate::failure::Failure;
use crate::id::{DefinitionHash, ExecutionId, ExecutionNo};
use crate::json::{Json, present};
use crate::state::State;
use crate::status::Status;
use crate::time::Millis;

/// What a `workflow` node writes as its `version` for the one that is current when it starts the child.
pub const CURRENT_VERSION: &str = "current";

/// How a child knows the execution that started it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParentLink {
    /// Its number.
    pub execution: ExecutionNo,
    /// Its id.
    pub key: ExecutionId,
    /// The path of the node that started the child.
    pub node: Arc<str>,
    /// Does that node wait for the child's end?
    pub awaits: bool,
    /// The id of the execution at the top of the tree.
    pub root: ExecutionId,
    /// How many executions are above this one, from 1.
    pub depth: u32,
    /// The concurrency keys whose permits are held above: waiting for one of them would never end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Arc<str>>,
}

/// What becomes of the attempt of a `workflow` node, as found outside of the core.
#[derive(Clone, PartialEq, Debug)]
pub enum Launch {
    /// It starts an execution.
    New(Box<NewChild>),
    /// The child of an earlier attempt is under way again, or is reopened with the frame of this decision.
    Again,
    /// The child of an earlier attempt has ended again meanwhile.
    Ended(Box<ChildEnd>),
    /// It sends a signal to another execution.
    Signal(Box<SentSignal>),
}

/// An execution that a `workflow` node starts.
#[derive(Clone, PartialEq, Debug)]
pub struct NewChild {
    /// The number of the new execution, which no other has.
    pub execution: ExecutionNo,
    /// Its id.
    pub key: ExecutionId,
    pub callee: Callee,
}

/// What a `workflow` node starts: a definition and its input.
#[derive(Clone, PartialEq, Debug)]
pub struct Callee {
    pub workflow: Arc<str>,
    pub version: u32,
    pub definition: DefinitionHash,
    /// Fits the schema of the workflow.
    pub input: Json,
    /// How long the new execution may take.
    pub timeout: Option<Millis>,
    /// The log format that its definition needs.
    pub requires: u16,
}

/// A signal that an `emit` node sends.
#[derive(Clone, PartialEq, Debug)]
pub struct SentSignal {
    pub to: SignalTo,
    pub name: Arc<str>,
    pub body: Json,
}

/// Who gets a signal that an `emit` node sends.
#[derive(Clone, PartialEq, Debug)]
pub enum SignalTo {
    Execution {
        number: ExecutionNo,
        id: ExecutionId,
    },
    /// Every execution that waits for its name, which has a key; or the first that does in this time.
    Waiting {
        keep: Millis,
    },
}

/// An execution that begins with the commit of a decision.
#[derive(Clone, PartialEq, Debug)]
pub struct Birth {
    pub execution: ExecutionNo,
    pub created: RunCreated,
    /// The log format that its definition needs.
    pub requires: u16,
}

/// A message to another execution, sent with the commit of a decision.
#[derive(Clone, PartialEq, Debug)]
pub struct SentMessage {
    pub to: ExecutionNo,
    /// By which duplicates are known.
    pub message: MessageId,
    pub body: SentBody,
}

/// What executions send each other.
#[derive(Clone, PartialEq, Debug)]
pub enum SentBody {
    Request(Request),
    ChildEnded(Box<ChildEnd>),
}

/// The end of a child, as its parent learns of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChildEnd {
    /// The path of the node that started it.
    pub node: Arc<str>,
    pub child: ExecutionNo,
    /// The generation that ended.
    pub generation: u32,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl State {
    /// How this execution ended, for the node that started it.
    pub fn end_for_parent(&self) -> Option<ChildEnd> {
        let (parent, end) = (self.created.parent.as_ref()?, self.end.as_ref()?);
        Some(ChildEnd {
            node: Arc::clone(&parent.node),
            child: self.execution,
            generation: self.generation,
            status: self.status,
            output: end.output.clone(),
            failure: end.failure.clone(),
        })
    }
}

/// What a node knows of the child that it waits for, or waited for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChildState {
    pub execution: ExecutionNo,
    pub key: ExecutionId,
    /// The last generation whose end it took; 0 before the first.
    pub ended: u32,
    /// Does it go on when its parent ends?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leave: bool,
}
