//! What goes wrong besides death: a process that stands still, a disk that is full, files that are
//! gone or damaged between two lives.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rusqlite::Connection;
use rustix::process::Signal;
use waypost::wiring;
use waypost_ports::query::Query;

use super::life::{QUIET, Until};
use super::process::Engine;
use super::round::{Round, Seen};
use super::{guests, workload};

/// After this long without a heartbeat an engine starts nothing more, and what it holds may be lost:
/// two thirds of the lease.
const LEASE_AT_RISK: Duration = Duration::from_secs(9);

impl Round<'_> {
    /// SIGSTOP, a while, SIGCONT.
    pub(super) fn stop(&mut self) -> Result<()> {
        let span = match self.tally.patient && self.random.percent(15) {
            true => Duration::from_secs(self.random.between(14, 20)),
            false => Duration::from_millis(self.random.between(50, 1_500)),
        };
        self.signal(Signal::STOP);
        self.tally.stops += 1;
        let until = Instant::now() + span;
        if self.random.percent(50) {
            // Nobody writes now, and maybe somebody holds the lock for writing; readers do not care.
            let ran = self.program.run(&["list", "-o", "json"]);
            ensure!(ran.code == 0, "waypost list exited {}: {}", ran.code, ran.err);
        }
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.listen(left)?;
        }
        self.ledger.late();
        if span > LEASE_AT_RISK {
            self.ledger.lost();
        }
        self.signal(Signal::CONT);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(engine) = &self.engine {
            engine.signal(signal);
        }
    }

    /// A full disk under a busy engine; sometimes it dies there, and starts there.
    pub(super) fn fill(&mut self) -> Result<()> {
        let Some(engine) = &self.engine else { return Ok(()) };
        self.disk.fill(engine.pid());
        self.tally.fills += 1;
        let since = Instant::now();
        let enough = self.seen.acks + 30;
        while !self.seen.full && self.seen.acks < enough {
            self.submit_more(u64::MAX);
            self.next("the store to be full")?;
        }
        let linger = Instant::now() + Duration::from_millis(self.random.between(0, 700));
        while let Some(left) = linger.checked_duration_since(Instant::now()) {
            self.listen(left)?;
        }
        let dies = self.random.percent(40);
        if dies {
            self.kill()?;
            if self.random.percent(50) {
                // It may say that the disk is full and give up, or start and wait.
                self.start("open")?;
            }
        }
        self.disk.free(self.engine.as_ref().map(Engine::pid));
        self.ledger.late();
        if since.elapsed() > LEASE_AT_RISK {
            self.ledger.lost();
        }
        if self.engine.is_none() {
            ensure!(self.start("open")?, "no start after a full disk: {:?}", self.seen.failed);
        }
        let until = Until::Acks(self.seen.acks + 3);
        self.work(until)
    }

    /// The checker, as a guest of an engine that is busy.
    pub(super) fn check(&mut self) -> Result<()> {
        if !self.snapshots_damaged {
            guests::check(&self.program)?;
            self.tally.checks += 1;
        }
        Ok(())
    }

    pub(super) fn between_lives(&mut self) -> Result<()> {
        if self.random.percent(25) {
            self.guests.wait(&mut self.ledger)?;
            for name in ["projections.db", "projections.db-wal", "projections.db-shm"] {
                // They may not be there yet.
                std::fs::remove_file(self.program.data().join(name)).unwrap_or_default();
            }
        }
        if self.random.percent(25) {
            self.damage_snapshots();
        }
        if self.random.percent(30) {
            let open = self.ledger.numbers(|entry| entry.execution.is_some() && entry.is_open());
            for _ in 0..self.random.between(1, 3) {
                if !open.is_empty() {
                    let n = *self.random.pick(&open);
                    let request = self.request(n);
                    self.ask_as_guest(n, &request);
                }
            }
        }
        if self.random.percent(30) {
            self.run_one()?;
        }
        // The next life may meet those who found no engine, and are one for a moment.
        if self.random.percent(50) { self.guests.wait(&mut self.ledger) } else { Ok(()) }
    }

    /// Every other snapshot becomes something else: with the wrong checksum, or with the right one
    /// and no sense.
    fn damage_snapshots(&mut self) {
        let path = self.program.data().join("log.db");
        if !path.exists() {
            return;
        }
        let sense = self.random.percent(50);
        let log = Connection::open(path).unwrap();
        log.busy_timeout(Duration::from_secs(10)).unwrap();
        let body = b"{\"not\":\"a state\"}".as_slice();
        let checksum = xxhash_rust::xxh3::xxh3_64(body).cast_signed();
        let damaged = match sense {
            true => log.execute(
                "UPDATE snapshots SET body = ?1, checksum = ?2 WHERE execution % 2 = 0",
                (body, checksum),
            ),
            false => log
                .execute("UPDATE snapshots SET body = substr(body, 2) WHERE execution % 2 = 1", ()),
        };
        // Where an engine was killed before it had made its tables, there are none to damage.
        let damaged = damaged.unwrap_or(0);
        self.snapshots_damaged |= damaged > 0;
        self.tally.snapshots_damaged += u64::try_from(damaged).expect("a count is small");
    }

    /// `waypost run`, which is killed, told to end, or ends by itself.
    fn run_one(&mut self) -> Result<()> {
        self.guests.wait(&mut self.ledger)?;
        let n = self.ledger.open(self.seed, &self.sink.url());
        self.seen = Seen::default();
        let engine = Engine::start(self.run_command(n), &self.sender);
        // Now and then it does not even get to its first line.
        let (acks, calls) = (u64::from(self.random.percent(80)), self.random.below(3));
        while !self.seen.closed && self.seen.acks < acks {
            self.next("waypost run to name its execution")?;
        }
        while !self.seen.closed && self.seen.calls < calls && self.listen(QUIET)? {}
        if self.random.percent(30) {
            engine.signal(Signal::TERM);
            self.drain()?;
            engine.wait()?;
        } else {
            engine.kill();
            self.drain()?;
        }
        self.tally.runs += 1;
        self.ledger.lost();
        ensure!(self.seen.acks >= acks, "waypost run did not name its execution");
        if self.seen.acks > 0 {
            let key = workload::key(self.seed, n);
            let found = wiring::open_store(&self.program.data())?.find(Some(&key.0))?;
            ensure!(found.is_some(), "waypost run named {} and it is not there", key.0);
            self.ledger.entry(n).execution = found.map(|execution| execution.0);
        }
        Ok(())
    }

    fn run_command(&mut self, n: u64) -> Command {
        let submission = &self.ledger.entry(n).submission;
        let file = self.program.file("one.json", submission.program.definition());
        let (file, input) = (file.display().to_string(), submission.input().text().to_owned());
        let (key, once) = (workload::key(self.seed, n).0, workload::idempotency_key(n));
        let arguments = ["run", &file, "--id", &key, "--idempotency-key", &once, "--input", &input];
        guests::command(&self.program, &arguments)
    }
}
