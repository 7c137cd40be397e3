//! A checker's reads, and its repairs.

use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::projection::NodeChange;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, START, delayed, repair_of};
use crate::inspect::{
    Chunk, ChunkRequest, DerivedRow, Inspect, Ownership, Remedy, Repair, Shown, ShownNode,
};
use crate::store::{ControlChange, LEASE, Store, Urgency};

fn chunk<B: StoreUnderTest>(rig: &Rig<B>, request: &ChunkRequest) -> Chunk {
    rig.store().executions(request).expect("the chunk is answered")
}

fn shown<B: StoreUnderTest>(rig: &Rig<B>, execution: ExecutionNo) -> Shown {
    rig.store().shown(&[execution]).expect("it is answered").remove(0)
}

fn derived(row: DerivedRow, epoch: u32) -> Remedy {
    Remedy::Control { row, epoch, requires: 1, permit: None, subscriptions: Vec::new() }
}

pub fn executions_come_in_chunks<B: StoreUnderTest>(rig: &Rig<B>) {
    let all: Vec<_> = (0..5).map(|_| rig.start(ONE).execution).collect();
    let first = ChunkRequest { after: None, limit: 2, since: None };
    let mut found = Vec::new();
    let mut next = first;
    loop {
        let chunk = chunk(rig, &next);
        assert!(chunk.executions.len() <= 2);
        found.extend(chunk.executions);
        match chunk.next {
            Some(after) => next = ChunkRequest { after: Some(after), ..first },
            None => break,
        }
    }
    assert_eq!(found, all);
}

pub fn chunks_can_be_limited_to_recently_changed_executions<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut old = rig.start(ONE);
    let still = rig.start(ONE);
    rig.advance(1_000);
    let since = Some(Timestamp(START.0 + 1_000));
    let new = rig.start(ONE);
    rig.commit(old.next(1));
    let request = ChunkRequest { after: None, limit: 10, since };
    let chunk = chunk(rig, &request);
    assert_eq!(chunk.executions, [old.execution, new.execution]);
    assert!(!chunk.executions.contains(&still.execution));
}

pub fn everything_of_an_execution_is_examined<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(2).snapshot(b"state"));
    rig.commit(hand.next(1));
    let examined = rig.examine(hand.execution);
    assert_eq!(examined.history.frames.len(), 3, "the whole log, in spite of the snapshot");
    let snapshot = examined.history.snapshot.expect("the snapshot is there");
    assert_eq!((snapshot.seq, snapshot.body.as_slice()), (4, b"state".as_slice()));
    let standing = examined.standing.expect("there is a control row");
    assert_eq!(standing.ownership, Ownership::Held);
    assert_eq!((standing.wakes_from, standing.requires), (Urgency::Ordinary, 1));
    let unknown = rig.store().examine(&[ExecutionNo(99), hand.execution]);
    assert_eq!(unknown.expect("it is answered").len(), 1, "what has no log is left out");
}

pub fn examine_distinguishes_states_of_the_owner<B: StoreUnderTest>(rig: &Rig<B>) {
    let owned = rig.start(ONE);
    let parked = rig.park(ONE, None);
    let mut held = rig.start(ONE);
    let reason = "paused by a user".to_owned();
    rig.commit(held.next(1).control(ControlChange::Held { reason, next_due: None }));
    let ownership = |of: &Hand| rig.examine(of.execution).standing.map(|row| row.ownership);
    assert_eq!(ownership(&owned), Some(Ownership::Held));
    assert_eq!(ownership(&parked), Some(Ownership::Unowned));
    let wakes_from = rig.examine(held.execution).standing.map(|row| row.wakes_from);
    assert_eq!(wakes_from, Some(Urgency::Cancel));
    rig.advance(LEASE.0 + 1);
    assert_eq!(ownership(&owned), Some(Ownership::Expired));
}

pub fn projections_show_the_appended_events<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.create("order-1", "welcome");
    rig.advance(10);
    // Rows show when it was decided, as the state does, and not when it was committed.
    hand.now = Timestamp(START.0 + 7);
    rig.commit(hand.write(&delayed("c")));
    rig.settle();
    let before = shown(rig, hand.execution);
    assert_eq!((before.execution, before.due), (hand.execution, 3), "the frame that begins at 3");
    let rows = before.rows.expect("there are rows");
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
    let rows = shown(rig, hand.execution).rows.expect("there are rows");
    assert_eq!((rows.view.seq, rows.output.as_deref()), (6, Some("[1]")));
    assert!(rows.waits.is_empty());
    let unknown = shown(rig, ExecutionNo(99));
    assert_eq!((unknown.due, unknown.rows), (0, None));
}

pub fn a_missing_control_row_is_made_again<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.hand(ONE);
    rig.commit(hand.next(2)); // a first frame without a control row
    let examined = rig.examine(hand.execution);
    assert_eq!(examined.history.control, None);
    let repair = repair_of(&examined, derived(DerivedRow::Ready, 1));
    assert!(rig.repair(&repair));
    assert!(!rig.repair(&repair), "the row is there now");
    assert_eq!(rig.claimed(ONE), [hand.execution]);
}

pub fn a_control_row_is_put_right<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.park(ONE, Some(Timestamp(START.0 + 5_000)));
    let due = Some(Timestamp(START.0 + 100));
    let parked = derived(DerivedRow::Parked { next_due: due }, 1);
    let repair = repair_of(&rig.examine(hand.execution), parked);
    assert!(rig.repair(&repair));
    assert_eq!(rig.control(hand.execution).next_due, due);
    rig.advance(100);
    assert_eq!(rig.claimed(ONE), [hand.execution]);
    let held = DerivedRow::Held { reason: "stop".to_owned(), next_due: None };
    let repair = repair_of(&rig.examine(hand.execution), derived(held, 1));
    assert!(rig.repair(&repair));
    let control = rig.control(hand.execution);
    assert_eq!((control.owner, control.held.as_deref()), (None, Some("stop")));
    assert_eq!(control.epoch, 2, "an epoch never goes back");
    let repair = repair_of(&rig.examine(hand.execution), Remedy::Nothing);
    assert!(rig.repair(&repair));
    assert_eq!(rig.examine(hand.execution).history.control, None);
}

pub fn repair_of_a_changed_execution_does_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let repair = repair_of(&rig.examine(hand.execution), derived(DerivedRow::Ready, 1));
    rig.commit(hand.next(1));
    assert!(!rig.repair(&repair), "the log has gone on");
    let repair = repair_of(&rig.examine(hand.execution), derived(DerivedRow::Ready, 1));
    rig.commit(hand.next(1).control(ControlChange::Parked { next_due: None }));
    let repair = Repair { last: hand.parent, ..repair };
    assert!(!rig.repair(&repair), "the row has changed");
    assert_eq!(rig.claimed(ONE), []);
}

pub fn a_bad_snapshot_is_dropped<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1).snapshot(b"nonsense"));
    let repair = repair_of(&rig.examine(hand.execution), Remedy::NoSnapshot);
    assert!(rig.repair(&repair));
    assert!(rig.load(hand.execution).snapshot.is_none());
    assert!(rig.store().load(hand.execution).expect("it is answered").is_some());
}

pub fn nothing_is_stray_in_a_healthy_store<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1).snapshot(b"state"));
    rig.settle();
    rig.store().catch_up().expect("it is answered");
    assert_eq!(rig.store().strays().expect("it is answered"), []);
}
