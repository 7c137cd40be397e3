//! Time: nothing fires early, nothing fires twice, and no driver spins.

use waypost_core::command::Request;
use waypost_core::event::{Event, FailureEnd, NodeEvent, RunEvent};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use crate::support::world::START;
use crate::support::{Rig, World};

#[test]
fn a_live_delay_fires_at_its_time_and_not_before() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(700ms); a = pass needs d");
    rig.settle();
    assert_eq!(rig.driver.next_wake(), Timestamp(START.0 + 700));
    world.pass(699);
    rig.settle();
    assert_eq!(world.status(execution), Status::Running);
    world.pass(1);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn a_retry_waits_its_time_in_memory() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("flaky retry 3");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(world.calls(execution, "flaky"), 3);
    let waited = world.now().since(START).0;
    assert!((3_000..=3_600).contains(&waited), "1 s and 2 s, and up to a fifth more: {waited}");
    world.check();
}

#[test]
fn a_user_pause_with_timers_due_does_not_spin() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(500ms); e = delay(900ms); a; b = pass needs d, e, a");
    let a = rig.take_task("a");
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle_store();
    // Both delays are over, the pause awaits the running attempt: `step` checks for a busy loop.
    for _ in 0..5 {
        world.pass(400);
        rig.settle_store();
    }
    rig.finish(&a);
    rig.settle();
    assert_eq!(world.status(execution), Status::Paused);
    for _ in 0..5 {
        world.clock.set(rig.driver.next_wake());
        rig.settle();
    }
    assert_eq!(rig.driver.live(), 0);
    rig.request(execution, Request::Resume { reason: None });
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed, "overdue waits end at once");
    world.check();
}

#[test]
fn a_deadline_strikes_also_where_a_user_holds_the_execution() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("within 1m; w = signal(never)");
    rig.settle();
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle();
    assert_eq!(world.status(execution), Status::Paused);
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::TimedOut);
    assert_eq!(world.now(), Timestamp(START.0 + 60_000));
    world.check();
}

#[test]
fn silent_attempt_is_abandoned_and_cancelled() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a timeout 1s");
    rig.settle_store();
    let a = rig.take_task("a");
    for _ in 0..20 {
        world.clock.set(rig.driver.next_wake());
        rig.settle_store();
    }
    assert!(rig.cancelled.contains(&a.task.token));
    assert_eq!(world.status(execution), Status::Failed);
    rig.finish(&a);
    rig.settle();
    assert!(rig.driver.is_quiet());
    world.check();
}

#[test]
fn silent_cancelled_attempt_is_awaited_for_the_grace_time_only() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a");
    let a = rig.take_task("a");
    rig.request(execution, Request::Cancel { reason: Some("enough".into()) });
    for _ in 0..40 {
        rig.settle_store();
        world.clock.set(rig.driver.next_wake());
    }
    assert_eq!(world.status(execution), Status::Cancelled);
    rig.finish(&a);
    rig.settle();
    assert!(rig.driver.is_quiet());
    world.check();
}

/// The clock is set back an hour while an execution sleeps: due by the store's time, which never
/// goes back, and an hour early by ours. It must neither fire nor be claimed and parked over and
/// over until the hour has passed.
#[test]
fn a_clock_that_is_set_back_causes_neither_a_storm_nor_an_early_end() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("d = delay(10s); a needs d");
    rig.settle();
    let due = world.control(execution).unwrap().next_due.unwrap();
    world.clock.set(due);
    rig.renew();
    world.clock.set(Timestamp(due.0 - 3_600_000));
    rig.settle();
    let frames = world.frames(execution);
    for _ in 0..50 {
        world.clock.set(rig.driver.next_wake().min(Timestamp(due.0 - 1)));
        rig.renew();
        rig.settle();
    }
    assert!(world.frames(execution) <= frames + 1, "{:?}", world.names(execution));
    assert_eq!(world.calls(execution, "a"), 0, "the delay is not over by our time");
    world.clock.set(due);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    let resumed = |event: &&Event| matches!(event, Event::Node(NodeEvent::Resumed { .. }));
    assert_eq!(world.events(execution).iter().filter(resumed).count(), 1);
    world.check();
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_polls() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("a; w = signal(s) needs a");
    rig.settle_store();
    world.clock.set(Timestamp(START.0 - 3_600_000));
    rig.step();
    let wake = rig.driver.next_wake();
    assert!(wake <= world.now().plus(rig.config.poll_every), "{wake}");
}

/// The clock was set back a while ago, and the store has not been asked since: all that is known of its
/// time is that it was so late then, and that no more than so much has passed.
#[test]
fn bug_a_clock_that_was_set_back_cut_spans_short() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.behind = 4_000;
    let execution = rig.start("within 1m; d = delay(5s); flaky retry 3 timeout 9s");
    rig.settle_store();
    world.pass(100);
    rig.behind += 100;
    let flaky = rig.take_task("flaky");
    rig.finish(&flaky);
    rig.settle_store();
    let due = |event: &Event| match event {
        Event::Run(RunEvent::Created(created)) => created.deadline,
        Event::Node(NodeEvent::Waiting { wait, .. }) => wait.due(),
        Event::Node(NodeEvent::Started { due, .. }) => *due,
        Event::Node(NodeEvent::Failed { end: FailureEnd::RetryAt(due), .. }) => Some(*due),
        _ => None,
    };
    let dues: Vec<u64> =
        world.events(execution).iter().filter_map(due).map(|due| due.since(START).0).collect();
    let [deadline, timeout, delay, retry] = dues[..] else { panic!("{dues:?}") };
    assert_eq!((deadline, timeout, delay), (60_000, 14_000, 5_000));
    assert!((1_100..=1_300).contains(&retry), "{retry}");
    rig.behind = 0;
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}
