//! Hands: what an instance writes for one execution, and the events of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;
use waypost_core::blob::BlobDigest;
use waypost_core::event::{Event, NodeEvent, Origin, PauseReason, RunCreated, RunEvent, Wait};
use waypost_core::frame::{FrameHeader, Parent, encode};
use waypost_core::id::{AppendId, DefinitionHash, ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::outbox::Outgoing;
use waypost_core::permits::PermitRequest;
use waypost_core::time::Timestamp;

use super::{FOLD, ONE, START};
use crate::store::{Append, ControlChange, History, Mail, Settled, Side, Submission};

/// Writes frames for one execution in the belief that it owns it. A clone is a future zombie: it
/// continues from the same frame.
#[derive(Clone)]
pub struct Hand {
    pub execution: ExecutionNo,
    pub instance: InstanceId,
    pub epoch: u32,
    /// The frame that it believes to be the last.
    pub parent: Option<Parent>,
    /// The seq that comes next.
    pub next_seq: u64,
    /// When it decides.
    pub now: Timestamp,
}

static APPEND_IDS: AtomicU64 = AtomicU64::new(1);

impl Hand {
    /// At the beginning of an execution.
    pub fn new(execution: ExecutionNo, instance: InstanceId) -> Self {
        Self { execution, instance, epoch: 1, parent: None, next_seq: 1, now: START }
    }

    /// The hand of the instance that claimed this execution.
    pub fn of(history: &History) -> Self {
        let control = history.control.as_ref().expect("what was claimed has a control row");
        let last = history.last_header().expect("what was claimed has frames");
        Self {
            execution: history.execution,
            instance: control.owner.expect("what was claimed has an owner"),
            epoch: control.epoch,
            parent: Some(last.as_parent()),
            next_seq: last.last_seq + 1,
            now: START,
        }
    }

    /// A frame of so many events that it could append now.
    pub fn frame(&self, events: u64) -> Draft {
        let append_id = APPEND_IDS.fetch_add(1, Ordering::Relaxed);
        let header = FrameHeader {
            execution: self.execution,
            first_seq: self.next_seq,
            last_seq: self.next_seq + events - 1,
            append_id: AppendId(Uuid::from_u128(u128::from(append_id))),
            parent: self.parent,
            instance: self.instance,
            epoch: self.epoch,
            decided_at: self.now,
            requires: FOLD,
        };
        Draft(Append { header, body: b"[]".to_vec(), side: Side::default() })
    }

    /// As `frame`, and continues from it without waiting for the answer.
    pub fn next(&mut self, events: u64) -> Draft {
        let draft = self.frame(events);
        self.parent = Some(draft.0.header.as_parent());
        self.next_seq = draft.0.header.last_seq + 1;
        draft
    }

    /// A frame of these events; continues from it.
    pub fn write(&mut self, events: &[Event]) -> Draft {
        let mut draft = self.next(events.len() as u64);
        draft.0.body = encode(events);
        draft
    }

    /// The first frame of an execution of this key, with its names.
    pub fn create(&mut self, key: &str, workflow: &str) -> Draft {
        self.create_as(created(key, workflow))
    }

    /// As `create`, with this first event.
    pub fn create_as(&mut self, run: RunCreated) -> Draft {
        let submission = Submission { key: run.key.clone(), idempotency: None, fire: None };
        let owned = Event::Run(RunEvent::Owned { instance: self.instance, epoch: self.epoch });
        let draft = self.write(&[Event::Run(RunEvent::Created(Box::new(run))), owned]);
        draft.control(ControlChange::Owned).submission(submission)
    }
}

/// The first frame of an execution that begins with another one's.
pub fn birth(execution: ExecutionNo, key: &str) -> Append {
    let run = created(key, "child");
    let hand = Hand { epoch: 0, ..Hand::new(execution, ONE) };
    let header = hand.frame(1).0.header;
    let body = encode(&[Event::Run(RunEvent::Created(Box::new(run)))]);
    Append::birth(header, body, ExecutionId(key.into()), Vec::new())
}

/// A minimal first event of an execution.
pub fn created(key: &str, workflow: &str) -> RunCreated {
    RunCreated {
        key: ExecutionId(key.into()),
        workflow: workflow.into(),
        version: 1,
        definition: DefinitionHash::of(workflow.as_bytes()),
        input: Json::null(),
        labels: BTreeMap::new(),
        deadline: None,
        origin: Origin::default(),
        parent: None,
        trigger: None,
    }
}

/// The first attempt of a node starts.
pub fn started(node: &str) -> Event {
    Event::Node(NodeEvent::Started {
        node: node.into(),
        attempt: 1,
        worker: Some(ONE),
        remote: None,
        token: None,
        due: None,
    })
}

/// A node starts and waits for 900 ms from [`START`] on, and its execution with it.
pub fn delayed(node: &str) -> [Event; 3] {
    let wait = Wait::Delay { due: Timestamp(START.0 + 900) };
    let waiting =
        NodeEvent::Waiting { node: node.into(), attempt: 1, wait, span: None, message: None };
    let paused = RunEvent::Paused { reason: PauseReason::Waits };
    [started(node), Event::Node(waiting), Event::Run(paused)]
}

/// A frame that is being put together.
#[derive(Clone)]
pub struct Draft(pub Append);

impl Draft {
    pub fn control(mut self, change: ControlChange) -> Self {
        self.0.side.control = Some(change);
        self
    }

    pub fn submission(mut self, submission: Submission) -> Self {
        self.0.side.submission = Some(submission);
        self
    }

    pub fn consuming(mut self, messages: &[&str]) -> Self {
        self.0.side.consumed = messages.iter().map(|&message| message.into()).collect();
        self
    }

    /// With a proof about an execution that was in hand at a death.
    pub fn settled(mut self, settled: Settled) -> Self {
        self.0.side.settled = Some(settled);
        self
    }

    pub fn permit(mut self, request: PermitRequest) -> Self {
        self.0.side.permit = Some(request);
        self
    }

    pub fn blobs(mut self, digests: &[BlobDigest]) -> Self {
        self.0.side.blobs = digests.to_vec();
        self
    }

    /// With executions that begin with it, and mail that goes out with it.
    pub fn with(mut self, births: Vec<Append>, mail: Vec<Mail>) -> Self {
        (self.0.side.births, self.0.side.mail) = (births, mail);
        self
    }

    /// With messages to webhook endpoints.
    pub fn messages(mut self, messages: Vec<Outgoing>) -> Self {
        self.0.side.messages = messages;
        self
    }

    pub fn snapshot(mut self, body: &[u8]) -> Self {
        self.0.side.snapshot = Some(body.to_vec());
        self
    }
}

impl From<Draft> for Append {
    fn from(draft: Draft) -> Self {
        draft.0
    }
}
