//! The queue of a concurrency key: a queued execution is in no instance's memory, and begins at once when
//! it is its turn.

use waypost_core::command::{Refusal, Request};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::config::Scope;
use waypost_engine::driver::{Answer, Input};
use waypost_ports::store::{Appended, ControlChange, LEASE, Mail, Store};

use crate::support::{Rig, World};

fn cancel() -> Request {
    Request::Cancel { reason: None }
}

fn go() -> Request {
    Request::Signal { name: "go".into(), body: Json::null() }
}

/// Does it hold a permit, and how many stand before it?
fn place(world: &World, execution: ExecutionNo) -> (bool, u64) {
    let permit = world.control(execution).and_then(|control| control.permit);
    permit.map(|permit| (permit.holding, permit.before)).expect("it is queued")
}

#[test]
fn one_after_the_other_and_no_time_passes() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let began = world.now();
    let all: Vec<_> = (0..3).map(|_| rig.start("keyed k; a; b needs a")).collect();
    rig.settle_store();
    assert_eq!((rig.driver.live(), rig.running()), (1, vec!["a"]), "the others are not in memory");
    assert_eq!(world.names(all[1]), ["RunCreated", "RunOwned", "RunQueued"]);
    let statuses = all.iter().map(|id| world.status(*id)).collect::<Vec<_>>();
    assert_eq!(statuses, [Status::Running, Status::Scheduling, Status::Scheduling]);
    let held = world.control(all[1]).and_then(|control| control.held);
    assert_eq!(held.as_deref(), Some("waits for a permit of concurrency key \"k\""));
    rig.settle();
    assert_eq!(world.now(), began, "none had to wait for a poll");
    assert!(all.iter().all(|id| world.status(*id) == Status::Completed));
    let admitted = rig
        .committed
        .iter()
        .filter(|frame| frame.events.iter().any(|event| event.name() == "RunAdmitted"));
    let order: Vec<_> = admitted.map(|frame| frame.execution).collect();
    assert_eq!(order, all, "in the order of their submission");
    assert_eq!(rig.driver.live(), 0);
    world.check();
}

#[test]
fn submission_with_a_concurrency_key_is_answered_as_scheduling() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    for (flow, expected) in [("a", Status::Running), ("keyed k; a", Status::Scheduling)] {
        let ticket = rig.submit(&world.flow(flow));
        rig.settle_store();
        match rig.answer(ticket) {
            Some(Answer::Started { status, .. }) => assert_eq!(*status, expected, "{flow}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_limit_is_kept_per_key() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 10);
    let two: Vec<_> = (0..4).map(|_| rig.start("keyed k 2; a")).collect();
    rig.start("keyed j; a");
    rig.start("a");
    rig.settle_store();
    assert_eq!(rig.tasks.len(), 4, "two of one key, one of another, one without");
    let first = rig.tasks.iter().position(|order| order.execution == two[0]).unwrap();
    let order = rig.tasks.remove(first);
    rig.finish(&order);
    rig.settle_store();
    assert!(rig.tasks.iter().any(|order| order.execution == two[2]));
    assert_eq!(place(&world, two[3]), (false, 2));
    rig.settle();
    assert_eq!(world.first_open(), None);
    world.check();
}

#[test]
fn execution_cancelled_in_queue_never_begins() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let first = rig.start("keyed k; a");
    let second = rig.start("keyed k; a");
    let third = rig.start("keyed k; a");
    rig.settle_store();
    rig.request(second, cancel());
    let end = rig.await_end(second);
    rig.settle_store();
    assert!(matches!(rig.answer(end), Some(Answer::Ended(end)) if end.status == Status::Cancelled));
    let names = world.names(second);
    assert!(!names.iter().any(|name| name.starts_with("Node")), "{names:?}");
    assert_eq!(place(&world, third), (false, 1));
    rig.settle();
    assert_eq!((world.calls(first, "a"), world.calls(second, "a")), (1, 0));
    assert_eq!(world.status(third), Status::Completed);
    world.check();
}

/// The cancellation is in the inbox when the slot comes: the frame that could have let it in ends it.
#[test]
fn a_cancellation_comes_before_the_slot() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("keyed k; a");
    let second = rig.start("keyed k; a");
    rig.settle_store();
    let order = rig.take_task("a");
    rig.finish(&order);
    rig.step();
    rig.perform_appends();
    let message = "m".into();
    let mail =
        Mail { execution: second, message, actor: None, body: cancel().into(), blobs: Vec::new() };
    world.store.deliver(&[mail]).unwrap();
    assert_eq!(place(&world, second), (true, 0));
    rig.settle();
    assert_eq!((world.status(second), world.calls(second, "a")), (Status::Cancelled, 0));
    world.check();
}

#[test]
fn deadline_in_queue_ends_the_execution() {
    for ms in [500, 1_999, 60_000] {
        let world = World::new();
        let mut rig = Rig::new(&world);
        let first = rig.start("keyed k; w = signal(go)");
        let second = rig.start(&format!("within {ms}ms; keyed k; a"));
        rig.settle_store();
        assert_eq!(rig.driver.live(), 0, "in no instance's memory, however soon");
        let due = world.control(second).unwrap().next_due.unwrap();
        while world.status(second) == Status::Scheduling {
            assert!(world.now() <= due, "{ms}: it is late");
            world.clock.set(rig.driver.next_wake());
            rig.renew();
            rig.settle_store();
        }
        assert_eq!((world.status(second), world.now()), (Status::TimedOut, due), "{ms}");
        assert_eq!(place(&world, first), (true, 0));
        world.check();
    }
}

#[test]
fn queued_execution_woken_without_a_permit_returns_to_the_queue() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("keyed k; a");
    let second = rig.start("keyed k; a");
    let third = rig.start("keyed k; a");
    rig.settle_store();
    rig.request(second, Request::Resume { reason: None });
    rig.settle_store();
    let tail = world.names(second).split_off(3);
    assert_eq!(tail, ["RunOwned", "MessageIgnored", "RunQueued"]);
    assert_eq!([place(&world, second), place(&world, third)], [(false, 1), (false, 2)]);
    assert_eq!(world.control(second).unwrap().owner, None);
    let pause = rig.request(second, Request::Pause { now: false, reason: None });
    let signal = rig.request(second, go());
    rig.settle_store();
    assert!(matches!(rig.answer(pause), Some(Answer::Accepted(_))), "kept until it wakes");
    assert!(matches!(rig.answer(signal), Some(Answer::Accepted(_))));
    assert_eq!(world.names(second).len(), 6, "and it does not wake for that");
    rig.settle();
    assert_eq!((world.status(second), world.status(third)), (Status::Completed, Status::Completed));
    world.check();
}

/// Its turn comes between the claim that found no slot and the frame that goes back.
#[test]
fn a_slot_that_comes_while_it_is_owned_is_not_forgotten() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let mut other = Rig::new(&world);
    let first = rig.start("keyed k; a");
    let second = rig.start("keyed k; a");
    rig.settle_store();
    let message = "m".into();
    let mail = Mail {
        execution: second,
        message,
        actor: None,
        body: Request::Resume { reason: None }.into(),
        blobs: Vec::new(),
    };
    world.store.deliver(&[mail]).unwrap();
    other.inputs.push(Input::Nudge);
    other.step();
    other.perform_all();
    other.step();
    let back = other.take_append();
    assert!(matches!(back.side.control, Some(ControlChange::Held { .. })));
    assert!(back.side.permit.is_some(), "it asks for its place again");
    rig.settle();
    assert_eq!(
        (world.status(first), world.status(second)),
        (Status::Completed, Status::Scheduling)
    );
    assert_eq!(place(&world, second), (true, 0));
    let appended = world.append(&back);
    other.answer_append(&back, appended);
    other.settle();
    assert_eq!(world.status(second), Status::Completed);
    world.check();
}

#[test]
fn a_slot_outlives_its_owner() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let first = rig.start("keyed k; a");
    let second = rig.start("keyed k; a");
    rig.settle_store();
    drop(rig);
    world.clock.advance(LEASE);
    let mut heir = Rig::new(&world);
    heir.settle_store();
    assert_eq!([place(&world, first), place(&world, second)], [(true, 0), (false, 1)]);
    heir.run_to_end();
    assert_eq!((world.status(first), world.status(second)), (Status::Completed, Status::Completed));
    world.check();
}

#[test]
fn an_owner_that_dies_before_it_lets_it_in_is_replaced() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let only = rig.start("keyed k; a");
    rig.perform_all();
    assert!(world.control(only).unwrap().owner.is_some(), "claimed, and not taken over");
    drop(rig);
    world.clock.advance(LEASE);
    let mut heir = Rig::new(&world);
    heir.run_to_end();
    assert_eq!(world.calls(only, "a"), 1);
    world.check();
}

#[test]
fn rejected_submission_leaves_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let flow = "keyed k 1 reject; a";
    let first = rig.start(flow);
    rig.settle_store();
    let plan = world.flow(flow);
    let mut start = rig.submission(&plan);
    let (ticket, end) = (start.ticket, rig.ticket());
    start.await_end = Some(end);
    rig.inputs.push(Input::Start(start));
    rig.settle_store();
    assert!(matches!(rig.answer(ticket), Some(Answer::Rejected { holding: 1 })));
    assert!(matches!(rig.answer(end), Some(Answer::Rejected { .. })), "its end is not awaited");
    assert_eq!(rig.driver.live(), 1);
    rig.settle();
    assert_eq!(world.status(first), Status::Completed);
    let third = rig.start(flow);
    rig.settle();
    assert_eq!(world.status(third), Status::Completed);
    world.check();
}

#[test]
fn the_oldest_gives_way() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let flow = "keyed k 1 cancel-oldest; a";
    let all: Vec<_> = (0..3)
        .map(|_| {
            let execution = rig.start(flow);
            rig.settle_store();
            execution
        })
        .collect();
    assert_eq!(rig.cancelled.len(), 1, "the running one is cancelled, without a poll");
    assert_eq!(world.status(all[1]), Status::Cancelled, "the one in the queue is over");
    assert_eq!(world.status(all[2]), Status::Scheduling);
    rig.settle();
    let ends: Vec<_> = all.iter().map(|id| world.status(*id)).collect();
    assert_eq!(ends, [Status::Cancelled, Status::Cancelled, Status::Completed]);
    world.check();
}

#[test]
fn a_key_that_cannot_be_evaluated_is_a_failure() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("keyed ${{input.missing}}; a");
    rig.settle();
    assert_eq!(world.status(execution), Status::Failed);
    assert_eq!(world.names(execution), ["RunCreated", "RunOwned", "RunEnding", "RunFailed"]);
    assert_eq!((world.control(execution), rig.driver.live()), (None, 0));
    world.check();
}

#[test]
fn a_process_that_drives_its_own_awaits_its_turn() {
    let world = World::new();
    let mut server = Rig::new(&world);
    let first = server.start("keyed k; a");
    server.settle_store();
    let mut visitor = Rig::with(&world, |config| config.scope = Scope::Adopted);
    let second = visitor.start("keyed k; a");
    visitor.settle_store();
    assert_eq!(world.status(second), Status::Scheduling);
    server.settle();
    assert_eq!(world.status(first), Status::Completed);
    visitor.run_to_end();
    assert_eq!(world.status(second), Status::Completed);
    world.check();
}

#[test]
fn an_append_whose_reply_was_lost_changes_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let plan = world.flow("keyed k; a");
    let ticket = rig.submit(&plan);
    rig.step();
    let append = rig.take_append();
    let first = world.append(&append);
    let again = world.append(&append);
    assert_eq!(first, again);
    assert!(matches!(again, Appended::Committed { .. }));
    rig.answer_append(&append, again);
    rig.settle();
    assert_eq!(world.status(rig.started(ticket)), Status::Completed);
    world.check();
}

#[test]
fn pause_right_after_admission_pauses_the_execution() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("keyed k; a");
    let next = rig.start("keyed k; a");
    rig.settle_store();
    let pause = rig.request(execution, Request::Pause { now: false, reason: None });
    let twice = rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle();
    assert!(matches!(rig.answer(pause), Some(Answer::Done { .. })));
    assert!(matches!(rig.answer(twice), Some(Answer::Refused(Refusal::AlreadyPaused))));
    assert_eq!(world.status(execution), Status::Completed, "all had been done");
    assert_eq!(world.status(next), Status::Completed);
    world.check();
}
