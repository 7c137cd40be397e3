//! What was done lately. Where the answer to a report was lost, and with it the instance that knew
//! of the start, the same attempt may be delivered once more: then its outcome is told again, and
//! nothing is done twice. No more than that: a worker that is gone has forgotten.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::delivery::Outcome;

/// For how long an outcome is remembered.
const AGE_MAX: Duration = Duration::from_secs(600);
/// How many are.
const COUNT_MAX: usize = 10_000;

/// Which attempt.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Attempt {
    pub(super) execution: String,
    pub(super) node: String,
    pub(super) attempt: u32,
}

#[derive(Default)]
pub(super) struct Finished {
    outcomes: HashMap<Attempt, Outcome>,
    order: VecDeque<(Instant, Attempt)>,
}

impl Finished {
    pub(super) fn remember(&mut self, attempt: Attempt, outcome: Outcome, now: Instant) {
        let expired = |at: &Instant| now.duration_since(*at) > AGE_MAX;
        while self.order.front().is_some_and(|(at, _)| expired(at)) || self.order.len() >= COUNT_MAX
        {
            if let Some((_, oldest)) = self.order.pop_front() {
                self.outcomes.remove(&oldest);
            }
        }
        if self.outcomes.insert(attempt.clone(), outcome).is_none() {
            self.order.push_back((now, attempt));
        }
    }

    pub(super) fn outcome(&self, attempt: &Attempt) -> Option<Outcome> {
        self.outcomes.get(attempt).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(n: usize) -> Attempt {
        Attempt { execution: format!("e{n}"), node: "n".to_owned(), attempt: 1 }
    }

    #[test]
    fn outcomes_are_remembered_for_a_while_and_not_without_end() {
        let (mut finished, start) = (Finished::default(), Instant::now());
        finished.remember(attempt(0), Outcome::Cancelled, start);
        assert!(finished.outcome(&attempt(0)).is_some());
        assert!(finished.outcome(&Attempt { attempt: 2, ..attempt(0) }).is_none());
        finished.remember(attempt(1), Outcome::Cancelled, start + AGE_MAX * 2);
        assert!(finished.outcome(&attempt(0)).is_none());
        for n in 2..COUNT_MAX + 10 {
            finished.remember(attempt(n), Outcome::Cancelled, start + AGE_MAX * 2);
        }
        assert_eq!((finished.outcomes.len(), finished.order.len()), (COUNT_MAX, COUNT_MAX));
    }
}
