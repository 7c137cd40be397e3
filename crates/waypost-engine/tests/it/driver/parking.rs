//! Leaving memory: only with nothing to do for a while, and no wake-up is lost on the way.

use waypost_core::command::Request;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_engine::driver::Answer;
use waypost_ports::store::{Mail, MailOf, Share, Store};

use crate::support::{Rig, World};

fn go() -> Request {
    Request::Signal { name: "go".into(), body: Json::null() }
}

fn mail(execution: waypost_core::id::ExecutionNo, message: &str, body: Request) -> Mail {
    Mail { execution, message: message.into(), actor: None, body: body.into(), blobs: Vec::new() }
}

#[test]
fn a_short_wait_stays_in_memory_and_a_long_one_does_not() {
    for (ms, live) in [(1, 1), (2_000, 1), (2_001, 0), (60_000, 0)] {
        let world = World::new();
        let mut rig = Rig::new(&world);
        let execution = rig.start(&format!("d = delay({ms}ms); a needs d"));
        rig.settle();
        assert_eq!(rig.driver.live(), live, "delay {ms}");
        let parked = world.control(execution).unwrap().owner.is_none();
        assert_eq!(parked, live == 0, "delay {ms}");
        rig.run_to_end();
        assert_eq!(world.calls(execution, "a"), 1);
        world.check();
    }
}

#[test]
fn an_execution_with_a_running_task_does_not_park() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(1m); a; w = signal(s)");
    rig.settle_store();
    assert_eq!((rig.driver.live(), rig.running()), (1, vec!["a"]));
    rig.settle();
    assert_eq!((rig.driver.live(), world.status(execution)), (0, Status::Waiting));
}

#[test]
fn a_parked_execution_is_claimed_when_it_is_due_and_not_before() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(10s); a needs d");
    rig.settle();
    let due = world.control(execution).unwrap().next_due.unwrap();
    let frames = world.frames(execution);
    while world.now() < due {
        assert_eq!(world.frames(execution), frames, "woken early");
        world.clock.set(rig.driver.next_wake());
        rig.settle();
    }
    assert_eq!(world.now(), due, "the driver wakes at the due time itself");
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// The request finds the execution in memory, its mailbox full of nothing, and the frame that parks
/// it on its way to the store.
#[test]
fn a_request_that_meets_a_park_in_flight_is_not_lost() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let plan = world.flow("w = signal(go); a needs w");
    let ticket = rig.submit(&plan);
    rig.step();
    rig.perform_appends();
    rig.step();
    let execution = rig.started(ticket);
    assert_eq!(rig.appends().count(), 1, "the frame that waits and parks");
    let ticket = rig.request(execution, go());
    rig.step();
    rig.settle_store();
    match rig.answer(ticket) {
        Some(Answer::Done { .. } | Answer::Accepted(_)) => {}
        Some(Answer::Moved) => {
            rig.request(execution, go());
        }
        other => panic!("the caller hears {other:?}"),
    }
    rig.run_to_end();
    assert_eq!(world.calls(execution, "a"), 1);
    world.check();
}

#[test]
fn mail_before_the_park_commits_makes_the_parked_execution_ready() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let ticket = rig.submit(&world.flow("w = signal(go); a needs w"));
    rig.step();
    rig.perform_appends();
    rig.step();
    let execution = rig.started(ticket);
    // Decided, not committed: the sender still sees an owner and wakes no instance.
    world.store.deliver(&[mail(execution, "m", go())]).unwrap();
    rig.perform_appends();
    rig.step();
    assert!(world.control(execution).unwrap().ready);
    rig.run_to_end();
    assert_eq!(world.calls(execution, "a"), 1);
    world.check();
}

#[test]
fn mail_after_the_park_committed_wakes_it() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go); a needs w");
    rig.settle();
    assert_eq!(rig.driver.live(), 0);
    world.store.deliver(&[mail(execution, "m", go())]).unwrap();
    rig.run_to_end();
    assert_eq!(world.calls(execution, "a"), 1);
    world.check();
}

/// Mail was read into the mailbox of an execution whose park is in flight: the letter goes with the
/// execution, the mail stays in the store and makes it ready.
#[test]
fn mail_in_the_mailbox_of_an_execution_that_parks_is_found_again_at_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let ticket = rig.submit(&world.flow("w = signal(go); a needs w"));
    rig.step();
    rig.perform_appends();
    rig.step();
    let execution = rig.started(ticket);
    let letter = mail(execution, "m", go());
    world.store.deliver(std::slice::from_ref(&letter)).unwrap();
    rig.inputs.push(waypost_engine::driver::Input::Mail(vec![letter]));
    let before = world.now();
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed, "without waiting for a poll");
    assert_eq!(world.now(), before);
    world.check();
}

#[test]
fn mail_that_is_seen_twice_is_consumed_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution =
        rig.start("a; w = signal(go) needs a; b = signal(go) needs w; c = signal(go) needs b");
    let letter = mail(execution, "m", go());
    world.store.deliver(std::slice::from_ref(&letter)).unwrap();
    for _ in 0..3 {
        rig.inputs.push(waypost_engine::driver::Input::Mail(vec![letter.clone()]));
        rig.step();
    }
    rig.settle();
    let received = world.names(execution).iter().filter(|name| **name == "SignalReceived").count();
    assert_eq!(received, 1);
    assert!(world.store.collect(MailOf::Owner(rig.instance, Share::ALL), 10).unwrap().is_empty());
    world.check();
}

#[test]
fn parked_execution_continues_on_another_instance() {
    let world = World::new();
    let execution = {
        let mut first = Rig::new(&world);
        let execution = first.start("a; d = delay(30s) needs a; b needs d");
        first.settle();
        execution
    };
    let mut second = Rig::new(&world);
    second.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!((world.calls(execution, "a"), world.calls(execution, "b")), (1, 1));
    world.check();
}

#[test]
fn an_execution_that_waits_for_ever_costs_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(never)");
    rig.settle();
    let frames = world.frames(execution);
    for _ in 0..100 {
        world.clock.set(rig.driver.next_wake());
        rig.renew();
        rig.settle();
    }
    assert_eq!((world.frames(execution), rig.driver.live()), (frames, 0));
}

/// The mail is in the store before the park is, and is looked for after it: by then no instance owns the
/// execution, and nothing is found.
#[test]
fn mail_that_is_delivered_between_decision_and_park_wakes_it_at_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(3s); w = signal(go) needs d; a needs w");
    rig.settle();
    world.pass(3_000);
    // The request finds it parked; the claim that is under way brings it back, and it parks again.
    rig.step();
    let claim = std::mem::take(&mut rig.work);
    let ticket = rig.request(execution, go());
    rig.step();
    let mut deliver = std::mem::take(&mut rig.work);
    claim.into_iter().for_each(|work| rig.perform(work));
    while !rig.appends().any(|append| append.side.control.is_some()) {
        rig.step();
        rig.perform_appends_but_parks();
    }
    let before = world.now();
    while let Some(work) = deliver.pop_front() {
        rig.perform(work);
    }
    rig.step();
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Accepted(_))));
    assert_eq!((world.status(execution), world.now()), (Status::Completed, before));
    world.check();
}

fn large() -> Request {
    let body = Json::parse(&format!("\"{}\"", "x".repeat(70_000))).unwrap();
    Request::Signal { name: "other".into(), body }
}

/// The first signal has the execution read back; those that follow find it in memory, however much it
/// keeps by then, and it leaves when no more come.
#[test]
fn signals_to_an_execution_that_keeps_many_bytes_read_nothing_back() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("w = signal(go)");
    rig.settle();
    assert_eq!(rig.driver.live(), 0);
    let first = rig.request(execution, large());
    rig.settle_store();
    assert!(matches!(rig.answer(first), Some(Answer::Accepted(_))));
    for number in 1..100 {
        let epoch = world.control(execution).unwrap().epoch;
        let ticket = rig.request(execution, large());
        rig.settle_store();
        let answer = rig.answer(ticket);
        assert!(matches!(answer, Some(Answer::Done { .. })), "signal {number}: {answer:?}");
        assert_eq!(world.control(execution).unwrap().epoch, epoch, "it was not claimed again");
    }
    assert_eq!(rig.driver.live(), 1);
    let leaves = world.now().plus(Millis::from_secs(2));
    while world.now() < leaves {
        assert_eq!(rig.driver.live(), 1);
        world.clock.set(rig.driver.next_wake().min(leaves));
        rig.settle();
    }
    assert_eq!(rig.driver.live(), 0, "no more came");
    assert_eq!(world.status(execution), Status::Waiting);
    world.check();
}

/// Memory for what stays is bounded, and a pause does not wait for it.
#[test]
fn executions_that_keep_many_bytes_stay_only_a_few_at_once_and_not_when_paused() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let all: Vec<_> = (0..7).map(|_| rig.start("w = signal(go)")).collect();
    rig.settle();
    for execution in &all {
        rig.request(*execution, large());
        rig.settle_store();
    }
    assert_eq!(rig.driver.live(), 4);
    rig.request(all[0], Request::Pause { now: false, reason: None });
    rig.settle_store();
    assert_eq!((rig.driver.live(), world.status(all[0])), (3, Status::Paused));
    world.check();
}
