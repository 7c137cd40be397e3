//! When to ask the store: for executions to claim, for mail, for numbers.
//!
//! One question of each kind is out at a time. Claims are asked for when something points to one (a
//! due time that the store told us, a parked execution, a nudge) and every `poll_every` in case a
//! hint was lost.

use waypost_core::id::ExecutionId;
use waypost_core::time::Timestamp;

use super::io::Output;
use crate::config::Config;

#[derive(Default)]
pub(super) struct Claims {
    /// When to claim next.
    claim_at: Timestamp,
    claiming: bool,
    claimed_at: Timestamp,
    /// When to look for mail next.
    collect_at: Timestamp,
    collecting: bool,
    reserving: bool,
}

impl Claims {
    pub(super) fn next_at(&self) -> Timestamp {
        let never = Timestamp(i64::MAX);
        let claim = if self.claiming { never } else { self.claim_at };
        let collect = if self.collecting { never } else { self.collect_at };
        claim.min(collect)
    }

    /// Something may be claimable now.
    pub(super) fn nudge(&mut self, now: Timestamp) {
        self.claim_at = self.claim_at.min(now);
    }

    /// An execution left memory; it is to be claimed again when it is due.
    pub(super) fn parked(&mut self, next_due: Option<Timestamp>) {
        if let Some(due) = next_due {
            self.claim_at = self.claim_at.min(due);
        }
    }

    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        claimed: usize,
        more: bool,
        next_due: Option<Timestamp>,
        config: &Config,
    ) {
        self.claiming = false;
        let soon = now.plus(config.claim_every_min);
        let poll = now.plus(config.poll_every);
        let hint = next_due.map_or(poll, |due| due.max(soon).min(poll));
        // A nudge that came while the question was out stands: it may be about something newer
        // than the answer.
        let nudged =
            if self.claim_at <= now && self.claimed_at < self.claim_at { now } else { poll };
        self.claim_at = match (more, claimed) {
            (true, 1..) => now,
            _ => hint.min(nudged).max(self.claimed_at.plus(config.claim_every_min)),
        };
    }

    pub(super) fn collected(&mut self, now: Timestamp, config: &Config) {
        self.collecting = false;
        self.collect_at = now.plus(config.poll_every);
    }

    pub(super) fn wants_numbers(&mut self) -> bool {
        !std::mem::replace(&mut self.reserving, true)
    }

    pub(super) fn numbers_came(&mut self) {
        self.reserving = false;
    }

    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        room: usize,
        only: Option<Vec<ExecutionId>>,
        any_live: bool,
        config: &Config,
        outputs: &mut Vec<Output>,
    ) {
        let nothing_to_claim = only.as_ref().is_some_and(Vec::is_empty);
        if !self.claiming && now >= self.claim_at {
            if room == 0 || nothing_to_claim {
                self.claim_at = now.plus(config.poll_every);
            } else {
                self.claiming = true;
                self.claimed_at = now;
                self.claim_at = now.plus(config.poll_every);
                outputs.push(Output::Claim { limit: room.min(config.claim_batch), only });
            }
        }
        if !self.collecting && now >= self.collect_at {
            if any_live {
                self.collecting = true;
                outputs.push(Output::Collect);
            } else {
                self.collect_at = now.plus(config.poll_every);
            }
        }
    }
}
