//! Messages of frames that are committed while endpoints are registered, and claims of several instances.

use std::thread;

use uuid::Uuid;
use waypost_core::outbox::delivery::{Delivered, IN_FLIGHT_MAX, Jitter};
use waypost_core::outbox::{MessageData, MessageKind, MessageKinds, Outgoing};
use waypost_core::time::Millis;
use waypost_ports::conformance::rig::{Draft, Hand};
use waypost_ports::outbox::{
    MessageClaim, MessageResult, MessagesRequest, NewEndpoint, Outbox, SigningSecret,
};
use waypost_ports::store::{Append, Store};
use waypost_postgres::PostgresStore;

use crate::support::{Database, append, instance, is_committed, numbers, start, two};

fn endpoint(id: &str) -> NewEndpoint {
    NewEndpoint {
        id: id.into(),
        url: "https://example.com/".into(),
        description: "".into(),
        workflow: None,
        kinds: MessageKinds::ALL,
        with_output: false,
        with_links: false,
        secret: SigningSecret(vec![1]),
    }
}

fn telling(draft: Draft) -> Draft {
    let seq = draft.0.header.last_seq;
    let kind = MessageKind::Completed;
    draft.messages(vec![Outgoing {
        seq,
        kind,
        workflow: "flow".into(),
        data: MessageData::Rendered(b"{}".to_vec()),
        awaited: false,
    }])
}

fn count(store: &PostgresStore) -> usize {
    let all = MessagesRequest { limit: 10_000, ..MessagesRequest::default() };
    store.messages(&all).unwrap().rows.len()
}

/// 1. An append begins, sees no endpoint, and waits for a name that another transaction holds.
/// 2. An endpoint is registered meanwhile.
/// 3. The append is committed, without a message.
///
/// If 2 were answered before 3, the caller would miss a frame that was committed after the answer.
#[test]
fn registration_is_answered_after_the_appends_that_do_not_see_it() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let number = numbers(&store, one, 1)[0];
    let intruder = database.intruder();
    intruder.run("BEGIN; INSERT INTO submissions (execution, key) VALUES (999999, 'held')");
    let first: Append = telling(Hand::new(number, one).create("held", "flow")).into();
    thread::scope(|scope| {
        let appending = scope.spawn(|| store.append(&[first]).unwrap());
        intruder.wait_for_waiters("writers", 1);
        let registering = scope.spawn(|| {
            store.add_endpoint(&endpoint("a")).unwrap();
            store.load(number).unwrap().is_some()
        });
        intruder.wait_for_waiters("api", 1);
        intruder.run("ROLLBACK");
        assert!(is_committed(&appending.join().unwrap()[0]));
        assert!(registering.join().unwrap(), "the frame was committed before the answer");
    });
    let hand = start(&store, one, 1).remove(0);
    assert!(is_committed(&append(&store, telling(hand.frame(1)))));
    assert_eq!(count(&store), 1, "later frames are matched");
}

#[test]
fn instances_that_claim_at_once_get_each_message_once_and_keep_the_limit() {
    let database = Database::new();
    let stores = two(&database);
    let one = instance(&stores[0], 1);
    stores[0].add_endpoint(&endpoint("a")).unwrap();
    let hands = start(&stores[0], one, 200);
    let batch: Vec<Append> = hands.iter().map(|hand| telling(hand.frame(1)).into()).collect();
    assert!(stores[0].append(&batch).unwrap().iter().all(is_committed));
    let work = |store: &PostgresStore| {
        let mut names = Vec::new();
        loop {
            let (claim, lease) = (Uuid::new_v4(), Millis::from_secs(60));
            let request =
                MessageClaim { claim, instance: one, limit: 64, lease, for_triggers: true };
            let claimed = store.claim_messages(&request).unwrap();
            assert!(claimed.messages.len() <= IN_FLIGHT_MAX);
            if claimed.next_due.is_none() {
                break names;
            }
            let result = |(message, _): &(waypost_ports::outbox::OutboxMessage, _)| MessageResult {
                name: message.name.clone(),
                result: Delivered::Yes { status: 200 },
                took: Millis(1),
                jitter: Jitter::NONE,
            };
            let results: Vec<MessageResult> = claimed.messages.iter().map(result).collect();
            names.extend(results.iter().map(|result| result.name.clone()));
            store.settle_messages(request.claim, &results).unwrap();
        }
    };
    let mut names = thread::scope(|scope| {
        let threads: Vec<_> = stores.iter().map(|store| scope.spawn(|| work(store))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 200);
}
