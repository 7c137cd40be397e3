//! The bookkeeping of one circuit breaker in one instance, without I/O and threads: what the store said, and
//! which calls are under way. The simulator uses it, too.
//!
//! Times are those of a clock that never goes back, counted from any moment.

use std::sync::Arc;
use std::time::Duration;

use waypost_core::breaker::{
    BreakerCause, BreakerChange, BreakerEvidence, BreakerHold, BreakerPolicy, BreakerRef,
    BreakerVerdict,
};
use waypost_core::time::Timestamp;
use waypost_ports::breakers::BreakerAnswer;

/// How long an answer of the store is believed: so late may an instance learn what others know.
const BELIEVED: Duration = Duration::from_secs(1);
/// How old a call is that no longer counts against the window.
pub const BREAKER_PROBATION: Duration = Duration::from_secs(1);
/// How long an attempt holds its slot while it waits for room in the window. Shorter than the time after
/// which an attempt counts as silent.
pub const BREAKER_CROWDED_MAX: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct BreakerBook {
    /// Calls under way that count against the window.
    pub(super) young: u32,
    window: u32,
    known: StoreAnswer,
}

#[derive(Debug)]
enum StoreAnswer {
    Nothing,
    Closed { until: Duration },
    Held { until: Duration, hold: BreakerHold },
}

/// Whether an attempt may be made.
#[derive(Debug)]
pub enum BreakerEntry {
    Pass(BreakerPass),
    Wait(BreakerHold),
    /// As many calls are under way as the window is wide. Look again when one has ended, for
    /// [`BREAKER_CROWDED_MAX`] at most.
    Crowded,
    /// The store has to be asked, and its answer [learned](BreakerBook::learn).
    Ask,
}

/// A call under way. Its end makes room for another: give it back with [`BreakerBook::leave`].
#[derive(Debug)]
pub struct BreakerPass {
    probe: Option<u64>,
    young: bool,
}

impl BreakerPass {
    /// Its number, if it is a probe.
    pub fn probe(&self) -> Option<u64> {
        self.probe
    }
}

impl BreakerBook {
    /// Nothing is known of the breaker yet. The policy is that of the first attempt; each has its own.
    pub fn new(policy: &BreakerPolicy) -> Self {
        Self { young: 0, window: policy.failures.max(1), known: StoreAnswer::Nothing }
    }

    /// May an attempt be made now?
    pub fn enter(&mut self, now: Duration) -> BreakerEntry {
        match &self.known {
            StoreAnswer::Held { until, hold } if now < *until => BreakerEntry::Wait(hold.clone()),
            StoreAnswer::Closed { until } if now < *until => {
                if self.young >= self.window {
                    return BreakerEntry::Crowded;
                }
                self.young += 1;
                BreakerEntry::Pass(BreakerPass { probe: None, young: true })
            }
            StoreAnswer::Nothing | StoreAnswer::Held { .. } | StoreAnswer::Closed { .. } => {
                BreakerEntry::Ask
            }
        }
    }

    /// Is what the store said still believed?
    pub fn is_known(&self, now: Duration) -> bool {
        match self.known {
            StoreAnswer::Nothing => false,
            StoreAnswer::Closed { until } | StoreAnswer::Held { until, .. } => now < until,
        }
    }

    /// Takes an answer of the store. An attempt that asked, and is the probe, gets its pass.
    pub fn learn(
        &mut self,
        now: Duration,
        answer: BreakerAnswer,
        policy: &BreakerPolicy,
    ) -> Option<BreakerPass> {
        let (known, probe) = match answer.verdict {
            BreakerVerdict::Pass => (StoreAnswer::Closed { until: now + BELIEVED }, None),
            BreakerVerdict::Ask => (StoreAnswer::Nothing, None),
            BreakerVerdict::Wait(hold) => {
                self.window = policy.failures.max(1);
                let left = hold.until.since(answer.at).to_std();
                (StoreAnswer::Held { until: now + left.min(BELIEVED), hold }, None)
            }
            BreakerVerdict::Probe(number) => {
                self.window = policy.failures.max(1);
                self.young += 1;
                (StoreAnswer::Nothing, Some(number))
            }
        };
        self.known = known;
        probe.map(|_| BreakerPass { probe, young: true })
    }

    /// A call has ended: what to report to the store, if anything. The pass is given back after the report:
    /// others must know of a failure before they get the room.
    pub fn end(
        &mut self,
        pass: &mut BreakerPass,
        evidence: BreakerEvidence,
        policy: BreakerPolicy,
    ) -> Option<BreakerChange> {
        match (evidence, pass.probe) {
            (BreakerEvidence::Failed(message), probe) => {
                self.shrink(&policy);
                Some(BreakerChange::Failed { policy, probe, message })
            }
            (BreakerEvidence::Answered, Some(probe)) => Some(BreakerChange::Answered { probe }),
            (BreakerEvidence::Nothing, Some(probe)) => Some(BreakerChange::Unused { probe }),
            (BreakerEvidence::Answered, None) => {
                self.come_of_age(pass);
                None
            }
            (BreakerEvidence::Nothing, None) => None,
        }
    }

    /// A failure narrows the window, the less the more of them the breaker allows.
    fn shrink(&mut self, policy: &BreakerPolicy) {
        let less = self.window.div_ceil(policy.failures.max(1));
        self.window = self.window.saturating_sub(less).max(1);
    }

    /// The call was answered, or has lasted [`BREAKER_PROBATION`]: it makes room for itself and for another
    /// one. Is there room now that was not there before?
    pub fn come_of_age(&mut self, pass: &mut BreakerPass) -> bool {
        let was_young = self.leave(pass);
        self.window = self.window.saturating_add(u32::from(was_young));
        was_young
    }

    /// Takes back the pass of a call that is over. Is there room now that was not there before?
    pub fn leave(&mut self, pass: &mut BreakerPass) -> bool {
        let was_young = std::mem::take(&mut pass.young);
        self.young = self.young.saturating_sub(u32::from(was_young));
        was_young
    }
}

/// A wait that the store did not ask for, from this moment on.
pub fn breaker_hold(of: &BreakerRef, now: Timestamp, cause: BreakerCause) -> BreakerHold {
    let until = now.plus(of.policy.poll());
    BreakerHold { key: Arc::clone(&of.key), until, spread: of.policy.spread(), cause }
}
