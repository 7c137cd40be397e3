//! Slots: never more tasks than there are, never an attempt that is forgotten.

use waypost_core::command::{Outcome, Request};
use waypost_core::json::Json;
use waypost_core::slot::SlotCounts;
use waypost_core::status::Status;
use waypost_ports::store::Appended;

use crate::support::{Rig, World};

#[test]
fn a_wide_fan_runs_through_few_slots() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 2);
    let fan: Vec<String> = (0..12).map(|at| format!("n{at}")).collect();
    let execution = rig.start(&fan.join(";"));
    assert_eq!(rig.running().len(), 2);
    rig.run_to_end();
    for at in 0..12 {
        assert_eq!(world.calls(execution, &format!("n{at}")), 1);
    }
    assert!(rig.driver.is_quiet());
    world.check();
}

/// A free slot is promised to `b`; before `b`'s start is decided, `a`'s completion (in the same
/// mailbox, ahead of it) takes the slot for `c`.
#[test]
fn an_offer_whose_slot_was_taken_in_the_same_mailbox_is_not_lost() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b; c needs a");
    assert_eq!(rig.running(), ["a"]);
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!((world.calls(execution, "b"), world.calls(execution, "c")), (1, 1));
    assert!(rig.driver.is_quiet());
    world.check();
}

#[test]
fn a_slot_promised_to_an_execution_that_is_dropped_comes_back() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    rig.start("a; b");
    let other = rig.start("c");
    let a = rig.take_task("a");
    // A frame of the first execution is in flight when the slot is promised to its node b.
    let first = a.execution;
    rig.request(first, Request::Signal { name: "s".into(), body: Json::null() });
    rig.step();
    let append = rig.take_append();
    rig.finish(&a);
    rig.step();
    rig.answer_append(&append, Appended::Fenced);
    rig.step();
    rig.settle_store();
    assert_eq!(rig.running(), ["c"]);
    rig.settle();
    assert_eq!(world.status(other), Status::Completed);
}

/// Offers that no longer mean anything each take a promise; those behind them must not wait for
/// the next input.
#[test]
fn stale_offers_do_not_hold_up_the_ones_behind_them() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let fan: Vec<String> = (0..5).map(|at| format!("n{at}")).collect();
    let cancelled = rig.start(&fan.join(";"));
    rig.start("last");
    rig.settle_store();
    let first = rig.take_task("n0");
    rig.request(cancelled, Request::Cancel { reason: None });
    rig.settle_store();
    // Its slot is free, its execution has not ended: its last report is not committed yet.
    rig.report(&first, Outcome::Cancelled);
    rig.step();
    rig.perform_appends();
    rig.step();
    rig.perform_appends();
    rig.step();
    assert_eq!(rig.running(), ["last"]);
}

#[test]
fn an_attempt_whose_config_cannot_be_rendered_takes_no_slot() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let broken = rig.start("a = task(${{ input.missing }})");
    rig.settle();
    assert_eq!((world.status(broken), world.calls(broken, "a")), (Status::Failed, 0));
    rig.start("b");
    assert_eq!(rig.running(), ["b"]);
    world.check();
}

#[test]
fn an_attempt_cancelled_in_the_frame_that_starts_it_never_runs() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b needs a");
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.request(execution, Request::Cancel { reason: None });
    rig.settle();
    assert_eq!((world.status(execution), world.calls(execution, "b")), (Status::Cancelled, 0));
    assert!(rig.driver.is_quiet());
    world.check();
}

#[test]
fn an_execution_that_pauses_gives_its_slots_back_and_resumes_its_queue() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b; c");
    rig.request(execution, Request::Pause { now: true, reason: None });
    rig.settle();
    assert_eq!(world.status(execution), Status::Paused);
    assert!(rig.driver.is_quiet() && rig.driver.live() == 0);
    rig.request(execution, Request::Resume { reason: None });
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// One slot: the first execution runs one attempt and queues 999, the second and the third come later.
#[test]
fn executions_with_queued_attempts_take_turns() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let fan: Vec<String> = (0..1_000).map(|at| format!("n{at}")).collect();
    rig.start(&fan.join(";"));
    rig.start("a; b");
    rig.start("c");
    let mut order = Vec::new();
    for _ in 0..8 {
        let running = rig.running().join(", ");
        let task = rig.take_task(&running);
        rig.finish(&task);
        rig.settle_store();
        order.push(running);
    }
    // The first execution was alone in the queue, so it has the first turn.
    assert_eq!(order, ["n0", "n1", "a", "c", "n2", "b", "n3", "n4"]);
}

#[test]
fn queued_attempts_of_an_execution_that_left_memory_are_dropped() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let fan: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    let first = rig.start(&fan.join(";"));
    rig.start("a");
    let running = rig.take_task("n0");
    rig.request(first, Request::Signal { name: "s".into(), body: Json::null() });
    rig.step();
    let append = rig.take_append();
    assert_eq!(rig.driver.queue().depth, 100);
    rig.answer_append(&append, Appended::Fenced);
    rig.step();
    assert_eq!((rig.driver.queue().depth, rig.driver.live()), (1, 1));
    rig.report(&running, Outcome::Cancelled);
    rig.step();
    rig.perform_appends();
    rig.step();
    assert_eq!(rig.running(), ["a"]);
}

/// `a` and `b` compete for the only slot; the three calls have a limit of their own.
#[test]
fn attempts_that_only_await_io_take_no_slot_from_others() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| (config.slots, config.io_slots) = (1, 2));
    rig.start("a; b; c = call; d = call; e = call");
    rig.settle_store();
    assert_eq!(rig.running(), ["a", "c", "d"]);
    assert_eq!(rig.driver.slots_busy(), SlotCounts { work: 1, io: 2 });
    assert_eq!(rig.driver.queue().depth, 2);
    let call = rig.take_task("c");
    rig.finish(&call);
    rig.settle_store();
    assert_eq!(rig.running(), ["a", "d", "e"]);
    rig.run_to_end();
    assert_eq!(rig.driver.slots_busy(), SlotCounts::default());
    world.check();
}

#[test]
fn free_slot_goes_to_a_queued_attempt_before_a_new_submission() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    rig.start("a; b");
    let a = rig.take_task("a");
    rig.finish(&a);
    let plan = world.flow("x");
    rig.submit(&plan);
    rig.settle_store();
    assert_eq!(rig.running(), ["b"]);
}
