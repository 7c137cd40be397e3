//! The store: where the log lives. Eleven methods, all of them about storing and comparing; none of
//! them decides what becomes of an execution.
//!
//! Calls block. The engine makes them from threads of its own, so that an implementation can be a
//! mutex around a connection; the simulator calls them from its only thread.

mod birth;
mod claim;
mod definition;
mod error;
mod frame;
mod log;
mod mail;
mod permit;
mod share;
mod submission;
mod suspicion;
mod topics;

use std::ops::Range;
use std::sync::Arc;

use waypost_core::blob::BlobDigest;
use waypost_core::event::MessageId;
use waypost_core::frame::FrameHeader;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::outbox::Outgoing;
use waypost_core::permits::PermitRequest;
use waypost_core::time::{Millis, Timestamp};

pub use birth::{TREE_KEPT, TREES_FORGOTTEN_MAX};
pub use claim::{ClaimRequest, Claims};
pub use definition::{Defined, Definition, DefinitionRef, NewDefinition};
pub use error::StoreError;
pub use frame::StoredFrame;
pub use log::LogReader;
pub use mail::{Mail, MailBody, MailDelivery, MailOf, Receiver};
pub use permit::{Permit, cancel_message};
pub use share::Share;
pub use submission::TakenName;
pub use suspicion::{SUSPECT_FROM, Settled, crashes_after_death};
pub use topics::{Publication, Published, Subscription, Topics, signal_mail};
pub use waypost_core::command::Urgency;

pub use crate::triggers::{Fire, FireOutcome};

/// How long an instance counts as alive after a heartbeat, by the store's time, unless it requests
/// another time.
pub const LEASE: Millis = Millis::from_secs(15);

/// A page of a log ends with the frame that reaches so many bytes. It has at least one frame, however
/// large.
pub const LOG_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Messages of one execution that are read together with its log.
pub const MAIL_PAGE_MAX: usize = 1_000;

/// The engine's interface to a store.
pub trait Store: crate::breakers::Breakers + Send + Sync {
    /// Announces or renews this instance's lease, and reserves numbers for new executions. An
    /// instance that never announced itself is not alive and cannot own anything.
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError>;

    /// Inserts each frame if, and only if, the frame it names as parent is the last one of its
    /// execution; with it, and only then, its side rows. One transaction for the whole batch; a
    /// refusal concerns one frame alone. Outcomes are in the order of the batch.
    ///
    /// Frames of one execution may be in one batch, in their order. A frame's time is never before
    /// that of an earlier frame, even if the clock was set back.
    ///
    /// On `Err` the outcome is unknown: the caller repeats the batch ([`Append::again`]).
    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError>;

    /// Takes ownership of executions that no live instance owns and that are ready, orphaned or due
    /// within [`ClaimRequest::ahead`]: the due ones by time, after all others by number. Executions
    /// that the claimer owns already are not claimed again, except by a reconciliation
    /// ([`ClaimRequest::held`]).
    ///
    /// A claimer whose own lease has expired takes nothing ([`Claims::lapsed`]): others would count
    /// its death against the executions that it had just taken.
    ///
    /// Taking an execution from an owner that died, and did not stop in order, counts that death
    /// ([`crashes_after_death`]). A counted execution is in doubt from then on. Of suspects
    /// ([`SUSPECT_FROM`]) at most one is taken, the least suspicious first, after everything else,
    /// and only if the claimer asks for it; those that are left count as more.
    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError>;

    /// The history of one execution: its newest snapshot, and the first page of the frames after it.
    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError>;

    /// The frames of an execution after a seq (0: from the first one on), in order: one page
    /// ([`LOG_PAGE_BYTES`]). Empty if there are none. [`LogReader`] reads page after page.
    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError>;

    /// Puts mail into inboxes, durably, and makes unowned addressees ready. Answers in order.
    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError>;

    /// The mail of one execution, or of all of a share that an instance owns; the oldest first.
    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError>;

    /// Quarantines an execution of this owner, visibly, if its log cannot be extended: it is
    /// unowned, and not claimed until mail of urgency [`Urgency::Resume`] that arrives from now on
    /// releases it. Mail that is already there stays and does not count; otherwise an execution
    /// that has to be quarantined again would be claimed again at once, for ever.
    ///
    /// Changes nothing if another instance owns it: a repeat whose first response was lost must not
    /// take it away from an instance that has claimed it since.
    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError>;

    /// Marks executions of this owner that were in hand at a death as in doubt: the owner is about
    /// to decide them, and its death counts from now on. Returns those that it owns, in any order.
    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError>;

    /// Finds the execution of this id, as the receiver of a message.
    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError>;

    /// Publishes a signal by its key: to every execution that waits for it, or to the first that does while
    /// it is kept. A message id is good for one publication, as long as the first one is kept.
    fn publish(&self, publication: &Publication) -> Result<Published, StoreError>;

    /// Which instances own these executions now, those that have an owner. For hints: it may have changed by
    /// the time of the answer.
    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError>;

    /// Which instances own executions that signals of these names, with their keys, are on their way to. For
    /// hints, as [`Store::owners`].
    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError>;

    /// The executions that wait for signals by key with names between these bounds, and the names: each pair
    /// once.
    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError>;

    /// Reserves places for executions in the tree below this root. Returns how many were reserved before.
    /// A call whose answer is lost may count twice. The first call for a root also deletes the counts of trees
    /// that are not used any more: their root has ended, and no places were reserved for [`TREE_KEPT`].
    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError>;

    /// Stores a definition; equal content is the same version. Makes that version the current one
    /// of its workflow if [`NewDefinition::make_current`] is set, or if there was none yet. Calls
    /// for one workflow are serialised: the last to commit decides which version is current.
    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError>;

    /// Finds a definition.
    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError>;
}

/// A sign of life.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub instance: InstanceId,
    /// How many numbers to reserve for new executions.
    pub numbers: u32,
    /// The newest log format that this instance reads.
    pub fold: u16,
    /// For how long it counts as alive; absent with the last one, after which its executions may be
    /// claimed at once.
    pub lease: Option<Millis>,
    pub about: About,
}

/// What an instance publishes about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    pub version: Arc<str>,
    pub address: Option<Arc<str>>,
    pub running: u32,
}

/// The answer to a sign of life.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The store's time.
    pub now: Timestamp,
    /// Numbers that no other instance will use.
    pub numbers: Range<i64>,
    /// The newest log format that every live instance reads.
    pub fold: u16,
}

/// One frame to append, with what must become true together with it.
#[derive(Clone, Debug)]
pub struct Append {
    /// The columns that the store compares.
    pub header: FrameHeader,
    /// The events, encoded. Opaque to the store.
    pub body: Vec<u8>,
    pub side: Side,
}

impl Append {
    /// This frame, to be appended again. The store that did not answer may have been replaced by
    /// one that lacks its latest commits, maybe also the claim before this frame. So the frame
    /// names the owner of the execution, unless it changes the control row otherwise.
    #[must_use]
    pub fn again(mut self) -> Self {
        self.side.control.get_or_insert(ControlChange::Owned);
        self
    }
}

/// Rows written in the same commit, and only if the frame was inserted.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The control row, at transitions only.
    pub control: Option<ControlChange>,
    /// For the first frame: the names of the execution.
    pub submission: Option<Submission>,
    pub consumed: Vec<MessageId>,
    /// Mail of other executions that the frame was decided on. It is [fenced](Appended::Fenced) where one is not
    /// in the inbox: the store that had it was replaced by one that lacks its latest commits, and with it the
    /// commit that sent the mail.
    pub relied_on: Vec<MessageId>,
    /// The state after this frame, encoded: a cache.
    pub snapshot: Option<Vec<u8>>,
    /// If the frame parks the execution: the digest of the encoded state after it. A copy of the
    /// state from a mirror is used only if it has this digest.
    pub digest: Option<Box<[u8; 32]>>,
    /// For an execution that was in hand at a death: what this frame proves. Parking or
    /// quarantining an execution clears its deaths without this.
    pub settled: Option<Settled>,
    /// For a frame with which an execution is queued for a permit of its concurrency key, or goes back to
    /// its place in the queue. [`waypost_core::permits`] decides what follows, with the rows as they are
    /// when the frame is stored.
    pub permit: Option<PermitRequest>,
    /// The blobs that the frame names. They are durable, and are not swept as long as the execution's
    /// log exists.
    pub blobs: Vec<BlobDigest>,
    /// Executions that begin with this frame ([`Append::birth`]), or are opened again with it
    /// ([`Append::reopening`]): all of them, or the frame is refused ([`Appended::Unborn`]).
    pub births: Vec<Append>,
    /// Mail that goes out with this frame, also to what is born with it. There is no answer: what is for
    /// an execution that has ended or never began is dropped.
    pub mail: Vec<Mail>,
    /// Each becomes a row of the [outbox](crate::outbox) for every endpoint that subscribes to it.
    pub messages: Vec<Outgoing>,
    /// Signals by key, where there are any.
    pub topics: Option<Box<Topics>>,
}

/// A change of a control row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlChange {
    /// It exists, owned by the frame's instance at the frame's epoch, and is not held. Also for a
    /// reopened execution, whose row is gone. An epoch never goes back: where a later claim has
    /// already raised it, it stays.
    Owned,
    /// It is unowned until it is due or has mail. Mail that is already there makes it ready.
    Parked { next_due: Option<Timestamp> },
    /// It is unowned, and only mail of urgency [`Urgency::Cancel`] or above makes it ready;
    /// `next_due` (an execution's deadline) still makes it claimable.
    Held { reason: String, next_due: Option<Timestamp> },
    /// The execution ended: the row and the mail that is left go, and so does an older snapshot.
    Ended,
}

/// The names under which an execution is found, claimed with its first frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Submission {
    pub key: ExecutionId,
    /// The submitter's idempotency key, with a digest of the submission.
    pub idempotency: Option<Box<Idempotency>>,
    /// The fire of a trigger that it begins with.
    pub fire: Option<Box<Fire>>,
}

/// A submitter's idempotency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idempotency {
    pub key: Arc<str>,
    /// Of the workflow and the input.
    pub digest: [u8; 32],
}

/// The outcome of one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Appended {
    /// It is durable, at this time of the store. Also when an earlier call had committed it and
    /// its reply was lost.
    Committed { at: Timestamp },
    /// Another frame is where this one should be: the appender no longer owns the execution. Drop
    /// the state, never repeat.
    Fenced,
    /// A first frame whose names are taken.
    Duplicate {
        /// By whom; where the two names were taken by two, the holder of the idempotency key.
        execution: ExecutionNo,
        taken: TakenName,
    },
    /// The frame requests a permit of its concurrency key, `holding` executions hold all of them,
    /// and the policy is to reject. Nothing was stored. Names that are taken are checked first: a
    /// repeated start gets the outcome of the first one.
    Rejected { holding: u64 },
    /// The item of the fire that this first frame is was settled before, and started no execution. Nothing
    /// was stored.
    ItemSettled(FireOutcome),
    /// The trigger whose fire this first frame is has changed since the fire was prepared, or the group of
    /// its window. Nothing was stored.
    Stale,
    /// The number or the name of an execution that was to begin with this frame is taken. Nothing was
    /// stored.
    Unborn,
    /// The store refuses the data of this frame for good.
    Poisoned { reason: String },
}

/// Everything that is known of one execution.
#[derive(Clone, Debug)]
pub struct History {
    pub execution: ExecutionNo,
    /// The control row; absent when it has ended.
    pub control: Option<Control>,
    pub snapshot: Option<Snapshot>,
    /// The first page of its frames, in order: from the last one that the snapshot covers on, or from
    /// the beginning.
    pub frames: Vec<StoredFrame>,
    /// The last frame of the log, if it is not among `frames`: [`take_log`](Self::take_log) reads up
    /// to it.
    pub last: Option<FrameHeader>,
    /// Its oldest mail, at most [`MAIL_PAGE_MAX`].
    pub mail: Vec<Mail>,
    /// Is there more mail?
    pub mail_waits: bool,
}

/// A control row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    pub owner: Option<InstanceId>,
    /// Grows by one with each owner.
    pub epoch: u32,
    /// When time alone makes it claimable.
    pub next_due: Option<Timestamp>,
    /// Is there something to do?
    pub ready: bool,
    /// Why it is quarantined or held, if it is.
    pub held: Option<String>,
    /// Deaths of its owners that count against it; see [`crashes_after_death`].
    pub crashes: u32,
    /// Was it taken after such a death, and has its owner not decided it yet?
    pub doubt: bool,
    /// Its place in the queue of its concurrency key, if it has one.
    pub permit: Option<Permit>,
}

/// A stored state.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The last seq it covers.
    pub seq: u64,
    pub body: Vec<u8>,
}
