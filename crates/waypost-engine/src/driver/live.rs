//! One live execution: its state, its mailbox, and the one append that may be in flight.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use waypost_core::command::{Command, Decision, Effect, Env, Outcome, Refusal, Report};
use waypost_core::decide::{create, decide, idempotency_key, render_task};
use waypost_core::event::{Event, MessageId, Origin, RunCreated};
use waypost_core::failure::{Failure, kind};
use waypost_core::frame::{FrameHeader, Parent, encode};
use waypost_core::id::{AppendId, ExecutionId, InstanceId, NodeIx, Token};
use waypost_core::kind::Behaviour;
use waypost_core::plan::Plan;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::handler::Task;
use waypost_ports::store::{Append, ControlChange, Side, Submission};

use super::io::{Answer, Committed, EndSummary, Loaded, Output, TaskOrder, Ticket};
use crate::config::Config;

/// A command in a mailbox, and who wants to hear of it.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) command: Command,
    pub(super) ticket: Option<Ticket>,
}

impl Letter {
    pub(super) fn command(command: Command) -> Self {
        Self { command, ticket: None }
    }
}

pub(super) struct Live {
    pub(super) plan: Arc<Plan>,
    /// Includes what is in flight. Thrown away, never rolled back, when that does not commit.
    pub(super) state: State,
    pub(super) mailbox: VecDeque<Letter>,
    /// Is it in the driver's `ready` list?
    pub(super) queued: bool,
    /// Slots promised to `Start` letters in the mailbox.
    pub(super) promised: u32,
    /// Was it claimed, by this instance, while a frame was in flight?
    pub(super) claimed_again: bool,
    /// Is there mail for it in the store that was not read with it?
    pub(super) mail_waits: bool,
    /// The epoch in its control row, when it was read.
    row_epoch: u32,
    parent: Option<Parent>,
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
    parked: bool,
}

/// What follows from a commit.
#[derive(Default)]
pub(super) struct Flight {
    pub(super) evaluations: Vec<(NodeIx, u32)>,
    pub(super) runs: Vec<TaskOrder>,
    pub(super) offers: Vec<(NodeIx, u32)>,
    pub(super) cancelled: Vec<Token>,
    /// Attempts that were started in the log and will not be made: their config cannot be rendered,
    /// or they were cancelled in the frame that started them.
    pub(super) never_ran: Vec<Report>,
    pub(super) end: Option<EndSummary>,
    pub(super) parked: bool,
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
        execution: ExecutionId,
        created: RunCreated,
        env: &Env,
    ) -> (Self, Decision) {
        let (state, decision) = create(&plan, execution, created, env);
        (Self::with(plan, state, None), decision)
    }

    /// An execution that was read back; its mail is left to the caller.
    pub(super) fn loaded(loaded: Loaded) -> Self {
        let Loaded { plan, state, parent, row_epoch, sizes, .. } = loaded;
        let (log_bytes, snapshot_bytes) = sizes;
        Self { row_epoch, log_bytes, snapshot_bytes, ..Self::with(plan, state, Some(parent)) }
    }

    fn with(plan: Arc<Plan>, state: State, parent: Option<Parent>) -> Self {
        Self {
            plan,
            state,
            parent,
            row_epoch: 1,
            mailbox: VecDeque::new(),
            queued: false,
            promised: 0,
            claimed_again: false,
            mail_waits: false,
            in_flight: None,
            consumed: Vec::new(),
            log_bytes: 0,
            snapshot_bytes: 0,
        }
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Does it know this frame, or a later one?
    pub(super) fn is_as_new_as(&self, frame: &Parent) -> bool {
        self.parent.is_some_and(|last| last.first_seq >= frame.first_seq)
    }

    pub(super) fn may_decide(&self) -> bool {
        self.in_flight.is_none()
    }

    pub(super) fn running_tokens(&self) -> impl Iterator<Item = Token> + '_ {
        self.state.nodes.iter().filter_map(|node| node.token)
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
            return Ok(Decided::Nothing(Box::new(self.follow(batch.decision.effects))));
        }
        if is_planted(Bug::ActBeforeCommit) {
            let is_run = |effect: &mut Effect| matches!(effect, Effect::Run { .. });
            let runs = batch.decision.effects.extract_if(.., is_run).collect();
            outputs.extend(self.follow(runs).runs.into_iter().map(Output::Run));
        }
        if is_planted(Bug::AnswerBeforeCommit) {
            let answers = batch.answers.drain(..);
            outputs.extend(answers.map(|(ticket, answer)| Output::Answer(ticket, answer)));
        }
        let side = Side {
            control: self.control_change(&batch.decision.events),
            consumed: std::mem::take(&mut self.consumed),
            ..Side::default()
        };
        let append = self.append(env.now, ids, batch.decision, batch.answers, side, config);
        outputs.push(append);
        Ok(Decided::Appended { started })
    }

    fn decide_letters(&mut self, env: &Env, draining: bool, config: &Config, batch: &mut Batch) {
        let mut slots = env.slots;
        for _ in 0..config.frame_commands_max {
            let Some(letter) = self.mailbox.pop_front() else { break };
            batch.deciding = letter.ticket;
            if let Some(message) = message_of(&letter.command) {
                if !self.consumed.contains(message) {
                    self.consumed.push(Arc::clone(message));
                }
                // Mail is looked up again until its frame is committed: an echo is no request.
                if self.state.messages.contains(message) || is_planted(Bug::MailConsumedUnread) {
                    continue;
                }
            }
            // Entropy is used once per command, so that no two deliveries share a token.
            let entropy = env.entropy ^ (u128::from(self.state.seq) << 64);
            let env = Env { slots, entropy, ..*env };
            let answer = match decide(&self.plan, &mut self.state, letter.command, &env) {
                Ok(decision) => {
                    slots = slots.saturating_sub(runs_in(&decision.effects));
                    batch.merge(decision);
                    Answer::Done(self.state.status)
                }
                Err(refusal) => self.refused(refusal),
            };
            batch.answers.extend(batch.deciding.take().map(|ticket| (ticket, answer)));
        }
        self.park_if_idle(env, draining, config, batch);
    }

    /// Parks in the same frame where nothing is left to do for a while.
    fn park_if_idle(&mut self, env: &Env, draining: bool, config: &Config, batch: &mut Batch) {
        let far = |due: Timestamp| due > env.now.plus(config.park_after);
        let idle = self.mailbox.is_empty()
            && !draining
            && batch.decision.effects.iter().all(|effect| matches!(effect, Effect::Cancel { .. }))
            && self.state.is_idle()
            && self.state.next_due().is_none_or(far)
            && !self.woke_for_nothing(&batch.decision.events);
        if idle && let Ok(decision) = decide(&self.plan, &mut self.state, Command::Park, env) {
            batch.merge(decision);
        }
    }

    /// The store's time never goes back and may be ahead of ours: an execution that is due there and
    /// not yet due here awaits its time in memory. Parked, it would be claimed again at once, and
    /// so on. Only what was parked can have been woken so: an orphan, whose owner died while it
    /// waited in memory, is taken over without being resumed, and parks.
    fn woke_for_nothing(&self, events: &[Event]) -> bool {
        let resumed = |event: &Event| matches!(event, Event::RunResumed { .. });
        let woke = |event: &Event| resumed(event) || matches!(event, Event::RunOwned { .. });
        self.state.next_due().is_some() && events.iter().any(resumed) && events.iter().all(woke)
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
        let header = FrameHeader {
            execution: self.state.execution,
            first_seq: self.state.seq + 1 - count,
            last_seq: self.state.seq,
            append_id,
            parent: self.parent,
            instance,
            epoch: self.state.epoch,
            decided_at: now,
            requires: config.fold,
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
        self.in_flight = Some(InFlight {
            header,
            events: decision.events.into(),
            effects: decision.effects,
            answers,
            parked,
        });
        Output::Append(Append { header, body, side })
    }

    /// The control row changes at transitions only; which one, the state after the frame says.
    fn control_change(&self, events: &[Event]) -> Option<ControlChange> {
        let transition = |event: &Event| {
            event.is_end()
                || matches!(
                    event,
                    Event::RunPaused { .. }
                        | Event::RunQuarantined { .. }
                        | Event::RunReopened { .. }
                )
                // It was taken over without a claim that raised the epoch, and its row is behind.
                || matches!(event, Event::RunOwned { epoch, .. } if *epoch > self.row_epoch)
                // Somebody released it through the inbox: its row says that it is held.
                || matches!(event, Event::RunResumed { origin } if origin.message.is_some())
        };
        events.iter().any(transition).then(|| self.control(ControlChange::Owned))
    }

    fn control(&self, otherwise: ControlChange) -> ControlChange {
        let next_due = self.state.next_due().filter(|_| !is_planted(Bug::TimerOutsideCommit));
        match self.state.status {
            status if status.is_end() => ControlChange::Ended,
            Status::Paused if self.state.moves() => ControlChange::Parked { next_due },
            Status::Paused => {
                let reason = self.state.quarantine.clone();
                let reason = reason.unwrap_or_else(|| "paused by a user".to_owned());
                ControlChange::Held { reason, next_due }
            }
            _ => otherwise,
        }
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
        outputs.push(Output::Committed(Committed {
            execution: self.state.execution,
            key: self.state.created.key.clone(),
            first_seq: flight.header.first_seq,
            at,
            events: flight.events,
        }));
        outputs.extend(flight.answers.into_iter().map(|(t, answer)| Output::Answer(t, answer)));
        Flight { parked: flight.parked, ..self.follow(flight.effects) }
    }

    /// Effects become orders.
    fn follow(&self, effects: Vec<Effect>) -> Flight {
        let mut next = Flight::default();
        let cancels = |effect: &Effect| match effect {
            Effect::Cancel { token } => Some(*token),
            _ => None,
        };
        next.cancelled = effects.iter().filter_map(cancels).collect();
        for effect in effects {
            match effect {
                Effect::Evaluate { node, attempt } => next.evaluations.push((node, attempt)),
                Effect::Offer { node, attempt } => next.offers.push((node, attempt)),
                Effect::Cancel { .. } => {}
                Effect::Run { node, attempt, token } if next.cancelled.contains(&token) => {
                    let outcome = Outcome::Cancelled;
                    let node = Arc::clone(&self.plan.node(node).id);
                    next.never_ran.push(Report { node, attempt, token, outcome });
                }
                Effect::Run { node, attempt, token } => match self.order(node, attempt, token) {
                    Ok(order) => next.runs.push(order),
                    Err(report) => next.never_ran.push(*report),
                },
            }
        }
        next.end = self.state.end.as_ref().map(|end| EndSummary {
            status: self.state.status,
            output: end.output.clone(),
            failure: end.failure.clone(),
        });
        next
    }

    fn order(&self, at: NodeIx, attempt: u32, token: Token) -> Result<TaskOrder, Box<Report>> {
        let node = self.plan.node(at);
        let Behaviour::Task { handler, .. } = node.behaviour else {
            unreachable!("only tasks are run in slots");
        };
        let path = Arc::clone(&node.id);
        let rendered = catch_unwind(AssertUnwindSafe(|| render_task(&self.plan, &self.state, at)));
        let rendered = rendered.unwrap_or_else(|panic| {
            let message = format!("rendering the config panicked: {}", panic_text(&*panic));
            Err(Failure::permanent(kind::EXPRESSION, message))
        });
        let rendered = rendered.map_err(|failure| {
            let outcome = Outcome::Failed(failure);
            Box::new(Report { node: Arc::clone(&path), attempt, token, outcome })
        })?;
        let task = Task {
            execution: self.state.created.key.clone(),
            workflow: Arc::clone(&self.plan.workflow),
            path,
            attempt,
            handler,
            config: rendered.config,
            placeholders: rendered.secrets,
            secrets: Vec::new(),
            timeout: node.timeout,
            idempotency_key: idempotency_key(&self.plan, &self.state, at),
            token,
        };
        Ok(TaskOrder { execution: self.state.execution, task })
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
        let ending = decision
            .events
            .iter()
            .any(|event| matches!(event, Event::RunEnding { .. } | Event::RunQuarantined { .. }));
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

fn message_of(command: &Command) -> Option<&MessageId> {
    let origin: &Origin = match command {
        Command::Signal { origin, .. }
        | Command::Cancel { origin, .. }
        | Command::Pause { origin, .. }
        | Command::Resume { origin }
        | Command::Reopen { origin } => origin,
        _ => return None,
    };
    origin.message.as_ref()
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
