//! A checker's reads, and its repairs.

use waypost_core::event::{Event, NodeEvent, PauseReason, RunEvent, Wait};
use waypost_core::frame::Parent;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::projection::NodeChange;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Hand, Rig, START};
use crate::inspect::{
    Chunk, ChunkRequest, DerivedRow, Examined, Inspect, Ownership, Remedy, Repair, Shown, ShownNode,
};
use crate::store::{ControlChange, LEASE, Store, Urgency};

fn examine<B: StoreUnderTest>(rig: &Rig<'_, B>, execution: ExecutionNo) -> Examined {
    let mut examined = rig.store().examine(&[execution]).expect("it is examined");
    examined.pop().expect("the execution is known")
}

fn chunk<B: StoreUnderTest>(rig: &Rig<'_, B>, request: &ChunkRequest) -> Chunk {
    rig.store().executions(request).expect("the chunk is answered")
}

/// A repair of an execution that was just examined.
fn repair_of(examined: &Examined, remedy: Remedy) -> Repair {
    let last = examined.history.frames.last().map(|frame| frame.header.as_parent());
    let seen = examined.history.control.clone();
    Repair { execution: examined.history.execution, last, seen, remedy }
}

fn derived(row: DerivedRow, epoch: u32) -> Remedy {
    Remedy::Control { row, epoch, requires: 1, permit: None }
}

pub fn executions_come_in_chunks<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let all: Vec<_> = (0..5).map(|_| rig.start(instance).execution).collect();
    let first = ChunkRequest { after: None, limit: 2, since: None };
    let mut found = Vec::new();
    let mut next = first;
    loop {
        let chunk = chunk(&rig, &next);
        assert!(chunk.executions.len() <= 2);
        found.extend(chunk.executions);
        match chunk.next {
            Some(after) => next = ChunkRequest { after: Some(after), ..first },
            None => break,
        }
    }
    assert_eq!(found, all);
}

pub fn chunks_can_be_limited_to_what_moved<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut old = rig.start(instance);
    let still = rig.start(instance);
    rig.advance(1_000);
    let since = Some(Timestamp(START.0 + 1_000));
    let new = rig.start(instance);
    rig.commit(old.next(1));
    let request = ChunkRequest { after: None, limit: 10, since };
    let chunk = chunk(&rig, &request);
    assert_eq!(chunk.executions, [old.execution, new.execution]);
    assert!(!chunk.executions.contains(&still.execution));
}

pub fn everything_of_an_execution_is_examined<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = rig.start(instance);
    rig.commit(hand.next(2).snapshot(b"state"));
    rig.commit(hand.next(1));
    let examined = examine(&rig, hand.execution);
    assert_eq!(examined.history.frames.len(), 3, "the whole log, in spite of the snapshot");
    let snapshot = examined.history.snapshot.expect("the snapshot is there");
    assert_eq!((snapshot.seq, snapshot.body.as_slice()), (4, b"state".as_slice()));
    let standing = examined.standing.expect("there is a control row");
    assert_eq!(standing.ownership, Ownership::Held);
    assert_eq!((standing.wakes_from, standing.requires), (Urgency::Ordinary, 1));
    let unknown = rig.store().examine(&[ExecutionNo(99), hand.execution]);
    assert_eq!(unknown.expect("it is answered").len(), 1, "what has no log is left out");
}

pub fn owners_are_told_apart<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let owned = rig.start(instance);
    let parked = rig.park(instance, None);
    let mut held = rig.start(instance);
    let reason = "paused by a user".to_owned();
    rig.commit(held.next(1).control(ControlChange::Held { reason, next_due: None }));
    let ownership = |of: &Hand| examine(&rig, of.execution).standing.map(|row| row.ownership);
    assert_eq!(ownership(&owned), Some(Ownership::Held));
    assert_eq!(ownership(&parked), Some(Ownership::Nobody));
    let hears = examine(&rig, held.execution).standing.map(|row| row.wakes_from);
    assert_eq!(hears, Some(Urgency::Cancel));
    rig.advance(LEASE.0 + 1);
    assert_eq!(ownership(&owned), Some(Ownership::Expired));
}

pub fn what_is_shown_is_what_was_appended<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = Hand::new(rig.number(instance), instance);
    rig.commit(hand.create("order-1", "welcome"));
    rig.advance(10);
    let (node, attempt) = ("c".into(), 1);
    let started = Event::Node(NodeEvent::Started {
        node,
        attempt,
        worker: None,
        remote: None,
        token: None,
        due: None,
    });
    let wait = Wait::Delay { due: Timestamp(START.0 + 900) };
    let waiting = Event::Node(NodeEvent::Waiting { node: "c".into(), attempt, wait, span: None });
    let paused = Event::Run(RunEvent::Paused { reason: PauseReason::Waits });
    // Rows show when it was decided, as the state does, and not when it was committed.
    hand.now = Timestamp(START.0 + 7);
    rig.commit(hand.write(&[started, waiting, paused]));
    rig.settle();
    let shown: Shown = rig.store().shown(&[hand.execution]).expect("it is answered").remove(0);
    assert_eq!((shown.execution, shown.due), (hand.execution, 3), "the frame that begins at 3");
    let rows = shown.rows.expect("there are rows");
    assert_eq!((&*rows.key, rows.created_at), ("order-1", START));
    assert_eq!((rows.view.seq, rows.view.status), (5, Status::Waiting));
    let node = NodeChange {
        status: Some(NodeStatus::Waiting),
        seq: Some(3),
        created_at: Some(hand.now),
        updated_at: Some(hand.now),
        attempt: Some(1),
        started_at: Some(hand.now),
        ..NodeChange::default()
    };
    assert_eq!(rows.nodes, [ShownNode::of("c", &node)]);
    let wait = &rows.waits[0];
    assert_eq!((wait.seq, wait.path.as_str()), (4, "c"));
    assert_eq!(wait.due, Some(Timestamp(START.0 + 900)));
    let output = Json::parse("[1]").expect("it is JSON");
    let end =
        hand.write(&[Event::Run(RunEvent::Completed { output })]).control(ControlChange::Ended);
    rig.commit(end);
    rig.settle();
    rig.store().reproject(&[hand.execution]).expect("it is derived again");
    let shown = rig.store().shown(&[hand.execution]).expect("it is answered").remove(0);
    let rows = shown.rows.expect("there are rows");
    assert_eq!((rows.view.seq, rows.output.as_deref()), (6, Some("[1]")));
    assert!(rows.waits.is_empty());
    let nobody = rig.store().shown(&[ExecutionNo(99)]).expect("it is answered").remove(0);
    assert_eq!((nobody.due, nobody.rows), (0, None));
}

pub fn a_missing_control_row_is_made_again<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = Hand::new(rig.number(instance), instance);
    rig.commit(hand.next(2)); // a first frame without a control row
    let examined = examine(&rig, hand.execution);
    assert_eq!(examined.history.control, None);
    let repair = repair_of(&examined, derived(DerivedRow::Ready, 1));
    assert!(rig.store().repair(&repair).expect("it is answered"));
    assert!(!rig.store().repair(&repair).expect("it is answered"), "the row is there now");
    assert_eq!(rig.claimed(instance), [hand.execution]);
}

pub fn a_control_row_is_put_right<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let hand = rig.park(instance, Some(Timestamp(START.0 + 5_000)));
    let due = Some(Timestamp(START.0 + 100));
    let parked = derived(DerivedRow::Parked { next_due: due }, 1);
    let repair = repair_of(&examine(&rig, hand.execution), parked);
    assert!(rig.store().repair(&repair).expect("it is answered"));
    assert_eq!(rig.control(hand.execution).next_due, due);
    rig.advance(100);
    assert_eq!(rig.claimed(instance), [hand.execution]);
    let held = DerivedRow::Held { reason: "stop".to_owned(), next_due: None };
    let repair = repair_of(&examine(&rig, hand.execution), derived(held, 1));
    assert!(rig.store().repair(&repair).expect("it is answered"));
    let control = rig.control(hand.execution);
    assert_eq!((control.owner, control.held.as_deref()), (None, Some("stop")));
    assert_eq!(control.epoch, 2, "an epoch never goes back");
    let repair = repair_of(&examine(&rig, hand.execution), Remedy::Nothing);
    assert!(rig.store().repair(&repair).expect("it is answered"));
    assert_eq!(examine(&rig, hand.execution).history.control, None);
}

pub fn what_has_moved_is_not_put_right<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = rig.start(instance);
    let repair = repair_of(&examine(&rig, hand.execution), derived(DerivedRow::Ready, 1));
    rig.commit(hand.next(1));
    assert!(!rig.store().repair(&repair).expect("it is answered"), "the log has gone on");
    let repair = repair_of(&examine(&rig, hand.execution), derived(DerivedRow::Ready, 1));
    rig.commit(hand.next(1).control(ControlChange::Parked { next_due: None }));
    let last: Option<Parent> = hand.parent;
    let repair = Repair { last, ..repair };
    assert!(!rig.store().repair(&repair).expect("it is answered"), "the row has changed");
    assert_eq!(rig.claimed(instance), []);
}

pub fn a_bad_snapshot_is_dropped<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let mut hand = rig.start(rig.instance(1));
    rig.commit(hand.next(1).snapshot(b"nonsense"));
    let repair = repair_of(&examine(&rig, hand.execution), Remedy::NoSnapshot);
    assert!(rig.store().repair(&repair).expect("it is answered"));
    assert!(rig.load(hand.execution).snapshot.is_none());
    assert!(rig.store().load(hand.execution).expect("it is answered").is_some());
}

pub fn nothing_is_stray_in_a_healthy_store<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = rig.start(instance);
    rig.commit(hand.next(1).snapshot(b"state"));
    rig.settle();
    rig.store().catch_up().expect("it is answered");
    assert_eq!(rig.store().strays().expect("it is answered"), []);
}
