//! Reports of remote workers: to which process, how often, and the answers.

use std::sync::Arc;

use waypost_core::command::{Outcome, Refusal};
use waypost_core::failure::Failure;
use waypost_core::id::{Token, WorkerId};
use waypost_core::json::Json;
use waypost_engine::RemoteTask;
use waypost_engine::driver::{Answer, Input, TaskReport};

use super::{FarEvent, short};
use crate::fault::Fault;
use crate::model::CONTRADICTION;
use crate::simulation::{Simulation, WorldEvent};

/// How long a worker awaits a response before it asks another process.
const PATIENCE_MS: u64 = 5_000;

/// A worker's report.
#[derive(Clone)]
pub struct WorkerMessage {
    report: TaskReport,
    /// Is its token made up?
    forged: bool,
    /// Does it differ from an earlier report of the same worker?
    contradicts: bool,
    /// Must its attempt not begin before this is committed?
    once: bool,
    number: u64,
}

impl WorkerMessage {
    pub(super) fn of(worker: WorkerId, task: &RemoteTask, outcome: Outcome) -> Self {
        let report = TaskReport {
            execution: task.number,
            key: None,
            node: Arc::clone(&task.node),
            attempt: task.attempt,
            token: task.token,
            worker,
            outcome,
        };
        let once = task.at_most_once;
        Self { report, forged: false, contradicts: false, once, number: 0 }
    }

    fn is_end(&self) -> bool {
        !matches!(self.report.outcome, Outcome::Started | Outcome::Checkpoint(_))
    }
}

impl Simulation {
    /// A worker that was given nothing reports an attempt as done.
    pub(super) fn forge(&mut self, task: &RemoteTask) {
        if !self.store.strikes(Fault::Zombie) {
            return;
        }
        let lie = Outcome::Completed(Json::from_value(&serde_json::json!("a lie")));
        let stranger = self.far.birth();
        let mut said = WorkerMessage { forged: true, ..WorkerMessage::of(stranger, task, lie) };
        said.report.token = match self.far.random.percent(50) {
            true => Token(u128::from(self.far.random.next())),
            // One bit off.
            false => Token(task.token.0 ^ 1 << self.far.random.below(128)),
        };
        self.far_say(said);
    }

    pub(super) fn far_say(&mut self, mut said: WorkerMessage) {
        // The report that it contradicts may have been lost in a failover, and then it contradicts
        // nothing.
        if said.contradicts && self.failovers > 0 {
            return;
        }
        let now = self.ms();
        let id = said.report.worker;
        if !said.forged {
            // A report that a worker has not sent when it dies is never sent.
            let Some(worker) = self.far.worker(id) else { return };
            if worker.silent_until > now {
                let later = worker.silent_until - now + 1;
                return self.after(later, WorldEvent::Far(FarEvent::Say(said)));
            }
        }
        if matches!(said.report.outcome, Outcome::Lost(_) | Outcome::Cancelled) {
            self.far.given_up.insert(said.report.token);
        }
        let Some(life) = self.any_process() else {
            return self.after(1_000, WorldEvent::Far(FarEvent::Say(said)));
        };
        if said.is_end() && !said.forged && !said.contradicts {
            self.far.ends.insert(said.report.token, said.clone());
        }
        self.far.sayings += 1;
        said.number = self.far.sayings;
        let (report, number) = (said.report.clone(), said.number);
        self.note("say", &[life.into(), number], || {
            let TaskReport { execution, node, attempt, outcome, .. } = &report;
            format!("{} to p{life}: x{} {node} #{attempt} {outcome:?}", short(id), execution.0)
        });
        let ticket = self.people.ask_far(life, said.clone());
        if !said.forged {
            self.far.open.insert(number, said);
            self.after(PATIENCE_MS, WorldEvent::Far(FarEvent::Patience(number)));
        }
        self.inputs(life, vec![Input::TaskReport { report, ticket, only_here: false }]);
    }

    /// After a failover: workers that keep their reports send them again. Acknowledged reports are
    /// lost, which is unavoidable, and an attempt whose end is lost would run for ever.
    pub(in crate::simulation) fn far_say_again(&mut self) {
        self.far.committed.clear();
        let ends: Vec<WorkerMessage> = std::mem::take(&mut self.far.ends).into_values().collect();
        for said in ends {
            let later = self.far.random.below(5_000);
            self.after(later, WorldEvent::Far(FarEvent::Say(said)));
        }
    }

    /// The answer to a worker; maybe too late, when it has sent the report again.
    pub(in crate::simulation) fn far_told(&mut self, said: WorkerMessage, answer: &Answer) {
        let lost = self.failovers > 0;
        let open = self.far.open.remove(&said.number).is_some();
        let WorkerMessage { report, forged, .. } = &said;
        let (execution, node, token) = (report.execution, &report.node, report.token);
        if *forged {
            if matches!(answer, Answer::Done { .. } | Answer::Accepted(_)) && !lost {
                let what =
                    format!("x{} {node}: a task that no worker was given counts", execution.0);
                self.fail("forged", what);
            }
            return;
        }
        let (worker, is_end, once) = (report.worker, said.is_end(), said.once);
        match answer {
            Answer::Done { .. } => self.far_committed(&said),
            // It is in an inbox. An attempt that may start only once awaits its commit.
            Answer::Accepted(_) if said.once && !said.is_end() => {
                self.after(1_000, WorldEvent::Far(FarEvent::Say(said)));
            }
            Answer::Refused(refusal) => {
                let before = self.far.committed.get(&token);
                let closed = matches!(refusal, Refusal::Closed(_));
                let known = before == Some(&report.outcome) && !closed;
                if known && !lost && self.remembers_end(&said) {
                    let what = format!("x{} {node}: said again, refused: {refusal}", execution.0);
                    return self.fail("R07", what);
                }
                // It is not ours: nothing more is done for it.
                self.far.drop_task(worker, token);
            }
            Answer::Moved | Answer::Ended(_) | Answer::Draining if open => self.far_say(said),
            Answer::Poisoned(_) => self.after(1_000, WorldEvent::Far(FarEvent::Say(said))),
            _ => {}
        }
        // After the response to its end a worker drops the attempt; so it does with one that may
        // start only once and is unknown by now.
        let over = match answer {
            Answer::Done { .. } | Answer::Accepted(_) => is_end,
            Answer::Unknown => is_end || once,
            _ => false,
        };
        if over {
            self.far.drop_task(worker, token);
        }
    }

    /// A worker whose report of an end is committed sends a different one.
    fn contradict(&mut self, said: &WorkerMessage) {
        if !said.contradicts && self.store.strikes(Fault::Contradiction) {
            let mut other = WorkerMessage { contradicts: true, ..said.clone() };
            other.report.outcome = match &said.report.outcome {
                Outcome::Completed(_) => {
                    Outcome::Failed(Failure::permanent(CONTRADICTION, "it failed after all"))
                }
                _ => Outcome::Completed(Json::from_value(&serde_json::json!(CONTRADICTION))),
            };
            let later = self.far.random.below(20_000);
            self.after(later, WorldEvent::Far(FarEvent::Say(other)));
        }
    }

    /// Must a repeated report of an end be known as one? The ends of attempts in a body are forgotten
    /// with their scope.
    fn remembers_end(&self, said: &WorkerMessage) -> bool {
        let TaskReport { execution, node, token, .. } = &said.report;
        let state = self.auditor.state(*execution);
        let known = state.is_some_and(|state| {
            state.nodes().any(|(_, node)| node.ended.iter().any(|ended| ended.token == *token))
        });
        known || !node.contains('/')
    }

    fn far_committed(&mut self, said: &WorkerMessage) {
        let report = &said.report;
        let (execution, token) = (report.execution, report.token);
        if matches!(report.outcome, Outcome::Started) {
            if said.once {
                let call = FarEvent::Call(report.worker, token);
                self.after(0, WorldEvent::Far(call));
            }
            return;
        }
        if !said.is_end() {
            return;
        }
        if said.contradicts && self.far.committed.contains_key(&token) && self.failovers == 0 {
            let what = format!("x{} {}: two ends of one attempt", execution.0, report.node);
            return self.fail("R07", what);
        }
        self.far.committed.insert(token, report.outcome.clone());
        self.contradict(said);
        if !self.auditor.ended.contains(&token) && self.failovers == 0 {
            let what = format!("the end of {} of x{} is not durable", report.node, execution.0);
            self.fail("ack", what);
        }
    }
}
