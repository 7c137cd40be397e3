//! Signals, and the waits for them.
//!
//! A signal goes to every wait that is open for it; if there is none, it is kept for the first that
//! comes. One signal may be for ten thousand items of a map, so a decision delivers it to
//! [`TAKERS_MAX`](crate::limits::TAKERS_MAX) of them at most. The events of those say that there are
//! more: from then on the signal is kept for waits that were open by then, and for no others, until
//! `SignalDelivered` ends it.

use std::sync::Arc;

use super::Decider;
use crate::callback::CallbackOutcome;
use crate::command::Refusal;
use crate::event::{MessageId, NodeEvent, Origin, RunEvent, Wait};
use crate::event_wait::is_event;
use crate::expr::{Expression, WORK_MAX};
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, SignalsSpec};
use crate::limits::TAKERS_BYTES_MAX;
use crate::path::At;
use crate::planted::{Bug, is_planted};
use crate::reserved::is_reserved;
use crate::state::{EarlySignal, NodeState, SignalRoom};
use crate::status::{NodeStatus, Status};

/// Units of work that the filters of one decision may do over all signals: as many as ten
/// evaluations.
pub(super) const FILTERS_WORK_MAX: u64 = 10 * WORK_MAX;

/// A wait that takes a signal; of several that it waits for, which one this is.
#[derive(Clone, Copy)]
pub(super) struct Taker {
    pub(super) at: At,
    pub(super) which: Option<u32>,
}

/// Who takes a signal.
#[derive(Default)]
struct Takers {
    found: Vec<Taker>,
    /// Nodes for which no work was left to find out.
    unjudged: Vec<At>,
    /// Was a content missed that a filter needs?
    missed: bool,
}

/// What one decision may still do with signals.
struct Portion {
    work: u64,
    takers: usize,
    bytes: usize,
}

impl Portion {
    /// How many more takers a signal of this size may have, and at least one in each decision.
    fn takers_of(&self, body: &Json) -> usize {
        self.takers.min(self.bytes.div_ceil(body.bytes().max(1)))
    }
}

impl Decider<'_> {
    fn portion(&self) -> Portion {
        let most =
            |bounded: usize| if self.env.takers_max.is_some() { bounded } else { usize::MAX };
        Portion {
            work: FILTERS_WORK_MAX,
            takers: self.env.takers_max.unwrap_or(usize::MAX),
            bytes: most(TAKERS_BYTES_MAX),
        }
    }

    pub(super) fn signal(
        &mut self,
        name: &Arc<str>,
        body: &Json,
        origin: Origin,
    ) -> Result<(), Refusal> {
        if is_reserved(name) {
            return self.ignore(origin, Refusal::ReservedSignal);
        }
        self.receive(name, body, origin)
    }

    /// Delivers a signal, or keeps it.
    pub(super) fn receive(
        &mut self,
        name: &Arc<str>,
        body: &Json,
        origin: Origin,
    ) -> Result<(), Refusal> {
        self.refuse_ended()?;
        if self.state.status == Status::Ending {
            return self.ignore(origin, Refusal::Ending);
        }
        let mut portion = self.portion();
        let takers = match self.state.acts() {
            true => self.takers(name, body, None, &mut portion),
            false => Takers::default(),
        };
        // An event is for those who wait for it now, and passes the filters of. Nothing can be taken while the
        // execution is paused: then it is kept, as every signal is.
        if is_event(name)
            && self.state.acts()
            && takers.found.is_empty()
            && takers.unjudged.is_empty()
        {
            return match takers.missed {
                true => Ok(()),
                false => self.ignore(origin, Refusal::EventNotAwaited),
            };
        }
        let ready = takers.found.iter().all(|taker| self.is_ready(*taker, body));
        if !ready || self.env.contents.has_missed() {
            return Ok(());
        }
        // The limits are for signals that would have to be stored: a flood of signals that no node
        // waits for must not keep out one that a node waits for. The message is not consumed: there
        // may be room for it later.
        if takers.found.is_empty()
            && let Some(refusal) = SignalRoom::of(self.state).take(name, body).err()
        {
            return Err(refusal);
        }
        let origin = self.identified(origin);
        let message = origin.message.clone();
        self.emit(RunEvent::SignalReceived { name: Arc::clone(name), body: body.clone(), origin });
        if let Some(message) = message {
            let (name, body, spread_since) = (Arc::clone(name), body.clone(), 0);
            let signal = EarlySignal { message, name, body, spread_since };
            self.deliver(&signal, &takers, &mut portion);
        }
        Ok(())
    }

    /// Signals that came while nothing could happen go to every wait that was open then, the
    /// oldest first, as they would have at the time; and those that are on their way to many go on.
    /// All filters together are bounded: one decision must not take seconds. A wait that cannot be
    /// judged any more fails, as it would if it had begun after the signals.
    pub(super) fn deliver_kept_signals(&mut self) {
        let awaits = |node: &NodeState| {
            matches!(
                node.wait,
                Some(Wait::Signal { .. } | Wait::Signals { .. } | Wait::Callback { .. })
            )
        };
        let open = self.state.nodes().any(|(_, node)| awaits(node));
        if !open && !self.state.wants_delivery() {
            return;
        }
        let mut portion = self.portion();
        for kept in self.state.early.clone() {
            if portion.takers_of(&kept.body) == 0 {
                return;
            }
            let since = Some(kept.spread_since).filter(|since| *since > 0);
            let takers = self.takers(&kept.name, &kept.body, since, &mut portion);
            self.deliver(&kept, &takers, &mut portion);
            for at in takers.unjudged {
                if self.state.acts() && self.is_in(at, NodeStatus::Waiting) {
                    self.resume_node(at, Origin::default());
                    self.attempt_failed(at, too_much_filtering());
                }
            }
        }
    }

    /// Gives a signal to those who take it, as far as the portion goes.
    fn deliver(&mut self, signal: &EarlySignal, takers: &Takers, portion: &mut Portion) {
        let (message, body) = (&signal.message, &signal.body);
        let (now, found) = (portion.takers_of(body), &takers.found);
        // Of several signals the bodies are kept with the nodes, and come from the signal itself.
        let kept = found.len() > 1 && found.iter().any(|taker| taker.which.is_some());
        let mut left = found.len() >= now || takers.missed;
        let unready = |taker: &Taker| !self.is_ready(*taker, body);
        let spreads =
            signal.spread_since > 0 || left || found.len() > 1 && found.iter().any(unready);
        let more = kept || spreads && self.env.takers_max.is_some();
        let mut taken = signal.spread_since > 0;
        for taker in found.iter().take(now) {
            // The consequences for one taker may have ended another's wait, or everything.
            if !self.state.acts() || !self.is_in(taker.at, NodeStatus::Waiting) {
                continue;
            }
            if !self.is_ready(*taker, body) {
                left = true;
                continue;
            }
            portion.takers = portion.takers.saturating_sub(1);
            portion.bytes = portion.bytes.saturating_sub(body.bytes());
            taken = true;
            self.arrives(*taker, message, body, more);
        }
        let over = !left || is_planted(Bug::SignalStopsEarly);
        if more && taken && over && self.state.wants_delivery() {
            self.emit(RunEvent::SignalDelivered { message: Arc::clone(message) });
        }
    }

    /// A signal comes to one wait.
    pub(super) fn arrives(&mut self, taker: Taker, message: &MessageId, body: &Json, more: bool) {
        let (at, message) = (taker.at, Arc::clone(message));
        let failed = self.failed_callback(at, &message, body);
        let Some(which) = taker.which else {
            let (message, origin, timed_out) = (Some(message), Origin::default(), false);
            self.resumed(at, |node, attempt| NodeEvent::Resumed {
                node,
                attempt,
                message,
                origin,
                timed_out,
                more,
            });
            return match failed {
                Some(failure) => self.attempt_failed(at, failure),
                None => self.complete_or_fail(at, Some(body.clone())),
            };
        };
        self.resumed(at, |node, attempt| NodeEvent::Signalled {
            node,
            attempt,
            which,
            message,
            more,
        });
        if self.has_enough(at) {
            self.signals_came(at);
        }
    }

    pub(super) fn signals_came(&mut self, at: At) {
        self.resume_node(at, Origin::default());
        let output = self.arrived_at(at);
        self.complete_or_fail(at, output);
    }

    /// Have as many of the signals come as the wait needs?
    pub(super) fn has_enough(&self, at: At) -> bool {
        let node = self.node(at);
        let Some(Wait::Signals { need, names, .. }) = &node.wait else { return false };
        let need = match is_planted(Bug::AnySignalIsEnough) {
            true => 1,
            false => *need as usize,
        };
        node.arrived.iter().flatten().count() >= need.min(names.len())
    }

    /// The signals that have come, by position; `null` where none has. Absent for other waits.
    pub(super) fn arrived_at(&self, at: At) -> Option<Json> {
        let node = self.node(at);
        if !matches!(self.plan_node(at).behaviour, Behaviour::Signals(_)) {
            return None;
        }
        let null = Json::null();
        let bodies = node.arrived.iter().map(|came| came.as_ref().map_or(&null, |it| &it.body));
        Json::list(bodies).ok()
    }

    /// Is everything at hand that follows if this wait takes the signal?
    pub(super) fn is_ready(&self, taker: Taker, body: &Json) -> bool {
        // The output of several signals is a list, and what its variables need is in all of them.
        let Some(which) = taker.which else {
            return self.has_variables_of(taker.at, Some(body));
        };
        let node = self.node(taker.at);
        let Some(Wait::Signals { need, .. }) = &node.wait else { return true };
        let come = node.arrived.iter().flatten().count() + 1;
        if come < *need as usize {
            return true;
        }
        let null = Json::null();
        let place = |(at, came): (usize, &Option<crate::state::Arrived>)| match came {
            Some(came) => came.body.clone(),
            None if at == which as usize => body.clone(),
            None => null.clone(),
        };
        let bodies: Vec<Json> = node.arrived.iter().enumerate().map(place).collect();
        let output = Json::list(bodies.iter()).ok();
        self.has_variables_of(taker.at, output.as_ref())
    }

    /// The nodes whose waits take this signal: all that are open, or, of a signal that is on its way,
    /// those that were open when it began. The search stops where the portion does.
    fn takers(
        &self,
        name: &str,
        body: &Json,
        before: Option<u64>,
        portion: &mut Portion,
    ) -> Takers {
        let mut takers = Takers::default();
        let most = portion.takers_of(body);
        for (at, node) in self.state.nodes() {
            if before.is_some_and(|before| node.wait_seq >= before) {
                continue;
            }
            if takers.found.len() >= most {
                break;
            }
            let judged = match (&node.wait, &self.plan_node(at).behaviour) {
                (Some(Wait::Signal { name: wanted, .. }), Behaviour::Signal { filter, .. }) => {
                    if **wanted != *name {
                        continue;
                    }
                    let accepts = self.accepts(at, filter.as_ref(), body, &mut portion.work);
                    accepts.map(|yes| yes.then_some(None))
                }
                (Some(Wait::Callback { operation, .. }), _) => {
                    Some(CallbackOutcome::of(name, operation).map(|_| None))
                }
                (Some(Wait::Signal { name: wanted, .. }), Behaviour::Notify(_)) => {
                    Some((**wanted == *name).then_some(None))
                }
                (Some(Wait::Signals { .. }), Behaviour::Signals(spec)) => self
                    .place_of((at, node), spec, (name, body), &mut portion.work)
                    .map(|which| which.map(Some)),
                _ => continue,
            };
            match judged {
                Some(Some(which)) => takers.found.push(Taker { at, which }),
                Some(None) => {}
                None => takers.unjudged.push(at),
            }
        }
        takers.missed = self.env.contents.has_missed();
        takers
    }

    /// The first of the signals that a node waits for that has not come, and that this one is. The
    /// outer `None` if the budget of work is used up.
    pub(super) fn place_of(
        &self,
        (at, node): (At, &NodeState),
        spec: &SignalsSpec,
        (name, body): (&str, &Json),
        work_left: &mut u64,
    ) -> Option<Option<u32>> {
        let Some(Wait::Signals { names, .. }) = &node.wait else { return Some(None) };
        for (which, (wanted, signal)) in (0_u32..).zip(names.iter().zip(&spec.signals)) {
            let came = node.arrived.get(which as usize).is_some_and(Option::is_some);
            if came || **wanted != *name {
                continue;
            }
            if self.accepts(at, signal.filter.as_ref(), body, work_left)? {
                return Some(Some(which));
            }
        }
        Some(None)
    }

    /// Does a wait without a filter, or with one that a signal's body passes, accept it? A filter that
    /// fails on it rejects it: a malformed signal must not break the execution. `None` if the budget
    /// of work is used up.
    pub(super) fn accepts(
        &self,
        at: At,
        filter: Option<&Expression>,
        body: &Json,
        work_left: &mut u64,
    ) -> Option<bool> {
        let Some(filter) = filter else { return Some(true) };
        if *work_left == 0 {
            return None;
        }
        let mut scope = self.scope(at);
        scope.limit_work(*work_left);
        scope.json("signal", body);
        scope.json("event", body);
        let passes = filter.eval_bool(&scope).unwrap_or(false);
        *work_left -= scope.work();
        Some(passes)
    }
}

/// Why a wait ends whose filter is too dear.
pub(super) fn too_much_filtering() -> Failure {
    let message = "the filter takes too much work for all signals that came early";
    Failure::permanent(kind::EXPRESSION_LIMIT, message)
}
