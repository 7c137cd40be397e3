//! A Redis, instances that use it, and a store beneath that counts how often it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId, Token, WorkerId};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::ManualClock;
pub(crate) use waypost_ports::conformance::tasks::alive;
use waypost_ports::mirror::Health;
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{Depth, Hand, Holds, Offer, OfferId, SignOfLife, Tasks, WorkerRow};
use waypost_redis::{Limits, Redis, RedisConfig, RedisTasks};
use waypost_testbed::{Redis as Server, RedisReply, wait_until};

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The secret of the cluster.
pub(crate) const KEY: [u8; 32] = [42; 32];

/// No tasks, by their attempts.
pub(crate) const NONE: [u32; 0] = [];

/// A Redis and the store beneath it.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) store: Arc<Beneath>,
    pub(crate) clock: Arc<ManualClock>,
    limits: Limits,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(patient())
    }

    /// With these limits.
    pub(crate) fn with(limits: Limits) -> Self {
        Self {
            limits,
            server: Server::start(),
            store: Arc::default(),
            clock: Arc::new(ManualClock::at(Timestamp(1_800_000_000_000))),
        }
    }

    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig {
            clock: self.clock.clone(),
            limits: self.limits,
            ..RedisConfig::new(self.server.url())
        }
    }

    /// A connection of its own, as another process would have.
    pub(crate) fn connect(&self) -> Redis {
        connect(&self.config())
    }

    /// An instance with a connection of its own.
    pub(crate) fn instance(&self, number: u128) -> Instance {
        self.instance_on(&self.connect(), number)
    }

    pub(crate) fn instance_on(&self, redis: &Redis, number: u128) -> Instance {
        let beneath: Arc<dyn Tasks> = self.store.clone();
        let tasks = RedisTasks::new(redis, beneath, instance(number));
        Instance { redis: redis.clone(), tasks }
    }

    /// All keys that there are.
    pub(crate) fn keys(&self) -> Vec<String> {
        let RedisReply::Many(keys) = self.server.command(&["KEYS", "*"]) else { panic!("no list") };
        let mut keys: Vec<String> = keys.into_iter().map(text).collect();
        keys.sort();
        keys
    }

    /// Puts a value of the wrong type where a key was, whatever its type.
    pub(crate) fn spoil(&self, key: &str) {
        let kind = self.server.command(&["TYPE", key]);
        self.ok(&["DEL", key]);
        match kind {
            RedisReply::Status(kind) if kind == "list" => self.ok(&["SET", key, "x"]),
            _ => self.ok(&["RPUSH", key, "x"]),
        }
    }

    /// Runs a command that must not be refused.
    #[track_caller]
    pub(crate) fn ok(&self, words: &[&str]) {
        let reply = self.server.command(words);
        assert!(!matches!(reply, RedisReply::Error(_)), "{words:?}: {reply:?}");
    }

    #[track_caller]
    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        match self.server.command(words) {
            RedisReply::Number(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }
}

/// So much time for an answer that a busy machine does not look like an outage.
pub(crate) fn patient() -> Limits {
    let (response, answer) = (Duration::from_secs(5), PATIENCE);
    Limits { response, connect: response, answer, ..Limits::default() }
}

/// A connection that is there, however long that takes.
#[track_caller]
pub(crate) fn connect(config: &RedisConfig) -> Redis {
    connect_with(config, &KEY)
}

#[track_caller]
pub(crate) fn connect_with(config: &RedisConfig, key: &[u8; 32]) -> Redis {
    let redis = Redis::connect(config, key).unwrap();
    assert!(redis.wait_until_up(PATIENCE), "{redis:?}");
    redis
}

/// Waits until it is said why there is no connection.
#[track_caller]
pub(crate) fn wait_for_reason(redis: &Redis, means: impl Fn(&str) -> bool) {
    eventually("the reason is said", || match redis.health() {
        Health::Down { reason, .. } => means(&reason),
        other => panic!("{other:?}"),
    });
}

/// What one process has.
pub(crate) struct Instance {
    pub(crate) redis: Redis,
    pub(crate) tasks: RedisTasks,
}

impl Instance {
    /// Takes, and gives the attempts' numbers.
    #[track_caller]
    pub(crate) fn take(&self, handler: &str, limit: usize) -> Vec<u32> {
        let taken = self.tasks.take(&[handler.into()], limit).unwrap();
        taken.iter().map(|offer| offer.id.attempt).collect()
    }

    /// Waits until it has noticed that Redis is back.
    pub(crate) fn wait_until_up(&self) {
        assert!(self.redis.wait_until_up(PATIENCE), "{:?}", self.redis);
    }
}

pub(crate) fn text(reply: RedisReply) -> String {
    match reply {
        RedisReply::Bytes(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        RedisReply::Status(text) => text,
        other => panic!("no text: {other:?}"),
    }
}

pub(crate) fn instance(number: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(number))
}

pub(crate) fn worker(number: u128) -> WorkerId {
    WorkerId(Uuid::from_u128(number))
}

pub(crate) fn offer_id(attempt: u32) -> OfferId {
    OfferId { execution: ExecutionNo(7), path: "each[1]/fetch".into(), attempt }
}

pub(crate) fn offer(handler: &str, attempt: u32) -> Offer {
    let body = format!("a secret {attempt}").into_bytes();
    Offer { id: offer_id(attempt), handler: handler.into(), owner: instance(1), body }
}

pub(crate) fn sign(number: u128) -> SignOfLife {
    SignOfLife {
        worker: worker(number),
        name: "w".into(),
        handlers: vec!["h".into()],
        capacity: 4,
        running: 1,
        through: instance(1),
        leaving: false,
        hand: None,
        thorough: false,
    }
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, done: impl FnMut() -> bool) {
    wait_until(what, PATIENCE, done);
}

/// A store beneath, in memory, that counts how often it is asked.
#[derive(Default)]
pub(crate) struct Beneath {
    offers: Mutex<Vec<Offer>>,
    reported: Mutex<BTreeMap<WorkerId, Option<Hand>>>,
    cancels: Mutex<BTreeMap<WorkerId, BTreeSet<Token>>>,
    pub(crate) takes: AtomicU64,
    pub(crate) hears: AtomicU64,
    pub(crate) looks: AtomicU64,
    pub(crate) broken: AtomicBool,
}

impl Beneath {
    pub(crate) fn waiting(&self) -> Vec<u32> {
        self.offers.lock().iter().map(|offer| offer.id.attempt).collect()
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.broken.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("broken by a test".into())),
            false => Ok(()),
        }
    }
}

impl Tasks for Beneath {
    fn offer(&self, offers: &[Offer]) -> Result<(), StoreError> {
        self.check()?;
        let mut known = self.offers.lock();
        for offer in offers {
            if !known.iter().any(|one| one.id == offer.id) {
                known.push(offer.clone());
            }
        }
        Ok(())
    }

    fn withdraw(&self, offers: &[OfferId]) -> Result<(), StoreError> {
        self.check()?;
        self.offers.lock().retain(|offer| !offers.contains(&offer.id));
        Ok(())
    }

    fn take(&self, handlers: &[Arc<str>], limit: usize) -> Result<Vec<Offer>, StoreError> {
        self.takes.fetch_add(1, Ordering::SeqCst);
        self.check()?;
        let mut left = limit;
        let mut offers = self.offers.lock();
        let taken = offers.extract_if(.., |offer| {
            let fits = left > 0 && handlers.contains(&offer.handler);
            left -= usize::from(fits);
            fits
        });
        Ok(taken.collect())
    }

    fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError> {
        self.hears.fetch_add(1, Ordering::SeqCst);
        self.check()?;
        if sign.leaving {
            self.reported.lock().remove(&sign.worker);
        } else {
            self.reported.lock().insert(sign.worker, sign.hand.clone());
        }
        Ok(self.cancels.lock().remove(&sign.worker).unwrap_or_default().into_iter().collect())
    }

    fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<Vec<InstanceId>, StoreError> {
        self.check()?;
        for (worker, token) in cancels {
            self.cancels.lock().entry(*worker).or_default().insert(*token);
        }
        Ok(Vec::new())
    }

    fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.check()?;
        let reported = self.reported.lock();
        let holds = |(worker, token): &(WorkerId, Token)| match reported.get(worker) {
            None => Holds::Gone,
            Some(None) => Holds::Unsaid,
            Some(Some(hand)) if hand.tokens.contains(token) => Holds::Yes,
            Some(Some(hand)) => Holds::No { sent_ago: hand.sent_ago },
        };
        Ok(asked.iter().map(holds).collect())
    }

    fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.check()?;
        let row = |worker: &WorkerId| WorkerRow {
            sign: sign(worker.0.as_u128()),
            seen_at: Timestamp(0),
            alive: true,
        };
        Ok(self.reported.lock().keys().map(row).collect())
    }

    fn depths(&self) -> Result<Vec<Depth>, StoreError> {
        self.check()?;
        let mut by_handler: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for offer in &*self.offers.lock() {
            *by_handler.entry(offer.handler.clone()).or_default() += 1;
        }
        let depth = |(handler, waiting)| Depth { handler, waiting, oldest: Millis(0) };
        Ok(by_handler.into_iter().map(depth).collect())
    }

    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        Ok(KEY)
    }
}
