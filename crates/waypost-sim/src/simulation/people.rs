//! People: they submit, signal, complete waits, pause, resume and cancel, at any moment and through
//! any process, and remember the responses. After the faults they unblock executions that make no
//! progress.

mod appetite;
mod asking;
mod steering;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{Event as LogEvent, MessageId};
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::plan::{ConcurrencyPolicy, Plan};
use waypost_engine::Receipt;
use waypost_engine::driver::{Answer, ControlRequest, Input, Start, StartRequest, Ticket};
use waypost_ports::store::{Idempotency, NewDefinition, TakenName};

use super::{Simulation, WorldEvent, WorldOptions};
use crate::fault::Fault;
use crate::model::{AskedDecision, Resumption, SentSignal, Steered};
use crate::process::Life;
use crate::program::{Keyed, Program};
use crate::random::Random;

/// Where tasks call.
pub(super) const SINK_URL: &str = "http://sink.example";
/// The label that identifies the submission an execution came from.
pub(super) const LABEL: &str = "submission";

/// The state of the people.
pub(super) struct People {
    random: Random,
    /// A stream of its own, so that the other requests stay what they are.
    retries: Random,
    pings: Random,
    /// Signals by key that had not got to their waits when it was last looked.
    unrouted: BTreeSet<Arc<str>>,
    steering: Random,
    /// For those of executions that start others.
    pub(super) trees: Random,
    pub(super) submissions: Vec<Submission>,
    asked: BTreeMap<(Life, u64), Asked>,
    tickets: u64,
    serials: u64,
    /// Actions on each execution.
    pub(super) done_to: BTreeMap<ExecutionNo, DoneTo>,
}

/// A submission, from the plan to the acknowledgement.
pub(super) struct Submission {
    pub(super) program: Program,
    pub(super) input: Value,
    plan: Arc<Plan>,
    definition: NewDefinition,
    at_ms: u64,
    /// Is it to be submitted at all?
    kept: bool,
    /// Which execution it became, and when that was acknowledged.
    pub(super) acknowledged: Option<(ExecutionNo, u64)>,
}

/// A request that awaits its answer.
enum Asked {
    Submission(usize),
    Far(Box<super::far::WorkerMessage>),
    Start(super::triggers::StartAnswer),
    Request { request: Box<ControlRequest>, serial: Option<u64> },
}

/// The actions of people on an execution.
#[derive(Clone, Default)]
pub(super) struct DoneTo {
    pub(super) cancel: bool,
    /// Was it to end without awaiting its children?
    pub(super) forced: bool,
    pub(super) pause: bool,
    pub(super) signals: Vec<SentSignal>,
    pub(super) resumptions: Vec<Resumption>,
    pub(super) steered: Vec<Steered>,
    pub(super) decisions: Vec<AskedDecision>,
    /// Messages that were acknowledged and not done yet, and when.
    pub(super) accepted: Vec<(MessageId, u64)>,
    /// Serial numbers of signals that were acknowledged as done or stored, and when.
    pub(super) signalled: Vec<(u64, u64)>,
}

impl People {
    pub(super) fn new(seed: &Random, options: &WorldOptions) -> Self {
        let mut random = seed.split("people");
        let mut lines = Lines::draw(seed);
        let count = usize::try_from(random.between(1, 4)).unwrap_or(1) + lines.more();
        let submissions = (0..count)
            .map(|at| {
                let mut random = seed.split(&format!("submission {at}"));
                let kept = options.keep.as_ref().is_none_or(|keep| keep.contains(&at));
                let at_ms = random.below(15_000);
                let drawn = Program::generate(&mut random, &appetite::draw(seed));
                let drawn = Program { keyed: lines.keyed(), ..drawn };
                let program = smaller(drawn, options.shrink.get(&at));
                let input = program.input(&mut seed.split(&format!("input {at}")), SINK_URL);
                Submission::new(program, input, at_ms, kept)
            })
            .collect();
        Self {
            random,
            retries: seed.split("retries"),
            pings: seed.split("pings"),
            unrouted: BTreeSet::new(),
            steering: seed.split("steering"),
            trees: seed.split("trees"),
            submissions,
            asked: BTreeMap::new(),
            tickets: 0,
            serials: 0,
            done_to: BTreeMap::new(),
        }
    }

    pub(super) fn programs(&self) -> Vec<Program> {
        self.submissions.iter().map(|submission| submission.program.clone()).collect()
    }

    pub(super) fn ask_far(&mut self, life: Life, said: super::far::WorkerMessage) -> Ticket {
        self.ask(life, Asked::Far(Box::new(said)))
    }

    pub(super) fn ask_start(&mut self, life: Life, answer: super::triggers::StartAnswer) -> Ticket {
        self.ask(life, Asked::Start(answer))
    }

    fn ask(&mut self, life: Life, asked: Asked) -> Ticket {
        self.tickets += 1;
        self.asked.insert((life, self.tickets), asked);
        Ticket(self.tickets)
    }

    /// Drops acknowledgements after a moment: a replica that was behind has lost them.
    pub(super) fn forget_since(&mut self, ms: u64) {
        for submission in &mut self.submissions {
            submission.acknowledged = submission.acknowledged.filter(|(_, at)| *at < ms);
        }
        for done in self.done_to.values_mut() {
            done.accepted.retain(|(_, at)| *at < ms);
            done.signalled.retain(|(_, at)| *at < ms);
        }
    }

    /// The frame that ends an execution empties its inbox, and a retry does not bring the mail back.
    pub(super) fn forget_mail(&mut self, execution: ExecutionNo, events: &[LogEvent]) {
        if events.iter().any(LogEvent::is_end)
            && let Some(done) = self.done_to.get_mut(&execution)
        {
            done.accepted.clear();
        }
    }

    /// Submissions without an acknowledgement.
    pub(super) fn unacknowledged(&self) -> Vec<usize> {
        let open = |one: &Submission| one.kept && one.acknowledged.is_none();
        let numbered = self.submissions.iter().enumerate();
        numbered.filter(|(_, one)| open(one)).map(|(at, _)| at).collect()
    }
}

impl Submission {
    fn new(program: Program, input: Value, at_ms: u64, kept: bool) -> Self {
        let (definition, plan) = compile(&program.definition());
        Self { program, input, plan, definition, at_ms, kept, acknowledged: None }
    }
}

/// A definition, as the store keeps it, and its plan.
pub(super) fn compile(source: &str) -> (NewDefinition, Arc<Plan>) {
    let compiled = waypost_lang::parse(source.as_bytes(), &waypost_nodes::catalog());
    let compiled = compiled.unwrap_or_else(|faults| {
        panic!("a program must be valid: {source}\n{faults}");
    });
    let definition = NewDefinition {
        name: compiled.name.as_str().into(),
        hash: compiled.hash,
        canonical: compiled.canonical.as_str().into(),
        make_current: true,
        triggers: Vec::new(),
        paused: false,
    };
    (definition, Arc::new(compiled.plan))
}

/// Which submissions of a world is queued for each other.
struct Lines {
    random: Random,
    keyed: Option<Keyed>,
}

impl Lines {
    /// Most worlds have none. From a stream of its own, so that the programs do not change.
    fn draw(seed: &Random) -> Self {
        let mut random = seed.split("lines");
        let policy = match random.below(10) {
            0 | 1 => ConcurrencyPolicy::Reject,
            2 | 3 => ConcurrencyPolicy::CancelOldest,
            _ => ConcurrencyPolicy::Queue,
        };
        let limit = if random.percent(70) { 1 } else { 2 };
        let keyed = Keyed { limit, policy, split: random.percent(20) };
        let keyed = random.percent(30).then_some(keyed);
        Self { random, keyed }
    }

    /// A queue needs several.
    fn more(&mut self) -> usize {
        self.keyed.map_or(0, |_| self.random.index(4))
    }

    /// The concurrency key of the next submission: now and then none, or one with another limit.
    fn keyed(&mut self) -> Option<Keyed> {
        let keyed = self.keyed?;
        let limit = if self.random.percent(10) { keyed.limit + 1 } else { keyed.limit };
        self.random.percent(90).then_some(Keyed { limit, ..keyed })
    }
}

/// A program, made smaller step by step. A step that there is none of ends the way.
fn smaller(program: Program, path: Option<&Vec<usize>>) -> Program {
    path.into_iter().flatten().fold(program, |program, step| {
        let mut candidates = program.shrink_candidates();
        if *step < candidates.len() { candidates.swap_remove(*step) } else { program }
    })
}

impl Simulation {
    pub(super) fn plan_submissions(&mut self) {
        for at in 0..self.people.submissions.len() {
            let submission = &self.people.submissions[at];
            let (kept, ms, program) =
                (submission.kept, submission.at_ms, submission.program.to_string());
            let n = submission.input.get("n").and_then(Value::as_u64).unwrap_or(0);
            let definition = submission.definition.clone();
            let plan = Arc::clone(&submission.plan);
            self.store.with(|tables, now| tables.define(&definition, now));
            self.plans.keep(plan);
            if kept {
                self.note("plan", &[ms], || {
                    format!("submission {at} at {ms} ms, n={n}: {program}")
                });
                self.after(ms, WorldEvent::Submit { at, again: false });
            }
        }
    }

    pub(super) fn submit(&mut self, at: usize, again: bool) {
        if self.people.submissions[at].acknowledged.is_some() {
            return;
        }
        // A user without a response repeats the submission to another process, under the same key.
        let patience = match self.store.strikes(Fault::Impatience) {
            true => self.random.below(500),
            false => self.random.between(10_000, 30_000),
        };
        self.after(patience, WorldEvent::Submit { at, again: true });
        let Some(life) = self.any_process() else { return };
        self.note("submit", &[life.into(), at as u64], || {
            format!("submission {at} to p{life}{}", if again { ", again" } else { "" })
        });
        let input = Json::from_value(&self.people.submissions[at].input);
        let Some(input) = self.keep(Some(life), &input) else { return };
        if self.dies_with_blob(life, &input) {
            return;
        }
        let Ok(contents) = self.blobs.contents(&input) else { return };
        let ticket = self.people.ask(life, Asked::Submission(at));
        let submission = &self.people.submissions[at];
        let request = StartRequest {
            fire: None,
            idempotency: Some(Idempotency {
                key: format!("submission-{at}").into(),
                digest: DefinitionHash::of(submission.input.to_string().as_bytes()).0,
            }),
            labels: BTreeMap::from([(LABEL.to_owned(), at.to_string())]),
            contents,
            ..StartRequest::new(Arc::clone(&submission.plan), 1, input)
        };
        let start = Start { request, ticket, await_end: None };
        self.inputs(life, vec![Input::Start(start)]);
    }

    /// An answer. What it acknowledges must be durable now.
    pub(super) fn answered(&mut self, life: Life, Ticket(ticket): Ticket, answer: Answer) {
        let Some(asked) = self.people.asked.remove(&(life, ticket)) else {
            return self.fail("answers", format!("p{life} answered question {ticket} twice"));
        };
        let ms = self.ms();
        // After a failover an answer may be about data that was lost with the old store, which is
        // unavoidable: the user notices, and asks again.
        let lost = self.failovers > 0;
        match (asked, answer) {
            (
                Asked::Submission(at),
                Answer::Started { execution, .. }
                | Answer::Exists { existing: execution, taken: TakenName::SameSubmission },
            ) => {
                let durable = self.is_of(execution, at);
                if !durable && lost {
                    return;
                }
                if !durable {
                    let what = format!("submission {at} is acknowledged and not durable");
                    return self.fail("G1", what);
                }
                self.people.submissions[at].acknowledged = Some((execution, ms));
            }
            (Asked::Submission(_), _) => {}
            (Asked::Far(said), answer) => self.far_told(*said, &answer),
            (Asked::Start(tell), answer) => drop(tell.send(answer)),
            // As the engine's callers do: the inbox takes it now.
            (Asked::Request { request, serial }, Answer::Moved) => {
                self.ask_an_instance(*request, serial)
            }
            (Asked::Request { request, serial }, answer)
                if matches!(request.request, Request::Callback(_)) =>
            {
                self.called_back(&request, serial, &answer);
            }
            (Asked::Request { request, serial: Some(serial) }, Answer::Done { .. }) => {
                let execution = request.execution;
                if !self.knows_signal(execution, serial) {
                    let what =
                        format!("signal {serial} to x{} was done and is not durable", execution.0);
                    if !lost {
                        self.fail("ack", what);
                    }
                    return;
                }
                let done = self.people.done_to.entry(execution).or_default();
                done.signalled.push((serial, ms));
            }
            (Asked::Request { request, .. }, Answer::Done { .. }) => {
                self.check_retried(&request);
                self.check_decided(&request);
            }
            (Asked::Request { request, serial }, Answer::Accepted(message)) => {
                self.acknowledged(request.execution, message, serial);
            }
            (Asked::Request { request, serial }, Answer::Refused(Refusal::Duplicate)) => {
                if let Some(message) = request.origin.message {
                    self.acknowledged(request.execution, message, serial);
                }
            }
            (Asked::Request { .. }, _) => {}
        }
    }

    /// A message was acknowledged, now or before: it must be durable. A signal that was accepted
    /// must get into the log, as one that was done.
    pub(super) fn acknowledged(
        &mut self,
        execution: ExecutionNo,
        message: MessageId,
        serial: Option<u64>,
    ) {
        // Of another execution, maybe, that had this number before; or it went with the end before a
        // retry.
        let reopened = self.auditor.state(execution).is_some_and(|state| state.generation > 1);
        if (self.failovers > 0 || reopened) && !self.holds_message(execution, &message) {
            return;
        }
        if !self.knows_message(execution, &message) {
            let what =
                format!("message {message} to x{} was accepted and is not durable", execution.0);
            return self.fail("ack", what);
        }
        let ms = self.ms();
        let control = self.store.with(|tables, _| tables.control(execution).cloned());
        let in_inbox = self.is_in_inbox(execution, &message);
        let receipt = self
            .auditor
            .state(execution)
            .map(|state| Receipt::of(&message, state, control.as_ref(), in_inbox));
        // Where the execution has ended, the message may have gone with its inbox, and a retry does not
        // bring it back.
        let stays = in_inbox || self.log_holds(execution, &message);
        let done = self.people.done_to.entry(execution).or_default();
        // A claim that was lost in a failover may still be under way, without this mail.
        let promised = receipt == Some(Receipt::Kept) && self.failovers == 0;
        let kept = serial.filter(|_| promised);
        done.signalled.extend(kept.map(|serial| (serial, ms)));
        done.accepted.extend(stays.then_some((message, ms)));
    }
}
