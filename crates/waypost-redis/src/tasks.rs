//! Tasks in Redis, above tasks in the store.
//!
//! ```text
//!   offer ──▶ tasks:{handler}  ── take ──▶ pending ── a second later ──▶ acknowledged, deleted
//!                │  full, down               │ taker died
//!                ▼                           └── claim after 30 s ──▶ put out again
//!           the store beneath  ── polled once a second, and whenever it may have something
//! ```
//!
//! One stream and one consumer group per handler; a hash beside it has the offers that are in the
//! stream, so that repeated offers do not pile up. Streams are never trimmed: a waiting task would
//! be lost. If too many wait, the store beneath takes the rest.
//!
//! `offers` writes and reads entries, `presence` has the workers, `sweep` the periodic work.

mod entry;
mod offers;
mod presence;
mod sweep;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use waypost_core::id::{InstanceId, Token, WorkerId};
use waypost_core::time::Millis;
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{Depth, Holds, Offer, OfferId, SignOfLife, Tasks, WorkerRow};

use crate::ask::{Ask, BATCH_MAX, DEPTH, ScriptResult, WITHDRAW, number};
use crate::wire::{Redis, Wire};

use sweep::TakenTask;

/// The one group of every stream of tasks.
const GROUP: &str = "takers";
/// Handlers that are remembered. Tasks of others are found anyway, only not counted or claimed.
const HANDLERS_MAX: usize = 1_000;
/// For how long the store beneath is looked into after something was found there.
const FOUND_BENEATH: Millis = Millis::from_secs(5);

/// [`Tasks`] with Redis for speed.
pub struct RedisTasks {
    core: Arc<Core>,
}

/// Shared by the calls and the loop.
struct Core {
    redis: Redis,
    beneath: Arc<dyn Tasks>,
    instance: InstanceId,
    /// Handlers that were seen, here or by others.
    handlers: Mutex<BTreeSet<Arc<str>>>,
    /// Tasks that were taken and are not acknowledged yet.
    taken: Mutex<Vec<TakenTask>>,
    /// When the store beneath was last looked into, by handler.
    looked: Mutex<HashMap<Arc<str>, Millis>>,
    /// Until when it is looked into every time, by the steady clock.
    look_until: AtomicU64,
    /// When each worker was last reported to the store beneath.
    forwarded: Mutex<HashMap<WorkerId, Millis>>,
}

impl RedisTasks {
    /// Above these tasks, for this instance.
    pub fn new(redis: &Redis, beneath: Arc<dyn Tasks>, instance: InstanceId) -> Self {
        let core = Arc::new(Core {
            redis: redis.clone(),
            beneath,
            instance,
            handlers: Mutex::default(),
            taken: Mutex::default(),
            looked: Mutex::default(),
            look_until: AtomicU64::new(0),
            forwarded: Mutex::default(),
        });
        redis.wire().spawn(sweep::run(Arc::downgrade(&core), Arc::downgrade(redis.wire())));
        Self { core }
    }

    /// Requeues tasks that were taken and never acknowledged, now instead of every
    /// [`Limits::scan_every`](crate::Limits::scan_every). Returns how many.
    pub fn sweep(&self) -> u64 {
        self.core.sweep()
    }

    /// Acknowledges taken tasks now instead of after a second.
    pub fn acknowledge(&self) {
        let taken = std::mem::take(&mut *self.core.taken.lock());
        self.core.acknowledge(taken);
    }
}

impl Tasks for RedisTasks {
    fn offer(&self, offers: &[Offer]) -> Result<(), StoreError> {
        let left = self.core.put_out(offers);
        if left.is_empty() {
            return Ok(());
        }
        self.core.wire().counters.fallbacks.add(left.len() as u64);
        self.core.look_beneath_for(self.core.wire().limits.look_beneath_for);
        self.core.beneath.offer(&left)
    }

    fn withdraw(&self, offers: &[OfferId]) -> Result<(), StoreError> {
        self.core.take_back(offers);
        // Which of them went beneath, and who put them there, is not known here.
        self.core.beneath.withdraw(offers)
    }

    fn take(&self, handlers: &[Arc<str>], limit: usize) -> Result<Vec<Offer>, StoreError> {
        let core = &self.core;
        let quick = core.take_quick(handlers, limit);
        if quick.is_none() {
            core.wire().counters.fallbacks.add(1);
            core.look_beneath_for(core.wire().limits.look_beneath_for);
        }
        let mut offers = quick.unwrap_or_default();
        if offers.len() >= limit || !core.is_time_to_look(handlers) {
            return Ok(offers);
        }
        match core.beneath.take(handlers, limit - offers.len()) {
            Ok(more) => {
                if !more.is_empty() {
                    core.look_beneath_for(FOUND_BENEATH);
                }
                for offer in more {
                    if !offers.iter().any(|known| known.id == offer.id) {
                        offers.push(offer);
                    }
                }
                Ok(offers)
            }
            Err(error) if offers.is_empty() => Err(error),
            Err(_) => Ok(offers),
        }
    }

    fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError> {
        self.core.record_presence(sign)
    }

    fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<Vec<InstanceId>, StoreError> {
        // The store beneath goes first: a worker that gets the cancellation through Redis then
        // finds it in the store as well, and receives it once.
        let beneath = self.core.beneath.cancel(cancels);
        let beneath =
            if self.core.cancel(cancels) { beneath.unwrap_or_default() } else { beneath? };
        // A worker may have moved to another instance since its last report to the store beneath.
        let mut through = self.core.through(cancels.iter().map(|(worker, _)| *worker));
        through.extend(beneath);
        Ok(through.into_iter().collect())
    }

    fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError> {
        self.core.who_holds(asked)
    }

    fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.core.workers()
    }

    fn depths(&self) -> Result<Vec<Depth>, StoreError> {
        let mut depths = self.core.beneath.depths()?;
        for quick in self.core.depths() {
            match depths.iter_mut().find(|depth| depth.handler == quick.handler) {
                Some(depth) => {
                    depth.waiting += quick.waiting;
                    depth.oldest = depth.oldest.max(quick.oldest);
                }
                None => depths.push(quick),
            }
        }
        depths.sort_by(|a, b| a.handler.cmp(&b.handler));
        Ok(depths)
    }

    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        self.core.beneath.cluster_key()
    }
}

impl Core {
    fn wire(&self) -> &Arc<Wire> {
        self.redis.wire()
    }

    fn now(&self) -> Millis {
        self.wire().clock.steady()
    }

    fn known_handlers(&self) -> Vec<Arc<str>> {
        self.handlers.lock().iter().cloned().collect()
    }

    /// Remembers handlers. Returns those that are new.
    fn remember<'a>(&self, seen: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<Arc<str>> {
        let mut handlers = self.handlers.lock();
        let mut new = Vec::new();
        for handler in seen {
            if handlers.len() < HANDLERS_MAX && !handlers.contains(handler) {
                handlers.insert(Arc::clone(handler));
                new.push(Arc::clone(handler));
            }
        }
        new
    }

    fn look_beneath_for(&self, span: Millis) {
        self.look_until.fetch_max(self.now().0.saturating_add(span.0), Ordering::Relaxed);
    }

    /// Is it time to poll the store beneath for tasks of these handlers? Other instances of this
    /// cluster may not reach Redis while it answers here, so the result is never no for long.
    fn is_time_to_look(&self, handlers: &[Arc<str>]) -> bool {
        let now = self.now();
        let mut looked = self.looked.lock();
        let every = self.wire().limits.look_beneath_every;
        let due = handlers.iter().any(|handler| {
            looked.get(handler).is_none_or(|last| now.0 >= last.0.saturating_add(every.0))
        });
        let look = due || now.0 < self.look_until.load(Ordering::Relaxed);
        if look {
            if looked.len() > HANDLERS_MAX {
                looked.clear();
            }
            looked.extend(handlers.iter().map(|handler| (Arc::clone(handler), now)));
        }
        look
    }

    /// Withdraws tasks. The ids have no handler, and the instances that offered them may be gone,
    /// so the streams of all handlers are searched; it is rare enough.
    fn take_back(&self, offers: &[OfferId]) {
        let wire = self.wire();
        let names: Vec<String> = offers.iter().map(|id| entry::name(&wire.sealer, id)).collect();
        for names in names.chunks(BATCH_MAX) {
            let ask = |handler: &Arc<str>| {
                let (stream, marks) = (wire.keys.tasks(handler), wire.keys.offered(handler));
                let ask = Ask::script(&WITHDRAW).key(&stream).key(&marks).arg(GROUP);
                names.iter().fold(ask, |ask, name| ask.arg(name))
            };
            let asks: Vec<Ask> = self.known_handlers().iter().map(ask).collect();
            if asks.is_empty() {
                return;
            }
            if wire.ask_scripts(asks).is_err() {
                return;
            }
        }
    }

    fn depths(&self) -> Vec<Depth> {
        let wire = self.wire();
        let handlers = self.known_handlers();
        let ask =
            |handler: &Arc<str>| Ask::script(&DEPTH).key(&wire.keys.tasks(handler)).arg(GROUP);
        if handlers.is_empty() {
            return Vec::new();
        }
        let Ok(results) = wire.ask_scripts(handlers.iter().map(ask).collect()) else {
            return Vec::new();
        };
        let depth = |(handler, said): (_, ScriptResult)| {
            let said = said?;
            let waiting = u64::try_from(number(said.first()?)?).ok().filter(|count| *count > 0)?;
            let oldest = Millis(u64::try_from(number(said.get(1)?)?).ok()?);
            Some(Depth { handler, waiting, oldest })
        };
        handlers.into_iter().zip(results).filter_map(depth).collect()
    }
}
