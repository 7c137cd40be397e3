//! Copies: the contexts of parked executions, the owners of executions, and which instances are
//! alive.
//!
//! A copy never blocks its caller. Copies queue for one Tokio task that sends them in batches;
//! those that do not fit, or come while Redis does not answer, are dropped and counted.

mod contexts;
mod locks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_ports::mirror::{Context, Health, Mirror, Presence};

use crate::ask::{Ask, BATCH_BYTES_MAX, BATCH_MAX};
use crate::wire::{Redis, Wire};

/// Copies that may wait, whatever their size.
const QUEUE_MAX: usize = 4_096;
/// How long an instance counts as alive after a sign of life.
const INSTANCE_LEASE_MS: u64 = 15_000;

/// A [`Mirror`] in Redis.
pub struct RedisMirror {
    redis: Redis,
    queue: mpsc::Sender<Copy>,
    bytes: Arc<AtomicUsize>,
}

enum Copy {
    Alive(Presence),
    Owned(InstanceId, Vec<ExecutionId>),
    Released(InstanceId, Vec<ExecutionId>),
    Keep(Vec<Context>),
    Forget(Vec<ExecutionId>),
}

impl Copy {
    /// About how large it is; 0 if there is nothing to copy.
    fn bytes(&self) -> usize {
        let keys = |keys: &[ExecutionId]| keys.iter().map(|key| 32 + key.0.len()).sum();
        match self {
            Self::Alive(_) => 256,
            Self::Owned(_, all) | Self::Released(_, all) | Self::Forget(all) => keys(all),
            Self::Keep(contexts) => contexts.iter().map(|one| 256 + one.state.len()).sum(),
        }
    }
}

impl RedisMirror {
    /// Begins to copy.
    pub fn new(redis: &Redis) -> Self {
        let (queue, copies) = mpsc::channel(QUEUE_MAX);
        let bytes = Arc::<AtomicUsize>::default();
        let wire = redis.wire();
        wire.spawn(run(Arc::clone(wire), copies, Arc::clone(&bytes)));
        Self { redis: redis.clone(), queue, bytes }
    }

    fn hand_over(&self, copy: Copy) {
        let wire = self.redis.wire();
        let size = copy.bytes();
        if size == 0 {
            return;
        }
        let fits =
            self.bytes.fetch_add(size, Ordering::Relaxed) + size <= wire.limits.copies_bytes_max;
        if !wire.is_up() || !fits || self.queue.try_send(copy).is_err() {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            wire.counters.dropped.add(1);
        }
    }
}

impl Mirror for RedisMirror {
    fn alive(&self, instance: &Presence) {
        self.hand_over(Copy::Alive(instance.clone()));
    }

    fn owned(&self, instance: InstanceId, executions: &[ExecutionId]) {
        self.hand_over(Copy::Owned(instance, executions.to_vec()));
    }

    fn released(&self, instance: InstanceId, executions: &[ExecutionId]) {
        self.hand_over(Copy::Released(instance, executions.to_vec()));
    }

    fn owner(&self, execution: &ExecutionId) -> Option<InstanceId> {
        locks::owner(self.redis.wire(), execution)
    }

    fn keep(&self, contexts: Vec<Context>) {
        self.hand_over(Copy::Keep(contexts));
    }

    fn forget(&self, executions: &[ExecutionId]) {
        self.hand_over(Copy::Forget(executions.to_vec()));
    }

    fn contexts(&self, executions: &[ExecutionId]) -> Vec<Option<Vec<u8>>> {
        contexts::load(self.redis.wire(), executions)
    }

    fn health(&self) -> Health {
        self.redis.health()
    }
}

/// Copies until the channel is closed.
async fn run(wire: Arc<Wire>, mut copies: mpsc::Receiver<Copy>, bytes: Arc<AtomicUsize>) {
    while let Some(copy) = copies.recv().await {
        let size = copy.bytes();
        match copy {
            Copy::Alive(presence) => send(&wire, [heartbeat(&wire, &presence)]).await,
            Copy::Owned(instance, all) => locks::owned(&wire, instance, &all).await,
            Copy::Released(instance, all) => locks::released(&wire, instance, &all).await,
            Copy::Keep(contexts) => {
                send(&wire, contexts.iter().filter_map(|one| contexts::keep(&wire, one))).await;
            }
            Copy::Forget(all) => {
                let forget = |key| Ask::command("UNLINK").key(&wire.keys.context(key));
                send(&wire, all.iter().map(forget)).await;
            }
        }
        bytes.fetch_sub(size, Ordering::Relaxed);
    }
}

/// Sends commands whose answers do not matter, in batches. Failed ones are dropped and counted.
async fn send(wire: &Wire, asks: impl IntoIterator<Item = Ask> + Send) {
    let (mut batch, mut size) = (Vec::new(), 0);
    let mut asks: Vec<Ask> = asks.into_iter().collect();
    asks.reverse();
    while let Some(ask) = asks.pop() {
        size += ask.bytes();
        batch.push(ask);
        if asks.is_empty() || batch.len() >= BATCH_MAX || size >= BATCH_BYTES_MAX {
            size = 0;
            let count = batch.len() as u64;
            let failed = match wire.run(std::mem::take(&mut batch)).await {
                Ok(answers) => answers.iter().filter(|answer| answer.is_err()).count() as u64,
                Err(_) => count,
            };
            wire.counters.dropped.add(failed);
        }
    }
}

/// What is published about an instance.
fn heartbeat(wire: &Wire, presence: &Presence) -> Ask {
    let shown = serde_json::json!({
        "instanceId": presence.instance.to_string(),
        "version": &*presence.version,
        "address": presence.address.as_deref(),
        "owned": presence.owned,
        "running": presence.running,
        "at": presence.at.to_string(),
    });
    let key = wire.keys.instance(presence.instance);
    Ask::command("SET").key(&key).arg(shown.to_string()).arg("PX").number(INSTANCE_LEASE_MS)
}
