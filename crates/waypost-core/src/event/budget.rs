//! Events of attempts that use tokens.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Money, TokensUsed};

/// The budget has room for an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptReserved {
    /// The node's path.
    pub node: Arc<str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The most that it can use: `tokens`, and `money` in millionths.
    #[serde(flatten)]
    pub amount: Amount,
}

/// What an attempt used, as its worker reported it. Its end is one of the next events.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptUsed {
    /// The node's path.
    pub node: Arc<str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The tokens: `input` and `output`.
    #[serde(flatten)]
    pub usage: TokensUsed,
    /// What they cost, in millionths; absent where the definition has no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}
