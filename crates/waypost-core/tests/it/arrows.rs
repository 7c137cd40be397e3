//! Both state machines: every pair of stand and event, legal or refused; and that the tables of the
//! other modules take every legal arrow through `decide`.
//!
//! A stand is a status, split where a reason makes a difference (`RESUMING(paused)`: paused by a user, and loaded by an owner).

use std::collections::BTreeSet;

use uuid::Uuid;
use waypost_core::apply::apply;
use waypost_core::event::{
    CancelReason, EndCause, Event, FailureEnd, NodeEvent, Origin, PauseReason, RunEvent, Wait,
};
use waypost_core::failure::Failure;
use waypost_core::flow::plan;
use waypost_core::id::InstanceId;
use waypost_core::json::Json;
use waypost_core::plan::{ConcurrencyPolicy, Plan};
use waypost_core::state::{Place, Quarantine, State};
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;

use super::run::{Arrow, Arrows, EPOCH, Run, node_stand, node_step, run_step, stand};
use super::script::check;
use super::{attempts, delivery, ending, pausing, queue, recovery, remote, repair, rules, waits};

/// The machine of executions. A cell is where the event leads; `-` is refused.
const EXECUTION: &str = "
                   REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ END COM FAI CAN TIM
 RunCreated         -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   -
 RunOwned          SCH SNG SCH RUN PSG RES RSP RSQ RES RSP RSQ END  -   -   -   -
 RunQueued          -  SNG SNG  -   -   -   -   -   -   -   -   -   -   -   -   -
 RunAdmitted        -  SCH  -   -   -   -   -   -   -   -   -   -   -   -   -   -
 RunPauseRequested PSG  -  PSG PSG  -  PAU  -   -  PSG  -   -   -   -   -   -   -
 RunPaused(waits)   -   -   -  WAI  -   -   -   -   -   -   -   -   -   -   -   -
 RunPaused(user)    -   -   -   -  PAU  -   -   -   -  PAU QUA  -   -   -   -   -
 RunResumed         -   -   -   -  RUN  -  RUN RUN RUN RUN RUN  -   -   -   -   -
 RunQuarantined     -   -   -  QUA QUA  -   -   -   -   -   -   -   -   -   -   -
 RunEnding         END END END END END END END END END END END  -   -   -   -   -
 RunCompleted       -   -  COM COM COM  -   -   -  COM  -   -   -   -   -   -   -
 RunFailed          -   -   -  FAI FAI  -   -   -  FAI  -   -  FAI  -   -   -   -
 RunCancelled       -   -   -   -   -   -   -   -   -   -   -  CAN  -   -   -   -
 RunTimedOut        -   -   -   -   -   -   -   -   -   -   -  TIM  -   -   -   -
 RunReopened        -   -   -   -   -   -   -   -   -   -   -   -   -  SCH SCH SCH
 SignalReceived    REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ  -   -   -   -   -
 MessageIgnored    REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ END  -   -   -   -
";

/// The machine of nodes, in an execution that is RUNNING.
const NODE: &str = "
                       PEN QUE RUN WAI WRT COM FAI TIM SKI CAN
 NodeScheduled         QUE  -   -   -  QUE  -   -   -   -   -
 NodeStarted            -  RUN  -   -   -   -   -   -   -   -
 NodeCheckpointed       -   -  RUN  -   -   -   -   -   -   -
 NodeCompleted          -   -  COM  -   -   -   -   -   -   -
 NodeFailed(retry)      -   -  WRT WRT  -   -   -   -   -   -
 NodeFailed(abandoned)  -   -  WRT  -   -   -   -   -   -   -
 NodeFailed(final)      -  FAI FAI  -   -   -   -   -   -   -
 NodeFailed(timed_out)  -  TIM TIM TIM TIM  -   -   -   -   -
 NodeWaiting            -   -  WAI  -   -   -   -   -   -   -
 NodeResumed            -   -   -  RUN  -   -   -   -   -   -
 NodeResumed(somebody)  -   -   -  RUN WRT  -   -   -   -   -
 NodeSkipped           SKI  -   -   -   -   -   -   -   -   -
 NodeCancelled         CAN CAN CAN CAN CAN  -   -   -   -   -
";

/// Where an execution stands when something may happen to a node that is ready for it.
const NODE_IN_EXECUTION: &str = "
                       REQ SNG SCH RUN PSG WAI PAU QUA RES RSP RSQ END COM FAI CAN TIM
 NodeScheduled          -   -  yes yes  -   -   -   -  yes  -   -   -   -   -   -   -
 NodeStarted            -   -  yes yes  -   -   -   -  yes  -   -   -   -   -   -   -
 NodeSkipped            -   -  yes yes  -   -   -   -  yes  -   -   -   -   -   -   -
 NodeWaiting            -   -  yes yes yes  -   -   -  yes yes yes  -   -   -   -   -
 NodeResumed            -   -  yes yes yes  -   -   -  yes yes yes  -   -   -   -   -
 NodeResumed(somebody)  -   -  yes yes  -   -   -   -  yes  -   -   -   -   -   -   -
 NodeCheckpointed       -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
 NodeCompleted          -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
 NodeFailed(retry)      -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
 NodeFailed(abandoned)  -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
 NodeFailed(final)      -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
 NodeFailed(timed_out)  -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
 NodeCancelled          -   -  yes yes yes  -   -   -  yes yes yes yes  -   -   -   -
";

const STANDS: &[(&str, &str)] = &[
    ("REQ", "REQUESTED"),
    ("SNG", "SCHEDULING"),
    ("SCH", "SCHEDULED"),
    ("RUN", "RUNNING"),
    ("PSG", "PAUSING"),
    ("WAI", "WAITING"),
    ("PAU", "PAUSED"),
    ("QUA", "QUARANTINED"),
    ("RES", "RESUMING"),
    ("RSP", "RESUMING(paused)"),
    ("RSQ", "RESUMING(quarantined)"),
    ("END", "ENDING"),
    ("COM", "COMPLETED"),
    ("FAI", "FAILED"),
    ("CAN", "CANCELLED"),
    ("TIM", "TIMED_OUT"),
];

const NODE_STANDS: &[(&str, &str)] = &[
    ("PEN", "PENDING"),
    ("QUE", "QUEUED"),
    ("RUN", "RUNNING"),
    ("WAI", "WAITING"),
    ("WRT", "WAITING(retry)"),
    ("COM", "COMPLETED"),
    ("FAI", "FAILED"),
    ("TIM", "TIMED_OUT"),
    ("SKI", "SKIPPED"),
    ("CAN", "CANCELLED"),
];

/// The cells of a table: event, stand, where it leads. Fails if a cell is missing.
fn cells<'a>(
    table: &'a str,
    stands: &'a [(&str, &'static str)],
) -> Vec<(&'a str, &'static str, Option<&'a str>)> {
    let name = |code: &str| stands.iter().find(|(short, _)| *short == code).map(|(_, name)| *name);
    let mut rows = table.lines().filter(|line| !line.trim().is_empty());
    let head: Vec<&str> = rows.next().expect("a head").split_whitespace().collect();
    let columns: Vec<&str> = head.iter().map(|code| name(code).expect("a known stand")).collect();
    assert_eq!(columns.len(), stands.len(), "every stand has a column");
    rows.flat_map(|row| {
        let mut words = row.split_whitespace();
        let event = words.next().expect("an event");
        let cells: Vec<&str> = words.collect();
        assert_eq!(cells.len(), columns.len(), "{event} says something of every stand");
        let cell = |(from, cell): (&&'static str, &&'a str)| {
            let to = (*cell != "-").then(|| name(cell).unwrap_or(cell));
            (event, *from, to)
        };
        columns.iter().zip(&cells).map(cell).collect::<Vec<_>>()
    })
    .collect()
}

fn rows(table: &str) -> BTreeSet<&str> {
    table.lines().skip(2).filter_map(|row| row.split_whitespace().next()).collect()
}

/// An execution of one node, at a stand; ready for every event that the stand allows.
fn execution_at(plan: &Plan, stand: &str) -> State {
    let mut state = Run::born(plan, "{}", None).state;
    let node = state.nodes.first_mut().expect("one node");
    (node.status, node.attempt) = (NodeStatus::Completed, 1);
    state.unsettled = 0;
    state.epoch = 1;
    let (status, reason) = stand.trim_end_matches(')').split_once('(').unwrap_or((stand, ""));
    state.status = match status {
        "PAUSING" => Status::Running,
        name => Status::ALL.into_iter().find(|s| s.name() == name).expect("a status"),
    };
    state.pausing = stand == "PAUSING";
    if state.status.is_parked() || state.status == Status::Resuming {
        let by_user = stand == "PAUSED" || reason == "paused";
        state.paused = Some(if by_user { PauseReason::User } else { PauseReason::Waits });
    }
    if stand == "SCHEDULING" {
        let (key, limit, policy) = ("k".into(), 1, ConcurrencyPolicy::Queue);
        state.place = Some(Place { key, limit, policy, admitted: false });
        state.owner = Some(InstanceId(Uuid::nil()));
    }
    if stand == "QUARANTINED" || reason == "quarantined" {
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

fn run_events(state: &State) -> Vec<Event> {
    let origin = Origin { message: Some("m".into()), actor: None };
    vec![
        Event::Run(RunEvent::Created(Box::new(state.created.as_ref().clone()))),
        Event::Run(RunEvent::Owned { instance: InstanceId(Uuid::nil()), epoch: state.epoch + 1 }),
        Event::Run(RunEvent::Queued {
            key: "k".into(),
            limit: 1,
            policy: ConcurrencyPolicy::Queue,
        }),
        Event::Run(RunEvent::Admitted {}),
        Event::Run(RunEvent::PauseRequested { now: false, reason: None, origin: origin.clone() }),
        Event::Run(RunEvent::Paused { reason: PauseReason::Waits }),
        Event::Run(RunEvent::Paused { reason: PauseReason::User }),
        Event::Run(RunEvent::Resumed { reason: None, origin: origin.clone() }),
        Event::Run(RunEvent::Quarantined { reason: "the test says so".into() }),
        Event::Run(RunEvent::Ending { cause: cancel(), grace: None }),
        Event::Run(RunEvent::Completed { output: Json::null() }),
        Event::Run(RunEvent::Failed { failure: failure(), nodes: vec![], output: None }),
        Event::Run(RunEvent::Cancelled { reason: None }),
        Event::Run(RunEvent::TimedOut {}),
        Event::Run(RunEvent::Reopened {
            generation: 2,
            nodes: vec![],
            origin: origin.clone(),
            deadline: None,
            reason: None,
        }),
        Event::Run(RunEvent::SignalReceived { name: "go".into(), body: Json::null(), origin }),
        Event::Run(RunEvent::MessageIgnored { message: "m".into(), reason: "none".into() }),
    ]
}

/// The cause without which an end is not the one that was fixed.
fn cause_of(event: &Event) -> EndCause {
    match event {
        Event::Run(RunEvent::Failed { .. }) => {
            EndCause::Failure { node: "a".into(), failure: failure() }
        }
        Event::Run(RunEvent::TimedOut {}) => EndCause::Deadline,
        _ => cancel(),
    }
}

fn node_events(attempt: u32) -> Vec<Event> {
    let node = || "a".into();
    let failed = |end| {
        Event::Node(NodeEvent::Failed {
            node: node(),
            attempt,
            failure: failure(),
            end,
            wait: None,
        })
    };
    let wait = Wait::Signal { name: "go".into(), due: None };
    let somebody = Origin { message: Some("m".into()), actor: None };
    vec![
        Event::Node(NodeEvent::Scheduled {
            node: node(),
            attempt: attempt + 1,
            cause: vec![],
            deadline: None,
        }),
        Event::Node(NodeEvent::Started {
            node: node(),
            attempt,
            worker: None,
            remote: None,
            token: None,
            due: None,
        }),
        Event::Node(NodeEvent::Checkpointed {
            node: node(),
            attempt,
            data: Json::null(),
            number: 0,
        }),
        Event::Node(NodeEvent::Completed {
            node: node(),
            attempt,
            output: None,
            branch: None,
            variables: [].into(),
        }),
        failed(FailureEnd::RetryAt(EPOCH)),
        failed(FailureEnd::Abandoned(EPOCH)),
        failed(FailureEnd::Final),
        failed(FailureEnd::TimedOut),
        Event::Node(NodeEvent::Waiting { node: node(), attempt, wait, span: None }),
        Event::Node(NodeEvent::Resumed {
            node: node(),
            attempt,
            message: None,
            origin: Origin::default(),
        }),
        Event::Node(NodeEvent::Resumed { node: node(), attempt, message: None, origin: somebody }),
        Event::Node(NodeEvent::Skipped { node: node(), cause: vec![] }),
        Event::Node(NodeEvent::Cancelled { node: node(), reason: CancelReason::Join }),
    ]
}

fn node_at(state: &mut State, stand: &str) {
    let node = state.nodes.first_mut().expect("one node");
    let status = stand.split('(').next().unwrap_or(stand);
    let named = |found: &NodeStatus| found.name() == status;
    node.status = NodeStatus::ALL.into_iter().find(named).expect("a status");
    node.attempt = 1;
    node.wait = match stand {
        "WAITING(retry)" => Some(Wait::Retry { due: EPOCH }),
        "WAITING" => Some(Wait::Signal { name: "go".into(), due: None }),
        _ => None,
    };
    state.unsettled = u32::from(!node.status.is_settled());
    state.queued = u32::from(node.status == NodeStatus::Queued);
    state.running = u32::from(node.status == NodeStatus::Running);
}

/// Applies an event to a copy: where it leads, or nothing where it is refused. What is refused must
/// have changed nothing.
fn step(plan: &Plan, state: &State, event: &Event) -> Option<State> {
    let mut after = state.clone();
    let refused = apply(plan, &mut after, event, EPOCH).is_err();
    if refused {
        assert_eq!(after, *state, "{event:?} was refused and changed the state");
        return None;
    }
    assert_eq!(after.seq, state.seq + 1);
    Some(after)
}

#[test]
fn every_pair_of_an_execution_is_legal_or_refused() {
    let plan = plan("a");
    let mut seen = BTreeSet::new();
    for (row, from, to) in cells(EXECUTION, STANDS) {
        let state = execution_at(&plan, from);
        assert_eq!(stand(&state), from, "the test builds what it says");
        let event = run_events(&state).into_iter().find(|event| run_step(event) == row);
        let event = event.unwrap_or_else(|| panic!("{row} is no event"));
        let state = match from {
            "ENDING" => State { cause: Some(cause_of(&event)), ..state },
            _ => state,
        };
        let found = step(&plan, &state, &event);
        assert_eq!(found.as_ref().map(stand), to, "{from}, {row}");
        seen.insert(row);
    }
    let events = run_events(&execution_at(&plan, "RUNNING"));
    assert_eq!(seen, events.iter().map(run_step).collect(), "every event has a row");
}

#[test]
fn every_pair_of_a_node_is_legal_or_refused() {
    let plan = plan("a");
    let row_of = |event: &Event| node_step(event).replace(' ', "_");
    for (row, from, to) in cells(NODE, NODE_STANDS) {
        let mut state = execution_at(&plan, "RUNNING");
        node_at(&mut state, from);
        let event = node_events(1).into_iter().find(|event| row_of(event) == row);
        let event = event.unwrap_or_else(|| panic!("{row} is no event"));
        let found = step(&plan, &state, &event);
        let found = found.as_ref().map(|state| node_stand(&state.nodes[0]));
        assert_eq!(found, to, "{from}, {row}");
    }
    let events: BTreeSet<String> = node_events(1).iter().map(row_of).collect();
    assert_eq!(rows(NODE), events.iter().map(String::as_str).collect(), "every event has a row");
    assert_eq!(rows(NODE), rows(NODE_IN_EXECUTION), "in both tables");
}

#[test]
fn nodes_move_only_where_their_execution_lets_them() {
    let plan = plan("a");
    let row_of = |event: &Event| node_step(event).replace(' ', "_");
    for (row, stand, allowed) in cells(NODE_IN_EXECUTION, STANDS) {
        let mut legal = false;
        for (_, node) in NODE_STANDS {
            let mut state = execution_at(&plan, stand);
            node_at(&mut state, node);
            let event = node_events(1).into_iter().find(|event| row_of(event) == row);
            legal |= step(&plan, &state, &event.expect("an event")).is_some();
        }
        assert_eq!(legal, allowed.is_some(), "{stand}, {row}");
    }
}

#[test]
fn events_that_do_not_fit_are_refused() {
    let plan = plan("a");
    let mut running = execution_at(&plan, "RUNNING");
    node_at(&mut running, "RUNNING");
    let refused = |state: &State, event: Event| {
        assert!(step(&plan, state, &event).is_none(), "{event:?}");
    };
    let instance = InstanceId(Uuid::nil());
    // Ownership grows by one; the frame of an owner that was passed over does not fit.
    refused(&running, Event::Run(RunEvent::Owned { instance, epoch: 1 }));
    refused(&running, Event::Run(RunEvent::Owned { instance, epoch: 3 }));
    // Nothing ends or is set aside while something runs.
    refused(&running, Event::Run(RunEvent::Completed { output: Json::null() }));
    refused(&running, Event::Run(RunEvent::Quarantined { reason: String::new() }));
    let pausing = State { pausing: true, ..running.clone() };
    refused(&pausing, Event::Run(RunEvent::Paused { reason: PauseReason::User }));
    // Another attempt, another node.
    let late: Vec<Event> = node_events(2).into_iter().chain(node_events(0)).collect();
    let about_attempts = |event: &Event| !matches!(event, Event::Node(NodeEvent::Cancelled { .. }));
    late.into_iter().filter(about_attempts).for_each(|event| refused(&running, event));
    refused(
        &running,
        Event::Node(NodeEvent::Cancelled { node: "b".into(), reason: CancelReason::Join }),
    );
    // A retry is opened by a failure, not by a wait.
    let wait = Wait::Retry { due: EPOCH };
    refused(
        &running,
        Event::Node(NodeEvent::Waiting { node: "a".into(), attempt: 1, wait, span: None }),
    );
    // The cause fixes the end.
    let ending = State { cause: Some(EndCause::Deadline), ..execution_at(&plan, "ENDING") };
    refused(&ending, Event::Run(RunEvent::Cancelled { reason: None }));
    refused(
        &ending,
        Event::Run(RunEvent::Failed { failure: failure(), nodes: vec![], output: None }),
    );
    // A generation follows the last one, and runs again what did not complete.
    let failed = execution_at(&plan, "FAILED");
    let reopened = |generation, nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| (*node).into()).collect();
        Event::Run(RunEvent::Reopened {
            generation,
            nodes,
            origin: Origin::default(),
            deadline: None,
            reason: None,
        })
    };
    refused(&failed, reopened(1, &[]));
    refused(&failed, reopened(3, &[]));
    refused(&failed, reopened(2, &["nowhere"]));
    refused(&failed, reopened(2, &["a"]));
    let mut cancelled = execution_at(&plan, "CANCELLED");
    node_at(&mut cancelled, "CANCELLED");
    refused(&cancelled, reopened(2, &["a", "a"]));
    assert!(step(&plan, &cancelled, &reopened(2, &["a"])).is_some());
    // A place in the queue is taken once, kept until the slot, and not left for another one.
    let queued = |key: &str| {
        let policy = ConcurrencyPolicy::Queue;
        Event::Run(RunEvent::Queued { key: key.into(), limit: 1, policy })
    };
    let waits = execution_at(&plan, "SCHEDULING");
    refused(&waits, queued("another"));
    let unowned = State { owner: None, ..waits.clone() };
    refused(&unowned, queued("k"));
    refused(&unowned, Event::Run(RunEvent::Admitted {}));
    let admitted =
        step(&plan, &waits, &Event::Run(RunEvent::Admitted {})).expect("it stood in the queue");
    refused(&admitted, queued("k"));
    refused(&admitted, Event::Run(RunEvent::Admitted {}));
    let mut begun = execution_at(&plan, "SCHEDULED");
    node_at(&mut begun, "QUEUED");
    refused(&begun, queued("k"));
    // A signal without an id could never be known again.
    let signal = Event::Run(RunEvent::SignalReceived {
        name: "go".into(),
        body: Json::null(),
        origin: Origin::default(),
    });
    refused(&running, signal);
}

#[test]
fn a_log_begins_with_its_creation() {
    let plan = plan("a");
    let state = execution_at(&plan, "RUNNING");
    let begin = |event: &Event| {
        waypost_core::apply::begin(&plan, state.execution, event, Timestamp(5)).is_ok()
    };
    for event in run_events(&state).iter().chain(&node_events(1)) {
        assert_eq!(begin(event), matches!(event, Event::Run(RunEvent::Created(_))), "{event:?}");
    }
}

/// Every arrow of the machines is taken by some case of the tables, through `decide`; and no case
/// takes one that the machines do not have.
#[test]
fn the_tables_take_every_arrow() {
    let mut taken = Arrows::default();
    for cases in [
        rules::CASES,
        attempts::CASES,
        waits::CASES,
        pausing::CASES,
        ending::CASES,
        recovery::CASES,
        repair::CASES,
        delivery::CASES,
        queue::CASES,
        remote::CASES,
    ] {
        let arrows = check(cases);
        taken.execution.extend(arrows.execution);
        taken.node.extend(arrows.node);
    }
    compare(&taken.execution, cells(EXECUTION, STANDS).into_iter());
    compare(&taken.node, cells(NODE, NODE_STANDS).into_iter());
}

fn compare<'a>(
    taken: &BTreeSet<Arrow>,
    table: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>,
) {
    let text = |from: &str, event: &str, to: &str| format!("{from} --{event}-> {to}");
    let taken: BTreeSet<String> =
        taken.iter().map(|(from, event, to)| text(from, &event.replace(' ', "_"), to)).collect();
    let legal: BTreeSet<String> =
        table.filter_map(|(event, from, to)| Some(text(from, event, to?))).collect();
    let missing: Vec<_> = legal.difference(&taken).collect();
    let unknown: Vec<_> = taken.difference(&legal).collect();
    assert!(missing.is_empty(), "no case takes {missing:#?}");
    assert!(unknown.is_empty(), "not in the table: {unknown:#?}");
}
