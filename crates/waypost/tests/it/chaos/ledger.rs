//! The ledger: what the parent knows of each submission. It holds no more than was done and seen, so
//! that the judge can be as strict as the truth allows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_sim::model::{SentSignal, World};
use waypost_sim::program::Signal;

use super::workload::Submission;

/// By then whoever was late has noticed.
const NOTICED: Duration = Duration::from_secs(3);

/// All submissions of a round, by number.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) entries: BTreeMap<u64, Entry>,
    /// Requests that were made and not answered yet, by id: whose, and which good signal, if it is
    /// one.
    asked: BTreeMap<u64, (u64, Option<Signal>)>,
    serial: u64,
}

/// One submission.
pub(super) struct Entry {
    pub(super) submission: Submission,
    /// The execution's number, once it was acknowledged.
    pub(super) execution: Option<i64>,
    /// When it was seen to end.
    pub(super) ended: Option<Instant>,
    /// What people and faults did to it.
    pub(super) world: World,
    /// Signals that were acknowledged and pass the filter of those who wait, one entry each.
    acknowledged: Vec<Signal>,
}

impl Entry {
    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// The signals that it needs and was not yet promised.
    pub(super) fn missing(&self) -> Vec<Signal> {
        let mut had = self.acknowledged.clone();
        let mut needed = self.submission.program.signals_max();
        needed.retain(|signal| match had.iter().position(|had| had == signal) {
            Some(at) => {
                had.swap_remove(at);
                false
            }
            None => true,
        });
        needed
    }
}

impl Ledger {
    /// The number of the next submission, now made.
    pub(super) fn open(&mut self, seed: u64, sink: &str) -> u64 {
        let n = self.entries.last_key_value().map_or(0, |(last, _)| last + 1);
        let entry = Entry {
            submission: Submission::new(seed, n, sink),
            execution: None,
            ended: None,
            world: World::default(),
            acknowledged: Vec::new(),
        };
        self.entries.insert(n, entry);
        n
    }

    pub(super) fn entry(&mut self, n: u64) -> &mut Entry {
        self.entries.get_mut(&n).expect("only what was submitted is talked about")
    }

    /// A number for a request or a body.
    pub(super) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Notes that somebody asks for something. It may happen from now on.
    pub(super) fn ask(&mut self, id: u64, n: u64, request: &Request) {
        let entry = self.entry(n);
        let mut promised = None;
        match request {
            Request::Pause { .. } => entry.world.paused = true,
            Request::Cancel => entry.world.cancel_requested = true,
            Request::Resume => {}
            Request::Signal { signal, body } => {
                let sent = SentSignal { name: signal.name().to_owned(), body: body.clone() };
                entry.world.signals.push(sent);
                promised = signal.accepts(body).then_some(*signal);
            }
        }
        self.asked.insert(id, (n, promised));
    }

    /// Notes that a request is durable, or that it will never be.
    pub(super) fn answered(&mut self, id: u64, done: bool) {
        let Some((n, promised)) = self.asked.remove(&id) else { return };
        if done {
            self.entry(n).acknowledged.extend(promised);
        }
    }

    /// Notes that things may have been late for whatever was open, or has just ended: that is said by
    /// others than whoever notices that it was late.
    pub(super) fn late(&mut self) {
        let concerned = self
            .entries
            .values_mut()
            .filter(|entry| entry.ended.is_none_or(|ended| ended.elapsed() < NOTICED));
        concerned.for_each(|entry| entry.world.late = true);
    }

    /// Notes that attempts may have been lost, and time with them.
    pub(super) fn lost(&mut self) {
        self.late();
        self.open_worlds().for_each(|world| world.attempts_lost = true);
    }

    fn open_worlds(&mut self) -> impl Iterator<Item = &mut World> {
        self.entries.values_mut().filter(|entry| entry.is_open()).map(|entry| &mut entry.world)
    }

    pub(super) fn numbers(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<u64> {
        self.entries.iter().filter(|(_, entry)| wanted(entry)).map(|(n, _)| *n).collect()
    }
}

/// What may be asked of an execution.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Signal { signal: Signal, body: Value },
    Pause { now: bool },
    Resume,
    Cancel,
}

impl Request {
    /// As an order to a victim.
    pub(super) fn order(&self, id: u64, n: u64) -> String {
        match self {
            Self::Signal { signal, body } => format!("{} {id} {n} {body}", signal.name()),
            Self::Pause { now: true } => format!("pause {id} {n} now"),
            Self::Pause { now: false } => format!("pause {id} {n}"),
            Self::Resume => format!("resume {id} {n}"),
            Self::Cancel => format!("cancel {id} {n}"),
        }
    }

    /// As arguments of the program.
    pub(super) fn arguments(&self, id: u64, key: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Signal { signal, body } => {
                let (body, message) = (body.to_string(), format!("message-{id}"));
                let name = signal.full_name(key);
                return ["signal", key, &name, "--body", &body, "--message-id", &message]
                    .map(Into::into)
                    .to_vec();
            }
            Self::Pause { now: true } => &["pause", key, "--now"],
            Self::Pause { now: false } => &["pause", key],
            Self::Resume => &["resume", key],
            Self::Cancel => &["cancel", key],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}
