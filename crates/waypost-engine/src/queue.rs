//! From the line of a concurrency key as the core knows it to what a store is asked for.

use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::state::State;
use waypost_ports::store::{SlotPolicy, SlotRequest};

/// What an execution asks for that stands in the line of its concurrency key, or has stood in it.
pub(crate) fn slot_request(state: &State) -> Option<SlotRequest> {
    let (key, place) = (state.concurrency_key()?, state.place.as_ref()?);
    let policy = match place.policy {
        ConcurrencyPolicy::Queue => SlotPolicy::Queue,
        ConcurrencyPolicy::Reject => SlotPolicy::Reject,
        ConcurrencyPolicy::CancelOldest => SlotPolicy::CancelOldest,
    };
    Some(SlotRequest { key, limit: place.limit, policy })
}
