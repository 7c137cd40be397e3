//! All drivers of an instance in one thread: routes inputs to them, steps them in turn and merges their
//! outputs. The threads of the shell do the same side by side.

use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::slot::SlotCounts;
use waypost_core::time::{Now, Timestamp};

use super::io::{Input, Output};
use super::routes::route;
use super::sharing::{DRIVERS_MAX, Sibling, part};
use super::{Driver, Measures, Queue, Stopwatch};
use crate::config::Config;
use crate::tokens::TokenIssuer;

/// See the module.
pub struct Drivers {
    drivers: Vec<Driver>,
    /// The inputs of their next steps.
    inputs: Vec<Vec<Input>>,
}

impl Drivers {
    /// As many drivers as the configuration wants, with nothing to do; see [`Driver::new`].
    pub fn new(config: &Config, instance: InstanceId, seed: u128, issuer: &TokenIssuer) -> Self {
        let drivers = driver_family(config, instance, seed, issuer);
        let inputs = drivers.iter().map(|_| Vec::new()).collect();
        Self { drivers, inputs }
    }

    /// Takes inputs, at this time, and returns the outputs of all drivers. What one of them has for
    /// another is done in this step.
    pub fn step(
        &mut self,
        now: impl Into<Now>,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Output>,
    ) {
        let now = now.into();
        let count = self.drivers.len();
        let mut loads: Vec<usize> = self.drivers.iter().map(Driver::load).collect();
        for input in inputs.drain(..) {
            let least = least(loads.iter().copied());
            let starts = matches!(input, Input::Start(_));
            route(input, count, || least, |at, input| self.push(at, input));
            if let Some(load) = loads.get_mut(least).filter(|_| starts) {
                *load += 1;
            }
        }
        // In turn from the driver that forwarded last: of several that wait for a slot, none is always
        // the first.
        let mut at = 0;
        for driver in 0..count {
            if self.step_one(driver, now, outputs) {
                at = driver;
            }
        }
        while self.inputs.iter().any(|inputs| !inputs.is_empty()) {
            at = (at + 1) % count;
            if self.inputs.get(at).is_some_and(|inputs| !inputs.is_empty()) {
                self.step_one(at, now, outputs);
            }
        }
    }

    fn push(&mut self, at: usize, input: Input) {
        if let Some(inputs) = self.inputs.get_mut(at) {
            inputs.push(input);
        }
    }

    /// Returns whether it has forwarded something.
    fn step_one(&mut self, at: usize, now: Now, outputs: &mut Vec<Output>) -> bool {
        let (Some(driver), Some(inputs)) = (self.drivers.get_mut(at), self.inputs.get_mut(at))
        else {
            return false;
        };
        let mut forwarded = false;
        let mut stepped = Vec::new();
        driver.step(now, inputs, &mut stepped);
        for output in stepped {
            match output {
                Output::Forward { to, input } => {
                    forwarded = true;
                    for at in 0..self.drivers.len() {
                        if let Some(copy) = input.copy().filter(|_| to & 1 << at != 0) {
                            self.push(at, copy);
                        }
                    }
                }
                other => outputs.push(other),
            }
        }
        forwarded
    }

    /// When `step` must be called even if nothing comes in.
    pub fn next_wake(&self) -> Timestamp {
        let wakes = self.drivers.iter().map(Driver::next_wake);
        wakes.min().unwrap_or(Timestamp(i64::MAX))
    }

    /// The executions in memory, which this instance owns.
    pub fn owned(&self) -> Vec<ExecutionId> {
        self.drivers.iter().flat_map(Driver::owned).collect()
    }

    /// Executions in memory.
    pub fn live(&self) -> usize {
        self.drivers.iter().map(Driver::live).sum()
    }

    /// What the last steps measured, by driver.
    pub fn measures(&self) -> impl Iterator<Item = &Measures> {
        self.drivers.iter().map(Driver::measures)
    }

    /// The attempts that wait for a slot or for a remote worker. Walks all of them.
    pub fn queue(&self) -> Queue {
        Queue::of_all(&self.drivers.iter().map(Driver::queue).collect::<Vec<_>>())
    }

    /// Attempts that remote workers make.
    pub fn running_remote(&self) -> usize {
        self.drivers.iter().map(Driver::running_remote).sum()
    }

    /// Is everything handed over that `Input::HandOver` found?
    pub fn is_handed_over(&self) -> bool {
        self.drivers.iter().all(Driver::is_handed_over)
    }

    /// Slots that are taken.
    pub fn slots_busy(&self) -> SlotCounts {
        self.drivers.iter().map(Driver::slots_busy).fold(SlotCounts::default(), |all, one| {
            SlotCounts { work: all.work + one.work, io: all.io + one.io }
        })
    }

    /// Measures decisions from now on; see [`Driver::set_stopwatch`].
    pub fn set_stopwatches(&mut self, stopwatch: impl Fn() -> Stopwatch) {
        self.drivers.iter_mut().for_each(|driver| driver.set_stopwatch(stopwatch()));
    }

    /// Is nothing running here and nothing on its way to the store?
    pub fn is_quiet(&self) -> bool {
        self.drivers.iter().all(Driver::is_quiet)
    }
}

/// The first of those with the least to do.
pub(crate) fn least(loads: impl Iterator<Item = usize>) -> usize {
    loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(at, _)| at)
}

/// The drivers of one instance, as many as the configuration wants; see [`Driver::new`].
pub(crate) fn driver_family(
    config: &Config,
    instance: InstanceId,
    seed: u128,
    issuer: &TokenIssuer,
) -> Vec<Driver> {
    let siblings =
        Sibling::all(config.driver_count(), SlotCounts { work: config.slots, io: config.io_slots });
    // Far apart: seeds of other instances may be close to each other.
    let seeds = (0..DRIVERS_MAX).map(|at| seed ^ u128::from(at) << 120);
    let driver = |(sibling, seed): (Sibling, u128)| {
        let config = Config {
            active_max: part(config.active_max, sibling.share).max(1),
            remote_max: part(config.remote_max, sibling.share),
            ..config.clone()
        };
        Driver::with(config, instance, seed, issuer.clone(), sibling)
    };
    siblings.zip(seeds).map(driver).collect()
}
