//! The time budget of a decision: one execution with many commands does not hold up the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_engine::driver::Stopwatch;

use crate::support::{Rig, World};

/// Every reading takes a millisecond, and there is one after each command but the last.
fn slow() -> Stopwatch {
    let readings = AtomicU64::new(0);
    Box::new(move || Duration::from_millis(readings.fetch_add(1, Ordering::Relaxed)))
}

/// The executions that have an append in flight, and the numbers of their events.
fn in_flight(rig: &Rig<'_>) -> Vec<(ExecutionNo, u64)> {
    let headers = rig.appends().map(|append| append.header);
    headers.map(|header| (header.execution, header.last_seq + 1 - header.first_seq)).collect()
}

#[test]
fn execution_with_many_commands_gives_way_sooner_while_another_waits() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| {
        config.slots = 101;
        config.decide_max = Millis(80);
    });
    rig.driver.set_stopwatches(slow);
    let fan: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    let busy = rig.start(&fan.join(";"));
    let other = rig.start("x");
    assert_eq!(rig.running().len(), 101);
    rig.finish_all();
    rig.step();
    let ended = 2; // NodeCompleted, RunCompleted
    assert_eq!(in_flight(&rig), [(busy, 10), (other, ended)]);
    let longest = rig.driver.measures().flat_map(|step| &step.decided).max().copied();
    assert_eq!(longest, Some(Duration::from_millis(11)), "ten commands, and the end");
    let mut frames = 0;
    while rig.appends().next().is_some() {
        frames += in_flight(&rig).iter().filter(|(execution, _)| *execution == busy).count();
        rig.perform_appends();
        rig.step();
    }
    assert_eq!(frames, 3, "one of 10, and then, alone, of 80 and 10");
    assert_eq!(world.status(busy), Status::Completed);
    world.check();
}

/// Two slots are free and promised to `c` and `d`; one command is decided at a time, so their starts
/// wait in the mailbox when `x` comes.
#[test]
fn slot_promised_to_a_start_that_waits_for_its_turn_is_not_given_to_another() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| {
        config.slots = 2;
        config.decide_max = Millis(1);
    });
    rig.driver.set_stopwatches(slow);
    rig.start("a; b; c; d");
    rig.finish_all();
    rig.step();
    let plan = world.flow("x");
    rig.submit(&plan);
    rig.settle_store();
    assert_eq!(rig.running(), ["c", "d"]);
    rig.run_to_end();
    world.check();
}
