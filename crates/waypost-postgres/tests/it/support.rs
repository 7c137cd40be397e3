//! What the tests share: stores of one database, instances, and a connection of their own with which to
//! get in the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::Millis;
use waypost_ports::conformance::rig::{Draft, Hand};
use waypost_ports::store::{
    About, Append, Appended, ClaimRequest, ControlChange, Heartbeat, LEASE, LogReader, Mail, Share,
    Store,
};
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::Proxy;
use waypost_testbed::postgres::Postgres;

/// A database of its own.
pub(crate) struct Database {
    pub(crate) url: String,
    runtime: Runtime,
}

impl Database {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { url: Postgres::shared().database(), runtime }
    }

    pub(crate) fn open(&self) -> PostgresStore {
        self.open_with(Options::default())
    }

    pub(crate) fn open_with(&self, options: Options) -> PostgresStore {
        PostgresStore::open(&self.url, options).unwrap()
    }

    /// A connection to get in the way with.
    pub(crate) fn intruder(&self) -> Intruder<'_> {
        let (client, watcher) = (self.connect(), self.connect());
        Intruder { runtime: &self.runtime, client, watcher }
    }

    fn connect(&self) -> Client {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            drop(tokio::spawn(connection));
            client.batch_execute("SET search_path = waypost").await.unwrap();
            client
        })
    }
}

pub(crate) struct Intruder<'a> {
    runtime: &'a Runtime,
    client: Client,
    /// Never inside of a transaction, where the list of who waits would stay as it was first seen.
    watcher: Client,
}

impl Intruder<'_> {
    /// Runs statements.
    pub(crate) fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    /// A number that a query gives.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    /// A text that a query gives.
    pub(crate) fn text(&self, sql: &str) -> String {
        self.runtime.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    /// How the server would go about a statement that is prepared once and for all, as a connection of the
    /// engine does; or how it did, where the options say ANALYZE.
    pub(crate) fn plan(&self, types: &str, sql: &str, options: &str, values: &str) -> String {
        self.run(&format!(
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off;
             DEALLOCATE ALL; PREPARE asked {types} AS {sql}"
        ));
        let explain = format!("EXPLAIN ({options}) EXECUTE asked {values}");
        let steps = self.runtime.block_on(self.client.simple_query(&explain)).unwrap();
        let step = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        steps.iter().filter_map(step).collect::<Vec<_>>().join("\n")
    }

    /// Returns when a query gives true.
    pub(crate) fn wait_until(&self, sql: &str) {
        let patience = Instant::now() + Duration::from_secs(20);
        while !self.runtime.block_on(self.watcher.query_one(sql, &[])).unwrap().get::<_, bool>(0) {
            assert!(Instant::now() < patience, "it never became true: {sql}");
            std::thread::yield_now();
        }
    }

    /// Returns when so many connections of a role wait for a lock.
    pub(crate) fn wait_for_waiters(&self, role: &str, count: u32) {
        self.wait_until(&format!(
            "SELECT count(*) = {count} FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
             AND application_name = 'waypost/{role}' AND datname = current_database()"
        ));
    }

    /// Ends all connections of a role, as a failover would.
    pub(crate) fn kill(&self, role: &str) {
        self.number(&format!(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
             WHERE application_name LIKE 'waypost/{role}' AND datname = current_database()"
        ));
    }
}

/// An instance that has announced itself.
pub(crate) fn instance(store: &PostgresStore, number: u128) -> InstanceId {
    let instance = InstanceId(Uuid::from_u128(number));
    numbers(store, instance, 0);
    instance
}

/// Numbers for new executions.
pub(crate) fn numbers(store: &PostgresStore, instance: InstanceId, count: u32) -> Vec<ExecutionNo> {
    let about = About::default();
    let heartbeat = Heartbeat { instance, numbers: count, fold: 1, lease: Some(LEASE), about };
    store.heartbeat(&heartbeat).unwrap().numbers.map(ExecutionNo).collect()
}

/// Starts executions that `instance` owns.
pub(crate) fn start(store: &PostgresStore, instance: InstanceId, count: u32) -> Vec<Hand> {
    let numbers = numbers(store, instance, count).into_iter();
    let mut hands: Vec<Hand> = numbers.map(|number| Hand::new(number, instance)).collect();
    let batch: Vec<Append> =
        hands.iter_mut().map(|hand| hand.next(1).control(ControlChange::Owned).into()).collect();
    let outcomes = store.append(&batch).unwrap();
    assert!(outcomes.iter().all(is_committed), "{outcomes:?}");
    hands
}

/// Appends one frame.
pub(crate) fn append(store: &PostgresStore, draft: Draft) -> Appended {
    store.append(&[draft.into()]).unwrap().remove(0)
}

pub(crate) fn is_committed(outcome: &Appended) -> bool {
    matches!(outcome, Appended::Committed { .. })
}

pub(crate) fn everything(instance: InstanceId) -> ClaimRequest {
    ClaimRequest {
        instance,
        fold: 1,
        limit: 10_000,
        share: Share::ALL,
        only: None,
        held: None,
        suspects: true,
        ahead: Millis(0),
    }
}

/// The executions that a claim gives.
pub(crate) fn claimed(store: &PostgresStore, instance: InstanceId) -> Vec<ExecutionNo> {
    let claims = store.claim(&everything(instance)).unwrap();
    claims.claimed.iter().map(|history| history.execution).collect()
}

pub(crate) fn mail(execution: ExecutionNo, message: &str, body: Request) -> Mail {
    Mail { execution, message: message.into(), actor: None, body: body.into(), blobs: Vec::new() }
}

/// Checks that a log has neither gaps nor forks, by what is stored.
pub(crate) fn check_chain(store: &PostgresStore, execution: ExecutionNo) {
    let frames: Vec<_> = LogReader::whole(store, execution).map(Result::unwrap).collect();
    let mut next = 1;
    for frame in &frames {
        assert_eq!(frame.header.first_seq, next, "{execution}");
        next = frame.header.last_seq + 1;
    }
    assert!(frames.windows(2).all(|pair| pair[0].at <= pair[1].at), "time went back");
}

/// A way to a database that can be broken, and its URL.
pub(crate) fn proxied(database: &Database) -> (Proxy, String) {
    let server = Postgres::shared().port();
    let proxy = Proxy::start(server);
    let port = |port: u16| format!("127.0.0.1:{port}/");
    let url = database.url.replace(&port(server), &port(proxy.port()));
    (proxy, url)
}

/// Two stores of one database, as two instances have them.
pub(crate) fn two(database: &Database) -> [Arc<PostgresStore>; 2] {
    [Arc::new(database.open()), Arc::new(database.open())]
}
