//! Delivery tokens of remote attempts: each authorises one worker to report on one attempt.
//!
//! ```text
//!   64 random bits │ 64 bits of a MAC over the execution's key, path, attempt and the random bits
//! ```
//!
//! The attempts of a node in a body are counted anew whenever its container begins again. So its
//! idempotency key, which differs then, is its path here.
//!
//! The owner of an attempt learns its token from the first report, when there is no recorded token to
//! compare it with. The MAC distinguishes a token that an instance of this cluster issued for this attempt
//! from a forged one. It covers the execution's key and not its number: a store that lost its latest
//! commits assigns numbers a second time.

use std::fmt;

use waypost_core::blob::BlobDigest;
use waypost_core::command::{Refusal, Report};
use waypost_core::decide::idempotency_key;
use waypost_core::id::{ExecutionId, Token};
use waypost_core::plan::Plan;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::state::State;
use waypost_ports::tasks::OfferId;

use crate::sealed::OfferedTask;

/// The purpose of the derived key, so that it has one use only.
const PURPOSE: &str = "waypost delivery tokens 1";

const RECEIPTS: &str = "waypost receipts of uploads 1";

/// Of the random bits of a token: the delivery has secrets or links of callbacks, so that its outcome must
/// be searched for them. The MAC covers it. (Tokens of older builds have it by chance; their reports are searched in
/// vain.)
const SECRETS_BIT: u64 = 1 << 63;

/// May the outcome of a delivery with this token contain secrets or links?
pub(crate) fn may_have_secrets(token: Token) -> bool {
    token.0 >> 64 & u128::from(SECRETS_BIT) != 0
}

/// Which attempt a token is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptRef<'a> {
    pub execution: &'a ExecutionId,
    pub path: &'a str,
    pub attempt: u32,
}

impl<'a> AttemptRef<'a> {
    /// The attempt of a task on offer.
    pub(crate) fn of_offer(id: &'a OfferId, task: &'a OfferedTask) -> Self {
        let path = if is_in_body(&id.path) { &*task.idempotency_key } else { &*id.path };
        Self { execution: &task.execution, path, attempt: id.attempt }
    }
}

fn is_in_body(path: &str) -> bool {
    path.contains('/')
}

/// Creates tokens, and verifies its own.
#[derive(Clone)]
pub struct TokenIssuer {
    key: [u8; 32],
}

impl fmt::Debug for TokenIssuer {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenIssuer")
    }
}

impl TokenIssuer {
    /// The token issuer of a cluster.
    pub fn new(cluster_key: &[u8; 32]) -> Self {
        Self { key: blake3::derive_key(PURPOSE, cluster_key) }
    }

    /// A token for a delivery with secrets or links, or without: the first of its random bits says which.
    pub(crate) fn issue_marked(
        &self,
        delivery: &AttemptRef<'_>,
        random: u64,
        has_secrets: bool,
    ) -> Token {
        let marked = if has_secrets { random | SECRETS_BIT } else { random & !SECRETS_BIT };
        self.issue(delivery, marked)
    }

    /// A token for one delivery. The bits must be unpredictable.
    pub fn issue(&self, delivery: &AttemptRef<'_>, random: u64) -> Token {
        let mac = self.mac(delivery, random);
        Token(u128::from(random) << 64 | u128::from(mac))
    }

    /// Was this token given out for this attempt?
    pub fn is_ours(&self, delivery: &AttemptRef<'_>, token: Token) -> bool {
        let [random, mac] = [token.0 >> 64, token.0].map(|bits| bits & u128::from(u64::MAX));
        let random = u64::try_from(random).unwrap_or(0);
        u128::from(self.mac(delivery, random)) == mac
    }

    /// May a remote worker's report be considered? Its token must be one of ours, or recorded in
    /// the log (whatever happened to the key since).
    pub fn admit(&self, plan: &Plan, state: &State, report: &Report) -> Result<(), Refusal> {
        let at = state.find(plan, &report.node);
        let node = at.and_then(|at| state.get(at));
        let recorded = node.is_some_and(|node| {
            node.token == Some(report.token)
                || node.ended.iter().any(|ended| ended.token == report.token)
        });
        let (execution, attempt) = (&state.created.key, report.attempt);
        let in_body = at.filter(|_| is_in_body(&report.node));
        let key = in_body.map(|at| idempotency_key(plan, state, at));
        let path = key.as_deref().unwrap_or(&report.node);
        let delivery = AttemptRef { execution, path, attempt };
        let ours = self.is_ours(&delivery, report.token) || is_planted(Bug::QueuedTokenUnchecked);
        if recorded || ours {
            return Ok(());
        }
        // A report without a valid token gets the refusal that any other would get.
        match state.admit_report(plan, report) {
            Err(refusal) => Err(refusal),
            Ok(_) => Err(Refusal::ForeignToken { node: report.node.clone(), attempt }),
        }
    }

    /// Proves that a blob was uploaded by the holder of this token.
    pub fn receipt(&self, token: Token, digest: &BlobDigest) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&blake3::derive_key(RECEIPTS, &self.key));
        hasher.update(&token.0.to_le_bytes());
        hasher.update(&digest.0);
        hasher.finalize().to_hex().get(..32).unwrap_or_default().to_owned()
    }

    fn mac(&self, delivery: &AttemptRef<'_>, random: u64) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&delivery.attempt.to_le_bytes());
        hasher.update(&random.to_le_bytes());
        // With its length, so that nothing of one can be taken for the other.
        let key = delivery.execution.as_str();
        hasher.update(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(key.as_bytes());
        hasher.update(delivery.path.as_bytes());
        let mut mac = [0; 8];
        hasher.finalize_xof().fill(&mut mac);
        u64::from_le_bytes(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_attempt_and_no_other() {
        let issuer = TokenIssuer::new(&[7; 32]);
        let [one, other] = ["exe_1", "exe_1a"].map(|key| ExecutionId(key.into()));
        let of = |execution, path, attempt| AttemptRef { execution, path, attempt };
        let token = issuer.issue(&of(&one, "ab", 1), 0x0123_4567_89ab_cdef);
        assert!(issuer.is_ours(&of(&one, "ab", 1), token));
        for wrong in [of(&other, "ab", 1), of(&other, "b", 1), of(&one, "b", 1), of(&one, "ab", 2)]
        {
            assert!(!issuer.is_ours(&wrong, token), "{wrong:?}");
        }
        for bit in 0..128 {
            assert!(!issuer.is_ours(&of(&one, "ab", 1), Token(token.0 ^ 1 << bit)), "bit {bit}");
        }
        assert!(!TokenIssuer::new(&[8; 32]).is_ours(&of(&one, "ab", 1), token));
    }

    #[test]
    fn two_deliveries_of_one_attempt_have_two_tokens() {
        let issuer = TokenIssuer::new(&[7; 32]);
        let key = ExecutionId("exe_1".into());
        let delivery = AttemptRef { execution: &key, path: "a", attempt: 1 };
        assert_ne!(issuer.issue(&delivery, 1), issuer.issue(&delivery, 2));
        assert_eq!(format!("{issuer:?}"), "TokenIssuer");
    }

    /// A group that is tried again, and a retry of the execution, count attempts in a body from 1.
    #[test]
    fn bug_a_token_of_an_earlier_try_of_a_body_was_good_for_the_next_one() {
        let issuer = TokenIssuer::new(&[7; 32]);
        let task = |key: &str| OfferedTask {
            execution: ExecutionId("exe_1".into()),
            workflow: "flow".into(),
            input: waypost_core::json::Json::null(),
            timeout: None,
            heartbeat: None,
            idempotency_key: key.to_owned(),
            checkpoint: None,
            placeholders: Vec::new(),
            operation: None,
            at_most_once: false,
        };
        let id = |path: &str| {
            let execution = waypost_core::id::ExecutionNo(1);
            OfferId { execution, path: path.into(), attempt: 1 }
        };
        let (first, next) = (task("exe_1/g/a/1"), task("exe_1/g@2/a/1"));
        let inside = id("g/a");
        let token = issuer.issue(&AttemptRef::of_offer(&inside, &first), 1);
        assert!(issuer.is_ours(&AttemptRef::of_offer(&inside, &first), token));
        assert!(!issuer.is_ours(&AttemptRef::of_offer(&inside, &next), token));
        // Nodes outside of bodies are named as before: older instances verify their tokens.
        let outside = id("a");
        let token = issuer.issue(&AttemptRef::of_offer(&outside, &task("exe_1/a/1")), 1);
        let key = ExecutionId("exe_1".into());
        assert!(issuer.is_ours(&AttemptRef { execution: &key, path: "a", attempt: 1 }, token));
    }
}
