//! How many more signals that no node waits for an execution keeps.

use super::State;
use crate::command::Refusal;
use crate::json::Json;
use crate::limits::{EARLY_SIGNALS_BYTES_MAX, EARLY_SIGNALS_MAX};
use crate::published::split_name;
use crate::reserved::is_reserved;

/// The signals that an execution keeps until a node waits for them, counted against the limits.
///
/// Callbacks and results of messages count for nothing and are always kept. There is at most one for each
/// operation or wait that is open, and its sender has no other. Signals by key are counted apart: those that
/// a filter rejects pile up, and must not keep out signals to this execution alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignalRoom {
    by_name: KeptSignals,
    by_key: KeptSignals,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeptSignals {
    count: usize,
    bytes: usize,
}

impl SignalRoom {
    /// What an execution keeps now.
    pub fn of(state: &State) -> Self {
        let mut room = Self::default();
        for kept in state.early.iter().filter(|kept| !is_reserved(&kept.name)) {
            room.alike(&kept.name).add(&kept.body);
        }
        room
    }

    /// Takes the room of one more signal, if there is some.
    pub fn take(&mut self, name: &str, body: &Json) -> Result<(), Refusal> {
        if is_reserved(name) {
            return Ok(());
        }
        let kept = self.alike(name);
        if kept.count >= EARLY_SIGNALS_MAX {
            return Err(Refusal::TooManySignals(EARLY_SIGNALS_MAX));
        }
        if kept.bytes.saturating_add(body.bytes()) > EARLY_SIGNALS_BYTES_MAX {
            return Err(Refusal::SignalsTooLarge(EARLY_SIGNALS_BYTES_MAX));
        }
        kept.add(body);
        Ok(())
    }

    fn alike(&mut self, name: &str) -> &mut KeptSignals {
        match split_name(name).1 {
            Some(_) => &mut self.by_key,
            None => &mut self.by_name,
        }
    }
}

impl KeptSignals {
    fn add(&mut self, body: &Json) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(body.bytes());
    }
}
