//! The feed misses nothing, in whatever order transactions commit.

use waypost_ports::query::{FeedPosition, FeedRequest, Query};
use waypost_postgres::PostgresStore;

use crate::support::{Database, append, instance, is_committed, start};

fn feed(store: &PostgresStore, after: FeedPosition) -> Vec<(i64, FeedPosition)> {
    let page = store.feed(&FeedRequest { after, limit: 100 }).unwrap();
    page.iter().map(|fed| (fed.frame.header.execution.0, fed.position)).collect()
}

#[test]
fn a_transaction_that_commits_late_is_not_passed_over() {
    let database = Database::new();
    let store = database.open();
    let owner = instance(&store, 1);
    let mut hands = start(&store, owner, 1);
    let place = store.feed_end().unwrap();
    let late = database.intruder();
    // Its number is lower than that of the next append, and it commits after it.
    late.run(
        "BEGIN;
         INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum,
                             append_id, instance, requires, body)
         VALUES (99, 1, 1, waypost_place() + 1, 0, 0, 1, 0, gen_random_uuid(), gen_random_uuid(), 1, '')",
    );
    assert!(is_committed(&append(&store, hands[0].next(1))));
    assert_eq!(feed(&store, place), [], "what comes before it is not there yet");
    assert_eq!(store.feed_end().unwrap(), place);
    late.run("COMMIT");
    let fed = feed(&store, place);
    assert_eq!(fed.iter().map(|(execution, _)| *execution).collect::<Vec<_>>(), [99, 1]);
    assert_eq!(fed[1].1, store.feed_end().unwrap());
    assert_eq!(feed(&store, fed[0].1), fed[1..]);
}

#[test]
fn feed_after_rollback_has_no_trace_of_it() {
    let database = Database::new();
    let store = database.open();
    let owner = instance(&store, 1);
    let intruder = database.intruder();
    intruder.run("BEGIN; SELECT waypost_place(); ROLLBACK");
    let hands = start(&store, owner, 2);
    let fed = feed(&store, FeedPosition::default());
    let executions: Vec<_> = fed.iter().map(|(execution, _)| *execution).collect();
    assert_eq!(executions, hands.iter().map(|hand| hand.execution.0).collect::<Vec<_>>());
}
