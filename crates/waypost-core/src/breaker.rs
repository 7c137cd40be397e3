//! Circuit breakers: when calls to a failing endpoint stop, and how they begin again. One rule for all
//! stores, which keep a [`BreakerState`] per key and change it by [`BreakerState::step`] alone.
//!
//! ```text
//!             `failures` within `period`                `cooldown` has passed
//!   closed ────────────────────────────────▶ open ────────────────────────────▶ half-open
//!     ▲                                       ▲                                     │ one probe
//!     │                                       └──── the probe fails ────────────────┤
//!     └──────────────────────────────────────────── the probe is answered, or reset ┘
//! ```
//!
//! A closed breaker without recent failures has no state at all, so a key that works costs no row. A probe
//! expires: one whose process was killed holds nothing up for ever.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::Outcome;
use crate::expr::Template;
use crate::failure::{Failure, kind};
use crate::limits::{BREAKER_FAILURES_MAX, BREAKER_MESSAGE_BYTES_MAX};
use crate::planted::{Bug, is_planted};
use crate::time::{Millis, Timestamp};

/// How long a probe of a node without a `timeout` keeps others waiting.
const PROBE_DEFAULT: Millis = Millis::from_secs(60);
/// How long any probe does, at most.
const PROBE_MAX: Millis = Millis::from_secs(300);
/// What a probe's worker needs beyond the attempt's timeout.
const PROBE_MARGIN: Millis = Millis::from_secs(5);
/// How long the state of an open breaker is kept once its cooldown has passed and no attempt asks for it.
const OPEN_KEPT: Millis = Millis::from_secs(24 * 3_600);
/// How soon an attempt asks again while a probe is under way.
const PROBE_POLL: (u64, u64) = (200, 5_000);
/// Over how long the attempts that wait for one breaker are spread.
const SPREAD: (u64, u64) = (50, 5_000);

/// The `breaker` of a node.
#[derive(Debug)]
pub struct BreakerSpec {
    /// Nodes with the same key, in all workflows, share one breaker; rendered with the node's config.
    pub key: Template,
    pub policy: BreakerPolicy,
}

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerPolicy {
    /// So many failures open it.
    pub failures: u32,
    /// If they are within this time.
    pub period: Millis,
    /// How long it stays open before a probe.
    pub cooldown: Millis,
}

/// The breaker of one attempt: its key, rendered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerRef {
    pub key: Arc<str>,
    pub policy: BreakerPolicy,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        let (period, cooldown) = (Millis::from_secs(60), Millis::from_secs(30));
        Self { failures: 5, period, cooldown }
    }
}

impl BreakerPolicy {
    /// Over how long attempts that ask again are spread, so that they do not all come at once.
    pub fn spread(&self) -> Millis {
        Millis((self.cooldown.0 / 10).clamp(SPREAD.0, SPREAD.1))
    }

    /// How soon an attempt asks again that waits neither for a time nor for a probe.
    pub fn poll(&self) -> Millis {
        Millis((self.cooldown.0 / 4).clamp(PROBE_POLL.0, PROBE_POLL.1))
    }
}

/// What a store keeps of a breaker that is not closed, or was failed recently.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BreakerState {
    /// Of a closed one: when calls failed, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<BreakerOpen>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Arc<str>>,
    /// From when on it means nothing.
    pub expires_at: Timestamp,
}

/// A breaker that is open, or half-open once `until` has passed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BreakerOpen {
    pub since: Timestamp,
    /// When the next probe may be made.
    pub until: Timestamp,
    /// How many failures opened it.
    pub failures: u32,
    /// Within which time.
    pub period: Millis,
    /// The number of the last probe, from 1; 0 before the first.
    #[serde(default)]
    pub probes: u64,
    /// Until when that probe keeps others waiting, if it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_until: Option<Timestamp>,
}

/// A question or a report to a breaker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BreakerChange {
    /// May an attempt be made? `timeout` is that of the attempt.
    Ask { policy: BreakerPolicy, timeout: Option<Millis> },
    /// A call failed; `probe` is the number of one that was a probe.
    Failed { policy: BreakerPolicy, probe: Option<u64>, message: Arc<str> },
    /// A probe was answered.
    Answered { probe: u64 },
    /// A probe was not made, or its end says nothing.
    Unused { probe: u64 },
    /// A person closes it.
    Reset,
}

/// What an attempt may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BreakerVerdict {
    Pass,
    /// It is the probe of this number.
    Probe(u64),
    Wait(BreakerHold),
    /// After a report: the breaker is not closed, and the next attempt has to ask. It may be the probe.
    Ask,
}

/// Why an attempt waits for a breaker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BreakerHold {
    pub key: Arc<str>,
    /// When it asks again, at the earliest.
    pub until: Timestamp,
    /// Over how long the attempts that wait are spread after that.
    pub spread: Millis,
    pub cause: BreakerCause,
}

/// What keeps an attempt from being made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerCause {
    /// It is open.
    Open {
        until: Timestamp,
        failures: u32,
        period: Millis,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<Arc<str>>,
    },
    /// It is half-open, and another attempt is the probe.
    Probing {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<Arc<str>>,
    },
    /// It is closed, and lets few calls through until some of them are answered.
    Crowded,
    /// The store did not say.
    Unknown,
}

/// The consequences of a [`BreakerChange`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerStep {
    /// The state from now on; none where there is nothing to keep.
    pub state: Option<BreakerState>,
    /// Did it change?
    pub changed: bool,
    pub verdict: BreakerVerdict,
}

/// What the end of an attempt means for a breaker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BreakerEvidence {
    /// The endpoint works, also if it refused what it was asked.
    Answered,
    /// It does not: a failure that may pass, or a timeout.
    Failed(Arc<str>),
    /// The attempt did not get as far, or was stopped.
    Nothing,
}

impl BreakerEvidence {
    /// Reads the end of an attempt.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed(_) => Self::Answered,
            Outcome::Failed(failure) => Self::of_failure(failure),
            Outcome::Started
            | Outcome::Cancelled
            | Outcome::Lost(_)
            | Outcome::Checkpoint(_)
            | Outcome::Blocked(_) => Self::Nothing,
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        if failure.is_uncounted() || failure.is_before_call() {
            Self::Nothing
        } else if failure.retryable || failure.kind == kind::TIMEOUT {
            Self::Failed(shortened(&format!("{}: {}", failure.kind, failure.message)))
        } else {
            Self::Answered
        }
    }
}

/// A message of at most [`BREAKER_MESSAGE_BYTES_MAX`] bytes.
fn shortened(message: &str) -> Arc<str> {
    if message.len() <= BREAKER_MESSAGE_BYTES_MAX {
        return message.into();
    }
    let end = message.floor_char_boundary(BREAKER_MESSAGE_BYTES_MAX - '…'.len_utf8());
    format!("{}…", message.get(..end).unwrap_or_default()).into()
}

impl BreakerState {
    /// Changes the breaker of a key at the store's time.
    pub fn step(
        key: &str,
        state: Option<Self>,
        change: &BreakerChange,
        now: Timestamp,
    ) -> BreakerStep {
        let before = state.clone();
        let mut state = state.filter(|state| now < state.expires_at);
        let mut verdict = BreakerVerdict::Pass;
        match change {
            BreakerChange::Ask { policy, timeout } => {
                if let Some(state) = &mut state {
                    verdict = state.ask(key, policy, *timeout, now);
                }
            }
            BreakerChange::Failed { policy, probe, message } => {
                let state = state.get_or_insert_default();
                state.failed(policy, *probe, message, now);
                if let Some(hold) = state.hold(key, policy, now) {
                    verdict = BreakerVerdict::Wait(hold);
                }
            }
            // Also of a probe that took too long: it was answered.
            BreakerChange::Answered { probe } => {
                let probes = |state: &Self| state.open.as_ref().map(|open| open.probes);
                state = state.filter(|state| probes(state).is_none_or(|probes| probes < *probe));
            }
            BreakerChange::Unused { probe } => {
                let open = state.as_mut().and_then(|state| state.open.as_mut());
                if let Some(open) = open.filter(|open| open.probes == *probe) {
                    open.probe_until = None;
                }
            }
            BreakerChange::Reset => state = None,
        }
        let asks = matches!(change, BreakerChange::Ask { .. });
        let is_open = state.as_ref().is_some_and(|state| state.open.is_some());
        if verdict == BreakerVerdict::Pass && is_open && !asks {
            verdict = BreakerVerdict::Ask;
        }
        BreakerStep { changed: state != before, state, verdict }
    }

    fn ask(
        &mut self,
        key: &str,
        policy: &BreakerPolicy,
        timeout: Option<Millis>,
        now: Timestamp,
    ) -> BreakerVerdict {
        if let Some(hold) = self.hold(key, policy, now) {
            return BreakerVerdict::Wait(hold);
        }
        let Some(open) = &mut self.open else { return BreakerVerdict::Pass };
        let span = timeout.unwrap_or(PROBE_DEFAULT).min(PROBE_MAX);
        open.probes += 1;
        open.probe_until = Some(now.plus(span).plus(PROBE_MARGIN));
        BreakerVerdict::Probe(open.probes)
    }

    /// Why an attempt has to wait, if it has to.
    fn hold(&self, key: &str, policy: &BreakerPolicy, now: Timestamp) -> Option<BreakerHold> {
        let open = self.open.as_ref()?;
        let last = self.last.clone();
        let (until, cause) = if now < open.until {
            let BreakerOpen { until, failures, period, .. } = *open;
            (until, BreakerCause::Open { until, failures, period, last })
        } else {
            let one = !is_planted(Bug::ProbesUnlimited);
            let probe_until = open.probe_until.filter(|until| now < *until && one)?;
            (probe_until.min(now.plus(policy.poll())), BreakerCause::Probing { last })
        };
        Some(BreakerHold { key: key.into(), until, spread: policy.spread(), cause })
    }

    fn failed(
        &mut self,
        policy: &BreakerPolicy,
        probe: Option<u64>,
        message: &Arc<str>,
        now: Timestamp,
    ) {
        let BreakerPolicy { failures, period, cooldown } = *policy;
        if let Some(open) = &mut self.open {
            // Calls that were under way when it opened say nothing new, and neither does a probe that
            // was replaced.
            if probe == Some(open.probes) {
                (open.until, open.probe_until) = (now.plus(cooldown), None);
                self.last = Some(Arc::clone(message));
                self.expires_at = open.until.plus(OPEN_KEPT);
            }
            return;
        }
        self.failures.retain(|at| now.since(*at) < period);
        self.failures.push(now);
        self.last = Some(Arc::clone(message));
        let count = u32::try_from(self.failures.len()).unwrap_or(u32::MAX);
        if count >= failures.min(BREAKER_FAILURES_MAX) {
            let until = now.plus(cooldown);
            self.open = Some(BreakerOpen {
                since: now,
                until,
                failures: count,
                period,
                probes: 0,
                probe_until: None,
            });
            self.failures.clear();
            self.expires_at = until.plus(OPEN_KEPT);
        } else {
            self.expires_at = self.expires_at.max(now.plus(period));
        }
    }

    /// `closed`, `open` or `half-open`.
    pub fn status(&self, now: Timestamp) -> &'static str {
        match &self.open {
            None => "closed",
            Some(open) if now < open.until => "open",
            Some(_) => "half-open",
        }
    }
}
