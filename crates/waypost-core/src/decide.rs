//! `decide`: what happens next. Pure, synchronous, deterministic.
//!
//! ```text
//!   decide ── queue.rs     the queue for a permit of the concurrency key
//!          ├─ request.rs   control requests: cancel, pause, resume, retry, signal, complete a wait
//!          ├─ report.rs    workers' reports: completions, failures, retries
//!          ├─ evaluate.rs  control nodes: conditions, values, waits
//!          ├─ approval.rs  decisions of people
//!          ├─ signals.rs   signals, and who gets them; awaiting.rs: the waits for them
//!          ├─ scope.rs     what the expressions of a node see
//!          ├─ body.rs      containers: groups and loops
//!          ├─ budget.rs    what attempts reserve before they start, and use
//!          ├─ children.rs  executions that nodes start; emit.rs: signals to others
//!          ├─ breaker.rs   attempts that wait for a circuit breaker
//!          ├─ graph.rs     what a settled node opens, skips or ends
//!          ├─ time.rs      due timers
//!          └─ recover.rs   continuing after a take-over: the same steps from a loaded state
//! ```
//!
//! Each event is folded into the state as soon as it is decided (`emit`), so that later steps of
//! the decision see it. A rejected command has changed nothing. If the commit of a decision is lost
//! to another owner, the whole state is discarded; nothing is ever rolled back.

mod approval;
mod awaiting;
mod body;
mod breaker;
mod budget;
mod callback;
mod children;
mod emit;
mod evaluate;
mod graph;
mod maps;
mod queue;
mod recover;
mod report;
mod request;
mod scope;
mod signals;
mod time;

use std::sync::Arc;

use crate::apply::{apply_at, begin};
use crate::command::{Command, Decision, Effect, Env, FirstSignal, Refusal};
use crate::event::{CancelReason, Event, NodeEvent, Origin, PauseReason, RunCreated, RunEvent};
use crate::id::{ExecutionNo, Token};
use crate::path::At;
use crate::plan::{Plan, PlanNode};
use crate::planted::{Bug, is_planted};
use crate::slot::SlotCounts;
use crate::state::{NodeState, State};
use crate::status::{NodeStatus, Status};

pub(crate) use report::{outcome_unknown, stopped_by_worker};
pub(crate) use scope::key_path;
pub use scope::{idempotency_key, render_breaker, render_task};

/// Decides the first frame of a new execution. A signal that comes with it is there before the first node
/// begins.
pub fn create(
    plan: &Plan,
    execution: ExecutionNo,
    created: RunCreated,
    signal: Option<FirstSignal>,
    env: &Env,
) -> (State, Decision) {
    let first = Event::Run(RunEvent::Created(Box::new(created)));
    let mut state = begin(plan, execution, &first, env.now).expect("the first event is RunCreated");
    let mut decider = Decider::new(plan, &mut state, env);
    decider.decision.events.push(first);
    decider.emit(RunEvent::Owned { instance: env.instance, epoch: 1 });
    if let Some(FirstSignal { name, body, origin }) = signal {
        let origin = decider.identified(origin);
        decider.emit(RunEvent::SignalReceived { name, body, origin });
    }
    decider.begin();
    decider.finish();
    let decision = decider.decision;
    (state, decision)
}

/// Decides that an execution which has ended is opened again for the one that started it. It is unowned
/// then.
pub fn reopen(plan: &Plan, state: &mut State, env: &Env) -> Result<Decision, Refusal> {
    let nodes = state.retries(plan)?.into_iter().map(|node| state.path(plan, node)).collect();
    let mut decider = Decider::new(plan, state, env);
    let reason = "the execution that started it tries again".to_owned();
    decider.reopen(nodes, Some(reason), Origin::default());
    Ok(decider.decision)
}

/// Decides one command. On `Ok` the state includes the decision's events.
pub fn decide(
    plan: &Plan,
    state: &mut State,
    command: Command,
    env: &Env,
) -> Result<Decision, Refusal> {
    env.contents.forgive();
    // Others put off what misses a content, and do the rest.
    let whole = matches!(
        command,
        Command::Evaluate { .. }
            | Command::Report(_)
            | Command::Request(..)
            | Command::ChildEnded(_)
    );
    let mut decider = Decider::new(plan, state, env);
    match command {
        Command::TakeOver => decider.take_over()?,
        Command::Recover => decider.recover(),
        Command::HandOver => decider.hand_over(),
        Command::Admit => decider.admit()?,
        Command::Evaluate { node, attempt } => decider.evaluate(node, attempt),
        Command::Start { node, attempt } => decider.start_queued(node, attempt),
        Command::Launch { node, attempt, launch } => decider.launch(node, attempt, launch),
        Command::ChildEnded(end) => decider.child_ended(*end)?,
        Command::Reject { holding } => decider.reject(holding),
        Command::Report(report) => decider.report(report)?,
        Command::Unofferable { node, attempt, failure } => {
            decider.unofferable(node, attempt, failure);
        }
        Command::Ignore { message, reason, repeatable } => {
            decider.ignore_message(message, reason, repeatable)?;
        }
        Command::Request(request, origin) => decider.request(request, origin)?,
        Command::OpenItems => decider.open_items_of_maps(),
        Command::GoOn | Command::Deliver if decider.state.acts() => {
            decider.deliver_kept_signals();
        }
        Command::GoOn | Command::Deliver => {}
        Command::Tick => decider.tick(),
        Command::Park => decider.park()?,
    }
    if whole && decider.decision.events.is_empty() && env.contents.has_missed() {
        return Err(Refusal::Missed(env.contents.missed()));
    }
    decider.finish();
    decider.decision.missed = env.contents.missed();
    Ok(decider.decision)
}

/// One decision in the making.
struct Decider<'a> {
    plan: &'a Plan,
    state: &'a mut State,
    env: &'a Env,
    slots: SlotCounts,
    decision: Decision,
    /// What waits for contents of blobs: due waits, and containers.
    put_off: Vec<At>,
    /// May there be nodes that wait for room to start an execution?
    crowded_out: bool,
}

impl<'a> Decider<'a> {
    fn new(plan: &'a Plan, state: &'a mut State, env: &'a Env) -> Self {
        let crowded_out = !state.has_room_for_child();
        Self {
            plan,
            state,
            env,
            slots: env.slots,
            decision: Decision::default(),
            put_off: Vec::new(),
            crowded_out,
        }
    }

    /// Records a fact about the execution and folds it in.
    fn emit(&mut self, event: RunEvent) {
        self.fold(event.into(), None);
    }

    /// Records a fact about a node and folds it in.
    fn emit_at(&mut self, at: At, event: NodeEvent) {
        self.fold(event.into(), Some(at));
    }

    fn fold(&mut self, event: Event, at: Option<At>) {
        apply_at(self.plan, self.state, &event, at, self.env.now)
            .expect("decide only emits events that the state machines allow");
        self.decision.events.push(event);
    }

    fn effect(&mut self, effect: Effect) {
        self.decision.effects.push(effect);
    }

    fn node(&self, at: At) -> &NodeState {
        self.state.node(at)
    }

    /// Is a node at this attempt and in this status? Checked for reports from outside, which may be
    /// about anything.
    fn is_at(&self, at: At, status: NodeStatus, attempt: u32) -> bool {
        let node = self.state.get(at);
        node.is_some_and(|node| node.status == status && node.attempt == attempt)
    }

    /// Is a node in this status? False where its scope has closed, as it may within a decision.
    fn is_in(&self, at: At, status: NodeStatus) -> bool {
        self.state.get(at).is_some_and(|node| node.status == status)
    }

    fn plan_node(&self, at: At) -> &'a PlanNode {
        self.plan.node(at.node)
    }

    fn path(&self, at: At) -> Arc<str> {
        self.state.path(self.plan, at)
    }

    fn cancel_node(&mut self, at: At, reason: CancelReason) {
        self.emit_at(at, NodeEvent::Cancelled { node: self.path(at), reason });
    }

    /// A token for one delivery: a hash of the decision's entropy and the attempt. The scope is a
    /// part of it: one decision may start the same node of many items.
    fn token(&self, at: At, attempt: u32) -> Token {
        let attempt = (u64::from(at.node.0) << 32) | u64::from(attempt);
        let scope = if is_planted(Bug::TokenWithoutScope) { 0 } else { at.scope.0 };
        let what = (u128::from(scope) << 64) | u128::from(attempt);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.env.entropy.to_le_bytes());
        hasher.update(&what.to_le_bytes());
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Token(u128::from_le_bytes(bytes))
    }

    fn refuse_ended(&self) -> Result<(), Refusal> {
        let status = self.state.status;
        if status.is_end() { Err(Refusal::Ended(status)) } else { Ok(()) }
    }

    /// Leaves memory with nothing to do; a timer or mail brings it back. An execution that was
    /// taken over and may continue has to recover first: nothing would bring it back for that.
    fn park(&mut self) -> Result<(), Refusal> {
        if self.state.status == Status::Scheduling {
            return self.requeue();
        }
        if self.state.status == Status::Ending && self.state.owner.is_some() {
            return self.park_for_children();
        }
        let recovers = self.state.moves() && self.state.status != Status::Running;
        if !self.state.is_awake() || recovers || !self.state.is_idle() {
            return Err(Refusal::Busy);
        }
        let reason = if self.state.moves() { PauseReason::Waits } else { PauseReason::User };
        self.emit(RunEvent::Paused { reason });
        Ok(())
    }
}
