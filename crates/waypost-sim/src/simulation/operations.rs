//! Store operations of processes: each takes time, may fail at every seam, and may be executed
//! although its caller has died.

use waypost_core::planted::{Bug, is_planted};
use waypost_engine::driver::{Input, Output, StoreWork};
use waypost_ports::clock::Clock;
use waypost_ports::memory::Inserted;
use waypost_ports::store::{Append, Appended, ClaimRequest, ControlChange, LEASE, StoreError};

use super::far::FarEvent;
use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::process::Life;

/// A batch of frames on its way.
#[derive(Clone)]
pub struct AppendOp {
    life: Life,
    /// Identifies the batch: the process gets one result, however often the batch is repeated.
    group: u64,
    batch: Vec<Append>,
    /// The result of the statement's reads.
    parents: Vec<bool>,
    /// The result of the statement's writes.
    inserted: Vec<Inserted>,
    tries: u32,
    /// Which store it talks to: a connection does not outlive a failover.
    failovers: u32,
}

/// How far a batch has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The statement reads.
    Read,
    /// The statement writes, and is committed.
    Write,
    /// The statements after it look.
    Look,
}

impl Simulation {
    /// Carries out a driver's outputs.
    pub(super) fn carry(&mut self, life: Life, outputs: Vec<Output>) {
        let mut appends = Vec::new();
        for output in outputs {
            match output {
                Output::Store(StoreWork::Append(append)) => appends.push(append),
                Output::Store(StoreWork::Deliver(outgoing)) => {
                    let latency = self.latency();
                    self.after(latency, WorldEvent::Put { life, outgoing });
                }
                Output::Store(StoreWork::Hold { execution, reason }) if !is_poison(&reason) => {
                    self.fail("hold", format!("x{} is set aside: {reason}", execution.0));
                }
                Output::Store(work) => {
                    let latency = self.latency();
                    self.after(latency, WorldEvent::Perform { life, work, tries: 0 });
                }
                Output::Renew => {
                    self.heartbeat_now(life, 0);
                    self.interrupt_delayed(life);
                }
                Output::Fetch { execution, wanted } => {
                    let latency = self.latency();
                    self.after(latency, WorldEvent::Fetch { life, execution, wanted });
                }
                Output::Run(order) => self.run_task(life, order),
                Output::Cancel(token) => self.cancel_task(life, token),
                Output::Answer(ticket, answer) => self.answered(life, ticket, answer),
                Output::Tasks(work) => {
                    let latency = self.latency();
                    self.after(latency, WorldEvent::Far(FarEvent::Perform(life, work)));
                }
                // `Drivers` has done what one of them has for another.
                Output::Forward { .. }
                | Output::Committed(_)
                | Output::Keep(_)
                | Output::Forget(_) => {}
            }
        }
        while !appends.is_empty() {
            let most = self
                .store_calls
                .get(&life)
                .map_or(1, |store_calls| store_calls.config.batch_frames_max);
            let rest = appends.split_off(most.min(appends.len()));
            self.send(life, std::mem::replace(&mut appends, rest));
        }
    }

    /// How long a message to or from the store takes.
    pub(super) fn latency(&mut self) -> u64 {
        match self.store.strikes(Fault::Slow) {
            true => self.random.between(50, 2 * LEASE.0),
            false => self.random.below(8),
        }
    }

    /// How long a process waits before it repeats what failed.
    pub(super) fn patience(&mut self, tries: u32) -> u64 {
        let doubled = 20_u64 << tries.min(6);
        doubled.min(1_000) + self.random.below(10)
    }

    pub(super) fn is_alive(&self, life: Life) -> bool {
        self.processes.contains_key(&life)
    }

    /// Does a call of a process happen? Always while it lives; maybe when it has died.
    pub(super) fn happens(&self, life: Life) -> bool {
        self.is_alive(life) || self.store.strikes(Fault::Posthumous)
    }

    fn send(&mut self, life: Life, batch: Vec<Append>) {
        self.groups += 1;
        let group = self.groups;
        for append in batch.iter().filter(|append| parks(append)) {
            self.tempt(append.header.execution);
        }
        let op = AppendOp {
            life,
            group,
            batch,
            parents: Vec::new(),
            inserted: Vec::new(),
            tries: 0,
            failovers: 0,
        };
        let latency = self.latency();
        self.after(latency, WorldEvent::Append(op, Stage::Read));
    }

    pub(super) fn append(&mut self, op: AppendOp, stage: Stage) {
        match stage {
            Stage::Read => self.append_reads(op),
            Stage::Write => self.append_writes(op),
            Stage::Look => self.append_looks(op),
        }
    }

    fn append_reads(&mut self, mut op: AppendOp) {
        if !self.happens(op.life) || self.answered.contains(&op.group) {
            return;
        }
        if let Err(error) = self.store.check(true) {
            return self.append_fails(op, &error);
        }
        op.failovers = self.failovers;
        op.parents = self.store.with(|tables, _| tables.find_parents(&op.batch));
        if self.store.strikes(Fault::Repeat) {
            let later = self.random.below(3_000);
            self.after(later, WorldEvent::Append(op.clone(), Stage::Read));
        }
        self.later_or_now(op, Stage::Write);
    }

    /// The next statement, with others in between or not.
    fn later_or_now(&mut self, op: AppendOp, stage: Stage) {
        match self.store.strikes(Fault::StaleRead) {
            true => {
                let gap = self.random.between(1, 3_000);
                for append in op.batch.iter().filter(|append| parks(append)) {
                    self.tempt(append.header.execution);
                }
                self.after(gap, WorldEvent::Append(op, stage));
            }
            false => self.append(op, stage),
        }
    }

    fn append_writes(&mut self, mut op: AppendOp) {
        if op.failovers != self.failovers {
            return self.append_fails(op, &StoreError::Unavailable("failover".to_owned()));
        }
        if self.store.inner().full {
            return self.append_fails(op, &StoreError::Full("no space is left".to_owned()));
        }
        if self.is_poisoned(&op.batch) {
            return self.split(op);
        }
        op.inserted = self.store.with(|tables, now| tables.insert(&op.batch, &op.parents, now));
        for (append, inserted) in op.batch.iter().zip(&op.inserted) {
            self.note_frame(op.life, append, matches!(inserted, Inserted::At(_)));
            if let Inserted::At(at) = inserted {
                self.inspect_commit(op.life, append, *at);
                for birth in &append.side.births {
                    self.note_frame(op.life, birth, true);
                    self.inspect_commit(op.life, birth, *at);
                }
            }
        }
        self.watch_triggers(Some((op.life, 0)));
        if self.store.strikes(Fault::LostReply) {
            let lost = StoreError::Unavailable("the reply was lost".to_owned());
            return self.append_fails(op, &lost);
        }
        self.later_or_now(op, Stage::Look);
    }

    fn append_looks(&mut self, op: AppendOp) {
        let looks = !is_planted(Bug::LookBeforeCommit);
        if op.failovers != self.failovers {
            return self.append_fails(op, &StoreError::Unavailable("failover".to_owned()));
        }
        let late = is_planted(Bug::MessageOutsideCommit);
        let answers: Vec<_> = self.store.with(|tables, now| {
            for (append, inserted) in op.batch.iter().zip(&op.inserted).filter(|_| late) {
                if matches!(inserted, Inserted::At(_)) {
                    tables.write_messages_late(append, now);
                }
            }
            if looks {
                tables.wake_parked(&op.batch, &op.inserted, now);
            }
            let frames = op.batch.iter().zip(&op.inserted);
            frames
                .map(|(append, inserted)| {
                    (append.header.execution, tables.outcome(append, *inserted))
                })
                .collect()
        });
        if self.answered.insert(op.group) {
            let latency = self.latency();
            self.after(latency, WorldEvent::Inputs(op.life, vec![Input::Appended(answers)]));
        }
    }

    /// The caller learns only that it failed, and repeats it.
    fn append_fails(&mut self, mut op: AppendOp, error: &StoreError) {
        let life = op.life;
        self.note("failed", &[life.into(), op.group], || format!("p{life} append: {error}"));
        if self.is_alive(life) {
            op.tries += 1;
            op.batch = op.batch.into_iter().map(Append::again).collect();
            let patience = self.patience(op.tries);
            self.after(patience, WorldEvent::Append(op, Stage::Read));
        }
    }

    fn is_poisoned(&mut self, batch: &[Append]) -> bool {
        if self.store.strikes(Fault::Poison) {
            let culprit = self.random.pick(batch).header.append_id;
            // Stored data was accepted before.
            let known = |append: &Append| append.header.append_id == culprit;
            let stored = batch.iter().filter(|append| known(append)).any(|append| {
                self.store.with(|tables, _| {
                    let header = &append.header;
                    tables.frames_from(header.execution, header.first_seq).next().is_some()
                })
            });
            if !stored {
                self.poisoned.insert(culprit);
            }
        }
        batch.iter().any(|append| self.poisoned.contains(&append.header.append_id))
    }

    /// A batch that fails for its data is halved until the culprit is alone.
    fn split(&mut self, op: AppendOp) {
        let AppendOp { life, group, mut batch, .. } = op;
        if !self.answered.insert(group) {
            return; // a repeat of what was split before
        }
        if is_planted(Bug::CommitTagIgnored) {
            let at = self.truth.now();
            let committed = |append: &Append| (append.header.execution, Appended::Committed { at });
            let answers = batch.iter().map(committed).collect();
            return self.reply(life, vec![Input::Appended(answers)]);
        }
        if let [append] = batch.as_slice() {
            let execution = append.header.execution;
            let appended = Appended::Poisoned { reason: POISON.to_owned() };
            self.note("poison", &[life.into()], || format!("p{life} x{}", execution.0));
            let inputs = vec![Input::Appended(vec![(execution, appended)])];
            let latency = self.latency();
            self.after(latency, WorldEvent::Inputs(life, inputs));
            return;
        }
        let half = batch.split_off(batch.len() / 2);
        self.send(life, batch);
        self.send(life, half);
    }

    pub(super) fn perform(&mut self, life: Life, work: StoreWork, tries: u32) {
        if !self.happens(life) {
            return;
        }
        if let StoreWork::Claim { share, limit, only, held, suspects } = &work
            && self.store.strikes(Fault::StaleRead)
            && let Some(store_calls) = self.store_calls.get(&life)
        {
            let (instance, fold, limit) = (store_calls.instance, store_calls.config.fold, *limit);
            let (share, only) = (*share, only.clone());
            let (held, suspects) = (held.clone(), *suspects);
            let ahead = store_calls.config.claim_ahead;
            let request =
                ClaimRequest { instance, fold, limit, share, only, held, suspects, ahead };
            let listed = self.store.with(|tables, now| {
                tables.sweep(now);
                tables.list_claimable(&request, now)
            });
            let gap = self.random.between(1, 3_000);
            return self.after(gap, WorldEvent::Take { life, work, listed });
        }
        self.perform_now(life, work, tries);
    }

    pub(super) fn perform_now(&mut self, life: Life, work: StoreWork, tries: u32) {
        let Some(store_calls) = self.store_calls.get(&life).map(std::sync::Arc::clone) else {
            return;
        };
        let owners = self.owners();
        let owned: Vec<_> = owners.iter().map(|(execution, owner)| (*execution, *owner)).collect();
        let wrong_clock =
            is_planted(Bug::ExpiryByOwnClock) && matches!(work, StoreWork::Claim { .. });
        let own_clock = self.processes.get(&life).map(|process| process.clock.now());
        self.store.inner().claimers_clock = own_clock.filter(|_| wrong_clock);
        if let StoreWork::Hold { execution, .. } = &work {
            let soon = self.random.below(100);
            self.after(soon, WorldEvent::Release(*execution));
        }
        let performed = store_calls.perform(work);
        self.count_deaths(store_calls.instance, &owned);
        self.check_holds();
        self.check_owners(store_calls.instance, &owners);
        self.reply(life, performed.inputs);
        if !self.is_alive(life) {
            return;
        }
        for (work, _) in performed.again {
            let patience = self.patience(tries) + self.latency();
            self.after(patience, WorldEvent::Perform { life, work, tries: tries + 1 });
        }
    }

    pub(super) fn reply(&mut self, life: Life, inputs: Vec<Input>) {
        if !inputs.is_empty() {
            let latency = self.latency();
            self.after(latency, WorldEvent::Inputs(life, inputs));
        }
    }
}

/// The store's error for data that it rejects.
pub(super) const POISON: &str = "the store refuses these bytes";

/// Does a frame take its execution out of memory?
fn parks(append: &Append) -> bool {
    let change = append.side.control.as_ref();
    matches!(change, Some(ControlChange::Parked { .. } | ControlChange::Held { .. }))
}

pub(super) fn is_poison(reason: &str) -> bool {
    reason == POISON
}
