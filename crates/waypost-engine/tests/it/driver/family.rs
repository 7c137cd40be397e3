//! `waypost check` compares what parents and children record of each other.

use waypost_core::check::Invariant;
use waypost_core::event::{Event, NodeEvent, RunEvent};
use waypost_core::frame::{decode, encode};
use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_engine::check::{CheckOptions, check};
use waypost_ports::store::{Append, LogReader, Side, Store as _};

use crate::support::{Rig, World};

const CHILD: &str = "a";
const PARENT: &str = "c = workflow(other); o needs c";

/// The first two executions of a world: a parent and its child, which have ended.
struct Pair {
    world: World,
    parent: ExecutionNo,
    child: ExecutionNo,
}

fn pair() -> Pair {
    let world = World::new();
    world.named("other", CHILD);
    let mut rig = Rig::new(&world);
    let parent = rig.start(PARENT);
    rig.run_to_end();
    world.check();
    let events = world.events(parent);
    let child = events.iter().find_map(|event| match event {
        Event::Node(NodeEvent::ChildStarted { execution, .. }) => Some(*execution),
        _ => None,
    });
    Pair { parent, child: child.expect("it has a child"), world }
}

impl Pair {
    /// Copies the logs to another store, but for what `change` drops, and returns what the check says of
    /// parents and children there.
    fn findings(&self, change: &dyn Fn(ExecutionNo, &mut Event) -> bool) -> Vec<String> {
        let copy = World::new();
        copy.named("other", CHILD);
        copy.flow(PARENT);
        for execution in [self.parent, self.child] {
            for frame in LogReader::whole(&self.world.store, execution) {
                let frame = frame.unwrap();
                let mut events = decode(&frame.body.unwrap()).unwrap();
                if events.iter_mut().all(|event| change(execution, event)) {
                    let (header, body) = (frame.header, encode(&events));
                    copy.store.append(&[Append { header, body, side: Side::default() }]).unwrap();
                }
            }
        }
        let report = check(&copy.store, &copy.plans, &CheckOptions::default(), &|_| {}).unwrap();
        let about = |invariant| invariant == Invariant::ChildMatchesParent;
        let findings = report.findings.into_iter().map(|finding| finding.violation);
        let findings = findings.filter(|violation| about(violation.invariant));
        findings.map(|violation| format!("{}: {}", violation.execution.0, violation.what)).collect()
    }
}

#[test]
fn check_of_a_whole_pair_finds_nothing() {
    assert_eq!(pair().findings(&|_, _| true), Vec::<String>::new());
}

#[test]
fn check_of_a_child_without_its_log_finds_it() {
    let pair = pair();
    let found = pair.findings(&|execution, _| execution == pair.parent);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("which it started, has no log"), "{found:?}");
    assert!(found[1].contains("the end of generation 1"), "{found:?}");
}

#[test]
fn check_of_a_child_whose_parent_has_no_log_finds_it() {
    let pair = pair();
    let found = pair.findings(&|execution, _| execution == pair.child);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("{}: its parent", pair.child.0)), "{found:?}");
    assert!(found[0].ends_with("has no log"), "{found:?}");
}

#[test]
fn check_of_a_child_that_its_parent_has_not_recorded_finds_it() {
    let pair = pair();
    // The log of the parent ends before the frame that started the child.
    let found = pair.findings(&|execution, event| {
        execution == pair.child || !matches!(event, Event::Node(NodeEvent::ChildStarted { .. }))
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("has not recorded that it started it"), "{found:?}");
}

#[test]
fn check_of_a_child_with_another_parent_finds_both() {
    let pair = pair();
    let found = pair.findings(&|_, event| {
        if let Event::Run(RunEvent::Created(created)) = event
            && let Some(parent) = &mut created.parent
        {
            parent.node = "o".into();
        }
        true
    });
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("does not name it as its parent"), "{found:?}");
    assert!(found[1].contains("it names node o of"), "{found:?}");
}

#[test]
fn check_of_an_end_that_the_child_did_not_have_finds_it() {
    let pair = pair();
    let found = pair.findings(&|_, event| {
        if let Event::Node(NodeEvent::ChildEnded { status, .. }) = event {
            *status = Status::Failed;
        }
        true
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("for FAILED, and it is COMPLETED"), "{found:?}");
}

#[test]
fn check_of_an_end_of_another_generation_finds_it() {
    let pair = pair();
    let found = pair.findings(&|_, event| {
        if let Event::Node(NodeEvent::ChildEnded { generation, .. }) = event {
            *generation = 2;
        }
        true
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("generation 2 of"), "{found:?}");
}
