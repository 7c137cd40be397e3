//! From the line of a concurrency key as the core knows it to what a store is asked for.

use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::state::State;
use waypost_ports::store::{PermitPolicy, PermitRequest};

/// What an execution asks for that stands in the queue of its concurrency key, or has stood in it.
pub(crate) fn permit_request(state: &State) -> Option<PermitRequest> {
    let (key, place) = (state.concurrency_key()?, state.place.as_ref()?);
    let policy = match place.policy {
        ConcurrencyPolicy::Queue => PermitPolicy::Queue,
        ConcurrencyPolicy::Reject => PermitPolicy::Reject,
        ConcurrencyPolicy::CancelOldest => PermitPolicy::CancelOldest,
    };
    Some(PermitRequest { key, limit: place.limit, policy })
}
