//! Circuit breakers: workers ask the store before a call to an endpoint that is down for a while, as the
//! product's gate does, and report how the call ended.
//!
//! While a breaker is open no call is made but one probe at a time, and no attempt waits beyond the
//! time at which it asks again.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::breaker::{
    BreakerCause, BreakerChange, BreakerEvidence, BreakerHold, BreakerRef, BreakerVerdict,
};
use waypost_core::command::Outcome;
use waypost_core::event::Wait;
use waypost_core::id::{ExecutionNo, Token};
use waypost_core::time::Millis;
use waypost_engine::driver::TaskOrder;
use waypost_ports::breakers::{BreakerAnswer, Breakers};

use super::Simulation;
use crate::clock::START;
use crate::process::Life;
use crate::program::Script;
use crate::random::Random;
use crate::store::Connection;

/// How long a process believes an answer of the store.
const BELIEVED_MS: u64 = 1_000;
/// How long a probe without a timeout keeps others waiting, and what is added to any.
const PROBE_MS: (u64, u64) = (60_000, 5_000);
/// How much later than due an attempt asks again, once the faults are over.
const LATE_MS: u64 = 60_000;

/// The endpoint, and what processes know of its breaker.
pub(super) struct Storms {
    /// When the endpoint is down.
    from_ms: u64,
    until_ms: u64,
    /// By process and key: until when it believes what, a hold or that the breaker is closed.
    believed: BTreeMap<(Life, Arc<str>), (u64, Option<BreakerHold>)>,
    /// Calls under way; of a probe, its number.
    passes: BTreeMap<Token, Option<u64>>,
    /// The probe under way, by key, and until when it keeps others waiting.
    probes: BTreeMap<Arc<str>, (u64, u64)>,
    calm_since: Option<u64>,
    random: Random,
}

impl Storms {
    pub(super) fn new(seed: &Random) -> Self {
        let mut random = seed.split("storms");
        let from_ms = random.below(5_000);
        Self {
            from_ms,
            until_ms: from_ms + random.between(8_000, 30_000),
            believed: BTreeMap::new(),
            passes: BTreeMap::new(),
            probes: BTreeMap::new(),
            calm_since: None,
            random,
        }
    }

    /// How long the answer to a call with a breaker takes: an endpoint that is down is slow.
    pub(super) fn answer_ms(&mut self, order: &TaskOrder, outcome: &Outcome) -> u64 {
        let slow = order.task.breaker.is_some() && matches!(outcome, Outcome::Failed(_));
        if slow { self.random.below(2_000) } else { 0 }
    }

    /// How the sink plays a script now.
    pub(super) fn played(&self, script: Script, ms: u64) -> Script {
        let down = script.is_stormy() && (self.from_ms..self.until_ms).contains(&ms);
        if down { Script::Down } else { script }
    }
}

impl Simulation {
    /// Asks the breaker of an attempt, if it has one, whether the call may be made.
    pub(super) fn enter_breaker(&mut self, life: Life, order: &TaskOrder) -> Result<(), Outcome> {
        let Some(of) = order.task.breaker.clone() else { return Ok(()) };
        let now = self.ms();
        let known = self.storms.believed.get(&(life, Arc::clone(&of.key)));
        let probe = match known.filter(|(until, _)| now < *until) {
            Some((_, None)) => None,
            Some((_, Some(hold))) => return Err(Outcome::Blocked(Box::new(hold.clone()))),
            None => self.ask_breaker(life, &of, order.task.timeout)?,
        };
        self.check_open_breaker(&of, probe, &order.task.path);
        self.storms.passes.insert(order.task.token, probe);
        Ok(())
    }

    /// The number of the probe, if the call is one.
    fn ask_breaker(
        &mut self,
        life: Life,
        of: &BreakerRef,
        timeout: Option<Millis>,
    ) -> Result<Option<u64>, Outcome> {
        let ask = BreakerChange::Ask { policy: of.policy, timeout };
        let answer = Connection(self.store.clone()).change_breaker(&of.key, &ask);
        let key = Arc::clone(&of.key);
        let Ok(answer) = answer else {
            let now = self.processes.get_mut(&life).map(|process| process.now().most);
            let until = now.unwrap_or(self.truth.now()).plus(of.policy.poll());
            let (spread, cause) = (of.policy.spread(), BreakerCause::Unknown);
            return Err(Outcome::Blocked(Box::new(BreakerHold { key, until, spread, cause })));
        };
        self.learn(life, of, &answer);
        match answer.verdict {
            BreakerVerdict::Pass | BreakerVerdict::Ask => Ok(None),
            BreakerVerdict::Wait(hold) => Err(Outcome::Blocked(Box::new(hold))),
            BreakerVerdict::Probe(number) => {
                let now = self.ms();
                let (span, margin) = PROBE_MS;
                let until = now + timeout.map_or(span, |timeout| timeout.0) + margin;
                let before = self.storms.probes.insert(key, (number, until));
                if let Some((other, _)) = before.filter(|(_, until)| now < *until)
                    && self.failovers == 0
                {
                    let what = format!("{} has probe {number} while {other} is under way", of.key);
                    self.fail("breaker.one-probe", what);
                }
                Ok(Some(number))
            }
        }
    }

    fn learn(&mut self, life: Life, of: &BreakerRef, answer: &BreakerAnswer) {
        let key = (life, Arc::clone(&of.key));
        let now = self.ms();
        let known = match &answer.verdict {
            BreakerVerdict::Pass => (now + BELIEVED_MS, None),
            BreakerVerdict::Wait(hold) => {
                let left = hold.until.since(answer.at).0.min(BELIEVED_MS);
                (now + left, Some(hold.clone()))
            }
            BreakerVerdict::Probe(_) | BreakerVerdict::Ask => {
                self.storms.believed.remove(&key);
                return;
            }
        };
        self.storms.believed.insert(key, known);
    }

    /// No call but a probe goes to an endpoint whose breaker is open.
    fn check_open_breaker(&mut self, of: &BreakerRef, probe: Option<u64>, path: &str) {
        let rows = self.store.with(|tables, now| tables.list_breakers(None, 100, now));
        let row = rows.into_iter().find(|row| row.key == of.key);
        let Some(open) = row.and_then(|row| row.state.open) else { return };
        let late = self.ms() > open.since.since(START).0 + BELIEVED_MS;
        if probe.is_none() && late && self.failovers == 0 {
            self.fail("breaker.open", format!("{path} calls, and {} is open: {open:?}", of.key));
        }
    }

    /// A call has ended: its breaker learns it before the owner of the attempt does.
    pub(super) fn leave_breaker(&mut self, life: Life, order: &TaskOrder, outcome: &Outcome) {
        let (Some(of), Some(probe)) =
            (&order.task.breaker, self.storms.passes.remove(&order.task.token))
        else {
            return;
        };
        let policy = of.policy;
        let change = match (BreakerEvidence::of(outcome), probe) {
            (BreakerEvidence::Failed(message), probe) => {
                BreakerChange::Failed { policy, probe, message }
            }
            (BreakerEvidence::Answered, Some(probe)) => BreakerChange::Answered { probe },
            (BreakerEvidence::Nothing, Some(probe)) => BreakerChange::Unused { probe },
            (BreakerEvidence::Answered | BreakerEvidence::Nothing, None) => return,
        };
        if self.storms.probes.get(&of.key).is_some_and(|(number, _)| Some(*number) == probe) {
            self.storms.probes.remove(&of.key);
        }
        // A report that is lost is not repeated: a probe expires.
        if let Ok(answer) = Connection(self.store.clone()).change_breaker(&of.key, &change) {
            self.learn(life, of, &answer);
        }
    }

    /// After the faults: an attempt that waits for its breaker asks again in time.
    pub(super) fn check_breaker_waits(&mut self, execution: ExecutionNo) {
        let now = self.ms();
        let calm_since = *self.storms.calm_since.get_or_insert(now);
        let Some(state) = self.auditor.state(execution).filter(|state| state.moves()) else {
            return;
        };
        let late = state.nodes().find_map(|(_, node)| match &node.wait {
            Some(Wait::Breaker(wait)) => {
                let due = wait.due.since(START).0.max(calm_since);
                (now > due + LATE_MS).then(|| format!("{wait:?}"))
            }
            _ => None,
        });
        if let Some(wait) = late {
            self.fail("breaker.asked-again", format!("x{} still waits: {wait}", execution.0));
        }
    }
}
