//! Executions that others start: they begin with a frame of their parent, on any instance, and their end is
//! mail in their own last frame.

use waypost_core::child::ParentLink;
use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::limits::CHILD_DEPTH_MAX;
use waypost_core::status::Status;
use waypost_engine::driver::{Input, StoreWork};
use waypost_ports::store::{Append, Appended, Store as _};

use crate::support::{Rig, World};

const CANCEL: Request = Request::Cancel { reason: None };

/// The children of an execution, in order.
fn children(world: &World, parent: ExecutionNo) -> Vec<ExecutionNo> {
    let started = |event: &Event| match event {
        Event::Node(NodeEvent::ChildStarted { execution, .. }) => Some(*execution),
        _ => None,
    };
    world.events(parent).iter().filter_map(started).collect()
}

fn child(world: &World, parent: ExecutionNo) -> ExecutionNo {
    *children(world, parent).last().expect("it has a child")
}

/// Goes on until an execution has started others.
fn until_children(rig: &mut Rig<'_>, parent: ExecutionNo) {
    rig.step();
    while children(rig.world, parent).is_empty() {
        rig.perform_all();
        rig.step();
    }
}

fn count(world: &World, execution: ExecutionNo, name: &str) -> usize {
    world.names(execution).iter().filter(|found| **found == name).count()
}

fn parent_of(world: &World, execution: ExecutionNo) -> ParentLink {
    let events = world.events(execution);
    let Some(Event::Run(RunEvent::Created(created))) = events.first() else {
        panic!("a log begins with RunCreated");
    };
    *created.parent.clone().expect("it has a parent")
}

#[test]
fn parent_has_the_output_of_its_child() {
    let world = World::new();
    world.named("other", "a; o = output(${{ input.n }}) needs a");
    let mut rig = Rig::new(&world);
    let parent = rig
        .start("c = workflow(other, input {\"n\": 5}); o = output(${{ nodes.c.output }}) needs c");
    rig.run_to_end();
    let end = world.state(parent).end.expect("it has ended");
    assert_eq!(end.output.as_ref().map(|output| output.text().to_owned()).as_deref(), Some("5"));
    let child = child(&world, parent);
    assert_eq!(parent_of(&world, child).execution, parent);
    assert_eq!(world.status(child), Status::Completed);
    world.check();
}

#[test]
fn tree_has_only_so_many_executions_whichever_of_them_starts_more() {
    let world = World::new();
    world.named("leaf", "a");
    world.named("middle", "c = workflow(leaf); d = workflow(leaf, detached)");
    let mut rig = Rig::with(&world, |config| config.tree_max = 5);
    let root =
        rig.start("a = workflow(middle); b = workflow(leaf) needs a; c = workflow(leaf) needs b");
    rig.run_to_end();
    let failure = world.state(root).end.and_then(|end| end.failure).expect("it failed");
    assert_eq!(failure.kind, "tree_too_large");
    assert!(failure.message.contains("has 5 executions, which is the limit"), "{failure:?}");
    let of_root = children(&world, root);
    assert_eq!(of_root.len(), 2, "a and b");
    assert_eq!(children(&world, of_root[0]).len(), 2, "with those of the one in the middle");
    // Another tree has an allowance of its own, also on the same instance.
    let mut other = Rig::with(&world, |config| config.tree_max = 5);
    let small = other.start("a = workflow(middle); b = workflow(leaf) needs a");
    other.run_to_end();
    assert_eq!(world.status(small), Status::Completed);
    world.check();
}

#[test]
fn child_is_claimed_by_another_instance_and_its_end_reaches_the_parent() {
    let world = World::new();
    world.named("other", "a");
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let parent = one.start("c = workflow(other)");
    until_children(&mut one, parent);
    // The child is due, and no instance has claimed it.
    world.check();
    two.settle();
    let child = child(&world, parent);
    assert_eq!(world.status(child), Status::Completed, "the other instance ran it");
    assert!(world.control(parent).is_some());
    one.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    world.check();
}

#[test]
fn parent_that_waits_for_its_child_parks_after_a_while() {
    let world = World::new();
    world.named("other", "w = signal(go)");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other)");
    rig.settle();
    assert_eq!(world.status(parent), Status::Running, "it lingers");
    world.pass(3_000);
    rig.renew();
    rig.settle();
    assert_eq!(world.status(parent), Status::Waiting);
    world.check();
    let signal = Request::Signal { name: "go".into(), body: waypost_core::json::Json::null() };
    rig.request(child(&world, parent), signal);
    rig.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    world.check();
}

/// The time until which a parent lingers had passed, was not forgotten while the driver drained, and was due
/// again after every decision: one step never ended.
#[test]
fn draining_driver_does_not_spin_for_a_parent_that_lingered() {
    let world = World::new();
    world.named("other", "w = signal(go)");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other)");
    rig.settle();
    assert_eq!(world.status(parent), Status::Running, "it lingers");
    rig.inputs.push(Input::Drain);
    rig.step();
    world.pass(3_000);
    rig.renew();
    rig.step();
    assert_eq!(rig.appends().count(), 0, "there is nothing to decide");
    assert_eq!(world.status(parent), Status::Running, "a drain parks nothing");
}

#[test]
fn cancel_of_a_parent_reaches_its_children_and_awaits_them() {
    let world = World::new();
    world.named("other", "w = signal(go)");
    let mut rig = Rig::new(&world);
    let parent = rig.start("m = map(5) {c = workflow(other)}");
    rig.settle();
    world.pass(3_000);
    rig.renew();
    rig.settle();
    assert_eq!(children(&world, parent).len(), 5);
    rig.request(parent, CANCEL);
    rig.run_to_end();
    assert_eq!(world.status(parent), Status::Cancelled);
    for child in children(&world, parent) {
        assert_eq!(world.status(child), Status::Cancelled);
    }
    assert_eq!(count(&world, parent, "ChildEnded"), 5, "it awaited them");
    world.check();
}

#[test]
fn ending_parent_leaves_memory_while_its_child_is_held() {
    let world = World::new();
    world.named("other", "a");
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let parent = one.start("c = workflow(other)");
    until_children(&mut one, parent);
    // The other instance has the child, and its handler does not end.
    two.settle_store();
    one.request(parent, CANCEL);
    one.settle();
    assert_eq!(world.status(parent), Status::Ending);
    world.pass(3_000);
    one.renew();
    two.renew();
    one.settle();
    assert_eq!(one.driver.live(), 0, "it left memory");
    assert_eq!(world.control(parent).and_then(|control| control.owner), None);
    assert_eq!(world.status(parent), Status::Ending);
    world.check();
    world.pass(3_000);
    two.settle_store();
    two.finish_all();
    two.run_to_end();
    assert_eq!(world.status(parent), Status::Cancelled);
    world.check();
}

/// A map in a body that ends had a free place when the end was fixed, and counted as work to do: its execution
/// never left memory, and the child that it awaited could not be claimed where that was full.
#[test]
fn parent_whose_map_ends_with_items_left_leaves_memory() {
    let world = World::new();
    world.named("other", "a");
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let parent =
        one.start("g = group {m = map(3, at 2) {c = workflow(other)}} deadline 10s error continue");
    one.step();
    while children(&world, parent).len() < 2 {
        one.perform_all();
        one.step();
    }
    two.settle_store();
    for _ in 0..4 {
        world.pass(2_600);
        one.renew();
        two.renew();
        one.settle_store();
    }
    // One child ends, and the group's deadline has passed: both are decided in one frame.
    let order = two.take_task("a");
    two.finish(&order);
    two.settle_store();
    one.settle_store();
    assert_eq!(count(&world, parent, "ItemsOpened"), 1, "the third item is not opened");
    for _ in 0..2 {
        world.pass(3_000);
        one.renew();
        two.renew();
        one.settle_store();
        two.settle_store();
    }
    assert_eq!(world.control(parent).and_then(|control| control.owner), None, "it left memory");
    two.finish_all();
    two.run_to_end();
    one.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    world.check();
}

#[test]
fn retry_of_a_node_opens_the_same_child_again() {
    let world = World::new();
    world.named("other", "a; flaky needs a");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other) retry 5 wait 1s");
    rig.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    let child = child(&world, parent);
    assert_eq!(children(&world, parent), [child], "there is one child");
    assert_eq!(count(&world, parent, "ChildReopened"), 2);
    assert_eq!(count(&world, child, "RunReopened"), 2);
    assert_eq!(world.calls(child, "a"), 1, "what had completed is not done again");
    assert_eq!(world.calls(child, "flaky"), 3);
    world.check();
}

#[test]
fn child_is_opened_again_by_an_instance_that_did_not_run_it() {
    let world = World::new();
    world.named("other", "flaky");
    let (mut one, mut two) = (Rig::new(&world), Rig::new(&world));
    let parent = one.start("c = workflow(other) retry 5 wait 1s");
    until_children(&mut one, parent);
    two.settle();
    let child = child(&world, parent);
    assert_eq!(world.status(child), Status::Failed, "the other instance ran it");
    while count(&world, child, "RunReopened") == 0 {
        one.settle_store();
        world.pass(500);
    }
    world.check();
    one.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    world.check();
}

#[test]
fn retry_hears_of_an_end_that_came_while_nobody_waited() {
    let world = World::new();
    world.named("other", "flaky");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other) retry 2 wait 1m");
    rig.settle();
    let child = child(&world, parent);
    world.pass(3_000);
    rig.renew();
    rig.settle();
    assert_eq!(world.status(child), Status::Failed);
    for _ in 0..2 {
        rig.request(child, Request::Retry { reason: None, budget: None });
        rig.settle();
    }
    assert_eq!((world.status(child), world.state(child).generation), (Status::Completed, 3));
    rig.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    assert_eq!(count(&world, child, "RunReopened"), 2, "only the person opened it again");
    world.check();
}

#[test]
fn child_whose_number_is_taken_is_started_with_another_one() {
    let world = World::new();
    world.named("other", "a");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other)");
    loop {
        rig.step();
        let bears = rig.appends().any(|append| !append.side.births.is_empty());
        if bears {
            break;
        }
        rig.perform_all();
    }
    let work = std::mem::take(&mut rig.work);
    for work in work {
        match work {
            StoreWork::Append(append) if !append.side.births.is_empty() => {
                rig.answer_append(&append, Appended::Unborn);
            }
            other => rig.perform(other),
        }
    }
    rig.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    assert_eq!(children(&world, parent).len(), 1);
    world.check();
}

#[test]
fn end_of_a_child_is_recorded_only_on_mail_that_is_still_there() {
    let world = World::new();
    world.named("other", "a");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other)");
    let relies =
        |append: &Append| append.header.execution == parent && !append.side.relied_on.is_empty();
    loop {
        rig.step();
        if rig.appends().any(relies) {
            break;
        }
        rig.perform_all();
        rig.finish_all();
        world.pass(10);
        rig.renew();
    }
    // A store that has lost the mail refuses the frame; the execution is loaded again.
    for work in std::mem::take(&mut rig.work) {
        match work {
            StoreWork::Append(append) if relies(&append) => {
                rig.answer_append(&append, Appended::Fenced);
            }
            other => rig.perform(other),
        }
    }
    assert_eq!(count(&world, parent, "ChildEnded"), 0);
    rig.run_to_end();
    assert_eq!(world.status(parent), Status::Completed);
    assert_eq!(count(&world, parent, "ChildEnded"), 1);
    world.check();
}

#[test]
fn crash_after_the_birth_neither_loses_nor_doubles_the_child() {
    let world = World::new();
    world.named("other", "a");
    for commits in 0..8 {
        let mut one = Rig::new(&world);
        let parent = one.start("c = workflow(other)");
        one.step();
        for _ in 0..commits {
            one.perform_all();
            one.step();
        }
        drop(one);
        world.outlive_leases();
        let mut two = Rig::new(&world);
        two.run_to_end();
        assert_eq!(world.status(parent), Status::Completed, "after {commits} rounds");
        assert_eq!(children(&world, parent).len(), 1, "after {commits} rounds");
        two.leave();
    }
    world.check();
}

#[test]
fn workflow_that_starts_itself_ends_at_the_limit() {
    let world = World::new();
    world.named("flow", "c = workflow(flow)");
    let mut rig = Rig::new(&world);
    let root = rig.start("c = workflow(flow)");
    rig.run_to_end();
    assert_eq!(world.status(root), Status::Failed);
    let mut depth = 0;
    let mut last = root;
    while let Some(next) = children(&world, last).first() {
        (last, depth) = (*next, depth + 1);
    }
    assert_eq!(depth, CHILD_DEPTH_MAX);
    let failure = world.state(last).end.and_then(|end| end.failure).expect("it failed");
    assert_eq!(failure.kind, "too_deep");
    world.check();
}

/// Three attempts at each of sixteen levels would be fourteen million.
#[test]
fn limit_of_a_tree_is_not_retried_level_by_level() {
    let world = World::new();
    let flow = "c = workflow(flow) retry 3 wait 1s on=child_failed";
    world.named("flow", flow);
    let mut rig = Rig::new(&world);
    let root = rig.start(flow);
    rig.run_to_end();
    let mut last = root;
    while let Some(next) = children(&world, last).first() {
        last = *next;
        assert_eq!(count(&world, last, "RunReopened"), 0);
    }
    let failure = world.state(root).end.and_then(|end| end.failure).expect("it failed");
    assert_eq!(failure.kind, "child_failed");
    let message = failure.message;
    assert!(message.contains("below it: too_deep: workflow \"flow\" was not started"), "{message}");
    assert_eq!(message.matches("failed").count(), 1, "{message}");
    world.check();
}

#[test]
fn child_of_an_unknown_workflow_is_a_failure_that_says_so() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(nowhere)");
    rig.run_to_end();
    let failure = world.state(parent).end.and_then(|end| end.failure).expect("it failed");
    assert_eq!(failure.kind, "unknown_workflow");
    assert!(failure.message.contains("nowhere"), "{}", failure.message);
    world.check();
}

#[test]
fn child_whose_place_in_the_queue_is_rejected_ends() {
    let world = World::new();
    world.named("one", "w = signal(go); keyed 'k' 1 reject");
    let mut rig = Rig::new(&world);
    let first = rig.start("c = workflow(one)");
    rig.settle();
    let second = rig.start("c = workflow(one)");
    rig.settle();
    let rejected = child(&world, second);
    let failure = world.state(rejected).end.and_then(|end| end.failure).expect("it failed");
    assert_eq!(failure.kind, "concurrency_rejected");
    assert_eq!(world.status(second), Status::Failed);
    rig.request(first, CANCEL);
    rig.run_to_end();
    world.check();
}

#[test]
fn detached_child_goes_on_when_its_parent_has_ended() {
    let world = World::new();
    world.named("other", "d = delay(1m); a needs d");
    let mut rig = Rig::new(&world);
    let parent = rig.start("c = workflow(other, detached)");
    rig.settle();
    assert_eq!(world.status(parent), Status::Completed);
    let child = child(&world, parent);
    rig.run_to_end();
    assert_eq!(world.status(child), Status::Completed);
    assert!(world.store.load(parent).expect("it answers").expect("it is there").mail.is_empty());
    world.check();
}
