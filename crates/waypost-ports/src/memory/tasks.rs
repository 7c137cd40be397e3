//! Tasks for remote workers in the memory of this process: for tests, for the simulator, and for a
//! backend of one process. Tasks that are lost with it are offered again by the owners of the
//! attempts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::id::{InstanceId, Token, WorkerId};
use waypost_core::time::{Millis, Timestamp};

use crate::clock::Clock;
use crate::store::StoreError;
use crate::tasks::{Depth, Holds, Offer, OfferId, SignOfLife, Tasks, WORKER_LEASE, WorkerRow};

/// How long a worker that is not alive is still listed.
const LISTED_FOR: Millis = Millis::from_secs(3_600);
/// Cancellations stored for one worker until it polls; older ones are dropped, and sent again by
/// their owners.
const CANCELS_MAX: usize = 1_000;

/// See the module. Clones share their data, as connections to one server do.
#[derive(Clone)]
pub struct MemoryTasks {
    clock: Arc<dyn Clock>,
    cluster_key: [u8; 32],
    rows: Arc<Mutex<TaskRows>>,
}

#[derive(Default)]
struct TaskRows {
    /// By handler, oldest first.
    waiting: BTreeMap<Arc<str>, VecDeque<WaitingTask>>,
    /// Everything that waits, so that nothing waits twice.
    out: BTreeSet<OfferId>,
    /// Offers in the order in which they came, over all handlers.
    arrivals: u64,
    workers: BTreeMap<WorkerId, KnownWorker>,
}

struct WaitingTask {
    arrival: u64,
    since: Timestamp,
    offer: Offer,
}

#[derive(Default)]
struct KnownWorker {
    /// The last one, without the tasks in hand.
    sign: Option<(SignOfLife, Timestamp)>,
    /// What it has in hand, and how old that statement was when it arrived.
    hand: Option<(BTreeSet<Token>, Millis)>,
    cancels: Vec<Token>,
}

impl KnownWorker {
    fn is_alive(&self, now: Timestamp) -> bool {
        let alive =
            |(sign, at): &(SignOfLife, Timestamp)| !sign.leaving && now.since(*at) < WORKER_LEASE;
        self.sign.as_ref().is_some_and(alive)
    }

    fn holds(&self, token: Token, now: Timestamp) -> Holds {
        match (&self.sign, &self.hand) {
            _ if !self.is_alive(now) => Holds::Gone,
            (_, Some((tokens, _))) if tokens.contains(&token) => Holds::Yes,
            (Some((_, at)), Some((_, ago))) => {
                Holds::No { sent_ago: Millis(now.since(*at).0.saturating_add(ago.0)) }
            }
            _ => Holds::Unsaid,
        }
    }
}

impl MemoryTasks {
    /// Empty. The caller generates the key, since it has the source of randomness.
    pub fn new(clock: Arc<dyn Clock>, cluster_key: [u8; 32]) -> Self {
        Self { clock, cluster_key, rows: Arc::default() }
    }

    /// Loses every offer and every worker, as a server that is emptied does.
    pub fn lose_everything(&self) {
        *self.rows.lock() = TaskRows::default();
    }
}

impl TaskRows {
    /// Takes out the oldest offer of these handlers.
    fn take_oldest(&mut self, handlers: &BTreeSet<&Arc<str>>) -> Option<Offer> {
        let first = |handler: &&Arc<str>| {
            let waiting = self.waiting.get(&***handler)?.front()?;
            Some((waiting.arrival, Arc::clone(*handler)))
        };
        let (_, handler) = handlers.iter().filter_map(first).min()?;
        let queue = self.waiting.get_mut(&handler)?;
        let taken = queue.pop_front()?.offer;
        if queue.is_empty() {
            self.waiting.remove(&handler);
        }
        self.out.remove(&taken.id);
        Some(taken)
    }

    fn withdraw(&mut self, id: &OfferId) {
        if self.out.remove(id) {
            for queue in self.waiting.values_mut() {
                queue.retain(|waiting| waiting.offer.id != *id);
            }
            self.waiting.retain(|_, queue| !queue.is_empty());
        }
    }
}

impl Tasks for MemoryTasks {
    fn offer(&self, offers: &[Offer]) -> Result<(), StoreError> {
        let since = self.clock.now();
        let mut rows = self.rows.lock();
        for offer in offers {
            if rows.out.insert(offer.id.clone()) {
                rows.arrivals += 1;
                let waiting = WaitingTask { arrival: rows.arrivals, since, offer: offer.clone() };
                rows.waiting.entry(Arc::clone(&offer.handler)).or_default().push_back(waiting);
            }
        }
        Ok(())
    }

    fn withdraw(&self, offers: &[OfferId]) -> Result<(), StoreError> {
        let mut rows = self.rows.lock();
        offers.iter().for_each(|id| rows.withdraw(id));
        Ok(())
    }

    fn take(&self, handlers: &[Arc<str>], limit: usize) -> Result<Vec<Offer>, StoreError> {
        let mut rows = self.rows.lock();
        let handlers: BTreeSet<&Arc<str>> = handlers.iter().collect();
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(offer) = rows.take_oldest(&handlers)
        {
            taken.push(offer);
        }
        Ok(taken)
    }

    fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError> {
        let now = self.clock.now();
        let mut rows = self.rows.lock();
        // Workers without a sign of life for so long are not listed any more, and are dropped.
        rows.workers.retain(|worker, known| {
            let seen = known.sign.as_ref().map(|(_, at)| *at);
            *worker == sign.worker || seen.is_some_and(|at| now.since(at) <= LISTED_FOR)
        });
        let known = rows.workers.entry(sign.worker).or_default();
        known.sign = Some((SignOfLife { hand: None, thorough: false, ..sign.clone() }, now));
        let hand = sign.hand.as_ref();
        known.hand = hand.map(|hand| (hand.tokens.iter().copied().collect(), hand.sent_ago));
        Ok(std::mem::take(&mut known.cancels))
    }

    fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<Vec<InstanceId>, StoreError> {
        let now = self.clock.now();
        let mut rows = self.rows.lock();
        let mut through = BTreeSet::new();
        for (worker, token) in cancels {
            let Some(known) = rows.workers.get_mut(worker) else { continue };
            if !known.cancels.contains(token) {
                known.cancels.push(*token);
            }
            let surplus = known.cancels.len().saturating_sub(CANCELS_MAX);
            known.cancels.drain(..surplus);
            let sign = known.sign.as_ref().filter(|_| known.is_alive(now));
            through.extend(sign.map(|(sign, _)| sign.through));
        }
        Ok(through.into_iter().collect())
    }

    fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError> {
        let now = self.clock.now();
        let rows = self.rows.lock();
        let holds = |(worker, token): &(WorkerId, Token)| {
            rows.workers.get(worker).map_or(Holds::Gone, |known| known.holds(*token, now))
        };
        Ok(asked.iter().map(holds).collect())
    }

    fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        let now = self.clock.now();
        let row = |known: &KnownWorker| {
            let (sign, seen_at) = known.sign.clone()?;
            let alive = known.is_alive(now);
            (now.since(seen_at) <= LISTED_FOR).then_some(WorkerRow { sign, seen_at, alive })
        };
        Ok(self.rows.lock().workers.values().filter_map(row).collect())
    }

    fn depths(&self) -> Result<Vec<Depth>, StoreError> {
        let now = self.clock.now();
        let depth = |(handler, queue): (&Arc<str>, &VecDeque<WaitingTask>)| Depth {
            handler: Arc::clone(handler),
            waiting: u64::try_from(queue.len()).unwrap_or(u64::MAX),
            oldest: queue.front().map_or(Millis(0), |waiting| now.since(waiting.since)),
        };
        Ok(self.rows.lock().waiting.iter().map(depth).collect())
    }

    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        Ok(self.cluster_key)
    }
}
