//! Fate: machines and their processes, what happens to them and to the store; and the end of the faults.

use std::sync::Arc;

use uuid::Uuid;
use waypost_core::event::LOG_FORMAT;
use waypost_core::id::InstanceId;
use waypost_core::planted::{Bug, is_planted};
use waypost_engine::driver::Input;
use waypost_ports::store::LEASE;

use super::{Machine, Simulation, WorldEvent};
use crate::clock::MachineClock;
use crate::fault::Fault;
use crate::process::{Birth, Life, Process};

/// The log format of the version before this one, which cannot read newer frames.
const OLD_LOG_FORMAT: u16 = LOG_FORMAT - 1;

impl Simulation {
    pub(super) fn build_machines(&mut self) {
        let count = self.random.between(1, 3);
        for machine in 0..usize::try_from(count).unwrap_or(1) {
            let far = |random: &mut crate::random::Random, ms: i64| {
                let span = u64::try_from(2 * ms).unwrap_or(0);
                i64::try_from(random.below(span)).unwrap_or(0) - ms
            };
            let offset = match self.store.strikes(Fault::Skew) {
                true => far(&mut self.random, 600_000),
                false => 0,
            };
            // Within the tolerance of the engine: a clock that is worse is broken, not wrong.
            let drift = match self.store.strikes(Fault::Drift) {
                true => far(&mut self.random, 400),
                false => 0,
            };
            let old = machine > 0 && self.store.strikes(Fault::OldVersion);
            let fold = if old { OLD_LOG_FORMAT } else { LOG_FORMAT };
            let clock = Arc::new(MachineClock::new(self.truth.clone(), offset, drift));
            self.machines.push(Machine { clock, fold, life: None });
            let soon = self.random.below(50);
            self.after(soon, WorldEvent::Start { machine });
        }
    }

    /// Starts a process. It sends a heartbeat to the store; before the answer comes it does
    /// nothing.
    pub(super) fn start(&mut self, machine: usize) {
        // An older version that lives on would keep what only a newer one has made remotely.
        let outlived = self.faults_over && self.machines[machine].fold < LOG_FORMAT;
        if self.machines[machine].life.is_some() || outlived {
            return;
        }
        self.lives += 1;
        let life = self.lives;
        let Machine { clock, fold, .. } = &self.machines[machine];
        let birth = Birth {
            machine,
            instance: instance_id(machine, life),
            fold: *fold,
            // In some worlds an older version can read nothing of a newer one's, in others all that
            // it could have written itself.
            log_format_min: if self.far.upgraded { *fold } else { 1 },
            clock: Arc::clone(clock),
            map_results_bytes_max: self.blobs.map_results_bytes_max(),
        };
        let process = Process::start(birth, &mut self.random, &self.store, &self.plans);
        let numbers = process.store_calls.config.numbers_wanted();
        self.note("start", &[life.into(), machine as u64], || format!("p{life} on m{machine}"));
        self.machines[machine].life = Some(life);
        self.store_calls.insert(life, Arc::clone(&process.store_calls));
        self.processes.insert(life, process);
        self.start_triggers(life);
        self.heartbeat_now(life, numbers);
        self.after(5_000, WorldEvent::Heartbeat(life));
    }

    /// A process that can be talked to.
    pub(super) fn any_process(&mut self) -> Option<Life> {
        let awake = |(life, process): (&Life, &Process)| {
            (process.open && process.suspended.is_none() && !process.draining).then_some(*life)
        };
        let lives: Vec<Life> = self.processes.iter().filter_map(awake).collect();
        (!lives.is_empty()).then(|| *self.random.pick(&lives))
    }

    pub(super) fn instance_of(&self, life: Life) -> Option<InstanceId> {
        self.store_calls.get(&life).map(|store_calls| store_calls.instance)
    }

    pub(super) fn kill(&mut self, life: Life) {
        let Some(process) = self.processes.remove(&life) else { return };
        self.note("kill", &[life.into()], || format!("p{life}"));
        self.stop_triggers(life);
        self.machines[process.machine].life = None;
        let later = self.random.below(LEASE.0 + 5_000);
        if !self.faults_over {
            self.after(later, WorldEvent::Start { machine: process.machine });
        }
    }

    pub(super) fn resume(&mut self, life: Life) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        let Some(missed) = process.suspended.take() else { return };
        process.step_at = None;
        self.note("wake", &[life.into()], || format!("p{life}"));
        // Everything that came meanwhile is there at once, in any order.
        for event in missed {
            let soon = self.random.below(20);
            self.after(soon, event);
        }
        self.heartbeat_now(life, 0);
        self.poke(life);
    }

    /// As the engine thread does at the deadline of a drain: it waits for the commit, but not for long.
    pub(super) fn hand_over(&mut self, life: Life) {
        self.inputs(life, vec![Input::HandOver]);
        let soon = self.random.below(2_000);
        self.after(soon, WorldEvent::Leave(life));
    }

    pub(super) fn leave(&mut self, life: Life) {
        if self.processes.contains_key(&life) {
            self.say_goodbye(life);
            self.kill(life);
        }
    }

    /// Something may go wrong.
    pub(super) fn fate(&mut self) {
        if self.faults_over {
            return;
        }
        let next = self.random.between(100, 2_500);
        self.after(next, WorldEvent::Fate);
        let Some(life) = self.any_process() else { return };
        if self.store.strikes(Fault::Kill) {
            return self.kill(life);
        }
        if self.store.strikes(Fault::Suspend) {
            let ms = self.random.between(100, 3 * LEASE.0);
            self.note("suspend", &[life.into(), ms], || format!("p{life} for {ms} ms"));
            if let Some(process) = self.processes.get_mut(&life) {
                process.suspended = Some(Vec::new());
                self.after(ms, WorldEvent::Resume(life));
            }
        }
        if self.store.strikes(Fault::Drains) {
            self.note("drain", &[life.into()], || format!("p{life}"));
            self.inputs(life, vec![Input::Drain]);
            if let Some(process) = self.processes.get_mut(&life) {
                process.draining = true;
                let grace = self.random.below(10_000);
                self.after(grace, WorldEvent::HandOver(life));
            }
        }
        self.shake_machine(life);
        self.shake_store();
        self.shake_blobs();
        self.shake_far();
    }

    fn shake_machine(&mut self, life: Life) {
        if self.store.strikes(Fault::Step)
            && let Some(process) = self.processes.get(&life)
        {
            let ms = i64::try_from(self.random.below(240_000)).unwrap_or(0) - 120_000;
            process.clock.step(ms);
            self.note("step", &[life.into()], || format!("p{life}'s clock is set by {ms} ms"));
        }
    }

    fn shake_store(&mut self) {
        if self.store.strikes(Fault::Outage) {
            let ms = self.random.between(100, 2 * LEASE.0);
            self.note("outage", &[ms], || format!("{ms} ms"));
            self.store.inner().outage = true;
            self.after(ms, WorldEvent::OutageEnds);
        }
        if self.store.strikes(Fault::Full) {
            let ms = self.random.between(100, LEASE.0);
            self.note("full", &[ms], || format!("{ms} ms"));
            self.store.inner().full = true;
            self.after(ms, WorldEvent::SpaceComes);
        }
        if self.store.strikes(Fault::CacheLost) {
            self.spoil_snapshots(|_, _| None);
        }
        if self.store.strikes(Fault::CacheSpoiled) {
            self.spoil_snapshots(|random, mut snapshot| {
                match random.below(3) {
                    0 => snapshot.body = b"{}".to_vec(),
                    1 => snapshot.seq += 1,
                    _ => snapshot.body.truncate(random.index(snapshot.body.len().max(1))),
                }
                Some(snapshot)
            });
        }
        self.shake_replica();
    }

    fn spoil_snapshots(
        &mut self,
        spoil: impl Fn(
            &mut crate::random::Random,
            waypost_ports::store::Snapshot,
        ) -> Option<waypost_ports::store::Snapshot>,
    ) {
        let random = &mut self.random;
        self.store.with(|tables, _| {
            for execution in tables.executions() {
                tables.spoil_snapshot(execution, |snapshot| spoil(random, snapshot));
            }
        });
    }

    /// A replica falls behind, and later becomes the store: the commits in between are lost, which
    /// is unavoidable. But no later commit may build on a lost one.
    fn shake_replica(&mut self) {
        if !self.store.strikes(Fault::LostSuffix) {
            return;
        }
        match self.replica.take() {
            None => {
                let copy = self.store.inner().tables.clone();
                self.replica = Some((copy, self.ms()));
            }
            Some((behind, since)) => {
                self.note("failover", &[since], || format!("everything since {since} ms is lost"));
                let mut inner = self.store.inner();
                inner.tables = behind;
                drop(inner);
                self.failovers += 1;
                self.people.forget_since(since);
                self.reread_logs();
                self.reread_announced();
                self.rewatch_triggers();
                self.forget_killer();
                self.far_say_again();
            }
        }
    }

    /// All faults end: the store works, one process stays (the newest version, which can read
    /// everything), and its clock stays as wrong as it is.
    pub(super) fn end_faults(&mut self) {
        self.note("faults-end", &[], String::new);
        self.faults_over = true;
        {
            let mut inner = self.store.inner();
            inner.weather.end_faults();
            inner.outage = false;
            inner.full = false;
        }
        self.blobs.failing = false;
        self.poisoned.clear();
        self.far.end_faults();
        let lives: Vec<Life> = self.processes.keys().copied().collect();
        for life in lives {
            let stays = self
                .processes
                .get(&life)
                .is_some_and(|process| process.machine == 0 && !process.draining);
            if stays {
                self.resume(life);
            } else {
                self.kills += 1;
                self.kill(life);
            }
        }
        if self.machines[0].life.is_none() {
            self.after(1, WorldEvent::Start { machine: 0 });
        }
        self.after(3_000, WorldEvent::Care);
    }
}

/// A new id for every life.
fn instance_id(machine: usize, life: Life) -> InstanceId {
    let life = if is_planted(Bug::IdByHostName) { 0 } else { life };
    let machine = u128::try_from(machine).unwrap_or(0);
    InstanceId(Uuid::from_u128((machine + 1) << 32 | u128::from(life)))
}
