//! Workers: they make attempts by calling the outside world, and report; and everything that can
//! come between the two.

use std::sync::Arc;

use serde_json::json;
use waypost_core::command::{Outcome, Report};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::Token;
use waypost_core::json::Json;
use waypost_engine::driver::{Input, TaskOrder};

use super::blobs::AGAIN_MS;
use super::breakers::CallEntry;
use super::budgets::address_of;
use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::model::CONTRADICTION;
use crate::process::{Life, Running};
use crate::program::{OutsideReply, Script};

impl Simulation {
    pub(super) fn run_task(&mut self, life: Life, order: TaskOrder) {
        self.check_task(life, &order);
        let later = self.random.below(50);
        let running = Running { order: order.clone(), cancelled: false };
        if let Some(process) = self.processes.get_mut(&life) {
            process.tasks.insert(order.task.token, running);
            self.after(later, WorldEvent::Call(life, Box::new(order)));
        }
    }

    pub(super) fn cancel_task(&mut self, life: Life, token: Token) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        let Some(running) = process.tasks.get_mut(&token) else { return };
        if !self.store.strikes(Fault::DeafWorker) {
            running.cancelled = true;
            let order = Box::new(running.order.clone());
            let soon = self.random.below(100);
            self.after(soon, WorldEvent::Ended { life, order, outcome: Outcome::Cancelled });
        }
    }

    pub(super) fn call(&mut self, life: Life, order: Box<TaskOrder>) {
        let process = self.processes.get_mut(&life);
        let spent = match process {
            // The request may have left before its process died.
            None => {
                if self.store.strikes(Fault::Posthumous) && order.task.breaker.is_none() {
                    drop(self.call_sink(&order));
                }
                return;
            }
            Some(process) => {
                if let Some(later) = &mut process.suspended {
                    later.push(WorldEvent::Call(life, order));
                    return;
                }
                // Cancelled before it started: nothing was sent.
                if process.tasks.get(&order.task.token).is_none_or(|running| running.cancelled) {
                    return;
                }
                process.now().most.since(order.since).0
            }
        };
        // Its config is read first.
        if self.blobs.failing && order.task.config.references().next().is_some() {
            return self.after(AGAIN_MS, WorldEvent::Call(life, order));
        }
        match self.enter_breaker(life, &order) {
            CallEntry::Calls => {}
            CallEntry::Again(later) => return self.after(later, WorldEvent::Call(life, order)),
            CallEntry::Ends(outcome) => {
                let later = self.random.below(20);
                return self.after(later, WorldEvent::Ended { life, order, outcome });
            }
        }
        let lost = || Outcome::Lost(Failure::transient(kind::PANIC, "the worker died"));
        if self.store.strikes(Fault::WorkerDeath) || self.store.strikes(Fault::NoEffectNoReply) {
            let later = self.random.below(2_000);
            return self.after(later, WorldEvent::Ended { life, order, outcome: lost() });
        }
        let reply = self.call_sink(&order);
        if self.store.strikes(Fault::Checkpoints) {
            let mark = Json::from_value(&json!({ "mark": self.random.below(1_000) }));
            self.report(life, &order, Outcome::Checkpoint(mark.into()), LastReport::Extra, 1);
        }
        if self.store.strikes(Fault::EffectWithoutReply) {
            let later = self.random.below(5_000);
            return self.after(later, WorldEvent::Ended { life, order, outcome: lost() });
        }
        let timeout = order.task.timeout.map_or(60_000, |timeout| timeout.0);
        let (outcome, later) = match reply {
            Some(reply) if self.store.strikes(Fault::LateReport) => {
                // Late, but within the rest of the attempt's own time: the outcome stays
                // foretellable.
                let left = timeout.saturating_sub(spent + 100).clamp(1, 40_000);
                (outcome_of(&reply), self.random.below(left))
            }
            Some(reply) => (outcome_of(&reply), self.random.below(100)),
            None => {
                let message = "the attempt took too long";
                (Outcome::Failed(Failure::transient(kind::TIMEOUT, message)), timeout)
            }
        };
        let outcome = self.with_usage(&order, outcome);
        let later = later + self.storms.answer_ms(&order, &outcome);
        self.after(later, WorldEvent::Ended { life, order, outcome });
    }

    fn call_sink(&mut self, order: &TaskOrder) -> Option<OutsideReply> {
        let task = &order.task;
        let url = self
            .blobs
            .inline(&task.config)
            .to_value()
            .ok()
            .and_then(|config| address_of(&config).map(str::to_owned));
        let path = url.as_deref().and_then(|url| url.strip_prefix(super::people::SINK_URL));
        let Some(script) = path.and_then(Script::parse) else {
            self.fail("config", format!("{} calls {url:?}", task.path));
            return None;
        };
        let (execution, node) = (task.execution.to_string(), Arc::clone(&task.path));
        self.note("call", &[u64::try_from(order.execution.0).unwrap_or(0)], || {
            format!("x{} {node} #{} {script}", order.execution.0, task.attempt)
        });
        let played = self.storms.played(script, self.ms());
        let reply = self.sink.call(&execution, &task.path, &task.idempotency_key, played);
        let token = task.operation.as_ref().map(|of| self.services.token(&task.execution, of));
        if let Some(token) = token.filter(|_| starts(reply.as_ref())) {
            self.start_operation(order.execution, &token);
        }
        reply
    }

    pub(super) fn ended(&mut self, life: Life, order: &TaskOrder, outcome: Outcome) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        if let Some(later) = &mut process.suspended {
            let order = Box::new(order.clone());
            later.push(WorldEvent::Ended { life, order, outcome });
            return;
        }
        if !process.tasks.contains_key(&order.task.token) {
            return; // it has ended already: cancelled, and then answered
        }
        let Some(outcome) = self.keep_outcome(Some(life), &outcome) else {
            let order = Box::new(order.clone());
            return self.after(AGAIN_MS, WorldEvent::Ended { life, order, outcome });
        };
        if let Outcome::Completed(output) = &outcome
            && self.dies_with_blob(life, output)
        {
            return;
        }
        if let Some(process) = self.processes.get_mut(&life) {
            process.tasks.remove(&order.task.token);
        }
        self.leave_breaker(life, order, &outcome);
        self.report(life, order, outcome.clone(), LastReport::Last, 0);
        if self.store.strikes(Fault::DoubleReport) {
            let later = self.random.below(20_000);
            self.report(life, order, outcome.clone(), LastReport::Extra, later);
        }
        if self.store.strikes(Fault::Contradiction) {
            let other = match outcome {
                Outcome::Completed(_) => {
                    Outcome::Failed(Failure::permanent(CONTRADICTION, "it failed after all"))
                }
                _ => Outcome::Completed(Json::from_value(&json!(CONTRADICTION))),
            };
            let later = self.random.below(20_000);
            self.report(life, order, other, LastReport::Extra, later);
        }
    }

    fn report(
        &mut self,
        life: Life,
        order: &TaskOrder,
        outcome: Outcome,
        delivery: LastReport,
        later: u64,
    ) {
        let task = &order.task;
        let report = |token: Token, outcome: Outcome, token_free: bool| Input::Report {
            execution: order.execution,
            report: Report {
                node: Arc::clone(&task.path),
                attempt: task.attempt,
                token,
                worker: None,
                outcome,
            },
            token_free,
        };
        let name = match &outcome {
            Outcome::Started => "started",
            Outcome::Completed(_) => "completed",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Lost(_) => "lost",
            Outcome::Checkpoint(_) => "checkpoint",
            Outcome::Blocked(_) => "blocked",
        };
        self.note("report", &[life.into(), u64::from(task.attempt)], || {
            format!("p{life} x{} {} #{} {name}", order.execution.0, task.path, task.attempt)
        });
        if self.store.strikes(Fault::Zombie) {
            let forged = Token(u128::from(self.random.next()));
            let lie = Outcome::Completed(Json::from_value(&json!("a lie")));
            self.after(later, WorldEvent::Inputs(life, vec![report(forged, lie, false)]));
        }
        let last = delivery == LastReport::Last;
        self.after(later, WorldEvent::Inputs(life, vec![report(task.token, outcome, last)]));
    }
}

/// Does a report free the slot?
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastReport {
    Last,
    Extra,
}

/// Does a call with this answer start what it asks for? One without an answer may.
pub(super) fn starts(reply: Option<&OutsideReply>) -> bool {
    reply.is_none_or(|reply| reply.effect)
}

/// The outcome for an answer, as the node kind computes it.
pub(super) fn outcome_of(reply: &OutsideReply) -> Outcome {
    if reply.status < 400 {
        let output = json!({ "status": reply.status, "headers": {}, "body": reply.body });
        return Outcome::Completed(Json::from_value(&output));
    }
    let message = format!("the server answered {}", reply.status);
    let failure = match reply.status >= 500 {
        true => Failure::transient(kind::HTTP, message),
        false => Failure::permanent(kind::HTTP, message),
    };
    Outcome::Failed(Failure { status: Some(reply.status), ..failure })
}
