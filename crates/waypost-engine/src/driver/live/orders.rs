//! From effects to orders: what follows from a decision once it is durable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use waypost_core::command::{Effect, Outcome, Report};
use waypost_core::decide::{idempotency_key, render_task};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{NodeIx, Token};
use waypost_core::kind::Behaviour;
use waypost_core::time::Timestamp;
use waypost_ports::handler::Task;

use super::{Live, panic_text};
use crate::driver::io::{EndSummary, TaskOrder};
use crate::driver::slots::Offer;

/// What follows from a commit.
#[derive(Default)]
pub(in crate::driver) struct Flight {
    pub(in crate::driver) evaluations: Vec<(NodeIx, u32)>,
    pub(in crate::driver) runs: Vec<TaskOrder>,
    pub(in crate::driver) offers: Vec<Offer>,
    pub(in crate::driver) cancelled: Vec<Token>,
    /// Attempts that were started in the log and will not be made: their config cannot be rendered,
    /// or they were cancelled in the frame that started them.
    pub(in crate::driver) never_ran: Vec<Report>,
    pub(in crate::driver) end: Option<EndSummary>,
    pub(in crate::driver) parked: bool,
}

impl Live {
    /// Effects become orders.
    pub(super) fn follow(&self, effects: Vec<Effect>, decided_at: Timestamp) -> Flight {
        let mut next = Flight::default();
        let cancels = |effect: &Effect| match effect {
            Effect::Cancel { token } => Some(*token),
            _ => None,
        };
        next.cancelled = effects.iter().filter_map(cancels).collect();
        for effect in effects {
            match effect {
                Effect::Evaluate { node, attempt } => next.evaluations.push((node, attempt)),
                Effect::Offer { node, attempt } => {
                    let since = self.since(node, attempt, decided_at);
                    let execution = self.state.execution;
                    next.offers.push(Offer { execution, node, attempt, since });
                }
                Effect::Cancel { .. } => {}
                Effect::Run { node, attempt, token } if next.cancelled.contains(&token) => {
                    let outcome = Outcome::Cancelled;
                    let node = Arc::clone(&self.plan.node(node).id);
                    next.never_ran.push(Report { node, attempt, token, outcome });
                }
                Effect::Run { node, attempt, token } => match self.task(node, attempt, token) {
                    Ok(task) => {
                        let since = self.since(node, attempt, decided_at);
                        let execution = self.state.execution;
                        next.runs.push(TaskOrder { execution, task, since });
                    }
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

    /// Since when an attempt might be made: one that a slot was promised to has waited for it.
    fn since(&self, node: NodeIx, attempt: u32, decided_at: Timestamp) -> Timestamp {
        let promised = self.starting.iter().find(|o| (o.node, o.attempt) == (node, attempt));
        promised.map_or(decided_at, |offer| offer.since)
    }

    fn task(&self, at: NodeIx, attempt: u32, token: Token) -> Result<Task, Box<Report>> {
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
        Ok(Task {
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
        })
    }
}
