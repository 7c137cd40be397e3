//! Signals by key in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::limits::PUBLISHED_PER_KEY_MAX;
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
    last_turn: u64,
}

/// A signal, who sent it, and who gets it.
type GivenSignal = (PublishedSignal, Option<Arc<str>>, BTreeSet<ExecutionNo>);

/// A wait for a signal by its key.
#[derive(Clone)]
struct SubscriptionRow {
    name: Arc<str>,
    /// The message that is on its way to it.
    fed: Option<MessageId>,
    opened_at: Timestamp,
    /// The turn of the last signal that its execution got, or that was given before it began.
    turn: u64,
}

impl SubscriptionRow {
    /// Is this signal for it, and did it not have its turn?
    fn lacks(&self, row: &PublishedRow, now: Timestamp) -> bool {
        self.name == row.signal.name
            && row.turn.is_none_or(|turn| self.turn < turn)
            && (now < row.expires_at || self.opened_at <= row.published_at)
    }
}

#[derive(Clone)]
struct PublishedRow {
    signal: PublishedSignal,
    actor: Option<Arc<str>>,
    published_at: Timestamp,
    expires_at: Timestamp,
    /// Does it stay to recognise a repetition?
    from_outside: bool,
    /// When it was given to a wait first: its place among all that were.
    turn: Option<u64>,
    /// Have all got it?
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
            self.open(execution, subscription, now);
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

    fn open(&mut self, execution: ExecutionNo, subscription: &Subscription, now: Timestamp) {
        let Subscription { wait, name } = subscription;
        let (name, turn) = (Arc::clone(name), self.last_turn);
        let row = SubscriptionRow { name, fed: None, opened_at: now, turn };
        self.subscriptions.entry((execution, *wait)).or_insert(row);
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

    pub(super) fn forget(&mut self, execution: ExecutionNo) {
        self.subscriptions.retain(|(of, _), _| *of != execution);
    }

    /// Repairs the rows of an execution; what is on its way to one that stays is left.
    pub(super) fn replace(&mut self, execution: ExecutionNo, all: &[Subscription], now: Timestamp) {
        let stays = |wait: &WaitRef| all.iter().any(|subscription| subscription.wait == *wait);
        self.subscriptions.retain(|(of, wait), _| *of != execution || stays(wait));
        all.iter().for_each(|subscription| self.open(execution, subscription, now));
    }

    /// Returns false where it is known.
    fn keep(
        &mut self,
        signal: &PublishedSignal,
        actor: Option<Arc<str>>,
        from_outside: bool,
        now: Timestamp,
    ) -> bool {
        self.forget_expired(now);
        if self.knows(signal) {
            return false;
        }
        self.published.push(PublishedRow {
            signal: signal.clone(),
            actor,
            published_at: now,
            expires_at: now.plus(signal.keep),
            from_outside,
            turn: None,
            taken: false,
        });
        true
    }

    /// Forgets signals that are kept no longer, and are for no wait that was there before them.
    fn forget_expired(&mut self, now: Timestamp) {
        let waits = &self.subscriptions;
        self.published.retain(|row| {
            now < row.expires_at || !row.taken && waits.values().any(|wait| wait.lacks(row, now))
        });
    }

    fn knows(&self, signal: &PublishedSignal) -> bool {
        let is_it = |row: &PublishedRow| {
            (&row.signal.name, &row.signal.message) == (&signal.name, &signal.message)
        };
        self.published.iter().any(is_it)
    }

    /// Do as many signals of this name wait as may, without this one?
    fn is_full(&self, signal: &PublishedSignal) -> bool {
        let open = |row: &&PublishedRow| !row.taken && row.signal.name == signal.name;
        let open = self.published.iter().filter(open).count();
        u64::try_from(open).is_ok_and(|open| open >= PUBLISHED_PER_KEY_MAX) && !self.knows(signal)
    }

    /// Each wait for this name that nothing is on its way to gets its next signal: one that others have got
    /// already, in their order, or else the oldest that nothing has got.
    fn next(&mut self, name: &str, now: Timestamp) -> Vec<GivenSignal> {
        let open = |row: &&PublishedRow| !row.taken && *row.signal.name == *name;
        let open = self.published.iter().filter(open);
        let mut open: Vec<_> = open
            .map(|row| (row.turn.unwrap_or(u64::MAX), Arc::clone(&row.signal.message)))
            .collect();
        open.sort_by_key(|(turn, _)| *turn);
        let of = |message| self.give(name, &message, now);
        open.into_iter().map(|(_, message)| message).filter_map(of).collect()
    }

    /// Gives a signal to those who may have it. It is gone when no other is to get it.
    fn give(&mut self, name: &str, message: &MessageId, now: Timestamp) -> Option<GivenSignal> {
        let is = |row: &PublishedRow| {
            *row.signal.name == *name && row.signal.message == *message && !row.taken
        };
        let at = self.published.iter().position(is)?;
        let row = self.published.get_mut(at)?;
        let mut receivers = BTreeSet::new();
        for ((execution, _), wait) in &mut self.subscriptions {
            if wait.fed.is_none() && wait.lacks(row, now) {
                wait.fed = Some(Arc::clone(message));
                receivers.insert(*execution);
            }
        }
        if receivers.is_empty() && row.turn.is_none() {
            return None;
        }
        let turn = *row.turn.get_or_insert_with(|| {
            self.last_turn += 1;
            self.last_turn
        });
        // What an execution got was for all of its waits.
        for ((execution, _), wait) in &mut self.subscriptions {
            if receivers.contains(execution) && *wait.name == *name {
                wait.turn = wait.turn.max(turn);
            }
        }
        let sent = (row.signal.clone(), row.actor.clone(), receivers);
        row.taken = !self.subscriptions.values().any(|wait| wait.lacks(row, now));
        if row.taken && !row.from_outside {
            self.published.remove(at);
        }
        Some(sent)
    }
}

impl Tables {
    /// The executions that wait for signals with names between these bounds.
    pub fn subscribed(&self, between: &[Range<String>]) -> Vec<(ExecutionNo, Arc<str>)> {
        let is_in = |name: &str| {
            between.iter().any(|range| range.start.as_str() <= name && name < range.end.as_str())
        };
        let all = self.topics.subscriptions.iter();
        let found = all.filter(|(_, row)| is_in(&row.name));
        let found: BTreeSet<_> =
            found.map(|((execution, _), row)| (*execution, Arc::clone(&row.name))).collect();
        found.into_iter().collect()
    }

    /// Which instances own executions that signals of these names are on their way to.
    pub fn signal_owners(&self, names: &[Arc<str>]) -> Vec<InstanceId> {
        let fed = self.topics.subscriptions.iter();
        let fed = fed.filter(|(_, row)| row.fed.is_some() && names.contains(&row.name));
        let owner = |((execution, _), _): (&(ExecutionNo, WaitRef), _)| {
            self.control.get(execution)?.control.owner
        };
        fed.filter_map(owner).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Publishes a signal from outside.
    pub fn publish(&mut self, publication: &Publication, now: Timestamp) -> Published {
        let Publication { signal, actor } = publication;
        self.topics.forget_expired(now);
        if self.topics.is_full(signal) {
            return Published::Full;
        }
        if !self.topics.keep(signal, actor.clone(), true, now) {
            return Published::Duplicate;
        }
        Published::Accepted { receivers: self.route(&signal.name, now) }
    }

    /// The first half of publishing: the signal is durable.
    pub fn keep_published(&mut self, signal: &PublishedSignal, now: Timestamp) {
        self.topics.keep(signal, None, true, now);
    }

    /// Sends signals of this name to those who wait for them.
    pub fn route(&mut self, name: &str, now: Timestamp) -> Vec<(ExecutionNo, Option<InstanceId>)> {
        let mut got = Vec::new();
        for (signal, actor, receivers) in self.topics.next(name, now) {
            for execution in receivers {
                let mail = signal_mail(execution, &signal, actor.clone());
                if let MailDelivery::Accepted { owner } = self.deliver(&mail) {
                    got.push((execution, owner));
                }
            }
        }
        got
    }

    /// The names of signals that wait, although something waits for them.
    pub fn unrouted(&self, now: Timestamp) -> BTreeSet<Arc<str>> {
        let waits = |row: &&PublishedRow| {
            let mut rows = self.topics.subscriptions.values();
            !row.taken && rows.any(|wait| wait.fed.is_none() && wait.lacks(row, now))
        };
        let open = self.topics.published.iter().filter(waits);
        open.map(|row| Arc::clone(&row.signal.name)).collect()
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
