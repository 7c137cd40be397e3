//! The ends of remote attempts. A worker repeats its report until it is answered, so an end may be
//! reported again when the answer was lost, after the next attempt has begun, or after the whole
//! execution is over. It is identified by its token and a digest of the report.

use serde::{Deserialize, Serialize};

use crate::command::{Outcome, Report};
use crate::decide::{outcome_unknown, stopped_by_worker};
use crate::failure::{Failure, kind};
use crate::id::Token;
use crate::json::Json;

/// Kinds of failures that the engine turns a completion into: its output cannot be stored, or the
/// variables that follow from it cannot be computed.
const MADE_OF_COMPLETIONS: &[&str] = &[
    kind::TOO_LARGE,
    kind::EXPRESSION,
    kind::EXPRESSION_LIMIT,
    kind::INVALID_CONFIG,
    kind::NUMBER_OUT_OF_RANGE,
];

/// The end of a remote attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    pub attempt: u32,
    pub token: Token,
    pub said: Said,
}

/// The recorded outcome of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// An output; its digest.
    Completed(u64),
    Failed {
        digest: u64,
        /// Can the engine have made it of a completion?
        made: bool,
    },
    Cancelled,
}

impl Said {
    /// An output; `null` where there is none.
    pub fn completed(output: Option<&Json>) -> Self {
        Self::Completed(digest(output.map_or("null", Json::text).as_bytes()))
    }

    /// A failure.
    pub fn failed(failure: &Failure) -> Self {
        let made = MADE_OF_COMPLETIONS.contains(&&*failure.kind);
        let text = serde_json::to_vec(failure).unwrap_or_default();
        Self::Failed { digest: digest(&text), made }
    }
}

impl Ended {
    /// Does a report repeat what the holder of the attempt has reported before? A late start adds
    /// nothing.
    pub fn is_repeated_by(&self, report: &Report) -> bool {
        self.attempt == report.attempt
            && self.token == report.token
            && match &report.outcome {
                Outcome::Started => true,
                Outcome::Checkpoint(_) | Outcome::Blocked(_) => false,
                Outcome::Completed(output) => {
                    self.said == Said::completed(Some(output))
                        || matches!(self.said, Said::Failed { made: true, .. })
                }
                Outcome::Failed(failure) => self.is_failure(failure),
                Outcome::Lost(failure) => self.said == Said::Cancelled || self.is_failure(failure),
                Outcome::Cancelled => {
                    self.said == Said::Cancelled || self.is_failure(&stopped_by_worker())
                }
            }
    }

    /// As it was reported, or as it is recorded if its outcome is unknown or it skips `onError`.
    fn is_failure(&self, failure: &Failure) -> bool {
        self.said == Said::failed(failure)
            || self.said == Said::failed(&outcome_unknown(&failure.message))
            || self.said == Said::failed(&failure.clone().past_on_error())
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(blake3::hash(bytes).as_bytes()).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(first)
}
