//! From effects to orders: the consequences of a decision once it is durable.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use waypost_core::breaker::BreakerRef;
use waypost_core::callback::{OperationRef, operation_of};
use waypost_core::command::{Effect, Outcome, Report};
use waypost_core::decide::{idempotency_key, render_breaker, render_task};
use waypost_core::expr::{Contents, Placeholder, Rendered, Wanted};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionNo, Token, WorkerId};
use waypost_core::kind::Behaviour;
use waypost_core::path::At;
use waypost_core::plan::{Delivery, Plan};
use waypost_core::slot::{SlotClass, SlotCounts};
use waypost_core::state::State;
use waypost_core::time::Timestamp;
use waypost_ports::handler::{Marks, Task};
use waypost_ports::tasks::OfferId;

use super::{Live, panic_text};
use crate::driver::fetching::{NotRendered, Unrendered};
use crate::driver::io::{EndSummary, OfferOrder, TaskOrder};
use crate::driver::slots::{FrameSlots, Offer, SlotGrant};
use crate::sealed::OfferedTask;
use crate::sealed_secrets::secrets_queue;

/// The consequences of a commit, or of a decision that had nothing to commit.
#[derive(Default)]
pub(in crate::driver) struct Consequences {
    pub(in crate::driver) evaluations: Vec<(At, u32)>,
    pub(in crate::driver) launches: Vec<(At, u32)>,
    /// Executions that began or were opened again with the frame.
    pub(in crate::driver) born: Vec<ExecutionNo>,
    /// Did it send messages to others?
    pub(in crate::driver) sent: bool,
    pub(in crate::driver) runs: Vec<(TaskOrder, SlotGrant)>,
    pub(in crate::driver) offers: Vec<Offer>,
    /// Attempts whose configs cannot be rendered yet, and the contents that they miss.
    pub(in crate::driver) unrendered: Vec<(Unrendered, Vec<Wanted>)>,
    /// Attempts to cancel, with the worker of a remote one.
    pub(in crate::driver) cancelled: Vec<(Token, Option<WorkerId>)>,
    pub(in crate::driver) started_remote: Vec<At>,
    /// Attempts that were started in the log and will not be made: their config cannot be rendered,
    /// or they were cancelled in the frame that started them.
    pub(in crate::driver) never_ran: Vec<Report>,
    pub(in crate::driver) leaves: Option<Leave>,
}

/// Why an execution leaves memory after a commit.
pub(in crate::driver) enum Leave {
    Ended(EndSummary),
    Parked,
    /// Its attempts are closed as handed over, and the next owner continues it.
    HandedOver,
}

impl Live {
    /// Effects become orders. `slots` are those of the attempts that they start.
    pub(super) fn follow(
        &self,
        effects: Vec<Effect>,
        mut slots: FrameSlots,
        decided_at: Timestamp,
    ) -> Consequences {
        let mut next = Consequences::default();
        let cancels = |effect: &Effect| match effect {
            Effect::Cancel { token, worker } => Some((*token, *worker)),
            _ => None,
        };
        next.cancelled = effects.iter().filter_map(cancels).collect();
        let here = next.cancelled.iter().filter(|(_, worker)| worker.is_none());
        let cancelled: HashSet<Token> = here.map(|(token, _)| *token).collect();
        for effect in effects {
            match effect {
                Effect::Evaluate { node, attempt } => next.evaluations.push((node, attempt)),
                Effect::Launch { node, attempt } => next.launches.push((node, attempt)),
                Effect::Offer { node, attempt } => {
                    let since = self.since(node, attempt, decided_at);
                    let execution = self.state.execution;
                    next.offers.push(Offer { execution, node, attempt, since });
                }
                Effect::Cancel { .. } => {}
                Effect::Run { node, attempt, token } if cancelled.contains(&token) => {
                    let outcome = Outcome::Cancelled;
                    let node = self.state.path(&self.plan, node);
                    let worker = None;
                    next.never_ran.push(Report { node, attempt, token, worker, outcome });
                }
                Effect::Run { node, attempt, token } => {
                    let since = self.since(node, attempt, decided_at);
                    let execution = self.state.execution;
                    let slot = slots.split_one(self.slot(node).unwrap_or(SlotClass::Work));
                    match self.task(node, attempt, token) {
                        Ok(task) => next.runs.push((TaskOrder { execution, task, since }, slot)),
                        Err(NotRendered::Failed(report)) => next.never_ran.push(*report),
                        Err(NotRendered::Missed(missed)) => {
                            let run = Unrendered { node, attempt, token, since, slot };
                            next.unrendered.push((run, missed));
                        }
                    }
                }
            }
        }
        next.leaves = match &self.state.end {
            Some(end) => Some(Leave::Ended(EndSummary {
                status: self.state.status,
                output: end.output.clone(),
                failure: end.failure.clone(),
            })),
            None => self.handed_over.then_some(Leave::HandedOver),
        };
        next
    }

    /// Since when an attempt might start: one that a slot was promised to has waited for it.
    fn since(&self, node: At, attempt: u32, decided_at: Timestamp) -> Timestamp {
        self.starting.get(&(node, attempt)).copied().unwrap_or(decided_at)
    }

    pub(in crate::driver) fn task(
        &self,
        at: At,
        attempt: u32,
        token: Token,
    ) -> Result<Task, NotRendered> {
        let node = self.plan.node(at.node);
        let Some(handler) = self.handler(at) else {
            unreachable!("only tasks are run in slots");
        };
        let path = self.state.path(&self.plan, at);
        let breaker = || self.render_with(at, "the key of the breaker", render_breaker);
        let rendered = self.render(at).and_then(|rendered| Ok((rendered, breaker()?)));
        let (rendered, breaker): (_, Option<BreakerRef>) =
            rendered.map_err(|(failure, missed)| {
                if !missed.is_empty() {
                    return NotRendered::Missed(missed);
                }
                let (worker, outcome) = (None, Outcome::Failed(failure));
                let node = Arc::clone(&path);
                NotRendered::Failed(Box::new(Report { node, attempt, token, worker, outcome }))
            })?;
        Ok(Task {
            execution: self.state.created.key.clone(),
            workflow: Arc::clone(&self.plan.workflow),
            path,
            attempt,
            handler: Arc::clone(handler),
            config: rendered.config,
            operation: self.operation(at, &rendered.secrets),
            placeholders: rendered.secrets,
            secrets: Vec::new(),
            timeout: node.timeout,
            heartbeat: node.heartbeat,
            breaker,
            marks: Marks::none(),
            checkpoint: self.state.node(at).checkpoint.clone(),
            idempotency_key: idempotency_key(&self.plan, &self.state, at),
            token,
        })
    }

    /// Renders the config of a task, or of what a node starts. A failure comes with the contents that were missed.
    pub(in crate::driver) fn render(&self, at: At) -> Result<Rendered, (Failure, Vec<Wanted>)> {
        self.render_with(at, "the config", render_task)
    }

    fn render_with<T>(
        &self,
        at: At,
        what: &str,
        render: fn(&Plan, &State, At, &Contents) -> Result<T, Failure>,
    ) -> Result<T, (Failure, Vec<Wanted>)> {
        let contents = self.fetches.contents();
        let render = AssertUnwindSafe(|| render(&self.plan, &self.state, at, &contents));
        let rendered = catch_unwind(render).unwrap_or_else(|panic| {
            let message = format!("rendering {what} panicked: {}", panic_text(&*panic));
            Err(Failure::permanent(kind::EXPRESSION, message))
        });
        rendered.map_err(|failure| (failure, contents.missed()))
    }

    /// The offer of a queued attempt to remote workers, or why there can be none.
    pub(in crate::driver) fn offer(
        &self,
        at: At,
        attempt: u32,
    ) -> Result<OfferOrder, (Failure, Vec<Wanted>)> {
        let node = self.plan.node(at.node);
        let Some(handler) = self.handler(at) else {
            unreachable!("only tasks are offered");
        };
        let rendered = self.render(at)?;
        // Both are filled in when the task is handed to a worker: the link of a callback, and secrets.
        let has_secrets = rendered.secrets.iter().any(|place| !place.is_callback());
        if has_secrets && !node.behaviour.is_remote() {
            let message = "only a `worker` node gives secrets to a remote worker";
            return Err((Failure::permanent(kind::SECRET, message), Vec::new()));
        }
        let (execution, path) = (self.state.execution, self.state.path(&self.plan, at));
        Ok(OfferOrder {
            id: OfferId { execution, path, attempt },
            handler: if has_secrets { secrets_queue(handler) } else { Arc::clone(handler) },
            task: OfferedTask {
                execution: self.state.created.key.clone(),
                workflow: Arc::clone(&self.plan.workflow),
                input: rendered.config,
                operation: self.operation(at, &rendered.secrets),
                placeholders: rendered.secrets,
                timeout: node.timeout,
                heartbeat: node.heartbeat,
                idempotency_key: idempotency_key(&self.plan, &self.state, at),
                checkpoint: self.state.node(at).checkpoint.clone(),
                at_most_once: node.delivery == Delivery::AtMostOnce,
            },
        })
    }

    /// The operation that a link in one of these places is for.
    fn operation(&self, at: At, places: &[Placeholder]) -> Option<OperationRef> {
        let wanted = places.iter().any(Placeholder::is_callback);
        wanted.then(|| operation_of(&self.plan, &self.state, at)).flatten()
    }

    pub(in crate::driver) fn handler(&self, at: At) -> Option<&Arc<str>> {
        match &self.plan.nodes.get(at.node.at())?.behaviour {
            Behaviour::Task { handler, .. } => Some(handler),
            _ => None,
        }
    }

    /// The slot in which a task runs here; none if its handler is only remote.
    pub(in crate::driver) fn slot(&self, at: At) -> Option<SlotClass> {
        self.plan.nodes.get(at.node.at())?.behaviour.slot()
    }

    /// How many attempts these effects start here.
    pub(super) fn runs_in(&self, effects: &[Effect]) -> SlotCounts {
        let mut runs = SlotCounts::default();
        for effect in effects {
            if let Effect::Run { node, .. } = effect
                && let Some(class) = self.slot(*node)
            {
                *runs.of(class) += 1;
            }
        }
        runs
    }

    /// May a task leave this process: does its config need no secret, does it have no breaker, which
    /// a remote worker would not ask, and has it reserved nothing of a budget? A remote worker may begin
    /// before its start is in the log; if the node were cancelled then, its reservation would be given back
    /// as if nothing had been used.
    pub(in crate::driver) fn may_leave(&self, at: At) -> bool {
        if self.state.get(at).is_some_and(|node| node.reserved.is_some()) {
            return false;
        }
        let mut secrets = false;
        if let Some(node) = self.plan.nodes.get(at.node.at()) {
            if node.breaker.is_some() {
                return false;
            }
            node.behaviour.visit(&mut |hole| secrets |= hole.references().mentions("secrets"));
        }
        !secrets
    }
}
