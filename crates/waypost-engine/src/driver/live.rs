//! One live execution: its state, its mailbox, and the one append that may be in flight.

mod context;
mod deciding;
mod frame;
mod mailbox;
mod orders;
mod parking;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use waypost_core::command::{Command, Decision, Env, FirstSignal};
use waypost_core::decide::create;
use waypost_core::event::{BLOBS_LOG_FORMAT, MessageId, RunCreated};
use waypost_core::frame::Parent;
use waypost_core::id::{ExecutionNo, Token};
use waypost_core::outbox::announces;
use waypost_core::path::At;
use waypost_core::plan::Plan;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::published::WaitRef;
use waypost_core::slot::SlotCounts;
use waypost_core::state::State;
use waypost_core::status::NodeStatus;
use waypost_core::time::{Now, Timestamp};
use waypost_core::transitions::RunPhase;
use waypost_ports::store::Append;

pub(super) use deciding::{Broken, Decided, Round};
pub(super) use frame::PendingFrame;
use mailbox::Mailbox;
pub(super) use orders::{Consequences, Leave};

use super::fetching::Fetches;
use super::io::{Loaded, Ticket};
use super::slots::Promise;
use super::suspicion::Suspicion;

/// Executions that stay in memory for more signals at once: each keeps up to
/// [`EARLY_SIGNALS_BYTES_MAX`](waypost_core::limits::EARLY_SIGNALS_BYTES_MAX) of them.
pub(super) const STAYING_MAX: usize = 4;

/// A command in a mailbox, and the ticket that awaits its answer.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) command: Command,
    pub(super) ticket: Option<Ticket>,
    /// The mail that it came in, if no event names it.
    pub(super) mail: Option<MessageId>,
}

impl Letter {
    /// The message that it consumes.
    pub(super) fn message(&self) -> Option<&MessageId> {
        match &self.command {
            Command::Request(_, origin) if origin.message.is_some() => origin.message.as_ref(),
            _ => self.mail.as_ref(),
        }
    }

    pub(super) fn command(command: Command) -> Self {
        Self { command, ticket: None, mail: None }
    }
}

pub(super) struct Live {
    pub(super) plan: Arc<Plan>,
    /// Includes the frame in flight. Discarded, never rolled back, when that does not commit.
    pub(super) state: State,
    pub(super) mailbox: Mailbox,
    pub(super) phase: LivePhase,
    /// Promised slots: there is a `Start` letter in the mailbox for each.
    pub(super) promised: VecDeque<Promise>,
    /// Attempts whose promised slots the last decision redeemed, and since when they waited.
    pub(super) starting: HashMap<(At, u32), Timestamp>,
    /// When the reports in the mailbox came.
    pub(super) reported: Vec<Timestamp>,
    pub(super) arrival: Arrival,
    /// Was it claimed, by this instance, while a frame was in flight?
    pub(super) claimed_again: bool,
    pub(super) handed_over: bool,
    /// The latest due time that the claim of this execution covered; absent for a reload.
    pub(super) due_until: Option<Timestamp>,
    /// Is there mail for it in the store that was not read with it?
    pub(super) mail_waits: bool,
    /// Until when it stays in memory with nothing to do.
    pub(super) stays_until: Option<Timestamp>,
    /// Until when it stays for the executions that it started.
    pub(super) lingers_until: Option<Timestamp>,
    /// Frames that open children of earlier attempts again, to be committed with the attempt that does so.
    pub(super) reopenings: HashMap<ExecutionNo, Append>,
    /// Reports of remote workers that were rejected, and not counted yet.
    pub(super) reports_refused: u64,
    /// Reports that came as mail and were decided: mail is read again until its frame is committed.
    decided_mail: VecDeque<MessageId>,
    /// Mail that this frame refuses for now.
    refused_mail: Vec<MessageId>,
    pub(super) suspicion: Suspicion,
    recovery: Recovery,
    /// The fold that its log requires so far.
    requires: u16,
    parent: Option<Parent>,
    /// Its phase after its last frame; absent before the first.
    announced: Option<RunPhase>,
    /// Does one of its nodes wait for signals by key?
    has_keys: bool,
    /// The waits for signals by key that the store knows of, or will with the frame in flight.
    subscriptions: BTreeMap<WaitRef, Arc<str>>,
    /// Has its plan nodes that cause messages?
    announces: bool,
    /// The store's time of that frame.
    stored_at: Timestamp,
    /// Mail that was answered without an event; deleted with the next frame.
    consumed: Vec<MessageId>,
    /// The mail of other executions among it.
    relied_on: Vec<MessageId>,
    /// Do its input, outputs or signals refer to blobs?
    pub(super) refers: bool,
    pub(super) fetches: Fetches,
    log_bytes: usize,
    snapshot_bytes: usize,
}

#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each commit")]
pub(super) enum LivePhase {
    /// It was claimed ahead of its due time, and is not taken over yet. It has no frame: it is
    /// parked until its timer or a letter comes.
    Early,
    /// Nothing. There may be letters that wait until no other suspect is in doubt.
    Idle,
    Ready,
    Doubting,
    Committing(PendingFrame),
}

/// How an execution came into memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Created,
    /// It was read back from the store, so it may have been parked.
    Loaded,
    /// As above; its last owner is gone, and the take-over is not durable yet.
    Orphaned,
}

/// The recovery that follows a take-over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recovery {
    Undecided,
    Decided,
    Durable,
}

impl Recovery {
    fn decided(self) -> Self {
        if self == Self::Undecided { Self::Decided } else { self }
    }

    fn committed(self) -> Self {
        if self == Self::Decided { Self::Durable } else { self }
    }
}

impl Live {
    pub(super) fn create(
        plan: Arc<Plan>,
        execution: ExecutionNo,
        (created, signal): (RunCreated, Option<FirstSignal>),
        env: &Env,
    ) -> (Self, Decision) {
        let (state, decision) = create(&plan, execution, created, signal, env);
        (Self::with(plan, state, None), decision)
    }

    /// An execution that was read back; its mail is left to the caller.
    pub(super) fn loaded(loaded: Loaded) -> Self {
        let Loaded { plan, state, parent, stored_at, requires, sizes, .. } = loaded;
        let (suspicion, (log_bytes, snapshot_bytes)) = (loaded.suspicion, sizes);
        let due = state.next_due().filter(|_| is_planted(Bug::ClaimedIsDue));
        let stored_at = due.map_or(stored_at, |due| due.max(stored_at));
        let live = Self::with(plan, state, Some(parent));
        let refers = requires >= BLOBS_LOG_FORMAT;
        Self { stored_at, suspicion, requires, refers, log_bytes, snapshot_bytes, ..live }
    }

    fn with(plan: Arc<Plan>, state: State, parent: Option<Parent>) -> Self {
        let has_keys = plan.has_keys();
        let known = parent.is_some() && has_keys;
        let subscriptions = if known { state.subscriptions(&plan) } else { BTreeMap::new() };
        Self {
            announced: parent.map(|_| state.phase()),
            announces: plan.nodes.iter().any(announces),
            has_keys,
            subscriptions,
            plan,
            state,
            parent,
            stored_at: Timestamp(i64::MIN),
            suspicion: Suspicion::default(),
            // An execution created here has nothing to recover.
            recovery: if parent.is_none() { Recovery::Decided } else { Recovery::Undecided },
            requires: 1,
            reports_refused: 0,
            decided_mail: VecDeque::new(),
            refused_mail: Vec::new(),
            mailbox: Mailbox::default(),
            phase: LivePhase::Idle,
            promised: VecDeque::new(),
            starting: HashMap::new(),
            reported: Vec::new(),
            arrival: if parent.is_none() { Arrival::Created } else { Arrival::Loaded },
            claimed_again: false,
            handed_over: false,
            due_until: None,
            mail_waits: false,
            stays_until: None,
            lingers_until: None,
            reopenings: HashMap::new(),
            consumed: Vec::new(),
            relied_on: Vec::new(),
            refers: false,
            fetches: Fetches::default(),
            log_bytes: 0,
            snapshot_bytes: 0,
        }
    }

    /// How much mail was taken in, led to no event and is deleted with the next frame.
    pub(super) fn echoes(&self) -> usize {
        self.consumed.len()
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.phase, LivePhase::Committing(_))
    }

    /// The bytes of the frame in flight.
    pub(super) fn in_flight_bytes(&self) -> usize {
        match &self.phase {
            LivePhase::Committing(frame) => frame.bytes,
            LivePhase::Early | LivePhase::Idle | LivePhase::Ready | LivePhase::Doubting => 0,
        }
    }

    /// Is its last frame this one, or a later one?
    pub(super) fn is_as_new_as(&self, frame: &Parent) -> bool {
        self.parent.is_some_and(|last| last.first_seq >= frame.first_seq)
    }

    /// The store's time within a log never goes back: the next frame comes no earlier than the last
    /// one, whatever is known of the time otherwise.
    pub(super) fn not_before_parent(&self, now: Now) -> Now {
        now.not_before(self.stored_at)
    }

    pub(super) fn may_decide(&self) -> bool {
        !matches!(self.phase, LivePhase::Committing(_) | LivePhase::Doubting)
    }

    /// Does it become ready to decide? From now on it counts as ready.
    pub(super) fn becomes_ready(&mut self) -> bool {
        let becomes = matches!(self.phase, LivePhase::Idle) && !self.mailbox.is_empty();
        if becomes {
            self.phase = LivePhase::Ready;
        }
        becomes
    }

    /// The driver took it out of its `ready` list.
    pub(super) fn leave_ready(&mut self) {
        if matches!(self.phase, LivePhase::Ready) {
            self.phase = LivePhase::Idle;
        }
    }

    pub(super) fn promised_slots(&self) -> SlotCounts {
        let mut slots = SlotCounts::default();
        self.promised.iter().for_each(|promise| *slots.of(promise.class) += 1);
        slots
    }

    /// A `Start` letter is about to be decided: frees the slot that was promised to it.
    fn redeem_promise(&mut self) {
        if let Some(Promise { offer, .. }) = self.promised.pop_front() {
            self.starting.insert((offer.node, offer.attempt), offer.since);
        }
    }

    /// Its take-over is durable. Returns whether it was an orphan until now.
    pub(super) fn confirm_take_over(&mut self) -> bool {
        let was_orphan = self.arrival == Arrival::Orphaned;
        if was_orphan {
            self.arrival = Arrival::Loaded;
        }
        was_orphan
    }

    pub(super) fn is_queued(&self, at: At, attempt: u32) -> bool {
        let node = self.state.get(at);
        node.is_some_and(|node| node.status == NodeStatus::Queued && node.attempt == attempt)
    }

    /// Takes a letter. An execution that was claimed early is taken over first, and recovered after
    /// the letter, like one that was claimed with mail.
    pub(super) fn receive(&mut self, letter: Letter) {
        if !matches!(self.phase, LivePhase::Early) {
            return self.mailbox.push(letter);
        }
        self.phase = LivePhase::Idle;
        self.mailbox.push(Letter::command(Command::TakeOver));
        // A recovery checks the timers by itself.
        if !matches!(letter.command, Command::Tick) {
            self.mailbox.push(letter);
        }
        self.mailbox.push(Letter::command(Command::Recover));
    }

    /// The refusal of this mail is committed, and it may come again: what was read of it before is dropped.
    pub(super) fn forget_refused(&mut self, mail: &[MessageId]) {
        if !mail.is_empty() {
            self.decided_mail.retain(|decided| !mail.contains(decided));
            self.mailbox.drop_mail(mail);
            self.fetches.drop_mail(mail);
        }
    }

    /// Takes the evaluations that follow a commit.
    pub(super) fn evaluate(&mut self, nodes: Vec<(At, u32)>) {
        self.mailbox.push_evaluations(nodes);
    }

    /// When a timer is due, or its memory is to be released.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let stays = self.stays_until.into_iter().chain(self.lingers_until);
        self.state.next_due().into_iter().chain(stays).min()
    }

    /// The tokens of attempts in slots.
    pub(super) fn running_tokens(&self) -> impl Iterator<Item = Token> + '_ {
        let here = self.state.nodes().filter(|(_, node)| node.remote.is_none());
        here.filter_map(|(_, node)| node.token)
    }

    /// Whose requests still wait in the mailbox.
    pub(super) fn into_tickets(mut self) -> Vec<Ticket> {
        let aside = self.fetches.tickets();
        self.mailbox.into_tickets().into_iter().chain(aside).collect()
    }
}

/// A panic's message.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
