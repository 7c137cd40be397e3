//! Both state machines: `apply` goes where the tables say from every phase, and refuses the rest; and
//! the cases of the other modules take every arrow through `decide`.

use std::collections::BTreeSet;

use uuid::Uuid;
use waypost_core::apply::apply;
use waypost_core::breaker::BreakerCause;
use waypost_core::budget::{Amount, SpendingLimits, TokensUsed};
use waypost_core::child::ChildState;
use waypost_core::event::{
    ApprovalWait, AttemptReserved, AttemptUsed, BreakerWait, CancelReason, EndCause, Event,
    FailureEnd, NodeEvent, Origin, PauseReason, RunEvent, Wait,
};
use waypost_core::failure::Failure;
use waypost_core::flow::plan;
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::plan::{ConcurrencyPolicy, Plan};
use waypost_core::state::{EarlySignal, Place, Quarantine, State};
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;
use waypost_core::transitions::{NODE, NodePhase, RUN, RunPhase};

use super::run::{Arrow, Arrows, EPOCH, Run};
use super::script::check;
use super::{
    approvals, attempts, bodies, breakers, budgets, children, delivery, ending, pausing, queue,
    recovery, remote, repair, rules, steering, waits,
};

/// An execution of one node, in a phase; ready for every event that the phase allows.
fn execution_at(plan: &Plan, phase: &str) -> State {
    let mut state = Run::born(plan, "{}", None).state;
    let node = state.root.nodes.first_mut().expect("one node");
    (node.status, node.attempt) = (NodeStatus::Completed, 1);
    state.root.unsettled = 0;
    state.epoch = 1;
    let (status, reason) = phase.trim_end_matches(')').split_once('(').unwrap_or((phase, ""));
    state.status = match status {
        "PAUSING" => Status::Running,
        name => Status::ALL.into_iter().find(|s| s.name() == name).expect("a status"),
    };
    state.pausing = phase == "PAUSING";
    if state.status.is_parked() || state.status == Status::Resuming {
        let by_user = phase == "PAUSED" || reason == "paused";
        state.paused = Some(if by_user { PauseReason::User } else { PauseReason::Waits });
    }
    if phase == "SCHEDULING" {
        let (key, limit, policy) = ("k".into(), 1, ConcurrencyPolicy::Queue);
        state.place = Some(Place { key, limit, policy, admitted: false });
        state.owner = Some(InstanceId(Uuid::nil()));
    }
    if phase == "QUARANTINED" || reason == "quarantined" {
        state.quarantine =
            Some(Quarantine { reason: "the test says so".into(), since: Timestamp::default() });
    }
    state
}

fn failure() -> Failure {
    Failure::permanent("broken", "it failed")
}

fn cancel() -> EndCause {
    EndCause::Cancel { reason: None, origin: Origin::default() }
}

fn run_events(state: &State) -> Vec<RunEvent> {
    let origin = Origin { message: Some("m".into()), actor: None };
    vec![
        RunEvent::Created(Box::new(state.created.as_ref().clone())),
        RunEvent::Owned { instance: InstanceId(Uuid::nil()), epoch: state.epoch + 1 },
        RunEvent::Queued { key: "k".into(), limit: 1, policy: ConcurrencyPolicy::Queue },
        RunEvent::Admitted {},
        RunEvent::PauseRequested { now: false, reason: None, origin: origin.clone() },
        RunEvent::BudgetExhausted { node: "a".into(), reason: "it is".into() },
        RunEvent::BudgetSet {
            limits: SpendingLimits { tokens: Some(1), money: None },
            reason: None,
            origin: origin.clone(),
        },
        RunEvent::Paused { reason: PauseReason::Waits },
        RunEvent::Paused { reason: PauseReason::User },
        RunEvent::Paused { reason: PauseReason::Children },
        RunEvent::Resumed { reason: None, origin: origin.clone() },
        RunEvent::Quarantined { reason: "the test says so".into() },
        RunEvent::Ending { cause: cancel(), grace: None },
        RunEvent::Completed { output: Json::null() },
        RunEvent::Failed { failure: failure(), nodes: vec![], output: None },
        RunEvent::Cancelled { reason: None },
        RunEvent::TimedOut {},
        RunEvent::Reopened {
            generation: 2,
            nodes: vec![],
            origin: origin.clone(),
            deadline: None,
            reason: None,
        },
        RunEvent::SignalReceived { name: "go".into(), body: Json::null(), origin },
        RunEvent::SignalDelivered { message: "m".into() },
        RunEvent::MessageIgnored { message: "m".into(), reason: "none".into(), repeatable: false },
    ]
}

/// The cause without which an end is not the one that was fixed.
fn cause_of(event: &RunEvent) -> EndCause {
    match event {
        RunEvent::Failed { .. } => EndCause::Failure { node: "a".into(), failure: failure() },
        RunEvent::TimedOut {} => EndCause::Deadline,
        _ => cancel(),
    }
}

const CHILD: ExecutionNo = ExecutionNo(9);

fn child() -> ExecutionId {
    ExecutionId("exe_child".into())
}

fn node_events(attempt: u32) -> Vec<NodeEvent> {
    let node = || "a".into();
    let failed =
        |end| NodeEvent::Failed { node: node(), attempt, failure: failure(), end, wait: None };
    let wait = Wait::Signal { name: "go".into(), due: None };
    let started = |detached| NodeEvent::ChildStarted {
        node: node(),
        attempt,
        execution: CHILD,
        child: child(),
        workflow: "w".into(),
        version: 1,
        definition: DefinitionHash::of(b"w"),
        detached,
        leave: false,
    };
    let resumed = |timed_out, origin| NodeEvent::Resumed {
        node: node(),
        attempt,
        message: None,
        origin,
        timed_out,
        more: false,
    };
    let by_hand = Origin { message: Some("m".into()), actor: None };
    vec![
        NodeEvent::Scheduled { node: node(), attempt: attempt + 1, cause: vec![], deadline: None },
        NodeEvent::SignalSent {
            node: node(),
            attempt,
            execution: Some(CHILD),
            receiver: Some(child()),
            signal: "go".into(),
            message: "emit-1-2".into(),
        },
        NodeEvent::Reserved(AttemptReserved { node: node(), attempt, amount: Amount::default() }),
        NodeEvent::Used(AttemptUsed {
            node: node(),
            attempt,
            usage: TokensUsed::default(),
            cost: None,
        }),
        NodeEvent::Started {
            node: node(),
            attempt,
            worker: None,
            remote: None,
            token: None,
            due: None,
        },
        NodeEvent::Started {
            node: node(),
            attempt,
            worker: None,
            remote: Some(WorkerId(Uuid::nil())),
            token: Some(Token(1)),
            due: None,
        },
        NodeEvent::Checkpointed { node: node(), attempt, data: Json::null(), number: 0 },
        NodeEvent::Completed {
            node: node(),
            attempt,
            output: None,
            branch: None,
            variables: [].into(),
        },
        failed(FailureEnd::RetryAt(EPOCH)),
        failed(FailureEnd::Abandoned(EPOCH)),
        failed(FailureEnd::Final),
        failed(FailureEnd::TimedOut),
        NodeEvent::Waiting { node: node(), attempt, wait, span: None, message: None },
        NodeEvent::Signalled {
            node: node(),
            attempt,
            which: 0,
            message: "kept".into(),
            more: false,
        },
        NodeEvent::Reminded { node: node(), attempt, escalated: false },
        resumed(true, Origin::default()),
        resumed(false, Origin::default()),
        resumed(false, by_hand),
        NodeEvent::Requeued { node: node(), attempt, origin: Origin::default() },
        NodeEvent::BodyOpened { node: node(), attempt, index: Some(1) },
        NodeEvent::MapOpened {
            node: node(),
            attempt,
            count: 2,
            items: None,
            tolerated: 0,
            results_max: None,
        },
        NodeEvent::ItemsOpened { node: node(), attempt, from: 0, count: 1, items: None, failed: 0 },
        NodeEvent::BodyEnding {
            node: node(),
            attempt,
            index: Some(1),
            failure: failure(),
            whole: false,
            grace: EPOCH,
            origin: Origin::default(),
        },
        NodeEvent::Tuned {
            node: node(),
            attempt,
            held: Some(true),
            concurrency: None,
            reason: None,
            origin: Origin::default(),
        },
        started(false),
        started(true),
        NodeEvent::ChildReopened { node: node(), attempt, execution: CHILD, child: child() },
        NodeEvent::ChildEnded {
            node: node(),
            attempt,
            execution: CHILD,
            generation: 1,
            status: Status::Completed,
        },
        NodeEvent::Skipped { node: node(), cause: vec![] },
        NodeEvent::Cancelled { node: node(), reason: CancelReason::Join },
    ]
}

fn node_at(state: &mut State, phase: &str) {
    let node = state.root.nodes.first_mut().expect("one node");
    let status = phase.split('(').next().unwrap_or(phase);
    let named = |found: &NodeStatus| found.name() == status;
    node.status = NodeStatus::ALL.into_iter().find(named).expect("a status");
    node.attempt = 1;
    node.details_mut().wait = match phase {
        "WAITING(retry)" => Some(Wait::Retry { due: EPOCH }),
        "WAITING" => Some(Wait::Signals { names: vec!["go".into()], need: 1, due: None }),
        "WAITING(body)" => Some(Wait::Body),
        "WAITING(child)" => Some(Wait::Child { child: child() }),
        _ => None,
    };
    let known = ChildState { execution: CHILD, key: child(), ended: 0, leave: false };
    node.details_mut().child = Some(Box::new(known));
    state.children_open = u32::from(phase == "WAITING(child)");
    node.details_mut().arrived = vec![None; usize::from(phase == "WAITING")];
    state.root.unsettled = u32::from(!node.status.is_settled());
    let (message, name) = ("kept".into(), "go".into());
    state.early.push_back(EarlySignal { message, name, body: Json::null(), spread_since: 0 });
    state.queued = u32::from(node.status == NodeStatus::Queued);
    state.running = u32::from(node.status == NodeStatus::Running);
}

/// Applies an event to a copy: where it leads, or nothing where it is refused. What is refused must
/// have changed nothing.
fn step(plan: &Plan, state: &State, event: impl Into<Event>) -> Option<State> {
    let event = event.into();
    let mut after = state.clone();
    let refused = apply(plan, &mut after, &event, EPOCH).is_err();
    if refused {
        assert_eq!(after, *state, "{event:?} was refused and changed the state");
        return None;
    }
    assert_eq!(after.seq, state.seq + 1);
    Some(after)
}

#[test]
fn apply_moves_executions_along_the_table_and_refuses_the_rest() {
    let plan = plan("budget 10\na");
    for (row, from) in RUN.iter().flat_map(|row| RunPhase::ALL.map(|from| (row, from))) {
        let state = execution_at(&plan, from.name());
        assert_eq!(state.phase(), from, "the test builds what it says");
        let event = run_events(&state).into_iter().find(|event| event.row().name == row.name);
        let event = event.unwrap_or_else(|| panic!("{} is no event", row.name));
        let state = match from {
            RunPhase::Ending => {
                let owner = Some(InstanceId(Uuid::nil()));
                State { cause: Some(cause_of(&event)), owner, children_open: 1, ..state }
            }
            _ => state,
        };
        let found = step(&plan, &state, event);
        assert_eq!(found.map(|state| state.phase()), row.from(from), "{from:?}, {}", row.name);
    }
}

#[test]
fn apply_moves_nodes_along_the_table_and_refuses_the_rest() {
    let (plan, map) = (plan(LOOP), plan(MAP));
    for (row, from) in NODE.iter().flat_map(|row| NodePhase::ALL.map(|from| (row, from))) {
        let mut state = execution_at(&plan, "RUNNING");
        node_at(&mut state, from.name());
        let plan = if is_of_maps(row.name) { &map } else { &plan };
        open_scope_for(plan, &mut state, row.name);
        let found = step(plan, &state, node_event(row.name));
        let found = found.map(|state| state.root.nodes[0].phase());
        assert_eq!(found, row.from(from), "{from:?}, {}", row.name);
    }
}

#[test]
fn nodes_move_only_where_their_execution_lets_them() {
    let (plan, map) = (plan(LOOP), plan(MAP));
    for (row, phase) in NODE.iter().flat_map(|row| RunPhase::ALL.map(|phase| (row, phase))) {
        let is_legal = |node: NodePhase| {
            let mut state = execution_at(&plan, phase.name());
            node_at(&mut state, node.name());
            let plan = if is_of_maps(row.name) { &map } else { &plan };
            open_scope_for(plan, &mut state, row.name);
            step(plan, &state, node_event(row.name)).is_some()
        };
        let legal = NodePhase::ALL.into_iter().any(is_legal);
        assert_eq!(legal, row.during.contains(&phase), "{phase:?}, {}", row.name);
    }
}

/// A node that may have every event.
const LOOP: &str = "a = loop(until true) {b}";

/// A map that may have the events of maps.
const MAP: &str = "a = map(2) {b}";

fn is_of_maps(row: &str) -> bool {
    matches!(row, "MapOpened" | "ItemsOpened" | "NodeTuned")
}

/// Only a scope that is open can end.
fn open_scope_for(plan: &Plan, state: &mut State, row: &str) {
    if row == "NodeUsed" && state.root.nodes[0].phase() == NodePhase::Running {
        state.root.nodes[0].details_mut().reserved = Some(Amount::default());
    }
    if row == "NodeReminded" && state.root.nodes[0].phase() == NodePhase::Waiting {
        let approval = ApprovalWait {
            title: "ship".into(),
            description: None,
            approvers: vec![],
            due: None,
            remind: Some(EPOCH),
            escalate: None,
            escalate_to: vec![],
        };
        state.root.nodes[0].details_mut().wait = Some(Wait::Approval(Box::new(approval)));
    }
    if row == "NodeRequeued" && state.root.nodes[0].phase() == NodePhase::Waiting {
        let (key, cause) = ("k".into(), BreakerCause::Crowded);
        let wait = Wait::Breaker(Box::new(BreakerWait { key, due: EPOCH, cause }));
        state.root.nodes[0].details_mut().wait = Some(wait);
    }
    if row == "BodyEnding" && state.root.nodes[0].phase() == NodePhase::WaitingBody {
        let mut running = execution_at(plan, "RUNNING");
        node_at(&mut running, "RUNNING");
        let opened = step(plan, &running, node_event("BodyOpened")).expect("a scope is opened");
        state.root.nodes[0].details_mut().body.clone_from(&opened.root.nodes[0].body);
        state.inner = opened.inner;
    }
    if matches!(row, "ItemsOpened" | "NodeTuned")
        && state.root.nodes[0].phase() == NodePhase::WaitingBody
    {
        let mut running = execution_at(plan, "RUNNING");
        node_at(&mut running, "RUNNING");
        let mapped = step(plan, &running, node_event("MapOpened")).expect("it knows its items");
        state.root.nodes[0].details_mut().body.clone_from(&mapped.root.nodes[0].body);
    }
}

fn node_event(row: &str) -> NodeEvent {
    let event = node_events(1).into_iter().find(|event| event.row().name == row);
    event.unwrap_or_else(|| panic!("{row} is no event"))
}

/// The names of the table are those of the log, and phases that share a status agree on where an
/// event leads: the projections know the status alone.
#[test]
fn tables_agree_with_the_log_and_the_statuses() {
    let state = execution_at(&plan("a"), "RUNNING");
    let run = run_events(&state).into_iter().map(Event::from);
    for event in run.chain(node_events(1).into_iter().map(Event::from)) {
        let text = serde_json::to_string(&event).expect("it is JSON");
        assert!(text.starts_with(&format!("{{\"{}\":{{", event.name())), "{text}");
    }
    for row in RUN {
        for (from, to) in row.arrows() {
            let others = row.arrows().filter(|(other, _)| *other == from);
            assert!(others.map(|(_, to)| to).all(|other| other == to), "{from}, {}", row.name);
        }
    }
}

fn refused(plan: &Plan, state: &State, event: impl Into<Event>) {
    let event = event.into();
    assert!(step(plan, state, event.clone()).is_none(), "{event:?}");
}

#[test]
fn events_that_do_not_fit_are_refused() {
    let plan = plan("a");
    let mut running = execution_at(&plan, "RUNNING");
    node_at(&mut running, "RUNNING");
    let instance = InstanceId(Uuid::nil());
    // Ownership grows by one; the frame of an owner that was passed over does not fit.
    refused(&plan, &running, RunEvent::Owned { instance, epoch: 1 });
    refused(&plan, &running, RunEvent::Owned { instance, epoch: 3 });
    // Nothing ends or is set aside while something runs.
    refused(&plan, &running, RunEvent::Completed { output: Json::null() });
    refused(&plan, &running, RunEvent::Quarantined { reason: String::new() });
    let pausing = State { pausing: true, ..running.clone() };
    refused(&plan, &pausing, RunEvent::Paused { reason: PauseReason::User });
    // Another attempt, another node.
    let late: Vec<NodeEvent> = node_events(2).into_iter().chain(node_events(0)).collect();
    let about_attempts = |event: &NodeEvent| !matches!(event, NodeEvent::Cancelled { .. });
    late.into_iter().filter(about_attempts).for_each(|event| refused(&plan, &running, event));
    refused(&plan, &running, NodeEvent::Cancelled { node: "b".into(), reason: CancelReason::Join });
    // A retry is opened by a failure, not by a wait.
    let wait = Wait::Retry { due: EPOCH };
    refused(
        &plan,
        &running,
        NodeEvent::Waiting { node: "a".into(), attempt: 1, wait, span: None, message: None },
    );
    // The cause fixes the end.
    let ending = State { cause: Some(EndCause::Deadline), ..execution_at(&plan, "ENDING") };
    refused(&plan, &ending, RunEvent::Cancelled { reason: None });
    refused(&plan, &ending, RunEvent::Failed { failure: failure(), nodes: vec![], output: None });
    // A generation follows the last one, and runs again what did not complete.
    let failed = execution_at(&plan, "FAILED");
    let reopened = |generation, nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| (*node).into()).collect();
        RunEvent::Reopened {
            generation,
            nodes,
            origin: Origin::default(),
            deadline: None,
            reason: None,
        }
    };
    refused(&plan, &failed, reopened(1, &[]));
    refused(&plan, &failed, reopened(3, &[]));
    refused(&plan, &failed, reopened(2, &["nowhere"]));
    refused(&plan, &failed, reopened(2, &["a"]));
    let mut cancelled = execution_at(&plan, "CANCELLED");
    node_at(&mut cancelled, "CANCELLED");
    refused(&plan, &cancelled, reopened(2, &["a", "a"]));
    assert!(step(&plan, &cancelled, reopened(2, &["a"])).is_some());
    // A place in the queue is taken once, kept until the slot, and not left for another one.
    let queued = |key: &str| {
        let policy = ConcurrencyPolicy::Queue;
        RunEvent::Queued { key: key.into(), limit: 1, policy }
    };
    let waits = execution_at(&plan, "SCHEDULING");
    refused(&plan, &waits, queued("another"));
    let unowned = State { owner: None, ..waits.clone() };
    refused(&plan, &unowned, queued("k"));
    refused(&plan, &unowned, RunEvent::Admitted {});
    let admitted = step(&plan, &waits, RunEvent::Admitted {}).expect("it stood in the queue");
    refused(&plan, &admitted, queued("k"));
    refused(&plan, &admitted, RunEvent::Admitted {});
    let mut begun = execution_at(&plan, "SCHEDULED");
    node_at(&mut begun, "QUEUED");
    refused(&plan, &begun, queued("k"));
    // A signal without an id could never be known again.
    let signal = RunEvent::SignalReceived {
        name: "go".into(),
        body: Json::null(),
        origin: Origin::default(),
    };
    refused(&plan, &running, signal);
}

#[test]
fn a_log_begins_with_its_creation() {
    let plan = plan("a");
    let state = execution_at(&plan, "RUNNING");
    let begin = |event: &Event| {
        waypost_core::apply::begin(&plan, state.execution, event, Timestamp(5)).is_ok()
    };
    for event in run_events(&state) {
        let first = matches!(event, RunEvent::Created(_));
        assert_eq!(begin(&event.into()), first);
    }
    assert!(node_events(1).into_iter().all(|event| !begin(&event.into())));
}

/// Every arrow of the machines is taken by some case of the tables, through `decide`; and no case
/// takes one that the machines do not have.
#[test]
fn the_tables_take_every_arrow() {
    let mut taken = Arrows::default();
    for cases in [
        rules::CASES,
        bodies::CASES,
        steering::CASES,
        children::CASES,
        attempts::CASES,
        budgets::CASES,
        waits::CASES,
        approvals::CASES,
        pausing::CASES,
        ending::CASES,
        recovery::CASES,
        repair::CASES,
        delivery::CASES,
        queue::CASES,
        remote::CASES,
        breakers::CASES,
    ] {
        let arrows = check(cases);
        taken.execution.extend(arrows.execution);
        taken.node.extend(arrows.node);
    }
    let run = RUN.iter().flat_map(|row| RunPhase::ALL.map(|from| (row, from)));
    let run = run.filter_map(|(row, from)| Some((from.name(), row.name, row.from(from)?.name())));
    compare(&taken.execution, run);
    let node = NODE.iter().flat_map(|row| NodePhase::ALL.map(|from| (row, from)));
    let node = node.filter_map(|(row, from)| Some((from.name(), row.name, row.from(from)?.name())));
    compare(&taken.node, node);
}

fn compare(taken: &BTreeSet<Arrow>, table: impl Iterator<Item = Arrow>) {
    let legal: BTreeSet<Arrow> = table.collect();
    let missing: Vec<_> = legal.difference(taken).collect();
    let unknown: Vec<_> = taken.difference(&legal).collect();
    assert!(missing.is_empty(), "no case takes {missing:#?}");
    assert!(unknown.is_empty(), "not in the table: {unknown:#?}");
}
