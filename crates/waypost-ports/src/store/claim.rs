//! Claims of executions: what an instance asks for, and what it gets.

use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};

use super::{History, Share};

/// Which executions to claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub instance: InstanceId,
    /// The newest log format that it reads.
    pub fold: u16,
    pub limit: usize,
    /// None but these: each driver of an instance claims for itself.
    pub share: Share,
    /// None but these; for a process that is to drive one execution and leave the others.
    pub only: Option<Vec<ExecutionNo>>,
    /// A reconciliation: the executions of the share that the claimer has in memory, sorted.
    /// Everything else of the share that it owns is returned as well. Either it never received it (the response to a claim was
    /// lost), or it considers it finished (the store lost its latest commits); no other instance
    /// takes it as long as this one lives.
    pub held: Option<Vec<ExecutionNo>>,
    /// May one suspect be among them?
    pub suspects: bool,
    /// How long before its due time an execution may be taken.
    pub ahead: Millis,
}

/// The claimed executions.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The executions, each with its history, control row already naming the new owner.
    pub claimed: Vec<History>,
    /// How many of them come from a copy, so that their logs were not read.
    pub copied: u64,
    /// Could more have been claimed?
    pub more: bool,
    /// The earliest due time among those that could be claimed later.
    pub next_due: Option<Timestamp>,
    /// Was nothing taken because the claimer's lease is over? It has to renew it first.
    pub lapsed: bool,
    /// The store's time.
    pub at: Timestamp,
}
