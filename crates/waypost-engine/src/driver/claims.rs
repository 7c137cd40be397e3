//! When to call the store: for executions to claim, for mail, for numbers.
//!
//! One call of each kind is under way at a time. Claims follow a hint (a due time from the store, a
//! parked execution, a nudge), and run every `poll_every` in case a hint was lost.

use std::sync::Arc;

use waypost_core::event::MessageId;
use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::Driver;
use super::io::{Output, StoreWork};
use super::live::Live;
use crate::config::{Config, Scope};

/// How often a claim is halved, at most: little is left then.
const HALVINGS_MAX: u32 = 9;

#[derive(Default)]
pub(super) struct Claims {
    /// When to claim next: the earliest of the hints that came since the last question, and at the
    /// latest a `poll_every` after it.
    claim_at: Timestamp,
    /// The places in memory that the answer may take, while a question is out.
    claiming: Option<usize>,
    /// Did the last claim leave nothing but suspects? These come after everything else.
    caught_up: bool,
    /// Did it leave suspects?
    suspects_left: bool,
    /// May the answer to the question that is out hold a suspect?
    asking_suspects: bool,
    /// Is it a reconciliation that is out?
    calling: bool,
    claimed_at: Timestamp,
    crowded_out: bool,
    reconcile_at: Timestamp,
    collect_at: Timestamp,
    /// When the read under way was sent.
    collecting: Option<Timestamp>,
    /// Everything that lay in the inbox at this time was taken in.
    read_until: Option<Timestamp>,
    /// May the inbox have more than is read at once?
    full: bool,
    /// Did the last read leave some of it, or a claim?
    rest_waits: bool,
    reserving: bool,
    unanswered: u32,
    refused: Vec<RefusedMail>,
}

/// Mail that was refused for now and left the inbox, and that reads which began before may still bring.
struct RefusedMail {
    execution: ExecutionNo,
    message: MessageId,
    /// May the read under way bring it, and the claim?
    read: bool,
    claim: bool,
}

impl Claims {
    pub(super) fn next_at(&self) -> Timestamp {
        let never = Timestamp(i64::MAX);
        let waits = self.claiming.is_some() || self.crowded_out;
        let claim = if waits { never } else { self.claim_at };
        claim.min(self.next_look_at())
    }

    pub(super) fn next_look_at(&self) -> Timestamp {
        if self.collecting.is_some() { Timestamp(i64::MAX) } else { self.collect_at }
    }

    /// Places in memory that are reserved for claims under way.
    pub(super) fn places(&self) -> usize {
        self.claiming.unwrap_or(0)
    }

    pub(super) fn is_crowded_out(&self) -> bool {
        self.crowded_out
    }

    pub(super) fn nudge(&mut self, now: Timestamp) {
        self.claim_at = self.claim_at.min(now);
    }

    pub(super) fn look_for_mail(&mut self, now: Timestamp) {
        self.collect_at = self.collect_at.min(now);
    }

    /// An execution came in without all of its mail. The rest is read when this part of it has been
    /// consumed; a read that is under way may be older than the claim, and is followed by another.
    pub(super) fn more_mail(&mut self, now: Timestamp) {
        self.rest_waits = true;
        if self.collecting.is_some() {
            self.look_for_mail(now);
        }
    }

    /// A frame was committed that consumed mail: there is room for the rest, if some was left.
    pub(super) fn consumed_mail(&mut self, now: Timestamp) {
        if self.rest_waits {
            self.look_for_mail(now);
        }
    }

    /// An execution left memory; it is to be claimed again shortly before it is due.
    pub(super) fn parked(&mut self, next_due: Option<Timestamp>, config: &Config) {
        if let Some(due) = next_due {
            self.claim_at = self.claim_at.min(due.minus(config.claim_ahead));
        }
    }

    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        (claimed, more, free): (usize, bool, bool),
        next_due: Option<Timestamp>,
        config: &Config,
    ) {
        self.caught_up = self.claiming.take().is_some_and(|limit| claimed < limit);
        // The rest are suspects, and one of them may be taken.
        self.suspects_left = more && self.caught_up;
        let suspects = self.suspects_left && free && !self.asking_suspects;
        if self.calling && more && claimed > 0 {
            // Nothing but a reconciliation finds the rest.
            self.reconcile_at = Timestamp(i64::MIN);
        }
        let soon = now.plus(config.claim_every_min);
        let hint =
            next_due.map_or(Timestamp(i64::MAX), |due| due.minus(config.claim_ahead).max(soon));
        // Hints that came during the call remain: they may be newer than its answer.
        self.claim_at = match (more, claimed) {
            (true, 1..) => now,
            _ if suspects => now.plus(config.claim_every_min),
            _ => self.claim_at.min(hint).max(self.claimed_at.plus(config.claim_every_min)),
        };
    }

    /// Mail was read; `whole` if all of it came in.
    pub(super) fn collected(&mut self, now: Timestamp, whole: bool, config: &Config) {
        self.full |= !whole;
        self.rest_waits = !whole;
        self.read_until = self.collecting.take().filter(|_| whole).or(self.read_until);
        // Mail that came while the question was out may not be in the answer.
        self.collect_at = self.collect_at.min(now.plus(config.poll_every));
        self.forget_refused(now, |it| it.read = false);
    }

    /// The refusal of this mail was committed, and its sender may put it into the inbox again.
    pub(super) fn refused(&mut self, execution: ExecutionNo, mail: &[MessageId]) {
        let (read, claim) = (self.collecting.is_some(), self.claiming.is_some());
        if read || claim {
            let refused = mail.iter().map(|message| RefusedMail {
                execution,
                message: Arc::clone(message),
                read,
                claim,
            });
            self.refused.extend(refused);
        }
    }

    /// May this be mail that was refused, as it was read before that? Then it is not decided again: its sender
    /// has the answer. A repeat stays in the inbox, and comes with the next read.
    pub(super) fn is_refused(&self, execution: ExecutionNo, message: &MessageId) -> bool {
        self.refused.iter().any(|it| it.execution == execution && it.message == *message)
    }

    /// Everything that a claim brought was taken in.
    pub(super) fn took_claim(&mut self, now: Timestamp) {
        self.forget_refused(now, |it| it.claim = false);
    }

    fn forget_refused(&mut self, now: Timestamp, came: impl Fn(&mut RefusedMail)) {
        if self.refused.is_empty() {
            return;
        }
        self.refused.iter_mut().for_each(came);
        self.refused.retain(|it| it.read || it.claim);
        self.look_for_mail(now);
    }

    /// Has everything come in that lay in the inbox at this time?
    pub(super) fn has_read(&self, until: Timestamp) -> bool {
        self.read_until.is_some_and(|read| read >= until)
    }

    /// Is a claim under way that may bring a suspect?
    pub(super) fn may_bring_a_suspect(&self) -> bool {
        self.claiming.is_some() && self.asking_suspects
    }

    /// A claim was answered by the store: the next one may be larger again.
    pub(super) fn count_answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// A claim was not answered: executions that it took, if any, must be found.
    pub(super) fn count_unanswered(&mut self) {
        self.reconcile_at = Timestamp(i64::MIN);
        self.unanswered = (self.unanswered + 1).min(HALVINGS_MAX);
    }

    pub(super) fn wants_numbers(&mut self) -> bool {
        !std::mem::replace(&mut self.reserving, true)
    }

    pub(super) fn numbers_came(&mut self) {
        self.reserving = false;
    }
}

impl Driver {
    /// Asks the store for numbers, the lease, mail, ends and executions, as far as it is time.
    pub(super) fn ask_store(&mut self) {
        if self.admission.is_out_of_numbers() && self.claims.wants_numbers() {
            self.outputs.push(Output::Store(StoreWork::ReserveNumbers));
        }
        if self.slots.wants_renewal(self.now) {
            self.outputs.push(Output::Renew);
        }
        // Executions in memory are driven until the end of the drain: a user may want to cancel
        // one.
        self.ask_for_mail();
        if self.draining {
            return;
        }
        self.look_for_ends();
        self.ask_to_claim();
    }

    /// Claims executions, if it is time and there is room.
    pub(super) fn ask_to_claim(&mut self) {
        let (now, room, suspects) = (self.now, self.room(), self.suspects.may_take_one());
        let only = self.claimable();
        let nothing_to_claim = only.as_ref().is_some_and(Vec::is_empty);
        let (claims, config) = (&mut self.claims, &self.config);
        // Never further away than a poll, unless the clock was set back.
        let poll = now.plus(config.poll_every);
        claims.claim_at = claims.claim_at.min(poll);
        claims.reconcile_at = claims.reconcile_at.min(now.plus(config.reconcile_every));
        if claims.claiming.is_some() || now < claims.claim_at {
            return;
        }
        claims.crowded_out = room == 0 && !nothing_to_claim;
        if !claims.crowded_out {
            claims.claim_at = poll;
        }
        if room == 0 || nothing_to_claim {
            return;
        }
        // A claim that was too large to be read in one go is repeated in smaller pieces.
        let limit = room.min((config.claim_batch >> claims.unanswered).max(1));
        claims.claiming = Some(limit);
        claims.claimed_at = now;
        let never = is_planted(Bug::ClaimForgotten) || is_planted(Bug::LostReplyIsFailure);
        claims.calling = now >= claims.reconcile_at && !never;
        let held = claims.calling.then(|| {
            claims.reconcile_at = now.plus(config.reconcile_every);
            sorted(self.live.keys())
        });
        // Among several drivers only one that knows of suspects takes the turn: taken for each poll,
        // it would never be free for the others.
        let takes_turn = || claims.suspects_left && self.sibling.take_turn();
        let suspects = suspects && claims.caught_up && (self.sibling.is_alone() || takes_turn());
        claims.asking_suspects = suspects;
        let share = self.sibling.share;
        self.outputs.push(Output::Store(StoreWork::Claim { share, limit, only, held, suspects }));
    }

    /// The executions to claim, where it is not all of them.
    fn claimable(&self) -> Option<Vec<ExecutionNo>> {
        let adopted = self.adopted.iter().filter(|id| !self.live.contains_key(id));
        (self.config.scope == Scope::Adopted).then(|| sorted(adopted))
    }

    /// Reads the inbox, if an execution in memory could have mail. Mail that led to no event stays
    /// there until the next frame of its execution; the rest is read anyway, however much there is.
    pub(super) fn ask_for_mail(&mut self) {
        let (now, claims) = (self.now, &mut self.claims);
        let poll = now.plus(self.config.poll_every);
        claims.collect_at = claims.collect_at.min(poll);
        if claims.collecting.is_some() || now < claims.collect_at {
            return;
        }
        claims.collect_at = poll;
        if !self.live.is_empty() {
            claims.collecting = Some(now);
            let known = if claims.full { self.live.values().map(Live::echoes).sum() } else { 0 };
            // Where nothing is in the way, a flood is read bit by bit.
            claims.full = known > 0;
            let share = self.sibling.share;
            self.outputs.push(Output::Store(StoreWork::Collect { share, known }));
        }
    }
}

fn sorted<'a>(executions: impl Iterator<Item = &'a ExecutionNo>) -> Vec<ExecutionNo> {
    let mut executions: Vec<_> = executions.copied().collect();
    executions.sort_unstable();
    executions
}
