//! Two instances and one execution: the log decides who owns it.

use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_ports::store::Appended;

use crate::support::{Rig, World};

#[test]
fn a_survivor_takes_over_and_the_late_append_is_refused() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let execution = first.start("a; b needs a; c needs b");
    let a = first.take_task("a");
    first.finish(&a);
    first.settle_store();
    let b = first.take_task("b");
    first.finish(&b);
    first.step();
    let late = first.take_append();

    world.outlive_leases();
    let mut second = Rig::new(&world);
    second.settle_store();
    let refused = world.append(&late);
    assert_eq!(refused, Appended::Fenced);
    first.answer_append(&late, refused);
    first.step();
    assert_eq!((first.driver.live(), first.running().len()), (0, 0));
    assert!(first.driver.is_quiet());

    second.settle();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(world.calls(execution, "a"), 1, "a was completed before");
    assert_eq!(world.calls(execution, "b"), 2, "b's report came too late");
    world.check();
}

#[test]
fn an_instance_that_comes_back_finds_its_execution_gone() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let execution = first.start("a; b needs a");
    let a = first.take_task("a");
    world.outlive_leases();
    let mut second = Rig::new(&world);
    second.settle_store();

    // The first wakes up with its old memory; its report is refused with the frame.
    first.finish(&a);
    first.settle();
    assert_eq!(first.driver.live(), 0);
    assert!(first.running().is_empty());
    second.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// The first owner lost the execution and does not know it; the second dies; the first claims it
/// back while it still holds the old state.
#[test]
fn an_execution_that_is_claimed_back_replaces_the_stale_memory_of_it() {
    let world = World::new();
    let mut first = Rig::with(&world, |config| config.slots = 2);
    let execution = first.start("a; b; c; d needs a");
    let ticket = first.await_end(execution);
    first.settle_store();
    let old: Vec<_> = first.tasks.iter().map(|order| order.task.token).collect();
    world.outlive_leases();
    let second = {
        let mut second = Rig::new(&world);
        second.settle_store();
        second.instance
    };
    world.outlive_leases();
    first.renew();
    first.settle_store();
    assert!(world.names(execution).iter().filter(|name| **name == "RunOwned").count() == 3);
    assert_ne!(world.control(execution).unwrap().owner, Some(second));
    assert!(
        old.iter().all(|token| first.cancelled.contains(token)),
        "the old attempts are stopped"
    );
    first.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert!(first.answer(ticket).is_some());
    assert!(first.driver.is_quiet());
    world.check();
}

/// The other instance claimed it and died before its take-over was durable: no other instance appended,
/// so the old memory of it is right and nothing that runs is lost.
#[test]
fn untouched_execution_is_claimed_back_with_its_state() {
    for in_flight in [false, true] {
        let world = World::new();
        let mut first = Rig::new(&world);
        let execution = first.start("a; b needs a");
        first.settle_store();
        world.outlive_leases();
        let mut second = Rig::new(&world);
        second.step();
        second.perform_all();
        world.outlive_leases();
        first.renew();
        first.step();
        let work = std::mem::take(&mut first.work);
        if in_flight {
            let a = first.take_task("a");
            first.finish(&a);
            first.step();
        }
        work.into_iter().for_each(|work| first.perform(work));
        first.run_to_end();
        assert_eq!((world.calls(execution, "a"), world.calls(execution, "b")), (1, 1));
        assert!(first.driver.is_quiet());
        world.check();
    }
}

/// The old owner is slow, not dead: it appends between the claim and the take-over. The claimer owns
/// the control row by then, and must not give up.
#[test]
fn a_take_over_that_loses_a_race_is_tried_again() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let execution = first.start("a; b needs a; c needs b");
    world.outlive_leases();
    let mut second = Rig::new(&world);
    second.step();
    second.perform_all();
    second.step();
    let take_over = second.take_append();
    let a = first.take_task("a");
    first.finish(&a);
    first.settle_store();
    assert_eq!(first.running(), ["b"], "the slow owner still owns the log");

    let refused = world.append(&take_over);
    assert_eq!(refused, Appended::Fenced);
    second.answer_append(&take_over, refused);
    second.settle_store();
    drop(first);
    second.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(world.calls(execution, "a"), 1);
    world.check();
}

#[test]
fn two_living_instances_never_claim_the_same_execution() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let mut second = Rig::new(&world);
    let ids: Vec<_> = (0..10).map(|_| first.start("d = delay(5s); a needs d")).collect();
    first.settle();
    world.pass(5_000);
    for _ in 0..20 {
        for rig in [&mut first, &mut second] {
            rig.step();
            if let Some(work) = rig.work.pop_front() {
                rig.perform(work);
            }
            rig.finish_all();
        }
    }
    first.settle();
    second.settle();
    for id in ids {
        assert_eq!((world.status(id), world.calls(id, "a")), (Status::Completed, 1));
        let owned = world.names(id).iter().filter(|name| **name == "RunOwned").count();
        assert_eq!(owned, 2);
    }
    world.check();
}

#[test]
fn an_attempt_that_was_lost_often_enough_is_quarantined() {
    let world = World::new();
    let execution = Rig::new(&world).start("a");
    let other = Rig::new(&world).start("b");
    for _ in 0..30 {
        world.outlive_leases();
        let mut rig = Rig::new(&world);
        rig.settle_store();
        if rig.tasks.iter().any(|order| order.execution == other) {
            let b = rig.take_task("b");
            rig.finish(&b);
            rig.settle_store();
        }
    }
    let control = world.control(execution).unwrap();
    assert!(control.held.unwrap().contains("lost 5 times"));
    assert_eq!(world.status(execution), Status::Quarantined);
    assert_eq!(world.status(other), Status::Completed);
    assert_eq!(world.calls(execution, "a"), 0);

    let mut rig = Rig::new(&world);
    rig.request(execution, waypost_core::command::Request::Resume { reason: None });
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// Executions that waited in the memory of an owner that died stayed in the memory of the next one;
/// where they filled it, the rest of them were never taken over.
#[test]
fn bug_orphans_that_wait_crowded_out_the_others() {
    let world = World::new();
    let mut first = Rig::with(&world, |config| config.park_after = Millis::from_secs(86_400));
    let orphans: Vec<_> = (0..6).map(|_| first.start("a = delay(1h)")).collect();
    first.settle_store();
    assert_eq!(first.driver.live(), 6);

    world.outlive_leases();
    let mut second = Rig::with(&world, |config| config.active_max = 2);
    second.settle_store();
    assert_eq!(second.driver.live(), 0);
    for execution in orphans {
        assert_eq!(world.status(execution), Status::Waiting);
    }
    world.check();
}
