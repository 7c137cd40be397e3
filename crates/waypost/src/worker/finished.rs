//! Recent results. If the answer to a report is lost together with the instance that knew of the start,
//! the same attempt may be delivered again under another token:
//!
//! | the report | is kept as | the second delivery |
//! | --- | --- | --- |
//! | is not answered, or with 202 | the outcome | is answered with the outcome; nothing runs twice |
//! | is committed, or refused for good | a mark | begins only when its start is committed |
//!
//! A committed end is in the log, and the engine refuses to start an attempt that has ended. The mark
//! only prevents a run on a start that was merely accepted. If the log lost the end (a store restored to
//! an earlier time), the start is committed and the attempt runs again. An outcome that does not fit any
//! more becomes a mark: the attempt may then run twice, as any attempt may. A restarted worker remembers
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::delivery::Outcome;

/// For how long an attempt is remembered.
const AGE_MAX: Duration = Duration::from_secs(600);
/// How many are.
const COUNT_MAX: usize = 10_000;
/// Bytes of all stored outcomes.
const BYTES_MAX: usize = 64 << 20;

/// Which attempt.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Attempt {
    pub(super) execution: String,
    pub(super) node: String,
    pub(super) attempt: u32,
}

/// What is remembered of an attempt that ran here.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum KnownAttempt {
    Outcome(Outcome),
    /// That it was.
    Settled,
}

/// See the module.
#[derive(Default)]
pub(super) struct Finished {
    places: HashMap<Attempt, u64>,
    /// By place, the oldest first.
    entries: BTreeMap<u64, FinishedEntry>,
    /// Places of those with an outcome.
    whole: BTreeSet<u64>,
    /// Bytes of all outcomes.
    bytes: usize,
    next: u64,
}

struct FinishedEntry {
    at: Instant,
    attempt: Attempt,
    known: KnownAttempt,
}

impl Finished {
    pub(super) fn remember(&mut self, attempt: Attempt, outcome: Outcome, now: Instant) {
        self.make_room(now);
        if let Some(place) = self.places.get(&attempt) {
            self.forget(*place);
        }
        let place = self.next;
        self.next += 1;
        self.bytes += bytes(&outcome);
        self.whole.insert(place);
        self.places.insert(attempt.clone(), place);
        self.entries.insert(
            place,
            FinishedEntry { at: now, attempt, known: KnownAttempt::Outcome(outcome) },
        );
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.whole.first().copied()
        {
            self.shrink(oldest);
        }
    }

    /// Its report is answered for good.
    pub(super) fn settle(&mut self, attempt: &Attempt) {
        if let Some(place) = self.places.get(attempt) {
            self.shrink(*place);
        }
    }

    pub(super) fn known(&self, attempt: &Attempt) -> Option<KnownAttempt> {
        let entry = self.entries.get(self.places.get(attempt)?)?;
        Some(entry.known.clone())
    }

    fn make_room(&mut self, now: Instant) {
        let expired = |entry: &FinishedEntry| now.duration_since(entry.at) > AGE_MAX;
        while let Some((place, entry)) = self.entries.first_key_value()
            && (expired(entry) || self.entries.len() >= COUNT_MAX)
        {
            self.forget(*place);
        }
    }

    fn forget(&mut self, place: u64) {
        self.shrink(place);
        if let Some(entry) = self.entries.remove(&place) {
            self.places.remove(&entry.attempt);
        }
    }

    /// Keeps the mark alone.
    fn shrink(&mut self, place: u64) {
        self.whole.remove(&place);
        let Some(entry) = self.entries.get_mut(&place) else { return };
        if let KnownAttempt::Outcome(outcome) =
            std::mem::replace(&mut entry.known, KnownAttempt::Settled)
        {
            self.bytes -= bytes(&outcome);
        }
    }
}

fn bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Completed(output) => output.bytes(),
        Outcome::Failed(failure) | Outcome::Lost(failure) => {
            let details = failure.details.as_ref().map_or(0, |details| details.bytes());
            details + failure.message.len() + failure.kind.len()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waypost_core::json::Json;

    fn attempt(n: usize) -> Attempt {
        Attempt { execution: format!("e{n}"), node: "n".to_owned(), attempt: 1 }
    }

    /// An outcome of so many bytes.
    fn large(bytes: usize) -> Outcome {
        Outcome::Completed(Json::parse(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap())
    }

    #[test]
    fn attempts_are_remembered_for_a_while_and_not_without_end() {
        let (mut finished, start) = (Finished::default(), Instant::now());
        finished.remember(attempt(0), Outcome::Cancelled, start);
        assert_eq!(finished.known(&attempt(0)), Some(KnownAttempt::Outcome(Outcome::Cancelled)));
        assert_eq!(finished.known(&Attempt { attempt: 2, ..attempt(0) }), None);
        finished.remember(attempt(1), Outcome::Cancelled, start + AGE_MAX * 2);
        assert_eq!(finished.known(&attempt(0)), None);
        for n in 2..COUNT_MAX + 10 {
            finished.remember(attempt(n), Outcome::Cancelled, start + AGE_MAX * 2);
        }
        let counts = (finished.entries.len(), finished.places.len(), finished.whole.len());
        assert_eq!(counts, (COUNT_MAX, COUNT_MAX, COUNT_MAX));
    }

    #[test]
    fn finished_attempt_settled_keeps_only_a_mark() {
        let (mut finished, now) = (Finished::default(), Instant::now());
        finished.remember(attempt(0), large(1_000), now);
        finished.remember(attempt(1), large(10), now);
        assert_eq!(finished.bytes, 1_010);
        finished.settle(&attempt(0));
        finished.settle(&attempt(0));
        assert_eq!(finished.known(&attempt(0)), Some(KnownAttempt::Settled));
        assert_eq!((finished.bytes, finished.whole.len()), (10, 1));
        finished.remember(attempt(0), large(20), now);
        assert_eq!(finished.known(&attempt(0)), Some(KnownAttempt::Outcome(large(20))));
        assert_eq!((finished.bytes, finished.entries.len()), (30, 2), "made once more");
    }

    #[test]
    fn outcomes_have_so_many_bytes_and_the_oldest_become_marks() {
        let (mut finished, now) = (Finished::default(), Instant::now());
        let mebibyte = large(1 << 20);
        for n in 0..(BYTES_MAX >> 20) + 1 {
            finished.remember(attempt(n), mebibyte.clone(), now);
        }
        assert_eq!(finished.bytes, BYTES_MAX);
        assert_eq!(finished.known(&attempt(0)), Some(KnownAttempt::Settled));
        assert_eq!(finished.known(&attempt(1)), Some(KnownAttempt::Outcome(mebibyte)));
    }
}
