//! Writing and reading the entries of streams.

use std::sync::Arc;

use waypost_ports::tasks::Offer;

use crate::ask::{
    Ask, BATCH_BYTES_MAX, BATCH_MAX, OFFER, PEEK, ScriptResult, TAKE, bytes, exactly, first_list,
    number, text,
};

use super::sweep::TakenTask;
use super::{Core, GROUP, entry};

/// Bytes of an entry besides the task; most of them are its path.
const HEAD_BYTES_MAX: usize = 4_096;
/// For how long a stream is kept after the last offer to its handler.
pub(super) const KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// The script's result if the stream is full.
const FULL: i64 = 2;

impl Core {
    /// Adds tasks to their streams. Returns those that Redis did not take.
    pub(super) fn put_out(&self, offers: &[Offer]) -> Vec<Offer> {
        let wire = self.wire();
        if !wire.is_up() {
            return offers.to_vec();
        }
        self.announce(offers);
        let mut left = Vec::new();
        let (mut batch, mut asks, mut size) = (Vec::new(), Vec::new(), 0);
        for offer in offers {
            if offer.body.len().saturating_add(HEAD_BYTES_MAX) > wire.limits.entry_bytes_max {
                left.push(offer.clone());
                continue;
            }
            let (stream, marks) =
                (wire.keys.tasks(&offer.handler), wire.keys.offered(&offer.handler));
            let sealed = entry::seal(&wire.sealer, &stream, offer);
            size += sealed.len();
            let ask = Ask::script(&OFFER).key(&stream).key(&marks).arg(GROUP);
            let ask = ask.arg(entry::name(&wire.sealer, &offer.id)).arg(sealed);
            asks.push(ask.number(wire.limits.stream_entries_max).number(KEPT_MS));
            batch.push(offer);
            if batch.len() >= BATCH_MAX || size >= BATCH_BYTES_MAX {
                left.extend(self.send(&std::mem::take(&mut batch), std::mem::take(&mut asks)));
                size = 0;
            }
        }
        left.extend(self.send(&batch, asks));
        left
    }

    /// Sends a batch. Returns the tasks that were not taken.
    fn send(&self, batch: &[&Offer], asks: Vec<Ask>) -> Vec<Offer> {
        if batch.is_empty() {
            return Vec::new();
        }
        let wire = self.wire();
        let Ok(results) = wire.ask_scripts(asks) else {
            return batch.iter().copied().cloned().collect();
        };
        let refused = |said: ScriptResult| {
            said.and_then(|said| number(said.first()?)).is_none_or(|said| said == FULL)
        };
        let each = batch.iter().zip(results);
        each.filter_map(|(offer, said)| refused(said).then(|| (*offer).clone())).collect()
    }

    /// Publishes the handlers that have tasks, so that other instances count and claim them.
    fn announce(&self, offers: &[Offer]) {
        let new = self.remember(offers.iter().map(|offer| &offer.handler));
        if new.is_empty() {
            return;
        }
        let (ask, wire) = (self.tell_handlers(&new, 0), Arc::clone(self.wire()));
        self.wire().spawn(async move {
            // If this fails, the next scan finds the entries.
            drop(wire.run_scripts(vec![ask]).await);
        });
    }

    /// Takes tasks from Redis, the oldest first. `None` where Redis did not answer.
    pub(super) fn take_quick(&self, handlers: &[Arc<str>], limit: usize) -> Option<Vec<Offer>> {
        let limit = limit.min(BATCH_MAX);
        self.remember(handlers);
        if limit == 0 || handlers.is_empty() {
            return Some(Vec::new());
        }
        let shares: Vec<(&Arc<str>, usize)> = match handlers {
            [only] => vec![(only, limit)],
            several => self.peek(several, limit)?,
        };
        let wire = self.wire();
        let ask = |(handler, share): &(&Arc<str>, usize)| {
            Ask::script(&TAKE)
                .key(&wire.keys.tasks(handler))
                .arg(GROUP)
                .arg(self.instance.to_string())
                .number(*share as u64)
                .number(wire.limits.entry_bytes_max as u64)
                .number(BATCH_BYTES_MAX as u64)
        };
        if shares.is_empty() {
            return Some(Vec::new());
        }
        let results = wire.ask_scripts(shares.iter().map(ask).collect()).ok()?;
        let mut taken = Vec::new();
        for ((handler, _), said) in shares.iter().zip(results) {
            for value in first_list(said) {
                let Some([id, name, sealed]) = exactly(value) else { continue };
                let (Some(id), Some(name)) = (text(id), text(name)) else { continue };
                taken.push((Arc::clone(handler), id, name, bytes(sealed).unwrap_or_default()));
            }
        }
        taken.sort_by_key(|(_, id, _, _)| order(id));
        Some(self.open(taken))
    }

    /// How many tasks of each handler are among the oldest.
    fn peek<'a>(
        &self,
        handlers: &'a [Arc<str>],
        limit: usize,
    ) -> Option<Vec<(&'a Arc<str>, usize)>> {
        let wire = self.wire();
        let ask = |handler: &Arc<str>| {
            Ask::script(&PEEK).key(&wire.keys.tasks(handler)).arg(GROUP).number(limit as u64)
        };
        let results = wire.ask_scripts(handlers.iter().map(ask).collect()).ok()?;
        let mut waiting = Vec::new();
        for (at, said) in results.into_iter().enumerate() {
            let ids = first_list(said).into_iter().filter_map(text);
            waiting.extend(ids.map(|id| (order(&id), at)));
        }
        waiting.sort_unstable();
        waiting.truncate(limit);
        let share = |at: usize| waiting.iter().filter(|(_, of)| *of == at).count();
        let shares = handlers.iter().enumerate().map(|(at, handler)| (handler, share(at)));
        Some(shares.filter(|(_, share)| *share > 0).collect())
    }

    /// Opens entries. All are acknowledged later; those that do not open, at once.
    fn open(&self, entries: Vec<(Arc<str>, String, String, Vec<u8>)>) -> Vec<Offer> {
        let wire = self.wire();
        let now = self.now();
        let (mut offers, mut garbage) = (Vec::new(), Vec::new());
        let mut taken = Vec::new();
        for (handler, id, name, sealed) in entries {
            let stream = wire.keys.tasks(&handler);
            let offer = entry::open(&wire.sealer, (&stream, &handler), &name, &sealed);
            let entry = TakenTask { handler, entry: id, name, at: now };
            match offer {
                Some(offer) => {
                    offers.push(offer);
                    taken.push(entry);
                }
                None => garbage.push(entry),
            }
        }
        self.taken.lock().extend(taken);
        if !garbage.is_empty() {
            wire.counters.repaired.add(garbage.len() as u64);
            self.acknowledge(garbage);
        }
        offers
    }
}

/// The id of an entry as numbers: when, and which of that moment.
fn order(id: &str) -> (u64, u64) {
    let (at, which) = id.split_once('-').unwrap_or((id, "0"));
    (at.parse().unwrap_or(u64::MAX), which.parse().unwrap_or(u64::MAX))
}
