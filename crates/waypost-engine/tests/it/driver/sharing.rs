//! Several drivers in one instance: each has the executions of its share, and slots, suspects and
//! permits are those of the instance.

use std::collections::BTreeSet;

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::driver::{Answer, Input};
use waypost_ports::store::{SUSPECT_FROM, Share};

use crate::support::{Rig, World};

fn several<'w>(world: &'w World, drivers: u32, slots: u32) -> Rig<'w> {
    Rig::with(world, |config| (config.drivers, config.slots) = (drivers, slots))
}

/// How many of the executions are of each of so many shares.
fn shares(executions: &[ExecutionNo], of: u32) -> Vec<usize> {
    let count = |at| executions.iter().filter(|one| Share { at, of }.has(**one)).count();
    (0..of).map(count).collect()
}

#[test]
fn starts_are_divided_evenly_and_have_numbers_of_their_share() {
    let world = World::new();
    let mut rig = several(&world, 3, 100);
    let all: Vec<_> = (0..9).map(|_| rig.start("a")).collect();
    assert_eq!(shares(&all, 3), [3, 3, 3]);
    rig.settle();
    assert_eq!(world.first_open(), None);
    // All are idle: the first one takes it, as long as it has nothing else to do.
    for _ in 0..3 {
        let one = rig.start("a");
        assert_eq!(shares(&[one], 3), [1, 0, 0]);
        rig.settle();
    }
    // Many submissions in one step are divided as well.
    let plan = world.flow("a");
    let tickets: Vec<_> = (0..6).map(|_| rig.submit(&plan)).collect();
    rig.settle_store();
    let all: Vec<_> = tickets.into_iter().map(|ticket| rig.started(ticket)).collect();
    assert_eq!(shares(&all, 3), [2, 2, 2]);
    world.check();
}

#[test]
fn numbers_run_out_and_every_driver_gets_more() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| (config.drivers, config.id_block_size) = (3, 1));
    let plan = world.flow("a timeout 1h");
    let tickets: Vec<_> = (0..10).map(|_| rig.submit(&plan)).collect();
    rig.settle_store();
    let all: BTreeSet<_> = tickets.into_iter().map(|ticket| rig.started(ticket)).collect();
    assert_eq!(all.len(), 10);
    world.check();
}

#[test]
fn one_execution_may_use_the_slots_of_all_drivers() {
    let world = World::new();
    let mut rig = several(&world, 2, 4);
    rig.start("a; b; c; d; e");
    rig.settle_store();
    assert_eq!(rig.tasks.len(), 4);
    assert_eq!((rig.driver.slots_busy().work, rig.driver.queue().depth), (4, 1));
    rig.settle();
    assert_eq!(world.first_open(), None);
    assert_eq!(rig.driver.slots_busy().work, 0);
}

/// Each driver has attempts that wait all the time: none of them gets the freed slot again and again.
#[test]
fn freed_slot_goes_to_drivers_in_turn() {
    for drivers in 2..=3 {
        let world = World::new();
        let mut rig = several(&world, drivers, 1);
        let count = usize::try_from(drivers).unwrap();
        let all: Vec<_> = (0..count).map(|_| rig.start("a; b; c; d")).collect();
        assert_eq!(shares(&all, drivers), vec![1; count]);
        let mut order = Vec::new();
        for _ in 0..4 * count {
            rig.settle_store();
            assert_eq!(rig.tasks.len(), 1, "the slot is not empty, and not taken twice");
            let task = rig.tasks.remove(0);
            order.push(task.execution);
            rig.finish(&task);
        }
        rig.settle_store();
        for turn in order.chunks(count) {
            assert_eq!(turn.iter().collect::<BTreeSet<_>>().len(), count, "{order:?}");
        }
        assert_eq!(world.first_open(), None);
        world.check();
    }
}

#[test]
fn slot_freed_by_a_driver_wakes_another_in_the_same_step() {
    let world = World::new();
    let mut rig = several(&world, 2, 1);
    let (first, second) = (rig.start("a"), rig.start("a"));
    rig.settle_store();
    let task = rig.take_task("a");
    assert_eq!(task.execution, first);
    rig.finish(&task);
    rig.step();
    rig.perform_appends();
    rig.step();
    let task = rig.take_task("a");
    assert_eq!(task.execution, second);
    rig.finish(&task);
    rig.settle();
    assert_eq!(world.first_open(), None);
}

#[test]
fn reconciliation_compares_each_driver_with_its_share() {
    let world = World::new();
    let mut rig = several(&world, 3, 10);
    let all: Vec<_> = (0..6).map(|_| rig.start("a timeout 1h")).collect();
    rig.settle_store();
    let frames: Vec<_> = all.iter().map(|one| world.frames(*one)).collect();
    world.pass(rig.config.reconcile_every.0);
    rig.renew();
    rig.inputs.push(Input::Nudge);
    rig.settle_store();
    assert_eq!(rig.driver.live(), 6);
    let after: Vec<_> = all.iter().map(|one| world.frames(*one)).collect();
    assert_eq!(frames, after, "none of them was taken for lost");
    assert_eq!(rig.tasks.len(), 6);
}

#[test]
fn executions_of_a_dead_instance_are_taken_over_by_their_drivers() {
    let world = World::new();
    let mut dead = several(&world, 2, 10);
    let all: Vec<_> = (0..5).map(|_| dead.start("a; b needs a")).collect();
    drop(dead);
    world.outlive_leases();
    // Not as many drivers as the one before.
    let mut rig = several(&world, 3, 10);
    rig.run_to_end();
    let ends: Vec<_> = all.iter().map(|one| world.status(*one)).collect();
    assert_eq!(ends, vec![Status::Completed; 5]);
    world.check();
}

#[test]
fn requests_mail_and_ends_reach_the_driver_of_their_execution() {
    let world = World::new();
    let mut rig = several(&world, 3, 10);
    let all: Vec<_> = (0..6).map(|_| rig.start("w = signal(go); a needs w")).collect();
    rig.settle_store();
    assert_eq!(rig.driver.live(), 0, "all are parked");
    let ends: Vec<_> = all.iter().map(|one| rig.await_end(*one)).collect();
    for one in &all {
        rig.request(*one, Request::Signal { name: "go".into(), body: Json::null() });
    }
    rig.settle();
    for end in ends {
        assert!(
            matches!(rig.answer(end), Some(Answer::Ended(end)) if end.status == Status::Completed)
        );
    }
    world.check();
}

/// The next in the queue is of another driver, and begins at once nevertheless.
#[test]
fn permit_freed_by_a_driver_is_claimed_by_another_at_once() {
    let world = World::new();
    let mut rig = several(&world, 2, 10);
    let began = world.now();
    // What is queued is not in memory and does not count, so others keep the drivers as busy as each
    // other.
    let busy = rig.start("z timeout 1h");
    let first = rig.start("keyed k; a");
    let busier = rig.start("z timeout 1h");
    let second = rig.start("keyed k; a");
    assert_eq!(shares(&[busy, second], 2), [2, 0]);
    assert_eq!(shares(&[busier, first], 2), [0, 2]);
    rig.settle_store();
    let task = rig.tasks.iter().position(|task| task.execution == first).unwrap();
    let task = rig.tasks.remove(task);
    rig.finish(&task);
    rig.settle_store();
    assert!(rig.tasks.iter().any(|task| task.execution == second));
    assert_eq!(world.now(), began, "it did not wait for a poll");
    world.check();
}

/// Whatever the share of a suspect: of all suspects one is in doubt at a time, and the killer is found.
#[test]
fn suspects_of_all_drivers_are_in_doubt_one_at_a_time() {
    let world = World::new();
    let mut first = several(&world, 3, 10);
    let others: Vec<_> = (0..5).map(|_| first.start("a; b needs a")).collect();
    let killer = first.start("p = pass; a needs p");
    let all: Vec<_> = others.iter().chain([&killer]).copied().collect();
    assert_eq!(shares(&all, 3), [2, 2, 2]);
    drop(first);
    let doubted = |owner| {
        let rows = all.iter().filter_map(|one| world.control(*one));
        let own = rows.filter(|row| row.owner == Some(owner) && row.crashes >= SUSPECT_FROM);
        own.filter(|row| row.doubt).count()
    };
    let mut deaths = 1;
    let mut last = 'lives: loop {
        world.outlive_leases();
        let mut rig = several(&world, 3, 10);
        for _ in 0..200 {
            rig.step();
            assert!(doubted(rig.instance) <= 1, "after {deaths} deaths");
            if rig.appends().any(|append| append.header.execution == killer) {
                deaths += 1;
                continue 'lives;
            }
            rig.perform_all();
            world.pass(5);
        }
        break rig;
    };
    assert_eq!(deaths, SUSPECT_FROM + last.config.crashes_max);
    assert!(world.control(killer).and_then(|control| control.held).is_some());
    last.settle();
    let ends: Vec<_> = others.iter().map(|other| world.status(*other)).collect();
    assert_eq!(ends, vec![Status::Completed; 5]);
    world.check();
}

/// Both drivers poll at the same time, again and again: the one without suspects leaves the turn to the
/// other.
#[test]
fn bug_polls_of_a_driver_without_suspects_kept_another_from_its_own() {
    let world = World::new();
    let execution = several(&world, 2, 10).start("p = pass; a needs p");
    for _ in 0..SUSPECT_FROM {
        world.outlive_leases();
        let mut dies = several(&world, 2, 10);
        for _ in 0..20 {
            dies.step();
            if dies.appends().next().is_some() {
                break;
            }
            dies.perform_all();
            world.pass(5);
        }
    }
    world.outlive_leases();
    let mut rig = several(&world, 2, 10);
    for _ in 0..20 {
        rig.step();
        rig.perform_all();
        rig.finish_all();
        world.pass(1_000);
        rig.renew();
    }
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn drain_reaches_all_drivers() {
    let world = World::new();
    let mut rig = several(&world, 2, 10);
    let all = [rig.start("a"), rig.start("a")];
    rig.settle_store();
    rig.inputs.push(Input::Drain);
    let late = rig.submit(&world.flow("a"));
    rig.step();
    assert!(matches!(rig.answer(late), Some(Answer::Draining)));
    assert!(!rig.driver.is_quiet());
    let task = rig.tasks.remove(0);
    rig.finish(&task);
    rig.settle_store();
    assert!(!rig.driver.is_quiet(), "the other one still runs");
    rig.inputs.push(Input::HandOver);
    rig.step();
    assert!(!rig.driver.is_handed_over());
    rig.perform_appends();
    rig.step();
    assert!(rig.driver.is_handed_over());
    assert_eq!(world.status(all[0]), Status::Completed);
    assert_eq!(world.control(all[1]).map(|control| control.held), Some(None));
}
