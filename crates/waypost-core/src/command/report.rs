//! What workers report on attempts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::breaker::BreakerHold;
use crate::failure::Failure;
use crate::id::{Token, WorkerId};
use crate::json::Json;

/// A worker's report on an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub node: Arc<str>,
    pub attempt: u32,
    pub token: Token,
    /// The remote worker that reports; absent for attempts in a slot, and if the owner reports on
    /// an attempt whose worker is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    pub outcome: Outcome,
}

/// The outcome of an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A remote worker begins it.
    Started,
    Completed(Json),
    Failed(Failure),
    Cancelled,
    /// It was lost: the handler panicked or its worker went away.
    Lost(Failure),
    /// It continues, and has recorded a mark.
    Checkpoint(Mark),
    /// It was not made: its circuit breaker keeps it waiting.
    Blocked(Box<BreakerHold>),
}

/// A mark of an attempt, from which a later one may continue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mark {
    pub data: Json,
    /// The number of this mark in its attempt, from 1: a mark that arrives late does not replace
    /// later ones. 0 if the worker does not number them.
    #[serde(default, skip_serializing_if = "crate::json::is_zero")]
    pub number: u32,
}

impl From<Json> for Mark {
    fn from(data: Json) -> Self {
        Self { data, number: 0 }
    }
}
