//! The connection: who may use it, when it counts as broken, and how it comes back.
//!
//! ```text
//!            first command that fails or takes too long
//!      Up ────────────────────────────────────────────▶ Down      calls fail at once
//!       ▲                                                 │
//!       └──────── keeper: connect, load, write a probe ◀──┘       with growing, jittered waits
//! ```
//!
//! Callers block for at most [`Limits::response`](crate::Limits::response). Threads of this crate do
//! the work, and end with the last handle. Only the keeper connects: no caller waits for a handshake.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redis::{ServerError, Value};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use waypost_core::time::Millis;
use waypost_ports::clock::Clock;
use waypost_ports::mirror::Health;

use crate::ask::{Ask, CommandResult, SCRIPTS};
use crate::config::{BadConfig, Limits, RedisConfig};
use crate::counters::Counters;
use crate::hub::Hub;
use crate::keys::Keys;
use crate::link::{Dialer, Link};
use crate::outage::{Outage, jittered};
use crate::seal::Sealer;

/// How often an idle connection is tried.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// For how long a connection has to work before the next outage counts as a new one.
const STEADY: Millis = Millis::from_secs(10);
/// Refusals that concern the server and not the command: nothing else will work either.
const FATAL: &[&str] = &[
    "LOADING",
    "READONLY",
    "MISCONF",
    "OOM",
    "NOAUTH",
    "WRONGPASS",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "NOREPLICAS",
    "BUSY",
];

/// A handle on Redis. Clones share one connection and its threads.
#[derive(Clone)]
pub struct Redis {
    wire: Arc<Wire>,
    /// Ends the threads when the last handle is dropped; the work on them holds only the wire.
    _threads: Arc<Threads>,
}

impl Redis {
    /// Connects. An unreachable Redis is not an error: it is used as soon as it answers. Waits
    /// briefly for it, so that an instance started together with Redis uses it from the beginning.
    ///
    /// `cluster_key` is [`Tasks::cluster_key`](waypost_ports::tasks::Tasks::cluster_key).
    pub fn connect(config: &RedisConfig, cluster_key: &[u8; 32]) -> Result<Self, BadConfig> {
        config.check_prefix()?;
        let dialer = Dialer::new(config.servers()?, config.limits, config.authority.clone())?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("waypost-redis")
            .enable_all()
            .build()
            .map_err(|error| BadConfig::Thread(error.to_string()))?;
        let since = config.clock.steady();
        let wire = Arc::new(Wire {
            dialer,
            limits: config.limits,
            clock: Arc::clone(&config.clock),
            keys: Keys::new(&config.prefix),
            sealer: Sealer::new(cluster_key),
            counters: Counters::default(),
            hub: Hub::default(),
            runtime: runtime.handle().clone(),
            state: Mutex::new(ConnectionState {
                link: None,
                era: 0,
                reason: "not connected yet".into(),
                since,
                outage: Outage::default(),
            }),
            changed: Condvar::new(),
            fell: Notify::new(),
        });
        wire.spawn(Arc::clone(&wire).keep());
        let redis = Self { wire, _threads: Arc::new(Threads(Some(runtime))) };
        redis.wait_until_up(config.limits.connect);
        Ok(redis)
    }

    /// Does it answer?
    pub fn health(&self) -> Health {
        let state = self.wire.state.lock();
        match state.link {
            Some(_) => Health::Up,
            None => Health::Down {
                reason: state.reason.clone(),
                since: Millis(self.wire.clock.steady().0.saturating_sub(state.since.0)),
            },
        }
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.wire.counters
    }

    /// The names of all keys.
    pub fn keys(&self) -> &Keys {
        &self.wire.keys
    }

    /// Where it is, without anything secret.
    pub fn address(&self) -> String {
        self.wire.dialer.address()
    }

    /// Waits until Redis answers. Returns whether it does.
    pub fn wait_until_up(&self, longest: Duration) -> bool {
        self.wire.wait(longest, |state| state.link.is_some())
    }

    /// Waits until it has been noticed that Redis does not answer.
    pub fn wait_until_down(&self, longest: Duration) -> bool {
        self.wire.wait(longest, |state| state.link.is_none())
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, health) = (self.address(), self.health());
        f.debug_struct("Redis").field("address", &address).field("health", &health).finish()
    }
}

struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // The last handle may go anywhere, also on one of these threads: nothing may wait here.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Redis cannot be used now; its health has the reason. The caller continues without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Down;

pub(crate) struct Wire {
    dialer: Dialer,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: Keys,
    pub(crate) sealer: Sealer,
    pub(crate) counters: Counters,
    pub(crate) hub: Hub,
    runtime: Handle,
    state: Mutex<ConnectionState>,
    changed: Condvar,
    fell: Notify,
}

struct ConnectionState {
    link: Option<Arc<dyn Link>>,
    /// Counts connections, so that a late failure of an old one does not end a new one.
    era: u64,
    reason: String,
    since: Millis,
    /// What was logged about the current outage.
    outage: Outage,
}

impl Wire {
    /// Sends commands, and blocks until there are answers: one for each, in order.
    pub(crate) fn ask(self: &Arc<Self>, asks: Vec<Ask>) -> Result<Vec<CommandResult>, Down> {
        let era = self.era().ok_or(Down)?;
        let (answer, answered) = mpsc::sync_channel(1);
        let wire = Arc::clone(self);
        self.spawn(async move {
            // The caller may have stopped waiting.
            drop(answer.send(wire.run(asks).await));
        });
        // The timeout in `run` is the real one; this one is for a machine so busy that the threads
        // of this crate do not get to run.
        let longest = self.limits.response + self.limits.response / 4;
        answered.recv_timeout(longest).unwrap_or_else(|_| {
            self.fall(era, "no answer in time");
            Err(Down)
        })
    }

    /// Sends commands, from a thread of this crate.
    pub(crate) async fn run(&self, asks: Vec<Ask>) -> Result<Vec<CommandResult>, Down> {
        let (link, era) = self.link().ok_or(Down)?;
        let all = tokio::time::timeout(self.limits.response, self.run_on(&*link, &asks)).await;
        match all {
            Ok(Ok(answers)) => Ok(answers),
            Ok(Err(reason)) => Err(self.fall(era, &reason)),
            Err(_) => Err(self.fall(era, "no answer in time")),
        }
    }

    async fn run_on(&self, link: &dyn Link, asks: &[Ask]) -> Result<Vec<CommandResult>, String> {
        let mut answers = self.round(link, asks.iter().map(Ask::short).collect()).await?;
        // A server that was restarted or flushed has forgotten its scripts.
        let forgotten: Vec<usize> = (0..asks.len())
            .filter(|at| answers[*at].as_ref().is_err_and(|refusal| refusal.code() == "NOSCRIPT"))
            .collect();
        if !forgotten.is_empty() {
            let again = forgotten.iter().map(|at| asks[*at].whole()).collect();
            for (at, answer) in forgotten.into_iter().zip(self.round(link, again).await?) {
                answers[at] = answer;
            }
        }
        Ok(answers)
    }

    async fn round(
        &self,
        link: &dyn Link,
        commands: Vec<redis::Cmd>,
    ) -> Result<Vec<CommandResult>, String> {
        let count = commands.len();
        self.counters.commands.add(count as u64);
        self.counters.round_trips.add(1);
        let values = link.run(commands).await.map_err(|error| error.to_string())?;
        if values.len() != count {
            return Err(format!("{} answers to {count} commands", values.len()));
        }
        let read = |value| match value {
            Value::ServerError(refusal) if FATAL.contains(&refusal.code()) => {
                Err(describe(&refusal))
            }
            Value::ServerError(refusal) => Ok(Err(refusal)),
            value => Ok(Ok(value)),
        };
        values.into_iter().map(read).collect()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.lock().link.is_some()
    }

    /// Which connection there is, if there is one.
    pub(crate) fn era(&self) -> Option<u64> {
        self.link().map(|(_, era)| era)
    }

    /// Runs something on the threads of this crate, until it ends or they do.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(work));
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    fn link(&self) -> Option<(Arc<dyn Link>, u64)> {
        let state = self.state.lock();
        state.link.as_ref().map(|link| (Arc::clone(link), state.era))
    }

    fn wait(&self, longest: Duration, until: impl Fn(&ConnectionState) -> bool) -> bool {
        let mut state = self.state.lock();
        let waited = self.changed.wait_while_for(&mut state, |state| !until(state), longest);
        !waited.timed_out()
    }

    /// A connection failed. The first caller to notice records it; later ones find it gone.
    fn fall(&self, era: u64, reason: &str) -> Down {
        let mut state = self.state.lock();
        if state.era == era && state.link.take().is_some() {
            reason.clone_into(&mut state.reason);
            state.since = self.clock.steady();
            self.counters.outages.add(1);
            self.log_failure(&mut state);
            self.changed.notify_all();
            self.fell.notify_one();
        }
        Down
    }

    fn rise(&self, link: Box<dyn Link>) {
        let mut state = self.state.lock();
        state.link = Some(link.into());
        state.era += 1;
        let (now, address) = (self.clock.steady(), self.dialer.address());
        let away_ms = now.0.saturating_sub(std::mem::replace(&mut state.since, now).0);
        match std::mem::take(&mut state.outage).failures() {
            0 => tracing::info!(address, "redis answers"),
            failures => tracing::warn!(address, away_ms, failures, "redis answers again"),
        }
        self.changed.notify_all();
    }

    /// Connects, and connects again.
    async fn keep(self: Arc<Self>) {
        let mut wait = self.limits.backoff_min;
        loop {
            match self.try_to_connect().await {
                Ok(link) => {
                    self.rise(link);
                    let risen = self.clock.steady();
                    self.watch().await;
                    // A connection that breaks at once, again and again, is not retried in a tight
                    // loop.
                    if self.clock.steady().0 >= risen.0.saturating_add(STEADY.0) {
                        wait = self.limits.backoff_min;
                    }
                }
                Err(reason) => self.note(reason),
            }
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(self.limits.backoff_max);
        }
    }

    /// Why there is still no connection.
    fn note(&self, reason: String) {
        let mut state = self.state.lock();
        state.reason = reason;
        self.log_failure(&mut state);
    }

    /// Logs a failure where its reason is another than that of the last line, or where that line is old.
    fn log_failure(&self, state: &mut ConnectionState) {
        let now = self.clock.steady();
        if let Some(failures) = state.outage.failed(&state.reason, now) {
            let (address, reason) = (self.dialer.address(), &state.reason);
            let away_ms = now.0.saturating_sub(state.since.0);
            tracing::warn!(address, reason, away_ms, failures, "continuing without Redis");
        }
    }

    /// Comes back when the connection has failed.
    async fn watch(&self) {
        while self.is_up() {
            let fell = tokio::time::timeout(PROBE_EVERY, self.fell.notified()).await;
            if fell.is_err() {
                // The result is recorded in the state.
                drop(self.run(vec![Ask::command("PING")]).await);
            }
        }
    }

    /// A connection that was verified to be writable and has our scripts loaded.
    async fn try_to_connect(&self) -> Result<Box<dyn Link>, String> {
        let link = self.dialer.link().await.map_err(|error| error.to_string())?;
        let probe = Ask::command("SET").key(&self.keys.probe()).arg("1").arg("PX").number(10_000);
        let asks: Vec<Ask> =
            std::iter::once(probe).chain(SCRIPTS.iter().map(|script| script.load())).collect();
        let tried = tokio::time::timeout(self.limits.response, self.run_on(&*link, &asks)).await;
        let answers = tried.map_err(|_| "no answer in time".to_owned())??;
        match answers.into_iter().find_map(Result::err) {
            None => Ok(link),
            Some(refusal) => Err(describe(&refusal)),
        }
    }
}

fn describe(refusal: &ServerError) -> String {
    format!("{}: {}", refusal.code(), refusal.details().unwrap_or_default())
}
