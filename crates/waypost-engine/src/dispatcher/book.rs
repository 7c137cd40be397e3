//! The bookkeeping of a dispatcher, without I/O: what is being sent, which results are not recorded yet, and
//! when to look again. The simulator uses it, too.

use std::collections::BTreeMap;

use uuid::Uuid;
use waypost_core::time::Millis;
use waypost_ports::outbox::{ClaimedMessages, MessageResult};

/// Messages that one instance sends at once.
pub const IN_FLIGHT_MAX: usize = 64;
/// How often to look for messages that other instances have written, and for new endpoints.
pub(super) const POLL: Millis = Millis::from_secs(5);
/// The wait after a call to the store failed.
pub(super) const STORE_PAUSE: Millis = Millis::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub struct DispatchBook {
    sending: usize,
    results: Vec<(Uuid, MessageResult)>,
}

impl DispatchBook {
    /// How many more messages may be claimed. A result that is not recorded takes up a place, so that a store
    /// that cannot be written to is asked for no more messages.
    pub fn room(&self) -> usize {
        IN_FLIGHT_MAX.saturating_sub(self.sending + self.results.len())
    }

    /// A message is being sent.
    pub fn begun(&mut self) {
        self.sending += 1;
    }

    /// An attempt ended; without a result where none was made: its claim will end.
    pub fn ended(&mut self, result: Option<(Uuid, MessageResult)>) {
        self.sending = self.sending.saturating_sub(1);
        self.results.extend(result);
    }

    /// The results to record, by claim.
    pub fn unrecorded(&self) -> BTreeMap<Uuid, Vec<MessageResult>> {
        let mut by_claim: BTreeMap<Uuid, Vec<MessageResult>> = BTreeMap::new();
        for (claim, result) in &self.results {
            by_claim.entry(*claim).or_default().push(result.clone());
        }
        by_claim
    }

    /// The results of a claim are recorded. Until then they stay, and are recorded again.
    pub fn recorded(&mut self, claim: Uuid) {
        self.results.retain(|(of, _)| *of != claim);
    }

    /// How long to wait at most after a claim.
    pub fn pause_after(claimed: &ClaimedMessages) -> Millis {
        let wait = claimed.next_due.map_or(POLL, |due| due.since(claimed.at));
        // What is due and was not claimed waits for results, here or on another instance.
        if wait == Millis(0) { STORE_PAUSE } else { wait.min(POLL) }
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::id::ExecutionNo;
    use waypost_core::outbox::delivery::{Delivered, Jitter};
    use waypost_core::time::Timestamp;
    use waypost_ports::outbox::MessageName;

    use super::*;

    fn result(seq: u64) -> MessageResult {
        let name = MessageName { endpoint: "all".into(), execution: ExecutionNo(1), seq, mark: 0 };
        let result = Delivered::Yes { status: 204 };
        MessageResult { name, result, took: Millis(1), jitter: Jitter::NONE }
    }

    #[test]
    fn results_stay_until_they_are_recorded_and_take_up_room() {
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut book = DispatchBook::default();
        (0..4).for_each(|_| book.begun());
        book.ended(Some((first, result(1))));
        book.ended(Some((second, result(2))));
        book.ended(Some((first, result(3))));
        assert_eq!(book.room(), IN_FLIGHT_MAX - 4);
        let seqs = |results: &[MessageResult]| -> Vec<u64> {
            results.iter().map(|result| result.name.seq).collect()
        };
        let unrecorded = book.unrecorded();
        assert_eq!((seqs(&unrecorded[&first]), seqs(&unrecorded[&second])), (vec![1, 3], vec![2]));
        book.recorded(first);
        assert_eq!(book.unrecorded().into_keys().collect::<Vec<_>>(), [second]);
        assert_eq!(book.room(), IN_FLIGHT_MAX - 2);
        book.ended(None);
        book.recorded(second);
        assert_eq!(book.room(), IN_FLIGHT_MAX);
    }

    #[test]
    fn a_dispatcher_looks_again_when_the_next_message_is_due() {
        let at = Timestamp(1_000_000);
        let pause = |due: Option<u64>| {
            let next_due = due.map(|ms| at.plus(Millis(ms)));
            DispatchBook::pause_after(&ClaimedMessages { next_due, at, ..Default::default() })
        };
        assert_eq!(pause(None), POLL);
        assert_eq!(pause(Some(700)), Millis(700));
        assert_eq!(pause(Some(60_000)), POLL);
        assert_eq!(pause(Some(0)), STORE_PAUSE);
    }
}
