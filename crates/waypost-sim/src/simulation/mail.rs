//! Mail on its way: put into an inbox, then the addressee is woken, then its owner is nudged; and
//! what may come in between.

use waypost_core::id::InstanceId;
use waypost_engine::Work;
use waypost_engine::driver::{Input, Ticket};
use waypost_ports::store::{Delivery, Mail};

use super::{Event, Simulation};
use crate::fault::Fault;
use crate::process::Life;

impl Simulation {
    pub(super) fn put(&mut self, life: Life, mail: Mail, ticket: Ticket) {
        if !self.happens(life) {
            return;
        }
        if self.store.check(true).is_err() {
            return self.put_again(life, mail, ticket);
        }
        let delivery = self.store.with(|tables, _| tables.put(&mail));
        self.note("mail", &[life.into()], || {
            format!("p{life} to x{}: {} {delivery:?}", mail.execution.0, mail.message)
        });
        if self.store.strikes(Fault::LostReply) {
            return self.put_again(life, mail, ticket);
        }
        match delivery {
            Delivery::Accepted { .. } if self.store.strikes(Fault::StaleRead) => {
                let gap = self.random.between(1, 3_000);
                self.after(gap, Event::Wake { life, mail, ticket });
            }
            Delivery::Accepted { .. } => self.wake(life, mail, ticket),
            other => self.delivered(life, mail, ticket, &other),
        }
    }

    fn put_again(&mut self, life: Life, mail: Mail, ticket: Ticket) {
        if self.is_alive(life) {
            let patience = self.patience(3);
            self.after(patience, Event::Put { life, mail, ticket });
        }
    }

    pub(super) fn wake(&mut self, life: Life, mail: Mail, ticket: Ticket) {
        // A process that dies between the two statements leaves mail that nobody was woken for.
        if !self.happens(life) {
            return;
        }
        let delivery = self.store.with(|tables, _| tables.wake(&mail));
        if let Delivery::Accepted { owner: Some(owner) } = delivery {
            self.nudge(owner);
        }
        self.delivered(life, mail, ticket, &delivery);
    }

    fn delivered(&mut self, life: Life, mail: Mail, ticket: Ticket, delivery: &Delivery) {
        let Some(clerk) = self.clerks.get(&life) else { return };
        let performed = clerk.delivered(mail, ticket, Some(delivery));
        self.reply(life, performed.inputs);
        for (work, _) in performed.again {
            if let Work::Deliver { mail, ticket } = work {
                self.put_again(life, mail, ticket);
            }
        }
    }

    /// A hint to whoever owns an execution, which may get lost.
    fn nudge(&mut self, owner: InstanceId) {
        let to = self.processes.iter().find(|(_, process)| process.instance == owner);
        let Some(life) = to.map(|(life, _)| *life) else { return };
        if self.store.strikes(Fault::LostNudge) {
            return;
        }
        let late = match self.store.strikes(Fault::LateNudge) {
            true => self.random.between(100, 20_000),
            false => self.random.below(10),
        };
        self.after(late, Event::Inputs(life, vec![Input::Nudge]));
        if self.store.strikes(Fault::DoubleNudge) {
            self.after(late + 1, Event::Inputs(life, vec![Input::Nudge]));
        }
    }
}
