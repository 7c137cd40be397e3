//! One live execution: its state, its mailbox, and the one append that may be in flight.

mod context;
mod orders;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use waypost_core::command::{Command, Decision, Effect, Env, Refusal, Request};
use waypost_core::decide::{create, decide};
use waypost_core::event::{Event, MessageId, NodeEvent, RunCreated, RunEvent};
use waypost_core::frame::{FrameHeader, Parent, encode};
use waypost_core::id::{AppendId, ExecutionNo, InstanceId, NodeIx, Token};
use waypost_core::plan::Plan;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::state::State;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::{Now, Timestamp};
use waypost_ports::mirror::Context;
use waypost_ports::store::{Append, ControlChange, PermitRequest, Settled, Side, Submission};

pub(super) use orders::Flight;

use super::io::{Answer, Committed, EndSummary, Loaded, Output, StoreWork, Ticket};
use super::slots::Offer;
use super::suspicion::Suspicion;
use crate::config::Config;
use crate::queue::permit_request;

/// Reports that came as mail and are remembered: more than one look into the inbox brings at once.
const HEARD_MAX: usize = 1_000;

/// Bytes of kept signals from which on an execution stays in memory for a while after a signal.
const STAYS_BYTES_MIN: usize = 64 * 1024;

/// Executions that stay in memory for more signals at once: each keeps up to
/// [`EARLY_SIGNALS_BYTES_MAX`](waypost_core::limits::EARLY_SIGNALS_BYTES_MAX) of them.
pub(super) const STAYING_MAX: usize = 4;

/// A command in a mailbox, and who wants to hear of it.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) command: Command,
    pub(super) ticket: Option<Ticket>,
    /// The mail that it came in, where no event will say so.
    pub(super) mail: Option<MessageId>,
}

impl Letter {
    pub(super) fn command(command: Command) -> Self {
        Self { command, ticket: None, mail: None }
    }
}

pub(super) struct Live {
    pub(super) plan: Arc<Plan>,
    /// Includes what is in flight. Thrown away, never rolled back, when that does not commit.
    pub(super) state: State,
    pub(super) mailbox: VecDeque<Letter>,
    /// Is it in the driver's `ready` list?
    pub(super) queued: bool,
    /// What slots are promised to: there is a `Start` letter in the mailbox for each.
    pub(super) promised: Vec<Offer>,
    /// What slots were promised to when the last decision was made.
    pub(super) starting: Vec<Offer>,
    /// When the reports in the mailbox came.
    pub(super) reported: Vec<Timestamp>,
    /// Was it read back from the store, so that it may have been parked?
    pub(super) was_loaded: bool,
    /// Was its last owner gone, and is the take-over not durable yet?
    pub(super) orphaned: bool,
    /// Was it claimed, by this instance, while a frame was in flight?
    pub(super) claimed_again: bool,
    /// Were its attempts closed as handed over?
    pub(super) handed_over: bool,
    /// Was it claimed ahead of its due time, and is it not taken over yet? No frame says so: it is
    /// parked until its timer or a letter comes.
    pub(super) early: bool,
    /// The latest due time that the claim of this execution covered; absent for a reload.
    pub(super) due_until: Option<Timestamp>,
    /// Is there mail for it in the store that was not read with it?
    pub(super) mail_waits: bool,
    /// May it stay in memory with nothing to do, and until when does it?
    pub(super) may_stay: bool,
    pub(super) stays_until: Option<Timestamp>,
    /// Reports from elsewhere that were refused, and not counted yet.
    pub(super) reports_refused: u64,
    /// Reports that came as mail and were decided: mail is read again until its frame is committed.
    heard: VecDeque<MessageId>,
    /// The deaths that count against it.
    pub(super) suspicion: Suspicion,
    /// Is the store marking it as in doubt?
    pub(super) doubting: bool,
    /// Was the recovery that follows a take-over decided, and is it durable?
    recovery: (bool, bool),
    /// The fold that its log requires so far.
    requires: u16,
    parent: Option<Parent>,
    /// The store's time of that frame.
    stored_at: Timestamp,
    in_flight: Option<InFlight>,
    /// Mail that was answered without an event; deleted with the next frame.
    consumed: Vec<MessageId>,
    log_bytes: usize,
    snapshot_bytes: usize,
}

/// What waits for a commit.
struct InFlight {
    header: FrameHeader,
    events: Arc<[Event]>,
    effects: Vec<Effect>,
    answers: Vec<(Ticket, Answer)>,
    /// When the reports came that it answers to.
    reported: Vec<Timestamp>,
    parked: bool,
    settled: Option<Settled>,
    /// What it was parked with, for a mirror.
    context: Option<Box<Context>>,
}

/// What was landed but not yet followed up.
pub(super) struct Landed(InFlight);

impl Landed {
    /// Whom to tell when the frame did not go in.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.0.answers.iter().map(|(ticket, _)| *ticket).collect()
    }

    /// Slots that were taken for attempts which now are not made.
    pub(super) fn slots(&self) -> u32 {
        runs_in(&self.0.effects)
    }

    pub(super) fn events(&self) -> &[Event] {
        &self.0.events
    }

    /// When the reports came that it answers to.
    pub(super) fn reported(&self) -> &[Timestamp] {
        &self.0.reported
    }

    /// Was it to be the first frame of its execution?
    pub(super) fn is_first(&self) -> bool {
        self.0.header.parent.is_none()
    }
}

/// What became of a round of decisions.
pub(super) enum Decided {
    /// A frame is on its way; it takes so many slots.
    Appended { started: u32 },
    /// There is nothing to record, so what follows, follows at once.
    Nothing(Box<Flight>),
}

/// A broken invariant: the execution must be set aside.
pub(super) struct Broken {
    pub(super) reason: String,
    /// Whose requests went under.
    pub(super) tickets: Vec<Ticket>,
}

/// Who appends, and under which identity.
pub(super) type Ids = (InstanceId, AppendId);

impl Live {
    pub(super) fn create(
        plan: Arc<Plan>,
        execution: ExecutionNo,
        created: RunCreated,
        env: &Env,
    ) -> (Self, Decision) {
        let (state, decision) = create(&plan, execution, created, env);
        (Self::with(plan, state, None), decision)
    }

    /// An execution that was read back; its mail is left to the caller.
    pub(super) fn loaded(loaded: Loaded) -> Self {
        let Loaded { plan, state, parent, stored_at, requires, sizes, .. } = loaded;
        let (suspicion, (log_bytes, snapshot_bytes)) = (loaded.suspicion, sizes);
        let due = state.next_due().filter(|_| is_planted(Bug::ClaimedIsDue));
        let stored_at = due.map_or(stored_at, |due| due.max(stored_at));
        let live = Self::with(plan, state, Some(parent));
        Self { stored_at, suspicion, requires, log_bytes, snapshot_bytes, ..live }
    }

    fn with(plan: Arc<Plan>, state: State, parent: Option<Parent>) -> Self {
        Self {
            plan,
            state,
            parent,
            stored_at: Timestamp(i64::MIN),
            suspicion: Suspicion::default(),
            doubting: false,
            // What was created here has nothing to recover.
            recovery: (parent.is_none(), false),
            requires: 1,
            reports_refused: 0,
            heard: VecDeque::new(),
            mailbox: VecDeque::new(),
            queued: false,
            promised: Vec::new(),
            starting: Vec::new(),
            reported: Vec::new(),
            was_loaded: parent.is_some(),
            orphaned: false,
            claimed_again: false,
            handed_over: false,
            early: false,
            due_until: None,
            mail_waits: false,
            may_stay: false,
            stays_until: None,
            in_flight: None,
            consumed: Vec::new(),
            log_bytes: 0,
            snapshot_bytes: 0,
        }
    }

    /// How much mail was taken in, led to no event and is deleted with the next frame.
    pub(super) fn echoes(&self) -> usize {
        self.consumed.len()
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Does it know this frame, or a later one?
    pub(super) fn is_as_new_as(&self, frame: &Parent) -> bool {
        self.parent.is_some_and(|last| last.first_seq >= frame.first_seq)
    }

    /// The store's time within a log never goes back: the next frame comes no earlier than the last
    /// one, whatever is known of the time otherwise.
    pub(super) fn not_before_parent(&self, now: Now) -> Now {
        now.not_before(self.stored_at)
    }

    pub(super) fn may_decide(&self) -> bool {
        self.in_flight.is_none() && !self.doubting
    }

    /// Does this attempt wait for a slot?
    pub(super) fn is_queued(&self, at: NodeIx, attempt: u32) -> bool {
        let node = self.state.nodes.get(at.at());
        node.is_some_and(|node| node.status == NodeStatus::Queued && node.attempt == attempt)
    }

    /// Takes in a letter. One that was claimed early is taken over first, and recovered behind the letter
    /// like one that was claimed with mail.
    pub(super) fn receive(&mut self, letter: Letter) {
        if !std::mem::take(&mut self.early) {
            return self.mailbox.push_back(letter);
        }
        self.mailbox.push_back(Letter::command(Command::TakeOver));
        // A recovery looks at the time by itself.
        if !matches!(letter.command, Command::Tick) {
            self.mailbox.push_back(letter);
        }
        self.mailbox.push_back(Letter::command(Command::Recover));
    }

    /// What runs in slots.
    pub(super) fn running_tokens(&self) -> impl Iterator<Item = Token> + '_ {
        let here = self.state.nodes.iter().filter(|node| node.remote.is_none());
        here.filter_map(|node| node.token)
    }

    /// Whose requests still wait in the mailbox.
    pub(super) fn into_tickets(self) -> Vec<Ticket> {
        self.mailbox.into_iter().filter_map(|letter| letter.ticket).collect()
    }

    /// The first frame, with the names that it claims and whom to tell.
    pub(super) fn append_first(
        &mut self,
        now: Timestamp,
        ids: Ids,
        decision: Decision,
        (submission, ticket): (Submission, Ticket),
        config: &Config,
    ) -> Output {
        let execution = self.state.execution;
        let key = self.state.created.key.clone();
        let answers = vec![(ticket, Answer::Started { execution, key })];
        let side = Side {
            control: Some(self.control(ControlChange::Owned)),
            submission: Some(submission),
            permit: self.permit_request(),
            ..Side::default()
        };
        self.append(now, ids, decision, answers, side, config)
    }

    /// Decides everything in the mailbox and appends it as one frame.
    pub(super) fn decide(
        &mut self,
        env: &Env,
        ids: Ids,
        draining: bool,
        config: &Config,
        outputs: &mut Vec<Output>,
    ) -> Result<Decided, Broken> {
        let mut batch = Batch::default();
        let letters = AssertUnwindSafe(|| self.decide_letters(env, draining, config, &mut batch));
        if let Err(panic) = catch_unwind(letters) {
            let reason = format!("decide panicked: {}", panic_text(&*panic));
            let answered = batch.answers.into_iter().map(|(ticket, _)| ticket);
            return Err(Broken { reason, tickets: answered.chain(batch.deciding).collect() });
        }
        let started = runs_in(&batch.decision.effects);
        if batch.decision.events.is_empty() {
            let answers = batch.answers.into_iter();
            outputs.extend(answers.map(|(ticket, answer)| Output::Answer(ticket, answer)));
            self.reported.clear();
            let flight = self.follow(batch.decision.effects, env.now);
            return Ok(Decided::Nothing(Box::new(flight)));
        }
        if is_planted(Bug::ActBeforeCommit) {
            let is_run = |effect: &mut Effect| matches!(effect, Effect::Run { .. });
            let runs = batch.decision.effects.extract_if(.., is_run).collect();
            outputs.extend(self.follow(runs, env.now).runs.into_iter().map(Output::Run));
        }
        if is_planted(Bug::AnswerBeforeCommit) {
            let answers = batch.answers.drain(..);
            outputs.extend(answers.map(|(ticket, answer)| Output::Answer(ticket, answer)));
        }
        let queued = |event: &Event| matches!(event, Event::Run(RunEvent::Queued { .. }));
        let goes_back =
            batch.decision.events.iter().any(queued) && !is_planted(Bug::PermitForgottenInQueue);
        let side = Side {
            permit: self.permit_request().filter(|_| goes_back),
            control: self.control_change(&batch.decision.events),
            consumed: std::mem::take(&mut self.consumed),
            settled: self.settles(&batch.decision.effects),
            ..Side::default()
        };
        let append = self.append(env.now, ids, batch.decision, batch.answers, side, config);
        outputs.push(append);
        Ok(Decided::Appended { started })
    }

    fn decide_letters(&mut self, env: &Env, draining: bool, config: &Config, batch: &mut Batch) {
        let mut slots = env.slots;
        let mut left = config.frame_commands_max;
        // The take-over is whole where it ends in this frame: left to the next one, a recovery that finds
        // nothing to do would have no frame that says so.
        let recovers = |letter: &Letter| matches!(letter.command, Command::Recover);
        while let Some(letter) = self.mailbox.pop_front_if(|next| left > 0 || recovers(next)) {
            left = left.saturating_sub(1);
            batch.deciding = letter.ticket;
            let asked = match &letter.command {
                Command::Request(_, origin) => origin.message.as_ref(),
                _ => None,
            };
            if let Some(message) = asked.or(letter.mail.as_ref()) {
                if !self.consumed.contains(message) {
                    self.consumed.push(Arc::clone(message));
                }
                // Mail is read again until its frame is committed: an echo is no request. A caller that
                // awaits an answer is told that the message was already received.
                let echo = self.state.messages.contains(message) || self.heard.contains(message);
                if letter.ticket.is_none() && (echo || is_planted(Bug::MailConsumedUnread)) {
                    continue;
                }
            }
            if let Some(message) = &letter.mail {
                self.heard.truncate(HEARD_MAX - 1);
                self.heard.push_front(Arc::clone(message));
            }
            self.handed_over |= matches!(letter.command, Command::HandOver);
            self.recovery.0 |= matches!(
                letter.command,
                Command::Recover | Command::Request(Request::Retry { .. }, _)
            );
            let seq = self.state.seq;
            let from_remote =
                matches!(&letter.command, Command::Report(report) if report.worker.is_some());
            // Entropy is used once per command, so that no two deliveries share a token.
            let entropy = env.entropy ^ (u128::from(self.state.seq) << 64);
            let env = Env { slots, entropy, ..*env };
            let answer = match decide(&self.plan, &mut self.state, letter.command, &env) {
                Ok(mut decision) => {
                    slots = slots.saturating_sub(runs_in(&decision.effects));
                    let refusal = decision.refusal.take();
                    batch.merge(decision);
                    refusal.map_or_else(|| self.done(), Answer::Refused)
                }
                Err(refusal) => {
                    self.reports_refused += u64::from(from_remote);
                    self.refused(refusal)
                }
            };
            if let Some(message) = letter.mail.filter(|_| self.state.seq == seq) {
                self.ignore(message, &answer, &env, batch);
            }
            batch.answers.extend(batch.deciding.take().map(|ticket| (ticket, answer)));
        }
        self.park_if_idle(env, draining, config, batch);
        for (_, answer) in &mut batch.answers {
            if matches!(answer, Answer::Done { .. }) {
                *answer = self.done();
            }
        }
    }

    fn done(&self) -> Answer {
        Answer::Done { status: self.state.shown_status(), pausing: self.state.pausing }
    }

    /// Mail that changed nothing is consumed by an event all the same: left in the inbox, it would be
    /// read again and again, and keep out what came after it.
    fn ignore(&mut self, message: MessageId, answer: &Answer, env: &Env, batch: &mut Batch) {
        let reason = match answer {
            Answer::Refused(refusal) => refusal.to_string(),
            _ => "it was reported before".to_owned(),
        };
        let command = Command::Ignore { message, reason };
        if let Ok(decision) = decide(&self.plan, &mut self.state, command, env) {
            batch.merge(decision);
        }
    }

    /// Parks in the same frame where nothing is left to do for a while.
    fn park_if_idle(&mut self, env: &Env, draining: bool, config: &Config, batch: &mut Batch) {
        let far = |due: Timestamp| due > env.now.plus(config.park_after);
        let rests = self.state.next_due().is_none_or(far);
        // Who is queued has no business here, however soon his deadline is: only the store knows
        // when his turn comes. One that was claimed for nothing but that deadline awaits it.
        let in_queue = self.state.status == Status::Scheduling
            && !batch
                .decision
                .events
                .iter()
                .all(|event| matches!(event, Event::Run(RunEvent::Owned { .. })));
        let idle = self.mailbox.is_empty()
            && !draining
            && !self.stays(env.now, config, &batch.decision.events)
            && batch.decision.effects.iter().all(|effect| matches!(effect, Effect::Cancel { .. }))
            && self.state.is_idle()
            && (rests || in_queue)
            && !self.woke_for_nothing(&batch.decision.events);
        if idle && let Ok(decision) = decide(&self.plan, &mut self.state, Command::Park, env) {
            batch.merge(decision);
        }
    }

    /// Does it stay in memory for the signals that may follow one that it keeps? To read it back costs
    /// as much as it keeps, for each of them.
    fn stays(&mut self, now: Timestamp, config: &Config, events: &[Event]) -> bool {
        let received =
            events.iter().any(|event| matches!(event, Event::Run(RunEvent::SignalReceived { .. })));
        if received && self.may_stay {
            let kept: usize = self.state.early.iter().map(|signal| signal.body.bytes()).sum();
            self.stays_until = (kept >= STAYS_BYTES_MIN).then(|| now.plus(config.park_after));
        }
        self.stays_until = self.stays_until.filter(|until| now < *until && self.state.acts());
        self.stays_until.is_some()
    }

    /// When time has something to do for it, or memory is to be given back.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.state.next_due().into_iter().chain(self.stays_until).min()
    }

    /// The store's time never goes back and may be ahead of ours: an execution that is due there and
    /// not yet due here awaits its time in memory. Parked, it would be claimed again at once, and
    /// so on. Only what was parked can have been woken so: an orphan, whose owner died while it
    /// waited in memory, is taken over without being resumed, and parks. So does what a person resumed, and
    /// what was not due in the store either: it was woken for mail that another instance had taken.
    fn woke_for_nothing(&self, events: &[Event]) -> bool {
        let resumed = |event: &Event| matches!(event, Event::Run(RunEvent::Resumed { origin, .. }) if origin.message.is_none());
        let woke =
            |event: &Event| resumed(event) || matches!(event, Event::Run(RunEvent::Owned { .. }));
        let due = self.state.next_due();
        let was_due = due.is_some_and(|due| self.due_until.is_none_or(|until| due <= until));
        was_due && events.iter().any(resumed) && events.iter().all(woke)
    }

    /// What the frame proves, where the execution was in hand at a death. The take-over alone proves
    /// nothing as long as there is something to evaluate behind it.
    fn settles(&self, effects: &[Effect]) -> Option<Settled> {
        let evaluates = |effect: &Effect| matches!(effect, Effect::Evaluate { .. });
        match self.suspicion.is_some() {
            true if self.recovery.1 => Some(Settled::Progress),
            true if self.mailbox.is_empty() && !effects.iter().any(evaluates) => {
                self.suspicion.doubt.then_some(Settled::Decided)
            }
            _ => None,
        }
    }

    fn refused(&self, refusal: Refusal) -> Answer {
        match (refusal, &self.state.end) {
            (Refusal::Ended(status), Some(end)) => Answer::Ended(EndSummary {
                status,
                output: end.output.clone(),
                failure: end.failure.clone(),
            }),
            (refusal, _) => Answer::Refused(refusal),
        }
    }

    fn append(
        &mut self,
        now: Timestamp,
        (instance, append_id): Ids,
        decision: Decision,
        answers: Vec<(Ticket, Answer)>,
        mut side: Side,
        config: &Config,
    ) -> Output {
        let body = encode(&decision.events);
        let count = u64::try_from(decision.events.len()).unwrap_or(u64::MAX);
        let needed = decision.events.iter().map(Event::requires).max().unwrap_or(1);
        self.requires = self.requires.max(needed).max(config.log_format_min);
        let header = FrameHeader {
            execution: self.state.execution,
            first_seq: self.state.seq + 1 - count,
            last_seq: self.state.seq,
            append_id,
            parent: self.parent,
            instance,
            epoch: self.state.epoch,
            decided_at: now,
            requires: self.requires,
        };
        self.log_bytes += body.len();
        let due = self.log_bytes > self.snapshot_bytes.max(config.snapshot_bytes_min);
        if due && !self.state.status.is_end() {
            let snapshot = self.state.encode();
            self.snapshot_bytes = snapshot.len();
            self.log_bytes = 0;
            side.snapshot = Some(snapshot);
        }
        let parked =
            matches!(side.control, Some(ControlChange::Parked { .. } | ControlChange::Held { .. }));
        let context = (parked && config.contexts).then(|| Box::new(self.context()));
        side.digest = context.as_ref().map(|context| *blake3::hash(&context.state).as_bytes());
        self.in_flight = Some(InFlight {
            context,
            header,
            events: decision.events.into(),
            effects: decision.effects,
            answers,
            reported: std::mem::take(&mut self.reported),
            parked,
            settled: side.settled,
        });
        Output::Store(StoreWork::Append(Append { header, body, side }))
    }

    /// The control row changes at transitions only; which one, the state after the frame says.
    fn control_change(&self, events: &[Event]) -> Option<ControlChange> {
        let transition = |event: &Event| {
            event.is_end()
                || matches!(
                    event,
                    Event::Run(RunEvent::Paused { .. } | RunEvent::Queued { .. } | RunEvent::Admitted {} | RunEvent::Quarantined { .. } | RunEvent::Reopened { .. })
                )
                // A failover may have lost the claim: its row would name no owner, and no instance would
                // go on with it where this one dies.
                || matches!(event, Event::Run(RunEvent::Owned { .. }))
                // Somebody released it through the inbox: its row says that it is held.
                || matches!(event, Event::Run(RunEvent::Resumed { origin, .. }) if origin.message.is_some())
        };
        events.iter().any(transition).then(|| self.control(ControlChange::Owned))
    }

    fn control(&self, otherwise: ControlChange) -> ControlChange {
        let next_due = self.state.next_due().filter(|_| !is_planted(Bug::TimerOutsideCommit));
        match self.state.status {
            status if status.is_end() => ControlChange::Ended,
            Status::Waiting => ControlChange::Parked { next_due },
            _ => match self.state.held_for().filter(|_| self.state.owner.is_none()) {
                Some(reason) => ControlChange::Held { reason, next_due },
                None => otherwise,
            },
        }
    }

    /// What it asks of the store where it stands in the queue of its concurrency key.
    fn permit_request(&self) -> Option<PermitRequest> {
        let in_queue = self.state.status == Status::Scheduling && self.state.owner.is_none();
        permit_request(&self.state).filter(|_| in_queue)
    }

    /// Takes what was in flight.
    pub(super) fn landed(&mut self) -> Option<Landed> {
        self.in_flight.take().map(Landed)
    }

    /// The frame is durable: answers go out, effects become orders.
    pub(super) fn committed(
        &mut self,
        at: Timestamp,
        Landed(flight): Landed,
        outputs: &mut Vec<Output>,
    ) -> Flight {
        self.parent = Some(flight.header.as_parent());
        self.stored_at = at;
        self.recovery.1 = self.recovery.0;
        match flight.settled {
            Some(Settled::Progress) => self.suspicion = Suspicion::default(),
            Some(Settled::Decided) => self.suspicion.doubt = false,
            None => {}
        }
        let started = |event: &Event| match event {
            Event::Node(NodeEvent::Started { node, remote: Some(_), .. }) => self.plan.find(node),
            _ => None,
        };
        let started_remote = flight.events.iter().filter_map(started).collect();
        outputs.push(Output::Committed(Committed {
            execution: self.state.execution,
            key: self.state.created.key.clone(),
            first_seq: flight.header.first_seq,
            at,
            events: flight.events,
        }));
        outputs.extend(flight.answers.into_iter().map(|(t, answer)| Output::Answer(t, answer)));
        outputs.extend(flight.context.map(Output::Keep));
        let decided_at = flight.header.decided_at;
        Flight { parked: flight.parked, started_remote, ..self.follow(flight.effects, decided_at) }
    }
}

/// What one round of a mailbox came to.
#[derive(Default)]
struct Batch {
    decision: Decision,
    answers: Vec<(Ticket, Answer)>,
    /// Who asked for what is being decided.
    deciding: Option<Ticket>,
}

impl Batch {
    fn merge(&mut self, decision: Decision) {
        // A later command of the same frame may have ended what an earlier one wanted to start.
        let ending = decision.events.iter().any(|event| {
            matches!(event, Event::Run(RunEvent::Ending { .. } | RunEvent::Quarantined { .. }))
        });
        if ending {
            let stays =
                |effect: &Effect| matches!(effect, Effect::Cancel { .. } | Effect::Run { .. });
            self.decision.effects.retain(stays);
        }
        // The first one is taken as it is; but one without events may have effects all the same.
        if self.decision.events.is_empty() && self.decision.effects.is_empty() {
            self.decision = decision;
        } else {
            self.decision.events.extend(decision.events);
            self.decision.effects.extend(decision.effects);
        }
    }
}

pub(super) fn runs_in(effects: &[Effect]) -> u32 {
    let runs = effects.iter().filter(|effect| matches!(effect, Effect::Run { .. })).count();
    u32::try_from(runs).unwrap_or(u32::MAX)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
