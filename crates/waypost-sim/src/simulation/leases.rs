//! Leases: processes send signs of life, and learn the store's time from the answer.

use waypost_core::time::Millis;
use waypost_engine::driver::Input;
use waypost_ports::clock::Clock;
use waypost_ports::store::{LEASE, Renewal};

use super::{Simulation, WorldEvent};
use crate::process::Life;

impl Simulation {
    pub(super) fn heartbeat(&mut self, life: Life) {
        let Some(process) = self.processes.get(&life) else { return };
        let every = process.store_calls.config.heartbeat_every.0;
        self.after(every, WorldEvent::Heartbeat(life));
        if self.processes.get(&life).is_some_and(|process| process.suspended.is_none()) {
            self.heartbeat_now(life, 0);
        }
    }

    pub(super) fn heartbeat_now(&mut self, life: Life, numbers: u32) {
        let Some(process) = self.processes.get(&life) else { return };
        let sent = process.clock.steady();
        let latency = self.latency();
        self.after(latency, WorldEvent::Renew { life, sent, numbers });
    }

    pub(super) fn renew(&mut self, life: Life, sent: Millis, numbers: u32) {
        if !self.happens(life) {
            return;
        }
        let Some(store_calls) = self.store_calls.get(&life).map(std::sync::Arc::clone) else {
            return;
        };
        match store_calls.heartbeat(numbers, false) {
            Ok(renewal) => {
                let latency = self.latency();
                self.after(latency, WorldEvent::Renewed { life, sent, renewal });
            }
            Err(_) if self.is_alive(life) => {
                let patience = 1_000 + self.random.below(10);
                self.after(patience, WorldEvent::Renew { life, sent, numbers });
            }
            Err(_) => {}
        }
    }

    pub(super) fn renewed(&mut self, life: Life, sent: Millis, renewal: Renewal) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        if let Some(later) = &mut process.suspended {
            later.push(WorldEvent::Renewed { life, sent, renewal });
            return;
        }
        process.time.observe(sent, renewal.now, &*process.clock);
        process.open = true;
        let until = renewal.now.plus(LEASE);
        let mut inputs = vec![Input::Renewed { until }, Input::Readable(renewal.fold)];
        if !renewal.numbers.is_empty() {
            inputs.push(Input::Numbers(renewal.numbers));
        }
        self.inputs(life, inputs);
    }

    /// The last heartbeat, which may not get through.
    pub(super) fn say_goodbye(&self, life: Life) {
        if let Some(store_calls) = self.store_calls.get(&life) {
            drop(store_calls.heartbeat(0, true));
        }
    }
}
