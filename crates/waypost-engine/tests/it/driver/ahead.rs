//! Executions that are claimed shortly before they are due.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};
use waypost_engine::driver::{Answer, Input};
use waypost_ports::store::{Mail, Store};

use crate::support::world::START;
use crate::support::{Rig, World};

const DELAY: u64 = 5_000;

fn due() -> Timestamp {
    START.plus(Millis(DELAY))
}

/// A parked execution that was claimed and is not due for a while.
fn claimed_early(rig: &mut Rig<'_>) -> ExecutionNo {
    let world = rig.world;
    let execution = rig.start("d = delay(5s)");
    rig.settle();
    assert_eq!(rig.driver.live(), 0, "it is parked");
    let claim_at = due().minus(rig.config.claim_ahead);
    while world.now() < claim_at {
        world.clock.set(rig.driver.next_wake().min(claim_at));
        rig.settle();
    }
    assert_eq!(rig.driver.live(), 1);
    assert_eq!(world.control(execution).unwrap().owner, Some(rig.instance));
    assert_eq!(rig.driver.next_wake().min(due()), rig.driver.next_wake(), "it has a timer");
    execution
}

fn pass_until_due(rig: &mut Rig<'_>) {
    rig.world.clock.set(due());
    rig.renew();
    rig.settle();
}

#[test]
fn claimed_early_fires_at_its_due_time_with_one_append() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    let frames = world.frames(execution);
    world.clock.set(due().minus(Millis(1)));
    rig.settle();
    assert_eq!((world.frames(execution), world.status(execution)), (frames, Status::Waiting));
    world.pass(1);
    rig.step();
    assert_eq!(rig.appends().count(), 1, "nothing has to be claimed or read any more");
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!(world.frames(execution), frames + 1);
    world.check();
}

/// The store's time may be ahead of what an instance knows for certain.
#[test]
fn claimed_early_waits_for_the_lower_bound_of_the_time() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    rig.behind = 3;
    world.clock.set(due().plus(Millis(2)));
    rig.settle();
    assert_eq!(world.status(execution), Status::Waiting);
    world.pass(1);
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn claimed_early_and_cancelled_ends_at_once() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    let ticket = rig.request(execution, Request::Cancel { reason: None });
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { status: Status::Cancelled, .. })));
    assert_eq!(world.status(execution), Status::Cancelled);
    pass_until_due(&mut rig);
    assert_eq!(world.status(execution), Status::Cancelled);
    world.check();
}

#[test]
fn claimed_early_and_paused_does_not_fire_until_it_is_resumed() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle();
    pass_until_due(&mut rig);
    world.pass(1_000);
    rig.settle();
    assert_eq!(world.status(execution), Status::Paused);
    rig.request(execution, Request::Resume { reason: None });
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// Another process put it into the inbox.
#[test]
fn claimed_early_reads_mail_from_its_inbox() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    let body = Request::Cancel { reason: None };
    let mail = Mail {
        execution,
        message: "stop".into(),
        actor: None,
        body: body.into(),
        blobs: Vec::new(),
    };
    world.store.deliver(&[mail]).unwrap();
    rig.inputs.push(Input::MailWaits);
    rig.settle();
    assert_eq!(world.status(execution), Status::Cancelled);
    world.check();
}

#[test]
fn claimed_early_is_not_handed_out_again_by_a_reconciliation() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.reconcile_every = Millis(10));
    let execution = claimed_early(&mut rig);
    let frames = world.frames(execution);
    for _ in 0..5 {
        world.pass(15);
        rig.inputs.push(Input::Nudge);
        rig.settle();
    }
    assert_eq!((world.frames(execution), rig.driver.live()), (frames, 1));
    pass_until_due(&mut rig);
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// Its lease was over for a while, and it claims again what it still has in memory.
#[test]
fn claimed_early_lost_and_won_back_fires_once() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.claim_ahead = Millis(4_000));
    let execution = claimed_early(&mut rig);
    let mut other = Rig::with(&world, |config| config.claim_ahead = Millis(4_000));
    rig.leave();
    other.step();
    other.perform_all();
    other.leave();
    rig.renew();
    rig.inputs.push(Input::Nudge);
    rig.settle();
    assert_eq!(world.control(execution).unwrap().owner, Some(rig.instance));
    pass_until_due(&mut rig);
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn claimed_early_by_an_instance_that_drains_still_fires() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    rig.inputs.push(Input::Drain);
    rig.settle();
    assert!(rig.driver.is_quiet(), "it is not awaited");
    pass_until_due(&mut rig);
    assert!(world.names(execution).contains(&"NodeResumed"), "the next owner does the rest");
    world.check();
}

#[test]
fn claimed_early_by_an_instance_that_leaves_is_claimed_by_the_next() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = claimed_early(&mut rig);
    rig.inputs.push(Input::Drain);
    rig.settle();
    rig.leave();
    let mut next = Rig::new(&world);
    next.settle();
    let control = world.control(execution).unwrap();
    assert_eq!((control.owner, control.crashes), (Some(next.instance), 0));
    pass_until_due(&mut next);
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// A death says little about what merely waited for its time, and one that has been counted is decided at
/// once instead of being left in doubt.
#[test]
fn claimed_early_when_its_owner_died_is_decided_at_once_by_the_next() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.claim_ahead = Millis(60_000));
    let execution = rig.start("d = delay(1m)");
    rig.settle();
    world.pass(1_000);
    rig.settle();
    assert_eq!(rig.driver.live(), 1);
    drop(rig);
    world.outlive_leases();
    let mut next = Rig::with(&world, |config| config.claim_ahead = Millis(60_000));
    next.settle();
    let control = world.control(execution).unwrap();
    assert_eq!((control.owner, control.doubt), (Some(next.instance), false), "it was decided");
    next.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn claims_ahead_leave_room_for_overdue_executions() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let early: Vec<_> = (0..20).map(|_| rig.start("d = delay(5s)")).collect();
    let overdue = rig.start("d = delay(4s)");
    rig.settle();
    rig.leave();
    world.clock.set(due().minus(Millis(100)));
    let mut next = Rig::with(&world, |config| config.claim_batch = 4);
    next.step();
    next.perform_all();
    next.step();
    next.perform_appends();
    assert_eq!(world.status(overdue), Status::Completed, "it was in the first batch");
    next.run_to_end();
    assert!(early.iter().all(|id| world.status(*id) == Status::Completed));
    world.check();
}
