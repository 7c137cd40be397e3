//! The queue of a concurrency key: which executions hold a permit, wait, are rejected or are cancelled.
//!
//! A queue has one row for each unfinished execution of its key, in the order of the commits that inserted
//! them. A frame inserts the row, and the frame that ends the execution deletes it, so that a permit is
//! released exactly once. The rule, for all stores:
//!
//! - While fewer executions hold a permit than the first waiting row has as its limit, that row gets one.
//!   No row overtakes another. Versions of a workflow may differ in their limits; each row has its own.
//! - Under `reject`, an execution that would wait is not accepted.
//! - Under `cancel-oldest`, an execution that has to wait supersedes the oldest row that none has superseded
//!   before, if there are at least as many of these as its limit: each newcomer costs one execution its place.
//! - An execution that asks again keeps its row. If it was given a permit while an instance owned it, it is
//!   woken now.
//!
//! Stores decide nothing of this. They read an [`Excerpt`], call [`decide`] and write the
//! [`QueueChanges`]; before a frame that [may be rejected](PermitRequest::may_be_rejected) they ask
//! [`rejection`]:
//!
//! ```text
//!   rows of the key ─▶ Excerpt ─▶ decide(excerpt, occasion) ─▶ QueueChanges ─▶ rows, control rows, mail
//! ```
//!
//! **Why an old excerpt is enough.** A store may give permits by an excerpt that other commits have made
//! old. No row joins a queue ahead of another, and a row behind gets a permit only in its turn, which counts
//! all rows ahead of it. So for a waiting row, the number of rows ahead of it plus the holders behind it only
//! decreases: a row whose turn has come keeps its turn until it gets the permit or leaves. An old excerpt
//! gives too few permits, never too many; the commit that made it old gives the others. Any instance may
//! therefore promote rows, any number of times, without a lock. Only inserting a row needs one per key.

use std::sync::Arc;

use crate::id::ExecutionNo;
use crate::plan::ConcurrencyPolicy;
use crate::planted::{Bug, is_planted};

/// The waiting rows that a store reads at once. A release usually promotes one; if all of them get a
/// permit, the store reads again ([`QueueChanges::may_promote_more`]).
pub const WAITING_MAX: u8 = 16;

/// What an execution asks for when it is queued for a permit of its concurrency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermitRequest {
    /// Executions of one key share its permits.
    pub key: Arc<str>,
    /// How many executions may hold one at once; at least 1.
    pub limit: u32,
    pub policy: ConcurrencyPolicy,
}

impl PermitRequest {
    /// Does a store have to ask [`rejection`] before it stores the frame?
    pub fn may_be_rejected(&self) -> bool {
        self.policy == ConcurrencyPolicy::Reject
    }

    /// How far a store has to count [`Excerpt::cancellable`].
    pub fn cancellable_max(&self) -> u32 {
        if self.policy == ConcurrencyPolicy::CancelOldest { self.limit } else { 0 }
    }
}

/// What a store has read of one queue. How much of it the rule needs depends on the [`Occasion`]; the rest
/// may be left at its default. It never is the whole queue, which may have 100,000 rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Excerpt {
    /// Does the execution's own row hold a permit? `None`: it has no row.
    pub own: Option<bool>,
    pub holding: u64,
    /// The first [`WAITING_MAX`] rows that wait, in their order. The rule promotes rows from the front
    /// only, so that the ones behind do not matter yet.
    pub waiting: Vec<WaitingRow>,
    /// The oldest row that no newcomer has superseded.
    pub oldest: Option<ExecutionNo>,
    /// How many rows no newcomer has superseded; counting may stop at
    /// [`PermitRequest::cancellable_max`].
    pub cancellable: u64,
}

/// A row that waits for a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingRow {
    /// Identifies the row: an execution that left the queue and joined it again has another ticket.
    pub ticket: i64,
    pub execution: ExecutionNo,
    pub limit: u32,
}

/// What happens to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occasion<'a> {
    /// A frame of an execution asks for a permit, for the first time or when the execution goes back to
    /// its place. Needs everything.
    Request(&'a PermitRequest),
    /// A row was deleted. Needs `holding` and `waiting`.
    Release,
    /// Permits may be free because an instance died between a release and the promotion. Needs `holding`
    /// and `waiting`.
    Sweep,
    /// The row of an execution must be what its log says. Needs `own`; a row of another key is not its
    /// own and is released. A sweep follows.
    Repair {
        /// Has the execution begun? Then it holds a permit, whatever its limit.
        admitted: bool,
    },
}

/// What a store writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueChanges {
    pub own: Option<RowChange>,
    /// Is the execution ready to be claimed? It holds a permit: its control row is made ready and is not
    /// held any more, unless an instance owns or has quarantined it.
    pub wakes: bool,
    /// Waiting rows that get a permit. Their executions are woken likewise.
    pub promoted: Vec<WaitingRow>,
    /// An execution that is superseded and gets a cancellation by mail.
    pub superseded: Option<ExecutionNo>,
}

/// A change of the row of the execution that a decision is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowChange {
    /// It is inserted at the end of the queue.
    Insert { holding: bool },
    /// It gets a permit.
    Give,
}

impl QueueChanges {
    /// May rows behind the excerpt be promoted, too? Then the store reads again and sweeps.
    pub fn may_promote_more(&self) -> bool {
        self.promoted.len() >= usize::from(WAITING_MAX)
    }
}

/// How many executions hold the permits of the key, if that is why the frame with this request must not be
/// stored.
pub fn rejection(excerpt: &Excerpt, request: &PermitRequest) -> Option<u64> {
    let changes = decide(excerpt, Occasion::Request(request));
    let waits = changes.own == Some(RowChange::Insert { holding: false });
    (request.may_be_rejected() && waits).then_some(excerpt.holding)
}

/// Decides what follows for a queue.
pub fn decide(excerpt: &Excerpt, occasion: Occasion<'_>) -> QueueChanges {
    match occasion {
        Occasion::Request(request) => join(excerpt, request),
        Occasion::Release | Occasion::Sweep if is_planted(Bug::PromotionLost) => {
            QueueChanges::default()
        }
        Occasion::Release | Occasion::Sweep => {
            let twice = occasion == Occasion::Release && is_planted(Bug::PermitReleasedTwice);
            let promoted = promote(excerpt, u64::from(twice));
            QueueChanges { promoted, ..QueueChanges::default() }
        }
        Occasion::Repair { admitted } => repair(excerpt, admitted),
    }
}

fn join(excerpt: &Excerpt, request: &PermitRequest) -> QueueChanges {
    if let Some(holding) = excerpt.own {
        return QueueChanges { wakes: holding, ..QueueChanges::default() };
    }
    let promoted = promote(excerpt, 0);
    let is_next =
        promoted.len() == excerpt.waiting.len() && promoted.len() < usize::from(WAITING_MAX);
    let holders = excerpt.holding + promoted.len() as u64;
    let holding = is_next && holders < u64::from(request.limit);
    let cancels = request.policy == ConcurrencyPolicy::CancelOldest
        && !holding
        && excerpt.cancellable >= u64::from(request.limit);
    QueueChanges {
        own: Some(RowChange::Insert { holding }),
        wakes: holding,
        promoted,
        superseded: excerpt.oldest.filter(|_| cancels),
    }
}

fn repair(excerpt: &Excerpt, admitted: bool) -> QueueChanges {
    let own = match excerpt.own {
        None => Some(RowChange::Insert { holding: admitted }),
        Some(false) if admitted => Some(RowChange::Give),
        Some(_) => None,
    };
    // An execution that has begun is woken by what its log says, not by its permit.
    let wakes = excerpt.own == Some(true) && !admitted;
    QueueChanges { own, wakes, ..QueueChanges::default() }
}

/// The waiting rows whose turn it is: each of them while fewer hold a permit than its limit.
fn promote(excerpt: &Excerpt, surplus: u64) -> Vec<WaitingRow> {
    let mut waiting = excerpt.waiting.clone();
    if is_planted(Bug::LastComesFirst) {
        waiting.reverse();
    }
    let turns = waiting.iter().zip(excerpt.holding..);
    let turns =
        turns.take_while(|(row, holding)| *holding < u64::from(row.limit) + surplus).count();
    waiting.truncate(turns);
    waiting
}
