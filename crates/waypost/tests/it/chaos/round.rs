//! One round: a folder of its own, several lives of the engine in it, each with its faults, and a
//! last one that brings everything to its end.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use waypost_sim::random::Random;

use super::audit::{Verdict, audit};
use super::disk::Disk;
use super::guests::Guests;
use super::ledger::{Ledger, Request};
use super::process::{Engine, GUARD, News};
use super::sink::Sink;
use super::{Tally, workload};
use crate::program::Program;

/// A submission that takes longer than this to be acknowledged means that things are late.
const PROMPT: Duration = Duration::from_millis(400);
/// Lines of the log that are kept for whoever has to find out what happened.
const LOG_LINES_MAX: usize = 40;

pub(super) struct Round<'a> {
    pub(super) seed: u64,
    /// What fate does in this life.
    pub(super) random: Random,
    /// What people do. Apart from fate: how often they act depends on the moment.
    pub(super) whims: Random,
    pub(super) sink: &'a Sink,
    pub(super) tally: &'a mut Tally,
    pub(super) disk: Disk,
    pub(super) program: Program,
    pub(super) ledger: Ledger,
    pub(super) guests: Guests,
    pub(super) sender: Sender<News>,
    news: Receiver<News>,
    pub(super) life: u32,
    pub(super) engine: Option<Engine>,
    /// What was seen in this life.
    pub(super) seen: Seen,
    /// Submissions that were ordered and not answered, and since when.
    pub(super) outstanding: BTreeMap<u64, Instant>,
    /// Is the present life one in which work has to wait its turn?
    pub(super) narrow: bool,
    /// Was a snapshot damaged? The checker rightly complains of those.
    pub(super) snapshots_damaged: bool,
    log: VecDeque<String>,
}

/// What was seen in one life of the engine.
#[derive(Default)]
pub(super) struct Seen {
    /// How far the start got: `begun`, `stored`, `open`.
    pub(super) stage: String,
    pub(super) acks: u64,
    pub(super) calls: u64,
    pub(super) commits: u64,
    pub(super) ends: u64,
    /// Has the store said that it is full?
    pub(super) full: bool,
    /// Why the process gave up.
    pub(super) failed: Option<String>,
    /// Has it closed its output?
    pub(super) closed: bool,
    /// Executions that a person holds, or a quarantine.
    pub(super) held: Vec<u64>,
    /// Submissions made.
    pub(super) submitted: u64,
}

impl<'a> Round<'a> {
    pub(super) fn new(seed: u64, sink: &'a Sink, tally: &'a mut Tally) -> Self {
        let random = Random::new(seed);
        let (sender, news) = channel();
        sink.begin(random.split("sink"), sender.clone());
        let program = Program::new();
        let disk = Disk::new(program.path(), &program.data().join("log.db-wal"));
        Self {
            seed,
            whims: random.split("whims"),
            random,
            sink,
            tally,
            disk,
            program,
            ledger: Ledger::default(),
            guests: Guests::default(),
            sender,
            news,
            life: 0,
            engine: None,
            seen: Seen::default(),
            outstanding: BTreeMap::new(),
            narrow: false,
            snapshots_damaged: false,
            log: VecDeque::new(),
        }
    }

    /// Plays the round. An error is a finding.
    pub(super) fn play(&mut self) -> Result<Verdict> {
        let found = self
            .lives()
            .and_then(|()| self.finish())
            .and_then(|()| audit(&self.program, self.seed, &self.ledger, &self.sink.seen()));
        found.map_err(|error| {
            drop(self.engine.take());
            let log: Vec<_> = self.log.iter().map(String::as_str).collect();
            let life = match self.life {
                workload::LAST_LIFE => "the last life".to_owned(),
                life => format!("life {life}"),
            };
            let (data, log) = (self.keep(), log.join("\n"));
            let data = data.display();
            error.context(format!("{life}, data kept in {data}, its log ended with\n{log}\nfound"))
        })
    }

    /// Keeps the data for whoever wants to look at it.
    fn keep(&self) -> PathBuf {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{}", self.seed));
        // As it is now: that of an earlier try must not shine through. Best effort, both.
        std::fs::remove_dir_all(&kept).unwrap_or_default();
        drop(Command::new("cp").arg("-r").arg(self.program.data()).arg(&kept).status());
        kept
    }

    fn lives(&mut self) -> Result<()> {
        for life in 1..=self.random.between(4, 8) {
            self.life = u32::try_from(life)?;
            // A stream for each life, so that one that took another turn than the last time it was
            // played does not change the plan of those after it.
            self.random = Random::new(self.seed).split(&format!("life {life}"));
            self.live()?;
            self.between_lives()?;
        }
        Ok(())
    }

    /// A last life, in which everything ends.
    fn finish(&mut self) -> Result<()> {
        self.life = workload::LAST_LIFE;
        self.guests.wait(&mut self.ledger)?;
        ensure!(self.start("open")?, "the last process did not start: {:?}", self.seen.failed);
        for n in self.ledger.numbers(|entry| entry.execution.is_none()) {
            self.submit(n);
        }
        while !self.outstanding.is_empty() {
            self.next("the rest to be acknowledged")?;
        }
        for n in self.ledger.numbers(|entry| entry.is_open()) {
            // Who is not held refuses this; who is, for whatever reason, goes on.
            self.ask(n, &Request::Resume);
            for signal in self.ledger.entry(n).missing() {
                let body = signal.body(self.ledger.serial(), true);
                self.ask(n, &Request::Signal { signal, body });
            }
            self.order(&format!("await {n}"));
        }
        loop {
            let open = self.ledger.numbers(|entry| entry.is_open());
            if open.is_empty() {
                break;
            }
            for n in std::mem::take(&mut self.seen.held) {
                self.ask(n, &Request::Resume);
            }
            let next = self.next("everything to end");
            next.with_context(|| self.why(&open))?;
        }
        self.order("stop");
        let engine = self.engine.take().expect("it was started above");
        self.drain()?;
        let status = engine.wait()?;
        ensure!(status.success(), "the last process ended with {status}");
        Ok(())
    }

    /// What the program says about executions that do not end.
    fn why(&self, open: &[u64]) -> String {
        let why = |n: &u64| self.program.run(&["why", &workload::key(self.seed, *n).0]).out;
        let said: Vec<String> = open.iter().take(3).map(why).collect();
        format!("{} do not end, of them:\n{}", open.len(), said.join("\n"))
    }

    /// Waits for something to happen, and notes it.
    pub(super) fn next(&mut self, awaited: &str) -> Result<()> {
        match self.news.recv_timeout(GUARD) {
            Ok(news) => self.note(news)?,
            Err(_) => bail!("nothing happened for {GUARD:?} while waiting for {awaited}"),
        }
        if self.seen.closed && self.seen.failed.is_none() && self.engine.is_some() {
            bail!("the process ended by itself while waiting for {awaited}");
        }
        Ok(())
    }

    /// Waits for something to happen within a span, and notes it. Says whether anything did.
    pub(super) fn listen(&mut self, span: Duration) -> Result<bool> {
        match self.news.recv_timeout(span) {
            Ok(news) => self.note(news).map(|()| true),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the round holds a sender"),
        }
    }

    /// Reads what a process has said until it closed its output.
    pub(super) fn drain(&mut self) -> Result<()> {
        while !self.seen.closed {
            match self.news.recv_timeout(GUARD) {
                Ok(news) => self.note(news)?,
                Err(_) => bail!("the process did not end within {GUARD:?}"),
            }
        }
        self.outstanding.clear();
        Ok(())
    }

    fn note(&mut self, news: News) -> Result<()> {
        match news {
            News::Line(line) => self.note_line(&line),
            News::Log(line) => self.note_log(line),
            News::Closed => {
                self.seen.closed = true;
                Ok(())
            }
            News::Called => {
                self.seen.calls += 1;
                Ok(())
            }
        }
    }

    fn note_line(&mut self, line: &str) -> Result<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "begun" | "stored" | "open" => word.clone_into(&mut self.seen.stage),
            "commit" => self.seen.commits += 1,
            "late" => self.ledger.late(),
            "failed" => self.seen.failed = Some(rest.to_owned()),
            "ack" => self.acknowledged(first.parse()?, second.parse()?)?,
            "not" => drop(self.outstanding.remove(&first.parse()?)),
            "wrong" => bail!("submission {first}: {second}"),
            "ended" => {
                self.seen.ends += 1;
                self.ledger.entry(first.parse()?).ended = Some(Instant::now());
            }
            "over" => self.ledger.entry(first.parse()?).ended = Some(Instant::now()),
            "held" => self.seen.held.push(first.parse()?),
            "done" => self.ledger.answered(first.parse()?, true),
            "refused" => self.ledger.answered(first.parse()?, false),
            // `waypost run` names the execution when it is durable.
            "execution" => self.seen.acks += 1,
            _ => {} // what the test harness and `waypost run` say besides
        }
        Ok(())
    }

    fn note_log(&mut self, line: String) -> Result<()> {
        self.seen.full |= line.contains("the store is full") || line.contains("disk I/O error");
        let damaged = ["panicked", "is set aside", "is damaged"];
        let alarming = damaged.iter().any(|word| line.contains(word));
        if self.log.len() == LOG_LINES_MAX {
            self.log.pop_front();
        }
        self.log.push_back(line);
        ensure!(!alarming, "the log says so");
        Ok(())
    }

    fn acknowledged(&mut self, n: u64, execution: i64) -> Result<()> {
        self.seen.acks += 1;
        let ordered = self.outstanding.remove(&n);
        if ordered.is_some_and(|ordered| ordered.elapsed() > PROMPT) {
            self.ledger.late();
        }
        let entry = self.ledger.entry(n);
        match entry.execution {
            Some(known) => {
                ensure!(known == execution, "submission {n} is {known}, and now {execution}");
            }
            None => {
                entry.execution = Some(execution);
                self.tally.acknowledged += 1;
                self.people(n);
            }
        }
        Ok(())
    }
}
