//! People: they send signals, pause, resume and cancel, through the engine's own target or with the
//! program, at any time.

use super::guests::GUESTS_MAX;
use super::ledger::Request;
use super::round::Round;
use super::workload;

impl Round<'_> {
    /// Somebody may want something of an execution that was just acknowledged, or of another one.
    pub(super) fn people(&mut self, n: u64) {
        if !self.whims.percent(35) {
            return;
        }
        let n = match self.whims.percent(60) {
            true => n,
            false => {
                let open =
                    self.ledger.numbers(|entry| entry.execution.is_some() && entry.is_open());
                if open.is_empty() { n } else { *self.whims.pick(&open) }
            }
        };
        let request = self.request(n);
        if self.guests.count() < GUESTS_MAX && self.whims.percent(25) {
            self.ask_as_guest(n, &request);
        } else {
            self.ask(n, &request);
        }
        if matches!(request, Request::Pause { .. }) && self.whims.percent(60) {
            self.ask(n, &Request::Resume);
        }
    }

    /// What somebody may want.
    pub(super) fn request(&mut self, n: u64) -> Request {
        let signals = self.ledger.entry(n).submission.program.signals();
        match self.whims.below(100) {
            0..12 => Request::Pause { now: self.whims.percent(50) },
            12..18 => Request::Resume,
            18..26 => Request::Cancel,
            // Others wait for nothing; a signal to them is kept, and changes nothing.
            _ => {
                let all = waypost_sim::program::Signal::ALL;
                let from: &[_] = if signals.is_empty() { &all } else { &signals };
                let signal = *self.whims.pick(from);
                let body = signal.body(self.ledger.serial(), self.whims.percent(85));
                Request::Signal { signal, body }
            }
        }
    }

    /// Asks through the engine's own target.
    pub(super) fn ask(&mut self, n: u64, request: &Request) {
        let id = self.ledger.serial();
        self.ledger.ask(id, n, request);
        self.order(&request.order(id, n));
    }

    /// Asks with the program.
    pub(super) fn ask_as_guest(&mut self, n: u64, request: &Request) {
        let id = self.ledger.serial();
        self.ledger.ask(id, n, request);
        let arguments = request.arguments(id, &workload::key(self.seed, n).0);
        // A signal that is sent twice under one id counts once.
        let twice = matches!(request, Request::Signal { .. }) && self.whims.percent(30);
        for _ in 0..1 + u64::from(twice) {
            self.guests.start(&self.program, id, arguments.clone());
            self.tally.guests += 1;
        }
    }
}
