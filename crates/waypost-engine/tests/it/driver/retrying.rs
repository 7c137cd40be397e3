//! Retries of executions that have ended: only what failed runs again, once, however often it is asked for.

use waypost_core::command::{Refusal, Request};
use waypost_core::status::Status;
use waypost_engine::driver::Answer;

use crate::support::{Rig, World};

const RETRY: Request = Request::Retry { reason: None, budget: None };
const CANCEL: Request = Request::Cancel { reason: None };

fn names(world: &World, execution: waypost_core::id::ExecutionNo, name: &str) -> usize {
    world.names(execution).iter().filter(|found| **found == name).count()
}

#[test]
fn retry_of_a_cancelled_execution_runs_incomplete_nodes() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = pass; w = signal(go) needs a");
    rig.settle();
    rig.request(execution, CANCEL);
    rig.settle();
    assert_eq!(world.status(execution), Status::Cancelled);
    let scheduled = names(&world, execution, "NodeScheduled");
    let ticket = rig.request(execution, RETRY);
    rig.settle();
    let answer = rig.answer(ticket);
    assert!(matches!(answer, Some(Answer::Done { status: Status::Running, .. })), "{answer:?}");
    assert_eq!(world.status(execution), Status::Waiting);
    assert_eq!(names(&world, execution, "NodeScheduled"), scheduled + 1, "the wait alone");
    world.check();
}

#[test]
fn retry_of_an_execution_without_failure_is_refused_and_leaves_memory() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let done = rig.start("a = pass");
    let waits = rig.start("w = signal(go)");
    rig.settle();
    let tickets = [rig.request(done, RETRY), rig.request(waits, RETRY)];
    rig.settle();
    for (ticket, status) in tickets.into_iter().zip([Status::Completed, Status::Waiting]) {
        let answer = rig.answer(ticket);
        let expected = Refusal::NotReopenable(status);
        assert!(matches!(answer, Some(Answer::Refused(why)) if *why == expected), "{answer:?}");
    }
    assert_eq!(rig.driver.live(), 0);
    assert_eq!(names(&world, waits, "MessageIgnored"), 0, "it was not woken for it");
    world.check();
}

#[test]
fn retries_of_two_instances_at_once_reopen_once() {
    let world = World::new();
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let execution = one.start("w = signal(go)");
    one.settle();
    one.request(execution, CANCEL);
    one.settle();
    let tickets = (one.request(execution, RETRY), two.request(execution, RETRY));
    // Both have read the end before either of them appends.
    for rig in [&mut one, &mut two] {
        rig.step();
        rig.perform_all();
        rig.step();
    }
    one.settle();
    two.settle();
    assert!(matches!(one.answer(tickets.0), Some(Answer::Done { .. })));
    assert!(matches!(two.answer(tickets.1), Some(Answer::Moved)), "{:?}", two.answer(tickets.1));
    assert_eq!(names(&world, execution, "RunReopened"), 1);
    world.check();
}

#[test]
fn retry_rejected_by_the_concurrency_policy_changes_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let flow = "keyed k 1 reject; w = signal(go)";
    let first = rig.start(flow);
    rig.settle();
    rig.request(first, CANCEL);
    rig.settle();
    let second = rig.start(flow);
    rig.settle();
    let ticket = rig.request(first, RETRY);
    rig.settle();
    let answer = rig.answer(ticket);
    assert!(matches!(answer, Some(Answer::Rejected { holding: 1 })), "{answer:?}");
    assert_eq!(world.status(first), Status::Cancelled);
    assert_eq!(names(&world, first, "RunReopened"), 0);
    rig.request(second, CANCEL);
    rig.settle();
    let ticket = rig.request(first, RETRY);
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { .. })), "the permit is free");
    assert_eq!(world.status(first), Status::Waiting);
    world.check();
}
