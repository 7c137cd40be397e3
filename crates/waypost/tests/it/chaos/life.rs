//! One life of the engine: a start, some work, some trouble, an end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rustix::process::Signal;

use super::process::Engine;
use super::round::{Round, Seen};
use super::victim::Parameters;
use super::workload;

/// Submissions on their way at a time.
const WINDOW: usize = 8;
/// Submissions of one life.
const SUBMISSIONS_MAX: u64 = 60;
/// Nothing has happened for this long, and nothing more is submitted: what is left waits.
pub(super) const QUIET: Duration = Duration::from_millis(300);

/// How much work to see before the next thing happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    Acks(u64),
    Calls(u64),
    Commits(u64),
    Ends(u64),
}

impl Until {
    fn is_reached(self, seen: &Seen) -> bool {
        match self {
            Self::Acks(count) => seen.acks >= count,
            Self::Calls(count) => seen.calls >= count,
            Self::Commits(count) => seen.commits >= count,
            Self::Ends(count) => seen.ends >= count,
        }
    }
}

impl Round<'_> {
    pub(super) fn live(&mut self) -> Result<()> {
        if self.random.percent(20) {
            let stage = *self.random.pick(&["begun", "stored", "open"]);
            ensure!(self.start(stage)?, "no start: {:?}", self.seen.failed);
            return self.kill();
        }
        ensure!(self.start("open")?, "no start: {:?}", self.seen.failed);
        for _ in 0..self.random.between(0, 2) {
            let until = self.moment();
            self.work(until)?;
            match self.random.below(4) {
                0 => self.stop()?,
                1 | 2 => self.fill()?,
                _ => self.check()?,
            }
        }
        let until = self.moment();
        self.work(until)?;
        if self.random.percent(75) { self.kill() } else { self.terminate() }
    }

    fn moment(&mut self) -> Until {
        let Seen { acks, calls, commits, ends, .. } = self.seen;
        match self.random.below(5) {
            0 => Until::Acks(acks + self.random.between(1, 25)),
            1 => Until::Calls(calls + self.random.between(1, 60)),
            2 => Until::Commits(commits + self.random.between(1, 300)),
            _ => Until::Ends(ends + self.random.between(1, 40)),
        }
    }

    /// Starts a victim and waits until it got so far. False where it gave up.
    pub(super) fn start(&mut self, stage: &str) -> Result<bool> {
        loop {
            self.seen = Seen::default();
            self.narrow = workload::temper(self.seed, self.life).narrow;
            if self.narrow {
                self.ledger.late();
            }
            let parameters = Parameters {
                folder: self.program.data(),
                sink: self.sink.url(),
                seed: self.seed,
                life: self.life,
            };
            self.engine = Some(Engine::start(parameters.command(), &self.sender));
            while self.seen.stage != stage && self.seen.failed.is_none() {
                self.next(stage)?;
            }
            let Some(failed) = &self.seen.failed else { break };
            let in_use = failed.contains("in use");
            self.gave_up()?;
            if !in_use {
                return Ok(false);
            }
            // A guest found no engine and is one for a moment.
            self.guests.wait(&mut self.ledger)?;
        }
        if stage == "open" {
            self.submit_again();
        }
        Ok(true)
    }

    fn gave_up(&mut self) -> Result<()> {
        self.drain()?;
        if let Some(engine) = self.engine.take() {
            engine.wait()?;
        }
        Ok(())
    }

    /// Submits again what may or may not have arrived, and some of what has.
    fn submit_again(&mut self) {
        let mut again = self.ledger.numbers(|entry| entry.execution.is_none());
        let known = self.ledger.numbers(|entry| entry.execution.is_some());
        if !known.is_empty() {
            again.extend([*self.random.pick(&known), *self.random.pick(&known)]);
        }
        again.into_iter().for_each(|n| self.submit(n));
    }

    /// Keeps some submissions on their way, up to so many in this life.
    pub(super) fn submit_more(&mut self, max: u64) {
        while self.outstanding.len() < WINDOW && self.seen.submitted < max {
            let n = self.ledger.open(self.seed, &self.sink.url());
            self.seen.submitted += 1;
            self.submit(n);
        }
    }

    pub(super) fn submit(&mut self, n: u64) {
        self.ledger.entry(n).world.late |= self.narrow;
        self.outstanding.insert(n, Instant::now());
        self.order(&format!("submit {n}"));
    }

    pub(super) fn order(&mut self, order: &str) {
        if let Some(engine) = &mut self.engine {
            engine.order(order);
        }
    }

    /// Keeps the engine busy until something has been seen.
    pub(super) fn work(&mut self, until: Until) -> Result<()> {
        while !until.is_reached(&self.seen) {
            self.submit_more(SUBMISSIONS_MAX);
            if self.outstanding.is_empty() {
                if !self.listen(QUIET)? {
                    return Ok(());
                }
            } else {
                self.next(&format!("{until:?}"))?;
            }
            self.guests.look(&mut self.ledger)?;
        }
        Ok(())
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        let Some(engine) = self.engine.take() else { bail!("there is nobody to kill") };
        engine.kill();
        self.tally.kills += 1;
        self.drain()?;
        self.ledger.lost();
        Ok(())
    }

    fn terminate(&mut self) -> Result<()> {
        let Some(engine) = self.engine.take() else { bail!("there is nobody to stop") };
        engine.signal(Signal::TERM);
        self.tally.terminations += 1;
        self.drain()?;
        let status = engine.wait()?;
        ensure!(status.success(), "told to end, the process ended with {status}");
        self.ledger.lost();
        Ok(())
    }
}
