//! Executions that were in hand when a process died: they are found out one at a time, the one that
//! kills is set aside, and the others are cleared by progress.

use waypost_core::command::{Outcome, Request};
use waypost_core::event::{Event, LOG_FORMAT};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_engine::driver::Answer;
use waypost_ports::store::{Append, ClaimRequest, SUSPECT_FROM, Share, Store};

use crate::support::{Rig, World};

fn names(append: &Append) -> Vec<&'static str> {
    decode(&append.body).unwrap().iter().map(Event::name).collect()
}

fn crashes(world: &World, execution: ExecutionNo) -> (u32, bool) {
    let control = world.control(execution).expect("it has not ended");
    (control.crashes, control.doubt)
}

/// The next process. It dies as soon as it decides one execution, if that is given: nothing that it
/// decided in that step leaves it. Returns it where it lives on.
fn life<'w>(world: &'w World, killer: Option<ExecutionNo>) -> Option<Rig<'w>> {
    world.outlive_leases();
    let mut rig = Rig::new(world);
    for _ in 0..200 {
        rig.step();
        if rig.appends().any(|append| Some(append.header.execution) == killer) {
            return None;
        }
        rig.perform_all();
        world.pass(5);
    }
    Some(rig)
}

#[test]
fn execution_that_kills_every_process_is_quarantined_alone() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let others: Vec<_> = (0..5).map(|_| first.start("a; b needs a")).collect();
    let killer = first.start("p = pass; a needs p");
    drop(first);
    let mut deaths = 1;
    let mut last = loop {
        match life(&world, Some(killer)) {
            None => deaths += 1,
            Some(rig) => break rig,
        }
        assert!(deaths < 10, "{:?}", crashes(&world, killer));
    };
    assert_eq!(deaths, SUSPECT_FROM + last.config.crashes_max);
    let held = world.control(killer).and_then(|control| control.held).expect("it is set aside");
    assert!(held.contains("4 processes died"), "{held}");
    for other in &others {
        assert_eq!(world.control(*other).and_then(|control| control.held), None);
    }
    last.settle();
    let ends: Vec<_> = others.iter().map(|other| world.status(*other)).collect();
    assert_eq!(ends, vec![Status::Completed; 5]);

    // A person has found the cause.
    last.request(killer, Request::Resume { reason: None });
    last.run_to_end();
    assert_eq!(world.status(killer), Status::Completed);
    world.check();
}

/// Thousands are in hand at each of many deaths, none of which they have caused.
#[test]
fn execution_waiting_for_its_task_at_many_deaths_is_no_suspect() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a timeout 1h");
    drop(rig);
    for _ in 0..4 {
        let rig = life(&world, None).expect("nothing kills it");
        drop(rig);
        let (crashes, doubt) = crashes(&world, execution);
        assert!(crashes <= 1 && !doubt, "it was decided before each death");
    }
    let mut rig = life(&world, None).expect("nothing kills it");
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn progress_beyond_the_take_over_clears_the_count() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; b needs a");
    drop(rig);
    let mut rig = life(&world, None).expect("nothing kills it");
    assert_eq!(crashes(&world, execution), (1, false));
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.settle_store();
    assert_eq!(crashes(&world, execution), (0, false));
    world.check();
}

/// A pass node is evaluated after the take-over is committed: that alone proves nothing.
#[test]
fn a_take_over_with_something_left_to_evaluate_stays_in_doubt() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("p = pass; a needs p");
    drop(rig);
    world.outlive_leases();
    let mut rig = Rig::new(&world);
    let frames = world.frames(execution);
    while world.frames(execution) == frames {
        rig.step();
        rig.perform_all();
        world.pass(5);
    }
    assert_eq!(crashes(&world, execution), (1, true));
    rig.settle_store();
    assert_eq!(crashes(&world, execution), (0, false), "its evaluation is progress");
    world.check();
}

/// What is asked of it may be what kills: the store knows that it is decided before it is.
#[test]
fn execution_in_memory_at_a_death_is_marked_before_it_is_decided() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; w = signal(go)");
    rig.settle_store();
    drop(rig);
    let mut rig = life(&world, None).expect("nothing kills it");
    assert_eq!(crashes(&world, execution), (1, false));
    rig.request(execution, Request::Signal { name: "go".into(), body: Json::null() });
    rig.step();
    assert_eq!(rig.appends().count(), 0, "not decided before it is marked");
    rig.perform_all();
    assert_eq!(crashes(&world, execution), (1, true));
    rig.step();
    assert_eq!(rig.appends().count(), 1);
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn an_orderly_stop_is_no_death() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a timeout 1h");
    for _ in 0..6 {
        rig.leave();
        rig = Rig::new(&world);
        rig.settle_store();
        assert_eq!(crashes(&world, execution), (0, false));
    }
    world.check();
}

/// Two deaths with two executions that wait for a worker in hand, both in doubt; then the next process.
fn two_suspects(world: &World, config: impl FnOnce(&mut Config)) -> (Rig<'_>, [ExecutionNo; 2]) {
    let mut rig = Rig::new(world);
    let executions = [rig.start("a = worker"), rig.start("a = worker")];
    for _ in 0..2 {
        drop(rig);
        world.outlive_leases();
        rig = Rig::new(world);
        // It dies as soon as it has claimed them.
        while executions.iter().any(|one| world.control(*one).unwrap().owner != Some(rig.instance))
        {
            rig.step();
            rig.perform_all();
            world.pass(5);
            if crashes(world, executions[0]).0 == SUSPECT_FROM {
                break;
            }
        }
    }
    drop(rig);
    world.outlive_leases();
    (Rig::with(world, config), executions)
}

/// A recovery that finds nothing to do has no frame of its own. Decided apart from the take-over, it left
/// its execution in doubt, and kept out all other suspects.
#[test]
fn bug_a_take_over_without_a_last_frame_kept_out_other_suspects() {
    let world = World::new();
    let (mut rig, executions) = two_suspects(&world, |config| config.frame_commands_max = 1);
    for _ in 0..50 {
        rig.step();
        rig.perform_all();
        world.pass(5);
    }
    for execution in executions {
        let control = world.control(execution).unwrap();
        assert_eq!(control.owner, Some(rig.instance), "{execution:?} is taken: {control:?}");
        assert!(!control.doubt, "{execution:?}: {control:?}");
    }
    world.check();
}

/// Another instance took it over and put it on hold without a frame, while this one was not reachable for
/// longer than its lease. The copy in memory here stayed, and answered everything that was asked.
#[test]
fn bug_a_suspect_that_was_lost_unnoticed_stayed_in_memory() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker");
    drop(rig);
    let mut rig = life(&world, None).expect("nothing kills it");
    assert_eq!(crashes(&world, execution), (1, false));
    world.outlive_leases();
    let other = Rig::new(&world);
    let (fold, only) = (LOG_FORMAT, Some(vec![execution]));
    let instance = other.instance;
    let request = ClaimRequest {
        instance,
        fold,
        limit: 1,
        share: Share::ALL,
        only,
        held: None,
        suspects: true,
        ahead: Millis(0),
    };
    let claims = world.store.claim(&request).unwrap();
    assert_eq!(claims.claimed.len(), 1);
    world.store.hold(execution, other.instance, "it cannot be read here").unwrap();
    rig.renew();
    let report = |rig: &mut Rig<'_>| {
        let ticket = rig.say(1, (execution, "a", 1), Outcome::Completed(Json::null()));
        rig.settle_store();
        rig.answer(ticket).cloned()
    };
    let first = report(&mut rig);
    assert!(matches!(first, Some(Answer::Moved)), "{first:?}");
    let again = report(&mut rig);
    assert!(matches!(again, Some(Answer::Accepted(_))), "{again:?}");
    rig.request(execution, Request::Resume { reason: None });
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// The worker of an attempt dies, and the process dies of the decision that follows, each time: nothing
/// in that is claimed or read from an inbox.
#[test]
fn bug_a_process_that_dies_of_a_lost_worker_died_for_ever() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker");
    rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    let mut deaths = 0;
    while world.control(execution).unwrap().held.is_none() {
        deaths += 1;
        assert!(deaths < 10, "{:?}", crashes(&world, execution));
        world.outlive_leases();
        rig = Rig::new(&world);
        // It lives until it decides more than the take-over.
        'life: for _ in 0..200 {
            rig.step();
            let kills = |append: &Append| !names(append).contains(&"RunOwned");
            if rig.appends().any(kills) || world.control(execution).unwrap().held.is_some() {
                break 'life;
            }
            rig.perform_all();
            if !rig.looks.is_empty() {
                rig.see(Some(&[]), &[]);
            }
            world.pass(1_000);
            rig.renew();
        }
    }
    assert_eq!(deaths, SUSPECT_FROM + rig.config.crashes_max);
    world.check();
}
