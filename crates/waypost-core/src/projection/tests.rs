//! Tables: an event before and after, row by row.

use super::*;
use crate::event::{CancelReason, NodeEvent, Origin, PauseReason, RunEvent};
use crate::id::{DefinitionHash, ExecutionId, InstanceId};
use crate::plan::ConcurrencyPolicy;

fn created() -> Event {
    Event::Run(RunEvent::Created(Box::new(RunCreated {
        key: ExecutionId("exe_1".into()),
        workflow: "welcome".into(),
        version: 3,
        definition: DefinitionHash::of(b"welcome"),
        input: Json::null(),
        labels: BTreeMap::new(),
        deadline: None,
        origin: Origin::default(),
        parent: None,
        trigger: None,
    })))
}

fn owned(epoch: u32) -> Event {
    Event::Run(RunEvent::Owned { instance: InstanceId(uuid::Uuid::nil()), epoch })
}

fn scheduled(node: &str, attempt: u32) -> Event {
    Event::Node(NodeEvent::Scheduled {
        node: node.into(),
        attempt,
        cause: Vec::new(),
        deadline: None,
    })
}

fn started(node: &str, attempt: u32) -> Event {
    Event::Node(NodeEvent::Started {
        node: node.into(),
        attempt,
        worker: None,
        remote: None,
        token: None,
        due: None,
    })
}

fn completed(node: &str, output: &str) -> Event {
    Event::Node(NodeEvent::Completed {
        node: node.into(),
        attempt: 1,
        output: Some(Json::parse(output).unwrap()),
        branch: None,
        variables: BTreeMap::new(),
    })
}

fn failed(node: &str, end: FailureEnd) -> Event {
    let failure = Failure::transient(kind::HTTP, "answered 500");
    Event::Node(NodeEvent::Failed { node: node.into(), attempt: 1, failure, end, wait: None })
}

fn waiting(node: &str, due: i64) -> Event {
    let wait = Wait::Delay { due: Timestamp(due) };
    Event::Node(NodeEvent::Waiting {
        node: node.into(),
        attempt: 1,
        wait,
        span: None,
        message: None,
    })
}

fn cancelled(node: &str) -> Event {
    Event::Node(NodeEvent::Cancelled { node: node.into(), reason: CancelReason::Ending })
}

fn reopened(nodes: &[&str]) -> Event {
    Event::Run(RunEvent::Reopened {
        generation: 2,
        nodes: nodes.iter().map(|&node| node.into()).collect(),
        origin: Origin::default(),
        deadline: None,
        reason: None,
    })
}

/// Folds events; the n-th has seq n and happens at time 10 n.
fn fold(events: Vec<Event>) -> Changes {
    let mut changes = Changes::default();
    for (seq, event) in (1..).zip(events) {
        changes.apply(Stamp { seq, at: Timestamp(i64::try_from(seq).unwrap() * 10) }, event);
    }
    changes
}

#[test]
fn status_follows_the_run_events() {
    let failure = Failure::permanent(kind::HTTP, "answered 404");
    let resumed = Event::Run(RunEvent::Resumed { reason: None, origin: Origin::default() });
    let paused = Event::Run(RunEvent::Paused { reason: PauseReason::Waits });
    let by_user = Event::Run(RunEvent::Paused { reason: PauseReason::User });
    let requested =
        Event::Run(RunEvent::PauseRequested { now: true, reason: None, origin: Origin::default() });
    let ending = Event::Run(RunEvent::Ending { cause: EndCause::Deadline, grace: None });
    let policy = ConcurrencyPolicy::Queue;
    let queued = Event::Run(RunEvent::Queued { key: "k".into(), limit: 1, policy });
    let failed_run = Event::Run(RunEvent::Failed { failure, nodes: Vec::new(), output: None });
    let table = [
        (Status::Running, created(), Status::Running),
        (Status::Running, owned(1), Status::Running),
        (Status::Running, queued, Status::Scheduling),
        (Status::Scheduling, owned(1), Status::Scheduling),
        (Status::Scheduling, Event::Run(RunEvent::Admitted {}), Status::Running),
        (Status::Waiting, owned(2), Status::Running),
        (Status::Paused, owned(2), Status::Paused),
        (Status::Quarantined, owned(2), Status::Quarantined),
        (Status::Ending, owned(2), Status::Ending),
        (Status::Running, scheduled("a", 1), Status::Running),
        (Status::Paused, completed("a", "1"), Status::Paused),
        (Status::Ending, cancelled("a"), Status::Ending),
        (Status::Running, paused, Status::Waiting),
        (Status::Running, by_user.clone(), Status::Paused),
        (Status::Quarantined, by_user, Status::Quarantined),
        (
            Status::Running,
            Event::Run(RunEvent::Quarantined { reason: "x".into() }),
            Status::Quarantined,
        ),
        (Status::Running, requested.clone(), Status::Running),
        (Status::Waiting, requested, Status::Paused),
        (Status::Paused, resumed, Status::Running),
        (Status::Running, ending, Status::Ending),
        (
            Status::Running,
            Event::Run(RunEvent::Completed { output: Json::null() }),
            Status::Completed,
        ),
        (Status::Ending, failed_run, Status::Failed),
        (Status::Ending, Event::Run(RunEvent::Cancelled { reason: None }), Status::Cancelled),
        (Status::Ending, Event::Run(RunEvent::TimedOut {}), Status::TimedOut),
        (Status::Failed, reopened(&[]), Status::Running),
    ];
    for (before, event, after) in table {
        assert_eq!(status_after(before, &event), after, "{before} after {}", event.name());
    }
}

#[test]
fn status_of_a_node_follows_its_events() {
    let skipped = Event::Node(NodeEvent::Skipped { node: "a".into(), cause: Vec::new() });
    let resumed = Event::Node(NodeEvent::Resumed {
        node: "a".into(),
        attempt: 1,
        message: None,
        origin: Origin::default(),
        timed_out: false,
        more: false,
    });
    let checkpointed = Event::Node(NodeEvent::Checkpointed {
        node: "a".into(),
        attempt: 1,
        data: Json::null(),
        number: 0,
    });
    let table = [
        (scheduled("a", 1), NodeStatus::Queued),
        (started("a", 1), NodeStatus::Running),
        (checkpointed, NodeStatus::Running),
        (waiting("a", 99), NodeStatus::Waiting),
        (resumed, NodeStatus::Running),
        (completed("a", "1"), NodeStatus::Completed),
        (failed("a", FailureEnd::RetryAt(Timestamp(9))), NodeStatus::Waiting),
        (failed("a", FailureEnd::Abandoned(Timestamp(9))), NodeStatus::Waiting),
        (failed("a", FailureEnd::Final), NodeStatus::Failed),
        (failed("a", FailureEnd::TimedOut), NodeStatus::TimedOut),
        (skipped, NodeStatus::Skipped),
        (cancelled("a"), NodeStatus::Cancelled),
    ];
    for (event, after) in table {
        let name = event.name();
        assert_eq!(fold(vec![event]).nodes["a"].status, Some(after), "after {name}");
    }
}

#[test]
fn a_chain_becomes_one_row_per_node() {
    let changes = fold(vec![
        created(),
        owned(1),
        scheduled("a", 1),
        started("a", 1),
        completed("a", "1"),
        scheduled("b", 1),
        started("b", 1),
        completed("b", "2"),
        Event::Run(RunEvent::Completed { output: Json::parse("{}").unwrap() }),
    ]);
    let view = &changes.view;
    assert_eq!(view.status, Status::Completed);
    assert_eq!((view.nodes_executed, view.epoch, view.seq), (2, 1, 9));
    assert_eq!(view.started_at, Some(Timestamp(40)));
    assert_eq!(view.completed_at, Some(Timestamp(90)));
    assert_eq!(view.current_node, None);
    assert!(changes.waits.is_empty());
    let node = &changes.nodes["b"];
    assert_eq!(node.started_at, Some(Timestamp(70)));
    assert_eq!(node.updated_at, Some(Timestamp(80)));
    assert_eq!(node.output.as_ref().unwrap().text(), "2");
    assert_eq!(changes.end.unwrap().output.unwrap().text(), "{}");
}

#[test]
fn runs_of_events_can_be_cut_anywhere() {
    let events = vec![
        created(),
        owned(1),
        scheduled("a", 1),
        started("a", 1),
        failed("a", FailureEnd::RetryAt(Timestamp(70))),
        scheduled("a", 2),
        started("a", 2),
        completed("a", "1"),
        Event::Run(RunEvent::Completed { output: Json::null() }),
    ];
    let whole = fold(events.clone()).view;
    for cut in 0..events.len() {
        let mut changes = fold(events[..cut].to_vec());
        changes = Changes::resume(changes.view);
        for (offset, event) in events[cut..].iter().enumerate() {
            let seq = u64::try_from(cut + offset + 1).unwrap();
            let at = Timestamp(i64::try_from(seq).unwrap() * 10);
            changes.apply(Stamp { seq, at }, event.clone());
        }
        assert_eq!(changes.view, whole, "cut after {cut}");
    }
}

#[test]
fn a_retry_is_a_wait_and_leaves_its_failure() {
    let changes = fold(vec![
        started("a", 1),
        failed("a", FailureEnd::RetryAt(Timestamp(500))),
        scheduled("a", 2),
    ]);
    let node = &changes.nodes["a"];
    assert_eq!(node.retries.len(), 1);
    assert_eq!(node.retries[0].due, Timestamp(500));
    assert_eq!(node.attempt, Some(2));
    assert_eq!(changes.waits.len(), 2);
    assert!(matches!(&changes.waits[0], WaitChange::Opened { wait: Wait::Retry { .. }, .. }));
    assert!(matches!(&changes.waits[1], WaitChange::Closed { end: WaitEnd::Completed, .. }));
}

#[test]
fn the_end_closes_every_wait() {
    let changes = fold(vec![waiting("a", 900), Event::Run(RunEvent::Cancelled { reason: None })]);
    assert!(matches!(
        &changes.waits[1],
        WaitChange::Closed { node: None, end: WaitEnd::Failed, .. }
    ));
}

#[test]
fn a_repair_takes_the_end_back() {
    let failure = Failure::permanent(kind::HTTP, "answered 404");
    let changes = fold(vec![
        failed("a", FailureEnd::Final),
        Event::Run(RunEvent::Failed { failure, nodes: vec!["a".into()], output: None }),
        reopened(&["a"]),
    ]);
    assert_eq!(changes.view.status, Status::Running);
    assert_eq!(changes.view.generation, 2);
    assert_eq!(changes.view.completed_at, None);
    assert_eq!(changes.end, Some(End::default()));
    let node = &changes.nodes["a"];
    assert!(node.reset && node.failure.is_none());
    assert_eq!(node.status, Some(NodeStatus::Pending));
}

#[test]
fn wait_completed_by_hand_is_closed_once() {
    let origin = Origin { message: Some("m".into()), actor: Some("ann".into()) };
    let resumed = |node: &str| {
        let (node, origin) = (node.into(), origin.clone());
        Event::Node(NodeEvent::Resumed {
            node,
            attempt: 1,
            message: None,
            origin,
            timed_out: false,
            more: false,
        })
    };
    let cases = [
        (waiting("a", 99), vec![completed("a", "1")], NodeStatus::Completed),
        (
            failed("a", FailureEnd::RetryAt(Timestamp(99))),
            vec![scheduled("a", 2), started("a", 2)],
            NodeStatus::Running,
        ),
    ];
    for (opens, follows, status) in cases {
        let begun = vec![created(), owned(1), scheduled("a", 1), started("a", 1), opens];
        let before = fold(begun.clone()).waits.len();
        let changes = fold([begun, vec![resumed("a")], follows].concat());
        let closed = matches!(
            &changes.waits[before],
            WaitChange::Closed { end: WaitEnd::Completed, node: Some(node), .. } if **node == *"a"
        );
        assert!(closed, "{:?}", changes.waits);
        assert_eq!(changes.nodes["a"].status, Some(status));
    }
}

#[test]
fn resume_is_shown_with_its_time_and_its_actor() {
    let instance = InstanceId(uuid::Uuid::nil()).to_string();
    let resumed = |actor: Option<&str>| {
        let origin = Origin { message: None, actor: actor.map(Into::into) };
        Event::Run(RunEvent::Resumed { reason: None, origin })
    };
    let paused = |reason| Event::Run(RunEvent::Paused { reason });
    let waits = || paused(PauseReason::Waits);
    let by_user = || paused(PauseReason::User);
    let failure = Failure::permanent(kind::HTTP, "answered 404");
    let failed = Event::Run(RunEvent::Failed { failure, nodes: Vec::new(), output: None });
    let by_instance = |at| Some((at, instance.as_str()));
    let table = [
        ("begun", vec![owned(1)], None),
        ("taken over after a crash", vec![owned(1), owned(2)], by_instance(30)),
        ("its wait is over", vec![owned(1), waits(), owned(2), resumed(None)], by_instance(50)),
        ("paused, taken for a message", vec![owned(1), by_user(), owned(2)], None),
        (
            "resumed by a person",
            vec![owned(1), by_user(), owned(2), resumed(Some("ada"))],
            Some((50, "ada")),
        ),
        (
            "resumed without an actor",
            vec![owned(1), by_user(), owned(2), resumed(None)],
            by_instance(50),
        ),
        ("run again", vec![owned(1), failed, reopened(&[]), owned(2)], None),
    ];
    for (title, events, expected) in table {
        let view = fold([vec![created()], events].concat()).view;
        let shown = view.resumed_at.map(|at| (at.0, view.resumed_by.as_deref().unwrap()));
        assert_eq!(shown, expected, "{title}");
    }
}

#[test]
fn bug_node_that_was_to_run_again_stayed_pending_in_a_cancelled_execution() {
    let ending = || Event::Run(RunEvent::Ending { cause: EndCause::Deadline, grace: None });
    let changes = fold(vec![created(), ending()]);
    assert_eq!(changes.pending_cancelled, None, "no row is PENDING before a retry");
    let changes = fold(vec![created(), reopened(&["a", "b"]), scheduled("b", 1), ending()]);
    assert_eq!(changes.pending_cancelled, Some(Timestamp(40)));
    let node = |path: &str| (changes.nodes[path].status.unwrap(), changes.nodes[path].updated_at);
    assert_eq!(node("a"), (NodeStatus::Cancelled, Some(Timestamp(40))));
    assert_eq!(node("b"), (NodeStatus::Queued, Some(Timestamp(30))));
}

#[test]
fn variables_are_those_that_nodes_set_last() {
    let set = |value: &str| {
        Event::Node(NodeEvent::Completed {
            node: "a".into(),
            attempt: 1,
            output: None,
            branch: None,
            variables: BTreeMap::from([("x".into(), Json::parse(value).unwrap())]),
        })
    };
    let changes = fold(vec![created(), set("1"), set("[2]")]);
    assert_eq!(changes.variables["x"].text(), "[2]");
}

#[test]
fn settled_statuses_have_the_numbers_from_4_on() {
    // The views of both stores tell by the number whether a node has ended.
    for status in NodeStatus::ALL {
        assert_eq!(status.is_settled(), status as i64 >= 4, "{}", status.name());
    }
}

#[test]
fn progress_is_that_of_the_map_that_was_opened_last_until_it_settles() {
    let attempt = 1;
    let mapped = |node: &str, count| {
        let (node, items, tolerated) = (node.into(), None, 0);
        Event::Node(NodeEvent::MapOpened {
            node,
            attempt,
            count,
            items,
            tolerated,
            results_max: None,
        })
    };
    let opened = |node: &str, from, count, failed| {
        let node = node.into();
        Event::Node(NodeEvent::ItemsOpened { node, attempt, from, count, items: None, failed })
    };
    let begun = vec![created(), mapped("m", 9), opened("m", 0, 2, 0), opened("m", 2, 1, 1)];
    let after = |more: Vec<Event>| {
        let progress = fold([begun.clone(), more].concat()).view.progress;
        progress.map_or_else(String::new, |map| {
            format!("{} {}/{}, {} failed", map.node, map.begun, map.count, map.failed)
        })
    };
    assert_eq!(after(vec![]), "m 3/9, 1 failed");
    // What is in an item is not shown, nor another map that was opened before.
    assert_eq!(after(vec![mapped("m[0]/n", 5), opened("l", 0, 7, 0)]), "m 3/9, 1 failed");
    assert_eq!(after(vec![completed("m[0]/t", "1"), completed("a", "1")]), "m 3/9, 1 failed");
    assert_eq!(after(vec![mapped("l", 4)]), "l 0/4, 0 failed");
    for over in [completed("m", "1"), failed("m", FailureEnd::Final)] {
        assert_eq!(after(vec![over]), "");
    }
    let ended = Event::Run(RunEvent::Completed { output: Json::null() });
    assert_eq!(after(vec![ended]), "");
}
