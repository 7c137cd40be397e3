//! Triggers: from what happened to an execution, and what fires by itself.
//!
//! ```text
//!   a request, an event ── server ──┐
//!   the end of an execution ────────┼─▶ Firing ─▶ prepare ─▶ Engine::start { fire } ─▶ one commit
//!   a time, an item, a window ──────┘
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `occurrence` | what happened, as a trigger gets it and as a dead letter keeps it |
//! | `firing` | one fire: from an occurrence to an execution, or to why there is none |
//! | `registration` | what a deploy registers |
//! | `wakeups` | what wakes the runner |
//! | `control` | what people ask of a trigger: pause, resume, fire, rewind, backfill |
//!
//! What a trigger does with an occurrence is decided in `waypost_core::trigger`, and whether it may in the
//! store, where the fire is a part of the execution's first frame.

mod control;
mod firing;
mod occurrence;
mod registration;
mod wakeups;

use waypost_ports::store::StoreError;

pub use control::{
    BACKFILL_RATE, BACKFILL_RATE_MAX, BACKFILLS_MAX, BackfillAccepted, BackfillRequest,
    ControlError, RewindTo, TriggerControl,
};
pub use firing::{FireError, FireResult, Firing, PlannedTrigger, TRIGGER_DEPTH_MAX};
pub use occurrence::{ITEM_KEY_BYTES_MAX, Occurrence};
pub use registration::registrations;
pub use wakeups::TriggerWakeups;

/// Runs a call that blocks.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(call).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}
