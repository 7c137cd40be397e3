//! Copies of parked executions spare a load, and are believed only for their digest.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::time::Timestamp;
use waypost_ports::conformance::rig::Hand;
use waypost_ports::mirror::{Context, Health, Mirror, Presence};
use waypost_ports::store::{Append, ControlChange, History, Store};
use waypost_postgres::{Copies, Options, PostgresStore};

use crate::support::{Database, append, everything, instance, is_committed, numbers};

#[derive(Default)]
struct Shelf(Mutex<HashMap<ExecutionId, Vec<u8>>>);

impl Mirror for Shelf {
    fn alive(&self, _: &Presence) {}

    fn owned(&self, _: InstanceId, _: &[ExecutionId]) {}

    fn released(&self, _: InstanceId, _: &[ExecutionId]) {}

    fn owner(&self, _: &ExecutionId) -> Option<InstanceId> {
        None
    }

    fn keep(&self, _: Vec<Context>) {}

    fn forget(&self, _: &[ExecutionId]) {}

    fn contexts(&self, executions: &[ExecutionId]) -> Vec<Option<Vec<u8>>> {
        let shelf = self.0.lock();
        executions.iter().map(|key| shelf.get(key).cloned()).collect()
    }

    fn health(&self) -> Health {
        Health::Up
    }
}

/// Parks an execution of three frames with a state.
fn park(store: &PostgresStore, hand: &mut Hand, state: &[u8]) {
    let due = ControlChange::Parked { next_due: Some(Timestamp(0)) };
    let mut last: Append = hand.next(1).control(due).into();
    last.side.digest = Some(Box::new(*blake3::hash(state).as_bytes()));
    assert!(is_committed(&store.append(&[last]).unwrap()[0]));
}

fn claim(store: &PostgresStore, me: InstanceId) -> History {
    store.claim(&everything(me)).unwrap().claimed.remove(0)
}

#[test]
fn a_copy_is_used_only_if_it_is_the_state() {
    let database = Database::new();
    let shelf = Arc::new(Shelf::default());
    let mirror: Arc<dyn Mirror> = shelf.clone();
    let store = database.open_with(Options { mirror: Some(mirror), ..Options::default() });
    let me = instance(&store, 1);
    let mut hand = Hand::new(numbers(&store, me, 1)[0], me);
    assert!(is_committed(&append(&store, hand.create("order-1", "welcome"))));
    assert!(is_committed(&append(&store, hand.next(2).snapshot(b"older state"))));
    park(&store, &mut hand, b"state");
    let key = ExecutionId("order-1".into());

    let history = claim(&store, me);
    assert_eq!(
        (history.frames.len(), history.snapshot.unwrap().body),
        (2, b"older state".to_vec())
    );
    assert_eq!(store.copies(), Copies { hits: 0, misses: 1 });

    let again = |hand: &mut Hand, state: &[u8], copy: &[u8]| {
        let history = store.load(hand.execution).unwrap().unwrap();
        *hand = Hand::of(&history);
        park(&store, hand, state);
        shelf.0.lock().insert(key.clone(), copy.to_vec());
        claim(&store, me)
    };
    let history = again(&mut hand, b"state", b"state");
    let snapshot = history.snapshot.clone().unwrap();
    assert_eq!((snapshot.seq, &*snapshot.body), (hand.next_seq - 1, b"state".as_slice()));
    assert_eq!(history.frames.len(), 1, "the last frame alone");
    assert_eq!(history.frames[0].header.last_seq, snapshot.seq);
    assert!(history.frames[0].header.parent.is_some());
    assert_eq!(store.copies(), Copies { hits: 1, misses: 1 });

    let history = again(&mut hand, b"state", b"forged");
    assert_eq!(history.snapshot.unwrap().body, b"older state");
    assert_eq!(store.copies(), Copies { hits: 1, misses: 2 });

    // A frame after the park makes the copy one of the past, whatever its digest.
    park(&store, &mut { Hand::of(&store.load(hand.execution).unwrap().unwrap()) }, b"state");
    shelf.0.lock().insert(key.clone(), b"state".to_vec());
    let mut zombie = Hand::new(hand.execution, me);
    let last = store.load(hand.execution).unwrap().unwrap().frames.pop().unwrap().header;
    (zombie.parent, zombie.next_seq) = (Some(last.as_parent()), last.last_seq + 1);
    assert!(is_committed(&append(&store, zombie.next(1))));
    let history = claim(&store, me);
    assert_eq!(history.snapshot.unwrap().body, b"older state");
    assert_eq!(history.frames.last().unwrap().header.last_seq, zombie.next_seq - 1);
    assert_eq!(store.copies(), Copies { hits: 1, misses: 3 });
}
