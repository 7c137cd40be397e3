//! An execution that kills every process that decides it: an abort, a stack that overflows, memory
//! that runs out. The product must find it among all others, quarantine it and continue with the
//! rest.

use std::collections::BTreeMap;

use waypost_core::event::{Event as LogEvent, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_engine::driver::{Output, StoreWork};
use waypost_ports::store::{Append, ControlChange, SUSPECT_FROM, Settled};

use super::people::LABEL;
use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::process::Life;
use crate::random::Random;

/// Part of the reason of an execution that was quarantined for deaths.
const KILLED: &str = "processes died with this execution in hand";

/// See the module.
pub(super) struct Killer {
    execution: Option<ExecutionNo>,
    /// Does it let its take-over be committed, and kill with the decision after it?
    spares_take_overs: bool,
    random: Random,
    /// How often each execution was taken from an owner that died, since it last made progress.
    deaths: BTreeMap<ExecutionNo, u32>,
}

impl Killer {
    pub(super) fn new(seed: &Random) -> Self {
        let mut random = seed.split("killer's manner");
        let (execution, deaths) = (None, BTreeMap::new());
        Self { execution, spares_take_overs: random.percent(50), random, deaths }
    }

    /// Has a process decided it?
    pub(super) fn strikes(&self, outputs: &[Output]) -> bool {
        let kills = |append: &Append| {
            let take_over = || {
                let events = decode(&append.body).unwrap_or_default();
                events.iter().any(|event| matches!(event, LogEvent::Run(RunEvent::Owned { .. })))
            };
            Some(append.header.execution) == self.execution
                && append.header.parent.is_some()
                && !(self.spares_take_overs && take_over())
        };
        let struck = |output: &Output| match output {
            Output::Store(StoreWork::Append(append)) => kills(append),
            _ => false,
        };
        outputs.iter().any(struck)
    }

    pub(super) fn is(&self, execution: ExecutionNo) -> bool {
        self.execution == Some(execution)
    }
}

impl Simulation {
    /// A process dies in the middle of a step: none of its outputs leaves it.
    pub(super) fn die_deciding(&mut self, life: Life) {
        self.note("killed", &[life.into()], || format!("p{life} by what it decides"));
        let machine = self.processes.get(&life).map(|process| process.machine);
        self.kills += 1;
        self.kill(life);
        if let Some(machine) = machine.filter(|_| self.faults_over) {
            self.after(1_000, WorldEvent::Start { machine });
        }
    }

    /// A new execution may turn out to be the one. Others must not wait for it in a line.
    pub(super) fn may_be_killer(&mut self, execution: ExecutionNo) {
        if self.killer.execution.is_some() || self.auditor.failed_over {
            return;
        }
        let state = self.auditor.state(execution);
        // Nor must a parent.
        let state = state.filter(|state| state.created.parent.is_none());
        let label = state.and_then(|state| state.created.labels.get(LABEL));
        let at = label.and_then(|label| label.parse::<usize>().ok());
        let keyed = at.and_then(|at| self.people.submissions.get(at));
        if keyed.is_none_or(|submission| submission.program.keyed.is_some()) {
            return;
        }
        let mut inner = self.store.inner();
        if inner.weather.strikes_apart(Fault::Killer, &mut self.killer.random) {
            self.killer.execution = Some(execution);
        }
    }

    /// Is it quarantined? Then the world may rest without its end.
    pub(super) fn is_killer_aside(&self, execution: ExecutionNo) -> bool {
        let held = self.store.with(|tables, _| {
            tables.control(execution).is_some_and(|control| control.held.is_some())
        });
        let state = self.auditor.state(execution);
        let quarantined = state.is_some_and(|state| state.quarantine.is_some());
        self.killer.is(execution) && (held || quarantined)
    }

    /// An execution that was lost with a store that failed over may come again under the same
    /// number.
    pub(super) fn forget_killer(&mut self) {
        self.killer.execution = None;
        self.killer.deaths = self.store.with(|tables, _| {
            tables.controls().map(|(execution, control)| (execution, control.crashes)).collect()
        });
    }

    /// A claim was made: each execution that it took from a dead owner has one death more.
    pub(super) fn count_deaths(&mut self, by: InstanceId, before: &[(ExecutionNo, InstanceId)]) {
        let after = self.owners();
        for (execution, owner) in before {
            let (left, held) = self.store.with(|tables, _| {
                let held = |reason: &String| reason.contains(KILLED);
                let control = tables.control(*execution);
                (
                    tables.has_left(*owner),
                    control.and_then(|row| row.held.as_ref()).is_some_and(held),
                )
            });
            // The claim with the last death quarantines it at once, and leaves it without an owner.
            let taken = after.get(execution) == Some(&by) || held;
            if *owner != by && taken && !left {
                *self.killer.deaths.entry(*execution).or_default() += 1;
            }
        }
        let wrong = self.store.with(|tables, _| {
            tables.controls().find_map(|(execution, control)| {
                let deaths = self.killer.deaths.get(&execution).copied().unwrap_or(0);
                (control.crashes > deaths).then_some((execution, control.crashes, deaths))
            })
        });
        if let Some((execution, crashes, deaths)) = wrong {
            let what = format!(
                "x{}: {crashes} deaths count against it, and {deaths} were with it in hand since its \
                 last progress",
                execution.0
            );
            self.fail("crashes", what);
        }
    }

    /// A frame is durable: does it clear the deaths before it?
    pub(super) fn clear_deaths(&mut self, append: &Append) {
        let rests = !matches!(append.side.control, None | Some(ControlChange::Owned));
        if rests || append.side.settled == Some(Settled::Progress) {
            self.killer.deaths.remove(&append.header.execution);
        }
    }

    /// No execution is quarantined after too few deaths.
    pub(super) fn check_killed(&mut self, execution: ExecutionNo, reason: &str) {
        if !reason.contains(KILLED) {
            return;
        }
        let most = self
            .store_calls
            .values()
            .next()
            .map_or(0, |store_calls| store_calls.config.crashes_max);
        let deaths = self.killer.deaths.remove(&execution);
        if deaths.is_some_and(|deaths| deaths < SUSPECT_FROM + most) {
            let what = format!("x{} is set aside after {deaths:?} deaths: {reason}", execution.0);
            self.fail("crashes", what);
        }
    }
}
