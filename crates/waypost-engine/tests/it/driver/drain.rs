//! Stopping in good order: nothing new starts, what runs may end, the rest is handed over.

use waypost_core::command::{Outcome, Request};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::driver::{Answer, Input, Ticket};

use crate::support::{Rig, World};

#[test]
fn draining_driver_finishes_running_attempts_and_starts_none() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b; c needs a; p = pass needs a");
    assert!(!rig.driver.is_quiet());
    rig.inputs.push(Input::Drain);
    rig.step();
    let late = rig.submit(&world.flow("x"));
    rig.settle();
    assert!(matches!(rig.answer(late), Some(Answer::Draining)));
    assert!(rig.driver.is_quiet());
    let calls = ["a", "b", "c"].map(|node| world.calls(execution, node));
    assert_eq!(calls, [1, 0, 0]);
    world.check();

    rig.leave();
    let mut next = Rig::new(&world);
    next.settle();
    assert_eq!(world.status(execution), Status::Completed, "at once, without waiting for a lease");
    let calls = ["a", "b", "c"].map(|node| world.calls(execution, node));
    assert_eq!(calls, [1, 1, 1]);
    world.check();
}

/// A task that is longer than the drain, at six deploys in a row.
#[test]
fn an_attempt_that_outlasts_orderly_stops_is_handed_over_and_never_counted() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    for stops in 1..=6 {
        assert_eq!(rig.take_task("a").task.attempt, stops);
        rig.inputs.push(Input::Drain);
        rig.settle_store();
        assert!(!rig.driver.is_quiet(), "its attempts run");
        rig.inputs.push(Input::HandOver);
        rig.settle_store();
        assert!(rig.driver.is_handed_over());
        assert_eq!(rig.driver.live(), 0, "nothing of it begins here any more");
        assert!(!rig.cancelled.is_empty(), "its attempt is cancelled");
        rig.leave();
        rig = Rig::new(&world);
        rig.settle_store();
        let state = world.state(execution);
        let node = state.node(waypost_core::id::NodeIx(0));
        assert_eq!((node.abandoned, node.tries), (0, 0));
    }
    assert_eq!(rig.running(), ["a"], "made again at once");
    world.check();
}

/// A stop whose last commit fails is a loss like any other.
#[test]
fn an_attempt_that_could_not_be_handed_over_is_lost() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    rig.inputs.extend([Input::Drain, Input::HandOver]);
    rig.step();
    assert!(!rig.driver.is_handed_over(), "its frame is not committed");
    rig.leave();
    let mut next = Rig::new(&world);
    next.settle_store();
    assert_eq!(world.state(execution).node(waypost_core::id::NodeIx(0)).abandoned, 1);
    world.check();
}

/// An execution that runs on the stopping instance is cancelled through another one.
#[test]
fn a_draining_driver_reads_its_mail() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    rig.inputs.push(Input::Drain);
    rig.step();
    let mut other = Rig::new(&world);
    other.request(execution, Request::Cancel { reason: None });
    other.settle_store();
    rig.inputs.push(Input::MailWaits);
    rig.settle_store();
    assert_eq!(rig.cancelled.len(), 1, "the attempt is cancelled");
    other.request(execution, Request::Signal { name: "s".into(), body: Json::null() });
    other.settle_store();
    world.pass(rig.config.poll_every.0);
    rig.settle();
    assert_eq!(world.status(execution), Status::Cancelled);
    assert!(rig.driver.is_quiet());
    world.check();
}

#[test]
fn a_draining_driver_does_not_spin() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("a; d = delay(1s)");
    rig.inputs.push(Input::Drain);
    // `step` checks for a busy loop.
    for _ in 0..10 {
        world.pass(700);
        rig.step();
        rig.perform_all();
    }
}

#[test]
fn drain_answers_waiting_submissions() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.active_max = 1);
    let plan = world.flow("a");
    let tickets: Vec<_> = (0..3).map(|_| rig.submit(&plan)).collect();
    rig.step();
    rig.inputs.push(Input::Drain);
    rig.settle();
    rig.started(tickets[0]);
    for ticket in &tickets[1..] {
        assert!(matches!(rig.answer(*ticket), Some(Answer::Draining)));
    }
    assert_eq!(world.executions().len(), 1);
}

/// A slot was promised to a queued attempt whose execution is in flight; then comes the drain.
#[test]
fn a_promised_slot_is_not_used_by_a_draining_driver() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b");
    let a = rig.take_task("a");
    rig.request(
        execution,
        Request::Signal { name: "s".into(), body: waypost_core::json::Json::null() },
    );
    rig.step();
    rig.finish(&a);
    rig.step();
    rig.inputs.push(Input::Drain);
    rig.settle_store();
    assert!(rig.running().is_empty(), "{:?}", rig.running());
    assert!(rig.driver.is_quiet());
    rig.leave();
    Rig::new(&world).settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn execution_claimed_during_a_drain_is_left_to_others() {
    let world = World::new();
    let execution = {
        let mut first = Rig::new(&world);
        let execution = first.start("a");
        first.leave();
        execution
    };
    let frames = world.frames(execution);
    let mut rig = Rig::new(&world);
    rig.step();
    rig.perform_all();
    rig.inputs.push(Input::Drain);
    // The claim's answer comes behind the drain.
    rig.inputs.reverse();
    rig.settle();
    assert_eq!(world.frames(execution), frames, "no take-over by an instance that leaves");
    rig.leave();
    Rig::new(&world).settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// Callers get their answers, so calls that are on their way to the store are awaited.
#[test]
fn a_driver_is_quiet_when_nothing_is_on_its_way() {
    type Ask = fn(&mut Rig<'_>, ExecutionNo) -> Ticket;
    let cases: [(&str, Ask); 4] = [
        ("a request to what is parked", |rig, parked| {
            rig.request(parked, Request::Signal { name: "go".into(), body: Json::null() })
        }),
        ("a request to an unknown execution", |rig, _| {
            rig.request(ExecutionNo(77), Request::Resume { reason: None })
        }),
        ("a report on what is parked", |rig, parked| {
            rig.say(1, (parked, "w", 1), Outcome::Cancelled)
        }),
        ("a submission", |rig, _| {
            let plan = rig.world.flow("w = signal(go)");
            rig.submit(&plan)
        }),
    ];
    for (name, ask) in cases {
        let world = World::new();
        let mut rig = Rig::new(&world);
        let parked = rig.start("w = signal(go)");
        rig.settle();
        assert!(rig.driver.is_quiet(), "{name}");
        let ticket = ask(&mut rig, parked);
        rig.step();
        assert!(rig.answer(ticket).is_none() && !rig.driver.is_quiet(), "{name}");
        rig.inputs.push(Input::Drain);
        rig.step();
        assert!(rig.answer(ticket).is_none() && !rig.driver.is_quiet(), "{name}, draining");
        rig.settle_store();
        let answer = rig.answer(ticket);
        assert!(answer.is_some_and(|answer| !matches!(answer, Answer::Draining)), "{name}");
        assert!(rig.driver.is_quiet(), "{name}, answered");
    }
}
