//! Signals by key in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::published::{PublishedSignal, WaitRef};
use waypost_core::time::Timestamp;

use super::Tables;
use crate::store::{
    Append, MailDelivery, Publication, Published, Subscription, Topics, signal_mail,
};

/// The rows.
#[derive(Clone, Default)]
pub(super) struct TopicTables {
    subscriptions: BTreeMap<(ExecutionNo, WaitRef), SubscriptionRow>,
    /// In the order in which they came.
    published: Vec<PublishedRow>,
}

/// A wait for a signal by its key.
#[derive(Clone)]
struct SubscriptionRow {
    name: Arc<str>,
    /// The message that is on its way to it.
    fed: Option<MessageId>,
}

#[derive(Clone)]
struct PublishedRow {
    signal: PublishedSignal,
    actor: Option<Arc<str>>,
    expires_at: Timestamp,
    /// Does it stay to recognise a repetition?
    from_outside: bool,
    taken: bool,
}

impl TopicTables {
    /// The changes that come with a frame.
    pub(super) fn change(&mut self, append: &Append, now: Timestamp) {
        let Some(topics) = &append.side.topics else { return };
        let Topics { opened, closed, open, published } = &**topics;
        let execution = append.header.execution;
        for wait in closed {
            self.subscriptions.remove(&(execution, *wait));
        }
        for subscription in opened {
            let row = SubscriptionRow { name: Arc::clone(&subscription.name), fed: None };
            self.subscriptions.insert((execution, subscription.wait), row);
        }
        if !open.is_empty() {
            let consumed = |fed: &mut MessageId| append.side.consumed.contains(fed);
            let of = self.of(execution).filter(|_| !is_planted(Bug::FedForEver));
            for (_, row) in of {
                row.fed.take_if(consumed);
            }
        }
        for signal in published {
            self.keep(signal, None, false, now);
        }
    }

    fn of(
        &mut self,
        execution: ExecutionNo,
    ) -> impl Iterator<Item = (&(ExecutionNo, WaitRef), &mut SubscriptionRow)> {
        self.subscriptions.iter_mut().filter(move |((of, _), _)| *of == execution)
    }

    pub(super) fn of_execution(&self, execution: ExecutionNo) -> Vec<Subscription> {
        let rows = self.subscriptions.iter().filter(|((of, _), _)| *of == execution);
        let row = |((_, wait), row): (&(_, WaitRef), &SubscriptionRow)| Subscription {
            wait: *wait,
            name: Arc::clone(&row.name),
        };
        rows.map(row).collect()
    }

    /// Repairs the rows of an execution; what is on its way to one that stays is left.
    pub(super) fn replace(&mut self, execution: ExecutionNo, all: &[Subscription]) {
        let stays = |wait: &WaitRef| all.iter().any(|subscription| subscription.wait == *wait);
        self.subscriptions.retain(|(of, wait), _| *of != execution || stays(wait));
        for Subscription { wait, name } in all {
            let row = SubscriptionRow { name: Arc::clone(name), fed: None };
            self.subscriptions.entry((execution, *wait)).or_insert(row);
        }
    }

    /// Returns false where it is known.
    fn keep(
        &mut self,
        signal: &PublishedSignal,
        actor: Option<Arc<str>>,
        from_outside: bool,
        now: Timestamp,
    ) -> bool {
        self.published.retain(|row| row.expires_at > now);
        if self.published.iter().any(|row| row.signal.message == signal.message) {
            return false;
        }
        let (signal, expires_at) = (signal.clone(), now.plus(signal.keep));
        let row = PublishedRow { signal, actor, expires_at, from_outside, taken: false };
        self.published.push(row);
        true
    }

    /// The oldest signal of this name that waits, and the executions that get it: all that wait for it and
    /// have none on its way.
    fn next(
        &mut self,
        name: &str,
        now: Timestamp,
    ) -> Option<(PublishedSignal, Option<Arc<str>>, BTreeSet<ExecutionNo>)> {
        let is_next =
            |row: &PublishedRow| !row.taken && *row.signal.name == *name && now < row.expires_at;
        let at = self.published.iter().position(is_next)?;
        let waits = self.subscriptions.iter_mut();
        let waits = waits.filter(|(_, row)| row.fed.is_none() && *row.name == *name);
        let mut receivers = BTreeSet::new();
        let message = self.published.get(at).map(|row| Arc::clone(&row.signal.message))?;
        for ((execution, _), row) in waits {
            row.fed = Some(Arc::clone(&message));
            receivers.insert(*execution);
        }
        if receivers.is_empty() {
            return None;
        }
        let row = self.published.get_mut(at)?;
        let (signal, actor) = (row.signal.clone(), row.actor.clone());
        row.taken = true;
        if !row.from_outside {
            self.published.remove(at);
        }
        Some((signal, actor, receivers))
    }
}

impl Tables {
    /// Publishes a signal from outside.
    pub fn publish(&mut self, publication: &Publication, now: Timestamp) -> Published {
        let Publication { signal, actor } = publication;
        if !self.topics.keep(signal, actor.clone(), true, now) {
            return Published::Duplicate;
        }
        Published::Accepted { receivers: self.route(&signal.name, now) }
    }

    /// The first half of publishing: the signal is durable.
    pub fn keep_published(&mut self, signal: &PublishedSignal, now: Timestamp) {
        self.topics.keep(signal, None, true, now);
    }

    /// Sends the next signal of this name to those who wait for it.
    pub fn route(&mut self, name: &str, now: Timestamp) -> Vec<(ExecutionNo, Option<InstanceId>)> {
        let Some((signal, actor, receivers)) = self.topics.next(name, now) else {
            return Vec::new();
        };
        let mut got = Vec::with_capacity(receivers.len());
        for execution in receivers {
            let mail = signal_mail(execution, &signal, actor.clone());
            if let MailDelivery::Accepted { owner } = self.deliver(&mail) {
                got.push((execution, owner));
            }
        }
        got
    }

    /// The names of signals that wait, although something waits for them.
    pub fn unrouted(&self, now: Timestamp) -> BTreeSet<Arc<str>> {
        let open = self.topics.published.iter().filter(|row| !row.taken && now < row.expires_at);
        let waits = |name: &Arc<str>| {
            let mut rows = self.topics.subscriptions.values();
            rows.any(|row| row.fed.is_none() && row.name == *name)
        };
        open.map(|row| Arc::clone(&row.signal.name)).filter(waits).collect()
    }

    /// Sends what was left behind by those who died between their commit and this.
    pub(super) fn route_all(&mut self, now: Timestamp) {
        if is_planted(Bug::SubscriberBlind) {
            return;
        }
        let waiting = self.topics.published.iter().filter(|row| !row.taken);
        let names: BTreeSet<_> = waiting.map(|row| Arc::clone(&row.signal.name)).collect();
        for name in names {
            self.route(&name, now);
        }
    }
}
