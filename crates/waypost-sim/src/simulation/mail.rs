//! Mail on its way: put into an inbox, then the addressee is woken, then its owner is nudged; and
//! what may come in between.

use std::sync::Arc;

use waypost_core::id::InstanceId;
use waypost_engine::driver::{Input, Outgoing, StoreWork};
use waypost_ports::store::MailDelivery;

use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::process::Life;

impl Simulation {
    pub(super) fn put(&mut self, life: Life, outgoing: Outgoing) {
        if !self.happens(life) {
            return;
        }
        let Some(store_calls) = self.store_calls.get(&life).map(Arc::clone) else { return };
        match store_calls.report_answer(&outgoing) {
            Ok(None) => {}
            Ok(Some(answer)) => {
                return self.reply(life, store_calls.answered(&outgoing, answer).inputs);
            }
            Err(_) => return self.put_again(life, outgoing),
        }
        match store_calls.was_received(&outgoing) {
            Ok(false) if self.store.check(true).is_ok() => {}
            Ok(true) => return self.delivered(life, outgoing, &MailDelivery::Duplicate),
            _ => return self.put_again(life, outgoing),
        }
        let mail = &outgoing.mail;
        let delivery = self.store.with(|tables, _| tables.put(mail));
        let (execution, message) = (mail.execution.0, Arc::clone(&mail.message));
        self.note("mail", &[life.into()], || {
            format!("p{life} to x{execution}: {message} {delivery:?}")
        });
        if self.store.strikes(Fault::LostReply) {
            return self.put_again(life, outgoing.again());
        }
        match delivery {
            MailDelivery::Accepted { .. } if self.store.strikes(Fault::StaleRead) => {
                let gap = self.random.between(1, 3_000);
                self.after(gap, WorldEvent::Wake { life, outgoing });
            }
            MailDelivery::Accepted { .. } => self.wake(life, outgoing),
            other => self.delivered(life, outgoing, &other),
        }
    }

    fn put_again(&mut self, life: Life, outgoing: Outgoing) {
        if self.is_alive(life) {
            let patience = self.patience(3);
            self.after(patience, WorldEvent::Put { life, outgoing });
        }
    }

    pub(super) fn wake(&mut self, life: Life, outgoing: Outgoing) {
        // A process that dies between the two statements leaves mail that has woken no execution.
        if !self.happens(life) {
            return;
        }
        let delivery = self.store.with(|tables, _| tables.wake(&outgoing.mail));
        if let MailDelivery::Accepted { owner: Some(owner) } = delivery {
            self.nudge(owner);
        }
        self.delivered(life, outgoing, &delivery);
    }

    fn delivered(&mut self, life: Life, outgoing: Outgoing, delivery: &MailDelivery) {
        let Some(store_calls) = self.store_calls.get(&life) else { return };
        let performed = store_calls.delivered(outgoing, delivery);
        self.reply(life, performed.inputs);
        for (work, _) in performed.again {
            if let StoreWork::Deliver(outgoing) = work {
                self.put_again(life, outgoing);
            }
        }
    }

    /// A notification to the owner of an execution, which may get lost.
    pub(super) fn nudge(&mut self, owner: InstanceId) {
        let to = self.processes.iter().find(|(_, process)| process.instance == owner);
        let Some(life) = to.map(|(life, _)| *life) else { return };
        if self.store.strikes(Fault::LostNudge) {
            return;
        }
        let late = match self.store.strikes(Fault::LateNudge) {
            true => self.random.between(100, 20_000),
            false => self.random.below(10),
        };
        self.after(late, WorldEvent::Inputs(life, vec![Input::Nudge]));
        if self.store.strikes(Fault::DoubleNudge) {
            self.after(late + 1, WorldEvent::Inputs(life, vec![Input::Nudge]));
        }
    }
}
