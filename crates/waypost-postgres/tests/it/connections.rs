//! Connections: bounded, replaced when they break, and never used again after that.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_ports::access::Access;
use waypost_ports::nudge::Nudges as _;
use waypost_ports::store::{About, Heartbeat, LEASE, Store, StoreError};
use waypost_postgres::{Options, PostgresStore, Statements};
use waypost_testbed::postgres::Postgres;
use waypost_testbed::{Mode, wait_until};

use crate::support::{Database, instance, proxied, start};

const PATIENCE: Duration = Duration::from_secs(30);

/// All connections are cut, again and again. Each cut costs at most the calls that were under way.
#[test]
fn a_broken_connection_is_not_used_again() {
    let database = Database::new();
    let store = database.open();
    let one = instance(&store, 1);
    let hand = start(&store, one, 1).remove(0);
    let intruder = database.intruder();
    for _ in 0..5 {
        intruder.kill("%");
        let mut errors = 0;
        while let Err(error) = store.load(hand.execution) {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
            errors += 1;
            assert!(errors <= 4, "more calls failed than there were connections");
        }
    }
}

#[test]
fn waiting_for_a_connection_is_bounded() {
    let database = Database::new();
    let api_wait = Duration::from_millis(50);
    let options = Options { api_connections: 1, api_wait, ..Options::default() };
    let store = database.open_with(options);
    let intruder = database.intruder();
    intruder.run("BEGIN; LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE");
    thread::scope(|scope| {
        let first = scope.spawn(|| store.keys());
        intruder.wait_for_waiters("api", 1);
        let began = Instant::now();
        let second = store.keys();
        assert!(
            matches!(&second, Err(StoreError::Unavailable(why)) if why.contains("free")),
            "{second:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(5));
        intruder.run("ROLLBACK");
        assert_eq!(first.join().unwrap().unwrap(), []);
    });
    assert_eq!(store.keys().unwrap(), []);
}

type Call = fn(&PostgresStore) -> Result<(), StoreError>;

/// The server, or what stands in front of it, accepts connections and says nothing. The one that waits for
/// it must not keep its place in the pool for ever.
#[test]
fn a_server_that_says_nothing_is_given_up() {
    let database = Database::new();
    let (proxy, url) = proxied(&database);
    let lease = Duration::from_secs(5);
    let options = Options { api_connections: 1, lease, ..Options::default() };
    let store = Arc::new(PostgresStore::open(&url, options).unwrap());
    proxy.set_both(&Mode::Stall);
    let calls: [Call; 2] =
        [|store| store.keys().map(drop), |store| store.heartbeat(&sign_of_life()).map(drop)];
    for call in calls {
        let asked = Arc::clone(&store);
        let silent = thread::spawn(move || call(&asked));
        wait_until("it is given up", PATIENCE, || silent.is_finished());
        let error = silent.join().unwrap().unwrap_err();
        let StoreError::Unavailable(why) = &error else { panic!("{error:?}") };
        assert!(why.contains("no connection was made"), "{why}");
    }
    proxy.set_both(&Mode::Pass);
    assert_eq!(store.keys().unwrap(), []);
    renew(&store);
}

/// A caller that is not answered in time closes the connection: the server may owe the answer for ever.
#[test]
fn a_connection_that_does_not_answer_is_closed() {
    let database = Database::new();
    let (proxy, url) = proxied(&database);
    let options = Options { lease: Duration::from_secs(5), ..Options::default() };
    let store = PostgresStore::open(&url, options).unwrap();
    renew(&store);
    let open = proxy.open();
    proxy.set_both(&Mode::Swallow);
    let error = store.heartbeat(&sign_of_life()).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    wait_until("it is closed", PATIENCE, || proxy.open() < open);
}

/// With so short a lease, a busy machine may be too slow for a new connection.
fn renew(store: &PostgresStore) {
    wait_until("it is renewed", PATIENCE, || store.heartbeat(&sign_of_life()).is_ok());
}

fn sign_of_life() -> Heartbeat {
    let (instance, about) = (InstanceId(Uuid::from_u128(1)), About::default());
    Heartbeat { instance, numbers: 0, fold: 1, lease: Some(LEASE), about }
}

/// Callers come from threads of other runtimes, too, and a store may be dropped on one.
#[test]
fn it_works_on_threads_that_may_block() {
    let database = Database::new();
    let store = Arc::new(database.open());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let blocking = Arc::clone(&store);
        let keys = tokio::task::spawn_blocking(move || blocking.keys()).await.unwrap();
        assert_eq!(keys.unwrap(), []);
        drop(store);
    });
}

#[test]
fn a_database_that_is_not_there_is_unavailable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let url = format!("postgres://ann:hunter2@127.0.0.1:{port}/x?sslmode=disable");
    let error = PostgresStore::open(&url, Options::default()).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("127.0.0.1")), "{error}");
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn tls_is_refused_where_there_is_none() {
    let url = Postgres::shared().database().replace("disable", "require");
    assert!(PostgresStore::open(&url, Options::default()).is_err());
    let url = url.replace("require", "prefer");
    assert!(PostgresStore::open(&url, Options::default()).is_ok());
}

/// Whatever a connection is for, what it sends is counted.
#[test]
fn statements_of_every_role_are_counted() {
    let database = Database::new();
    let store = database.open();
    let opened = store.statements();
    assert!(opened.migration > 0, "{opened:?}");
    let one = instance(&store, 1);
    let hand = start(&store, one, 1).remove(0);
    store.load(hand.execution).unwrap();
    store.keys().unwrap();
    store.nudges().listen(one, Arc::new(|_| {}));
    store.wait_projected().unwrap();
    let sent = store.statements();
    let Statements { renewals, writers, engine, api, projections, listener, migration } = sent;
    let each = [renewals, writers, engine, api, projections, listener, migration];
    assert!(each.iter().all(|count| *count > 0), "{sent:?}");
    assert_eq!(sent.all(), each.iter().sum::<u64>());
    // The thread that shows what was committed, not only those who wait for it.
    start(&store, one, 1);
    let before = store.statements().projections;
    wait_until("it is shown by itself", Duration::from_secs(60), || {
        store.statements().projections > before
    });
}
