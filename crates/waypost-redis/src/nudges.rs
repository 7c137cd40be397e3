//! Nudges as published messages, on top of another `Nudges`. A nudge that Redis cannot deliver
//! (Redis is down, or the receiver does not listen there) is sent through the one beneath.
//!
//! Nudges are not sealed: they contain nothing that key names do not, and a forged one costs one
//! poll.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use waypost_core::id::InstanceId;
use waypost_ports::nudge::{Nudge, Nudges, OnNudge};

use crate::ask::{Ask, number};
use crate::hub::Received;
use crate::wire::{Redis, Wire};

/// Different nudges that are gathered; the rest goes beneath.
const WAITING_MAX: usize = 4_096;
/// Bytes that a nudge may have.
const NUDGE_BYTES_MAX: usize = 1_024;

/// [`Nudges`] with Redis for speed.
pub struct RedisNudges {
    redis: Redis,
    instance: InstanceId,
    outgoing: Arc<OutgoingNudge>,
}

struct OutgoingNudge {
    beneath: Arc<dyn Nudges>,
    waiting: Mutex<HashSet<Nudge>>,
    some: Notify,
}

/// A nudge as it is published.
#[derive(Serialize, Deserialize)]
struct Published {
    from: InstanceId,
    #[serde(flatten)]
    what: What,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "nudge", rename_all = "snake_case")]
enum What {
    Mail { to: InstanceId },
    Claimable,
    Offered { handler: Arc<str> },
    Cancelled { to: InstanceId },
}

impl RedisNudges {
    /// Above these nudges, for this instance.
    pub fn new(redis: &Redis, beneath: Arc<dyn Nudges>, instance: InstanceId) -> Self {
        let outgoing =
            Arc::new(OutgoingNudge { beneath, waiting: Mutex::default(), some: Notify::new() });
        let wire = redis.wire();
        wire.spawn(send_all(Arc::downgrade(&outgoing), Arc::clone(wire), instance));
        Self { redis: redis.clone(), instance, outgoing }
    }
}

impl Drop for RedisNudges {
    fn drop(&mut self) {
        // The loop finds no sender left, and ends.
        self.outgoing.some.notify_one();
    }
}

impl Nudges for RedisNudges {
    fn send(&self, nudge: Nudge) {
        let wire = self.redis.wire();
        if wire.is_up() {
            let mut waiting = self.outgoing.waiting.lock();
            if waiting.len() < WAITING_MAX {
                waiting.insert(nudge);
                self.outgoing.some.notify_one();
                return;
            }
        }
        wire.counters.fallbacks.add(1);
        self.outgoing.beneath.send(nudge);
    }

    fn listen(&self, instance: InstanceId, on_nudge: OnNudge) {
        let wire = self.redis.wire();
        for channel in [wire.keys.nudges(), wire.keys.nudges_to(instance)] {
            let (own, on_nudge) = (self.instance, Arc::clone(&on_nudge));
            wire.listen(
                channel,
                Arc::new(move |received| match received {
                    Received::Message(payload) => {
                        if let Some(nudge) = read(payload, own, instance) {
                            on_nudge(nudge);
                        }
                    }
                    // Nudges may have been missed: poll everything once.
                    Received::Listening => {
                        on_nudge(Nudge::Mail(instance));
                        on_nudge(Nudge::Cancelled(instance));
                        on_nudge(Nudge::Claimable);
                    }
                }),
            );
        }
        self.outgoing.beneath.listen(instance, on_nudge);
    }
}

/// A nudge that is for this instance and not from it.
fn read(payload: &[u8], own: InstanceId, listener: InstanceId) -> Option<Nudge> {
    if payload.len() > NUDGE_BYTES_MAX {
        return None;
    }
    let published: Published = serde_json::from_slice(payload).ok()?;
    if published.from == own {
        return None;
    }
    match published.what {
        What::Mail { to } => (to == listener).then_some(Nudge::Mail(to)),
        What::Cancelled { to } => (to == listener).then_some(Nudge::Cancelled(to)),
        What::Claimable => Some(Nudge::Claimable),
        What::Offered { handler } => Some(Nudge::Offered(handler)),
    }
}

/// Sends the gathered nudges until the sender is dropped.
async fn send_all(outgoing: std::sync::Weak<OutgoingNudge>, wire: Arc<Wire>, from: InstanceId) {
    while let Some(sender) = outgoing.upgrade() {
        sender.some.notified().await;
        tokio::time::sleep(wire.limits.debounce).await;
        let waiting: Vec<Nudge> = sender.waiting.lock().drain().collect();
        if waiting.is_empty() {
            // The sender may be gone; holding it here would keep it alive for ever.
            if Arc::strong_count(&sender) == 1 {
                return;
            }
            continue;
        }
        let asks = waiting.iter().map(|nudge| publish(&wire, from, nudge)).collect();
        let answers = wire.run(asks).await.ok();
        let mut answers = answers.into_iter().flatten();
        for nudge in waiting {
            let receivers = answers.next().and_then(Result::ok).and_then(|value| number(&value));
            let for_one = matches!(nudge, Nudge::Mail(_) | Nudge::Cancelled(_));
            // A single server counts all subscribers; a Redis Cluster counts only those of one of
            // its servers.
            let missed = for_one && receivers == Some(0) && wire.dialer().counts_subscribers();
            if receivers.is_none() || missed {
                wire.counters.fallbacks.add(1);
                sender.beneath.send(nudge);
            }
        }
    }
}

fn publish(wire: &Wire, from: InstanceId, nudge: &Nudge) -> Ask {
    let (channel, what) = match nudge {
        Nudge::Mail(to) => (wire.keys.nudges_to(*to), What::Mail { to: *to }),
        Nudge::Cancelled(to) => (wire.keys.nudges_to(*to), What::Cancelled { to: *to }),
        Nudge::Claimable => (wire.keys.nudges(), What::Claimable),
        Nudge::Offered(handler) => {
            (wire.keys.nudges(), What::Offered { handler: Arc::clone(handler) })
        }
    };
    let payload = serde_json::to_vec(&Published { from, what }).expect("a nudge is JSON");
    Ask::command("PUBLISH").key(&channel).arg(payload)
}
