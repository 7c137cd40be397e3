//! Which workers are alive, and what they must cancel. Every sign of life goes to Redis, and less often
//! to the store below, so that the store is right whenever Redis is not asked or was flushed. The lists
//! of tasks in hand are kept in the store alone: they may be long, and an owner acts on them, so a client
//! that can write to Redis must not be able to forge one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use waypost_core::id::{InstanceId, Token, WorkerId};
use waypost_core::time::Timestamp;
use waypost_ports::store::StoreError;
use waypost_ports::tasks::{Holds, SignOfLife, WORKER_LEASE, WorkerRow};

use crate::ask::{Ask, BATCH_MAX, CANCEL, HEAR, bytes, list};
use crate::seal::Purpose;

use super::Core;

/// How long a cancellation is stored. After that its worker is dead or has received it.
const CANCEL_KEPT_MS: u64 = 3_600_000;
/// How far the clocks of instances may differ before a sign of life is ignored. For an ignored one
/// the store beneath is read: that costs time, not a worker.
const SKEW_MS: u64 = 45_000;
/// Bytes that a sign of life may have.
const SIGN_BYTES_MAX: usize = 64 << 10;

/// A sign of life as it is stored.
#[derive(Serialize, Deserialize)]
struct Sign {
    name: Arc<str>,
    handlers: Vec<Arc<str>>,
    capacity: u32,
    running: u32,
    through: InstanceId,
    /// Does it list the tasks in hand? Then the store beneath has the list.
    #[serde(default)]
    says: bool,
    at: Timestamp,
}

impl Core {
    pub(super) fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError> {
        let quick = self.poll_redis(sign);
        let now = self.now();
        let forwarded = {
            let last = self.forwarded.lock().get(&sign.worker).copied();
            let every = self.wire().limits.tell_beneath_every;
            last.is_some_and(|last| now.0 < last.0.saturating_add(every.0))
        };
        // The store beneath has every cancellation that Redis has. It is read in the same call, so
        // that no cancellation is delivered twice.
        let empty = quick.as_ref().is_some_and(Vec::is_empty);
        if empty && forwarded && !sign.leaving && !sign.thorough {
            return Ok(Vec::new());
        }
        if quick.is_none() {
            self.wire().counters.fallbacks.add(1);
        }
        match (self.beneath.record_presence(sign), quick) {
            (Ok(more), quick) => {
                if sign.leaving {
                    self.forwarded.lock().remove(&sign.worker);
                } else {
                    self.forwarded.lock().insert(sign.worker, now);
                }
                let mut tokens = quick.unwrap_or_default();
                tokens.extend(more);
                tokens.sort_unstable();
                tokens.dedup();
                Ok(tokens)
            }
            // Cancellations that were taken out of Redis must not be lost because the store is
            // unreachable.
            (Err(_), Some(tokens)) if !tokens.is_empty() || !sign.leaving => Ok(tokens),
            (Err(error), _) => Err(error),
        }
    }

    /// Reports the sign of life to Redis and returns the worker's cancellations; `None` if Redis
    /// does not answer.
    fn poll_redis(&self, sign: &SignOfLife) -> Option<Vec<Token>> {
        let wire = self.wire();
        let (worker, cancels) = (wire.keys.worker(sign.worker), wire.keys.cancels(sign.worker));
        let sealed = if sign.leaving { Vec::new() } else { self.seal_sign(&worker, sign) };
        let ask = Ask::script(&HEAR).key(&worker).key(&cancels);
        let results = wire.ask_scripts(vec![ask.arg(sealed).number(WORKER_LEASE.0)]).ok()?;
        let sealed = list(results.into_iter().next()??.into_iter().next()?)?;
        let open = |value| {
            let token = bytes(value).and_then(|sealed| {
                let plain = wire.sealer.open(Purpose::Cancel, cancels.as_bytes(), &sealed)?;
                Some(Token(u128::from_le_bytes(plain.try_into().ok()?)))
            });
            if token.is_none() {
                wire.counters.repaired.add(1);
            }
            token
        };
        Some(sealed.into_iter().filter_map(open).collect())
    }

    fn seal_sign(&self, place: &str, sign: &SignOfLife) -> Vec<u8> {
        let kept = Sign {
            name: Arc::clone(&sign.name),
            handlers: sign.handlers.clone(),
            capacity: sign.capacity,
            running: sign.running,
            through: sign.through,
            says: sign.hand.is_some(),
            at: self.wire().clock.now(),
        };
        let plain = serde_json::to_vec(&kept).expect("numbers and text are JSON");
        self.wire().sealer.seal(Purpose::Presence, place.as_bytes(), &plain)
    }

    /// Stores cancellations for workers. Returns whether all were stored.
    pub(super) fn cancel(&self, cancels: &[(WorkerId, Token)]) -> bool {
        let wire = self.wire();
        let ask = |(worker, token): &(WorkerId, Token)| {
            let key = wire.keys.cancels(*worker);
            let plain = token.0.to_le_bytes();
            let sealed = wire.sealer.seal(Purpose::Cancel, key.as_bytes(), &plain);
            let name = wire.sealer.digest(&[&plain]);
            Ask::script(&CANCEL).key(&key).arg(name).arg(sealed).number(CANCEL_KEPT_MS)
        };
        let mut all = true;
        for batch in cancels.chunks(BATCH_MAX) {
            let results = wire.ask_scripts(batch.iter().map(ask).collect());
            let Ok(results) = results else { return false };
            all &= results.iter().all(Option::is_some);
        }
        all
    }

    /// The instances that these workers talk to, as far as Redis has them.
    pub(super) fn through(&self, workers: impl Iterator<Item = WorkerId>) -> BTreeSet<InstanceId> {
        let workers: Vec<WorkerId> = workers.collect::<BTreeSet<_>>().into_iter().collect();
        self.signs(&workers).into_iter().flatten().map(|sign| sign.through).collect()
    }

    pub(super) fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError> {
        let workers: BTreeSet<WorkerId> = asked.iter().map(|(worker, _)| *worker).collect();
        let workers: Vec<WorkerId> = workers.into_iter().collect();
        let signs = workers.iter().zip(self.signs(&workers));
        let says: BTreeMap<WorkerId, bool> =
            signs.filter_map(|(worker, sign)| Some((*worker, sign?.says))).collect();
        // Redis may have been flushed: a missing worker means nothing.
        let open = |(worker, _): &&(WorkerId, Token)| says.get(worker) != Some(&false);
        let open: Vec<_> = asked.iter().filter(open).copied().collect();
        let known = match open.as_slice() {
            [] => Ok(Vec::new()),
            open => self.beneath.who_holds(open),
        };
        let known = match known {
            // Their signs of life are known anyway.
            Err(_) if workers.iter().all(|worker| says.contains_key(worker)) => Vec::new(),
            known => known?,
        };
        let mut known = known.into_iter();
        let holds = |(worker, _): &(WorkerId, Token)| match says.get(worker) {
            Some(false) => Holds::Unsaid,
            // The store beneath learns of this worker later.
            Some(true) => {
                known.next().filter(|holds| *holds != Holds::Gone).unwrap_or(Holds::Unsaid)
            }
            None => known.next().unwrap_or(Holds::Gone),
        };
        Ok(asked.iter().map(holds).collect())
    }

    /// Workers for display: the newer of the store's row and the sign of life in Redis.
    pub(super) fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        let mut rows = self.beneath.workers()?;
        let workers: Vec<WorkerId> = rows.iter().map(|row| row.sign.worker).collect();
        for (row, seen) in rows.iter_mut().zip(self.signs(&workers)) {
            if let Some(seen) = seen.filter(|seen| seen.at > row.seen_at) {
                row.sign.name = seen.name;
                row.sign.handlers = seen.handlers;
                row.sign.capacity = seen.capacity;
                row.sign.running = seen.running;
                row.sign.through = seen.through;
                row.seen_at = seen.at;
                row.alive = true;
            }
        }
        Ok(rows)
    }

    /// The signs of life that Redis has of these workers, where they can be believed.
    fn signs(&self, workers: &[WorkerId]) -> Vec<Option<Sign>> {
        workers.chunks(BATCH_MAX).flat_map(|batch| self.signs_of(batch)).collect()
    }

    fn signs_of(&self, workers: &[WorkerId]) -> Vec<Option<Sign>> {
        let wire = self.wire();
        let keys: Vec<String> = workers.iter().map(|worker| wire.keys.worker(*worker)).collect();
        let ask = |key: &String| {
            Ask::command("GETRANGE").key(key).number(0).number(SIGN_BYTES_MAX as u64)
        };
        let mut signs: Vec<Option<Sign>> = workers.iter().map(|_| None).collect();
        let Ok(answers) = wire.ask(keys.iter().map(ask).collect()) else { return signs };
        let now = wire.clock.now();
        let mut garbage = Vec::new();
        for ((key, answer), sign) in keys.iter().zip(answers).zip(&mut signs) {
            let sealed = answer.ok().and_then(bytes);
            if sealed.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let plain = sealed
                .and_then(|sealed| wire.sealer.open(Purpose::Presence, key.as_bytes(), &sealed));
            match plain.and_then(|plain| serde_json::from_slice::<Sign>(&plain).ok()) {
                Some(seen) => {
                    let age = now.since(seen.at).0.max(seen.at.since(now).0);
                    *sign = Some(seen).filter(|_| age <= WORKER_LEASE.0 + SKEW_MS);
                }
                None => garbage.push(Ask::command("UNLINK").key(key)),
            }
        }
        if !garbage.is_empty() {
            wire.counters.repaired.add(garbage.len() as u64);
            drop(wire.ask(garbage));
        }
        signs
    }
}
