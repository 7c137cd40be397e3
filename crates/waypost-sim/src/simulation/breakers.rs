//! Circuit breakers: workers ask the product's bookkeeping, and the store where it says so, before a call to
//! an endpoint that is down for a while, and report how the call ended.
//!
//! While a breaker is open no call is made but one probe at a time, and no attempt waits beyond the
//! time at which it asks again.

use std::collections::BTreeMap;
use std::sync::Arc;

use std::time::Duration;

use waypost_core::breaker::{BreakerCause, BreakerChange, BreakerEvidence, BreakerRef};
use waypost_core::command::Outcome;
use waypost_core::event::Wait;
use waypost_core::id::{ExecutionNo, Token};
use waypost_core::time::Millis;
use waypost_engine::driver::TaskOrder;
use waypost_engine::{
    BREAKER_CROWDED_MAX, BREAKER_PROBATION, BreakerBook, BreakerEntry, BreakerPass, breaker_hold,
};
use waypost_ports::breakers::Breakers;

use super::Simulation;
use crate::clock::START;
use crate::process::Life;
use crate::program::Script;
use crate::random::Random;
use crate::store::Connection;

/// How late a process may learn that a breaker is open.
const BELIEVED_MS: u64 = 1_000;
/// How often an attempt looks again for room among the calls under way.
const CROWDED_LOOK_MS: u64 = 50;
/// How long a probe without a timeout keeps others waiting, and what is added to any.
const PROBE_MS: (u64, u64) = (60_000, 5_000);
/// How much later than due an attempt asks again, once the faults are over.
const LATE_MS: u64 = 60_000;

/// The endpoint, and what processes know of its breaker.
pub(super) struct Storms {
    /// When the endpoint is down.
    from_ms: u64,
    until_ms: u64,
    /// What each process knows, by key.
    books: BTreeMap<(Life, Arc<str>), BreakerBook>,
    /// Calls under way, and since when.
    passes: BTreeMap<Token, CallPass>,
    /// Since when attempts have waited for room.
    crowded: BTreeMap<Token, u64>,
    /// The probe under way, by key, and until when it keeps others waiting.
    probes: BTreeMap<Arc<str>, (u64, u64)>,
    calm_since: Option<u64>,
    random: Random,
}

/// The pass of a call under way.
struct CallPass {
    life: Life,
    key: Arc<str>,
    since_ms: u64,
    pass: BreakerPass,
}

/// What becomes of an attempt with a breaker.
pub(super) enum CallEntry {
    /// The call is made.
    Calls,
    /// It looks again after so many milliseconds.
    Again(u64),
    /// It ends before the call.
    Ends(Outcome),
}

impl Storms {
    pub(super) fn new(seed: &Random) -> Self {
        let mut random = seed.split("storms");
        let from_ms = random.below(5_000);
        Self {
            from_ms,
            until_ms: from_ms + random.between(8_000, 30_000),
            books: BTreeMap::new(),
            passes: BTreeMap::new(),
            crowded: BTreeMap::new(),
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
    pub(super) fn enter_breaker(&mut self, life: Life, order: &TaskOrder) -> CallEntry {
        let Some(of) = order.task.breaker.clone() else { return CallEntry::Calls };
        self.let_calls_age();
        let (now, token) = (self.ms(), order.task.token);
        let pass = loop {
            match self.book(life, &of).enter(Duration::from_millis(now)) {
                BreakerEntry::Pass(pass) => break pass,
                BreakerEntry::Wait(hold) => {
                    self.storms.crowded.remove(&token);
                    return CallEntry::Ends(Outcome::Blocked(Box::new(hold)));
                }
                BreakerEntry::Crowded => {
                    let since = *self.storms.crowded.entry(token).or_insert(now);
                    if Duration::from_millis(now - since) < BREAKER_CROWDED_MAX {
                        return CallEntry::Again(CROWDED_LOOK_MS);
                    }
                    return self.hold_attempt(life, &of, token, BreakerCause::Crowded);
                }
                BreakerEntry::Ask => match self.ask_breaker(life, &of, order.task.timeout) {
                    Ok(Some(probe)) => break probe,
                    Ok(None) => {}
                    Err(cause) => return self.hold_attempt(life, &of, token, cause),
                },
            }
        };
        self.storms.crowded.remove(&token);
        self.check_open_breaker(&of, pass.probe(), &order.task.path);
        let call = CallPass { life, key: Arc::clone(&of.key), since_ms: now, pass };
        self.storms.passes.insert(token, call);
        CallEntry::Calls
    }

    fn book(&mut self, life: Life, of: &BreakerRef) -> &mut BreakerBook {
        let book = || BreakerBook::new(&of.policy);
        self.storms.books.entry((life, Arc::clone(&of.key))).or_insert_with(book)
    }

    /// A wait that the store did not ask for.
    fn hold_attempt(
        &mut self,
        life: Life,
        of: &BreakerRef,
        token: Token,
        cause: BreakerCause,
    ) -> CallEntry {
        self.storms.crowded.remove(&token);
        let now = self.processes.get_mut(&life).map(|process| process.now().most);
        let hold = breaker_hold(of, now.unwrap_or(self.truth.now()), cause);
        CallEntry::Ends(Outcome::Blocked(Box::new(hold)))
    }

    /// Calls that have lasted a while make room for others.
    fn let_calls_age(&mut self) {
        let now = self.ms();
        let Storms { books, passes, .. } = &mut self.storms;
        for CallPass { life, key, since_ms, pass } in passes.values_mut() {
            let is_old = Duration::from_millis(now - *since_ms) >= BREAKER_PROBATION;
            if let Some(book) = books.get_mut(&(*life, Arc::clone(key))).filter(|_| is_old) {
                book.come_of_age(pass);
            }
        }
    }

    /// Asks the store; the pass, if the attempt is the probe.
    fn ask_breaker(
        &mut self,
        life: Life,
        of: &BreakerRef,
        timeout: Option<Millis>,
    ) -> Result<Option<BreakerPass>, BreakerCause> {
        let ask = BreakerChange::Ask { policy: of.policy, timeout };
        let answer = Connection(self.store.clone()).change_breaker(&of.key, &ask);
        let answer = answer.map_err(|_| BreakerCause::Unknown)?;
        let now = self.ms();
        let pass = self.book(life, of).learn(Duration::from_millis(now), answer, &of.policy);
        if let Some(number) = pass.as_ref().and_then(BreakerPass::probe) {
            let (span, margin) = PROBE_MS;
            let until = now + timeout.map_or(span, |timeout| timeout.0) + margin;
            let before = self.storms.probes.insert(Arc::clone(&of.key), (number, until));
            if let Some((other, _)) = before.filter(|(_, until)| now < *until)
                && self.failovers == 0
            {
                let what = format!("{} has probe {number} while {other} is under way", of.key);
                self.fail("breaker.one-probe", what);
            }
        }
        Ok(pass)
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
        self.storms.crowded.remove(&order.task.token);
        let (Some(of), Some(mut call)) =
            (&order.task.breaker, self.storms.passes.remove(&order.task.token))
        else {
            return;
        };
        let probe = call.pass.probe();
        if self.storms.probes.get(&of.key).is_some_and(|(number, _)| Some(*number) == probe) {
            self.storms.probes.remove(&of.key);
        }
        let evidence = BreakerEvidence::of(outcome);
        let now = Duration::from_millis(self.ms());
        if let Some(change) = self.book(life, of).end(&mut call.pass, evidence, of.policy) {
            // A report that is lost is not repeated: a probe expires.
            if let Ok(answer) = Connection(self.store.clone()).change_breaker(&of.key, &change) {
                self.book(life, of).learn(now, answer, &of.policy);
            }
        }
        self.book(life, of).leave(&mut call.pass);
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
