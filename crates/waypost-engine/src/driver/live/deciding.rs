//! One round of decisions: the letters in the mailbox, decided together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use waypost_core::command::{Command, Decision, Effect, Env, Refusal, Request};
use waypost_core::decide::decide;
use waypost_core::event::{Event, MessageId, RunEvent};
use waypost_core::expr::{Contents, Wanted};
use waypost_core::id::AppendId;
use waypost_core::limits::BIRTHS_MAX;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::slot::SlotCounts;
use waypost_ports::store::{Settled, Side};

use super::orders::Consequences;
use super::{Letter, Live, Recovery, panic_text};
use crate::config::Config;
use crate::driver::io::{Answer, EndSummary, Output, StoreWork, Ticket};
use crate::driver::slots::Slots;
use crate::driver::stopwatch::Laps;

/// Reports from the inbox that are remembered: more than one read returns.
const DECIDED_MAIL_MAX: usize = 1_000;

pub(in crate::driver) struct Round<'a> {
    pub(in crate::driver) env: Env,
    pub(in crate::driver) append_id: AppendId,
    pub(in crate::driver) draining: bool,
    /// How long it may decide commands.
    pub(in crate::driver) decide_max: Duration,
    pub(in crate::driver) may_stay: bool,
    pub(in crate::driver) config: &'a Config,
    pub(in crate::driver) slots: &'a Slots,
    pub(in crate::driver) laps: &'a Laps,
}

pub(in crate::driver) enum Decided {
    Appended,
    /// There is nothing to record, so what follows, follows at once.
    Nothing(Box<Consequences>),
}

/// A broken invariant: the execution must be quarantined.
pub(in crate::driver) struct Broken {
    pub(in crate::driver) reason: String,
    /// Whose requests went under.
    pub(in crate::driver) tickets: Vec<Ticket>,
}

impl Live {
    /// Decides the mailbox, as far as the limits of a frame and its time allow, and appends it as one
    /// frame.
    pub(in crate::driver) fn decide(
        &mut self,
        round: &Round<'_>,
        outputs: &mut Vec<Output>,
    ) -> Result<Decided, Broken> {
        let env = &round.env;
        let mut batch = Batch::default();
        let letters = AssertUnwindSafe(|| self.decide_letters(round, &mut batch));
        if let Err(panic) = catch_unwind(letters) {
            let reason = format!("decide panicked: {}", panic_text(&*panic));
            let answered = batch.answers.into_iter().map(|(ticket, _)| ticket);
            return Err(Broken { reason, tickets: answered.chain(batch.deciding).collect() });
        }
        if batch.decision.events.is_empty() {
            let answers = batch.answers.into_iter();
            outputs.extend(answers.map(|(ticket, answer)| Output::Answer(ticket, answer)));
            self.reported.clear();
            let next = self.follow(
                batch.decision.effects,
                round.slots.take(SlotCounts::default()),
                env.now,
            );
            return Ok(Decided::Nothing(Box::new(next)));
        }
        if is_planted(Bug::ActBeforeCommit) {
            let is_run = |effect: &mut Effect| matches!(effect, Effect::Run { .. });
            let runs: Vec<Effect> = batch.decision.effects.extract_if(.., is_run).collect();
            let next = self.follow(runs.clone(), round.slots.take(self.runs_in(&runs)), env.now);
            outputs.extend(next.runs.into_iter().map(|(order, _)| Output::Run(order)));
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
            relied_on: std::mem::take(&mut self.relied_on),
            settled: self.settles(&batch.decision.effects),
            ..Side::default()
        };
        let mut frame = self.append(round, batch.decision, batch.answers, side);
        if is_planted(Bug::BirthOutsideCommit)
            && let Output::Store(StoreWork::Append(append)) = &mut frame
        {
            let births = std::mem::take(&mut append.side.births).into_iter();
            self.reopenings.extend(births.map(|birth| (birth.header.execution, birth)));
        }
        outputs.push(frame);
        Ok(Decided::Appended)
    }

    fn decide_letters(&mut self, round: &Round<'_>, batch: &mut Batch) {
        let mut slots = round.env.slots;
        let mut left = round.config.frame_commands_max;
        let bytes_max = round.config.frame_bytes_max;
        // The take-over is complete if it ends in this frame: left to the next one, a recovery that
        // finds nothing to do would have no frame.
        let recovers = |command: &Command| matches!(command, Command::Recover);
        while let Some(letter) = self.mailbox.pop_if(|next| {
            let births = batch.decision.births.len() >= BIRTHS_MAX;
            let is_full = left == 0 || births || batch.payload_bytes >= bytes_max;
            !is_full || recovers(next)
        }) {
            left = left.saturating_sub(1);
            batch.deciding = letter.ticket;
            if self.consume_echo(&letter) {
                continue;
            }
            if let Some(message) = &letter.mail {
                self.decided_mail.truncate(DECIDED_MAIL_MAX - 1);
                self.decided_mail.push_front(Arc::clone(message));
            }
            self.note(&letter);
            let seq = self.state.seq;
            let from_remote =
                matches!(&letter.command, Command::Report(report) if report.worker.is_some());
            self.note_references(&letter.command);
            let (entropy, contents) = (self.entropy(&round.env), self.contents(round));
            let env = Env { slots, entropy, contents, ..round.env.clone() };
            let asked = letter.ticket.and_then(|_| letter.message().cloned());
            let copy = self.refers.then(|| letter.command.clone());
            let answer = match (decide(&self.plan, &mut self.state, letter.command, &env), copy) {
                (Err(Refusal::Missed(missed)), Some(command)) => {
                    self.set_aside(Letter { command, ..letter }, missed);
                    batch.deciding = None;
                    continue;
                }
                (Ok(mut decision), _) => {
                    self.fetches.put_off(std::mem::take(&mut decision.missed));
                    slots = slots.minus(self.runs_in(&decision.effects));
                    let refusal = decision.refusal.take();
                    batch.merge(decision);
                    refusal.map_or_else(|| self.done(), Answer::Refused)
                }
                (Err(refusal), _) => {
                    self.reports_refused += u64::from(from_remote);
                    self.refused(refusal, asked.as_ref())
                }
            };
            if let Some(message) = letter.mail.filter(|_| self.state.seq == seq) {
                self.ignore(message, &answer, &env, batch);
            }
            batch.answers.extend(batch.deciding.take().map(|ticket| (ticket, answer)));
            // The rest waits for the commit, and other executions are decided before it.
            if !self.mailbox.is_empty() && round.laps.elapsed() >= round.decide_max {
                left = 0;
            }
        }
        if !round.draining {
            let contents = self.contents(round);
            self.open_items(&Env { slots, contents, ..round.env.clone() }, batch);
        }
        if let Some(decision) = self.park_if_idle(round, &batch.decision) {
            batch.merge(decision);
        }
        for (_, answer) in &mut batch.answers {
            if matches!(answer, Answer::Done { .. }) {
                *answer = self.done();
            }
        }
    }

    /// Notes the message of a letter as consumed. Is it mail that was decided before?
    fn consume_echo(&mut self, letter: &Letter) -> bool {
        let Some(message) = letter.message() else { return false };
        if !self.consumed.contains(message) {
            self.consumed.push(Arc::clone(message));
        }
        // Mail is read again until its frame is committed: a duplicate is not a request. A caller
        // that awaits an answer learns that the message was already received.
        let echo = self.state.messages.contains(message) || self.decided_mail.contains(message);
        letter.ticket.is_none() && (echo || is_planted(Bug::MailConsumedUnread))
    }

    /// Differs from command to command, so that no two deliveries share a token.
    fn entropy(&self, env: &Env) -> u128 {
        env.entropy ^ (u128::from(self.state.seq) << 64)
    }

    fn contents(&self, round: &Round<'_>) -> Contents {
        if self.refers { self.fetches.contents() } else { round.env.contents.clone() }
    }

    /// Keeps a letter until contents are at hand. Its mail is not consumed yet.
    fn set_aside(&mut self, letter: Letter, missed: Vec<Wanted>) {
        if let Some(message) = letter.message() {
            self.leave_unconsumed(message);
        }
        self.fetches.set_aside(letter, missed);
    }

    /// The frame leaves this message in the inbox.
    fn leave_unconsumed(&mut self, message: &MessageId) {
        self.consumed.retain(|consumed| consumed != message);
        self.relied_on.retain(|relied_on| relied_on != message);
        self.decided_mail.retain(|decided| decided != message);
    }

    /// What a command changes besides the state.
    fn note(&mut self, letter: &Letter) {
        match &letter.command {
            Command::ChildEnded(_) => self.relied_on.extend(letter.mail.clone()),
            Command::Start { .. } => self.redeem_promise(),
            Command::HandOver => self.handed_over = true,
            Command::Recover | Command::Request(Request::Retry { .. }, _) => {
                self.recovery = self.recovery.decided();
            }
            _ => {}
        }
    }

    /// Opens the next items of maps: once a frame, for all places that came free in it.
    fn open_items(&mut self, env: &Env, batch: &mut Batch) {
        if !self.state.wants_items() {
            return;
        }
        let env = Env { entropy: self.entropy(env), ..env.clone() };
        if let Ok(mut decision) = decide(&self.plan, &mut self.state, Command::OpenItems, &env) {
            self.fetches.put_off(std::mem::take(&mut decision.missed));
            batch.merge(decision);
        }
    }

    fn done(&self) -> Answer {
        Answer::Done { status: self.state.shown_status(), pausing: self.state.pausing }
    }

    /// Mail that changed nothing is still consumed by an event: left in the inbox, it would be read
    /// again and again, and keep out later mail.
    fn ignore(&mut self, message: MessageId, answer: &Answer, env: &Env, batch: &mut Batch) {
        let (reason, repeatable) = match answer {
            Answer::Refused(refusal) => (refusal.to_string(), refusal.is_passing()),
            _ => ("it was reported before".to_owned(), false),
        };
        if repeatable {
            self.refused_mail.push(Arc::clone(&message));
        }
        let command = Command::Ignore { message, reason, repeatable };
        if let Ok(decision) = decide(&self.plan, &mut self.state, command, env) {
            batch.merge(decision);
        }
    }

    /// What the frame proves, if the execution was in hand at a death. The take-over alone proves
    /// nothing as long as there is something to evaluate after it.
    fn settles(&self, effects: &[Effect]) -> Option<Settled> {
        let evaluates = |effect: &Effect| matches!(effect, Effect::Evaluate { .. });
        match self.suspicion.is_some() {
            true if self.recovery == Recovery::Durable => Some(Settled::Progress),
            true if self.mailbox.is_empty() && !effects.iter().any(evaluates) => {
                self.suspicion.doubt.then_some(Settled::Decided)
            }
            _ => None,
        }
    }

    /// A message that is refused for now may also be in the inbox, and is left there, unless this frame
    /// refuses it there, too.
    fn refused(&mut self, refusal: Refusal, asked: Option<&MessageId>) -> Answer {
        let stays = |asked: &&MessageId| refusal.is_passing() && !self.refused_mail.contains(asked);
        if let Some(message) = asked.filter(stays) {
            self.leave_unconsumed(message);
        }
        match (refusal, &self.state.end) {
            (Refusal::Ended(status), Some(end)) => Answer::Ended(EndSummary {
                status,
                output: end.output.clone(),
                failure: end.failure.clone(),
            }),
            (refusal, _) => Answer::Refused(refusal),
        }
    }
}

#[derive(Default)]
struct Batch {
    decision: Decision,
    /// The size of the payloads of its events.
    payload_bytes: usize,
    answers: Vec<(Ticket, Answer)>,
    /// The ticket of the command that is being decided.
    deciding: Option<Ticket>,
}

impl Batch {
    fn merge(&mut self, decision: Decision) {
        self.payload_bytes += decision.events.iter().map(Event::payload_bytes).sum::<usize>();
        // A later command of the frame may have ended what an earlier one wanted to start.
        let ending = decision.events.iter().any(|event| {
            matches!(event, Event::Run(RunEvent::Ending { .. } | RunEvent::Quarantined { .. }))
        });
        if ending {
            let stays =
                |effect: &Effect| matches!(effect, Effect::Cancel { .. } | Effect::Run { .. });
            self.decision.effects.retain(stays);
        }
        // The first one is taken as it is; but one without events may still have effects.
        if self.decision.events.is_empty() && self.decision.effects.is_empty() {
            self.decision = decision;
        } else {
            self.decision.events.extend(decision.events);
            self.decision.effects.extend(decision.effects);
            self.decision.published.extend(decision.published);
            self.decision.births.extend(decision.births);
            self.decision.sent.extend(decision.sent);
            self.decision.reopened.extend(decision.reopened);
        }
    }
}
