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
//! | `trial` | what a trigger would do with a payload |
//! | `control` | what people ask of a trigger: pause, resume, fire, rewind |
//! | `backfilling` | backfills of a schedule |
//! | `by_hand` | what a person gives a trigger |
//! | `dead` | dead letters, fired again |
//! | `registration` | what a deploy registers |
//! | `runner`, `book`, `wakeups` | the task that claims what is due; its bookkeeping; what wakes it |
//! | `work` | what the runner and the simulator do with what they claimed |
//! | `schedules`, `scheduling` | one turn of a schedule, and the calls that it needs |
//! | `items` | for polls and streams: how items are fired, and the waits after failed reads |
//! | `polls`, `polling` | the items of a page, and the calls of a poll |
//! | `streams` | the calls of a stream, and watches of sources without news |
//! | `pages` | pages, read over HTTP |
//! | `ended` | ends of workflows, through the outbox |
//! | `windows`, `arrivals` | events that wait, for others or for their turn; how they get there |
//! | `surroundings` | what all of this needs of its process: starts, blocking calls, the store's time |
//! | `successes` | when a schedule's last successful execution was due |
//!
//! What a trigger does with an occurrence is decided in `waypost_core::trigger`, and whether it may in the
//! store, where the fire is a part of the execution's first frame.

mod arrivals;
mod backfilling;
mod book;
mod by_hand;
mod control;
mod dead;
mod ended;
mod firing;
mod items;
mod occurrence;
mod pages;
mod polling;
mod polls;
mod registration;
mod runner;
mod schedules;
mod scheduling;
mod streams;
mod successes;
mod surroundings;
mod trial;
mod wakeups;
mod windows;
mod work;

pub use arrivals::arrival;
pub use backfilling::{
    BACKFILL_RATE, BACKFILL_RATE_MAX, BACKFILLS_MAX, BackfillAccepted, BackfillRequest,
};
pub use book::{CLAIM_LEASE, SOURCES_MAX, TriggerBook};
pub use by_hand::ByHand;
pub use control::{ControlError, RewindTo, TriggerControl};
pub use ended::EndedTriggers;
pub(crate) use ended::ends_wanted;
pub use firing::{FireError, FireResult, Firing, PlannedTrigger, TRIGGER_DEPTH_MAX};
pub use items::{DEAD_IN_A_ROW_MAX, PageItem, READ_BACKOFF, READ_BACKOFF_MAX, read_backoff};
pub use occurrence::{ITEM_KEY_BYTES_MAX, Occurrence};
pub use pages::HandlerPages;
pub use polls::{CURSOR_BYTES_MAX, PAGE_ITEMS_MAX, PageItems, page_request, read_page};
pub use registration::registrations;
pub use runner::TriggerRunner;
pub use schedules::{ScheduleTurn, TimeFired, TurnAction};
pub use streams::WATCHES_MAX;
pub use surroundings::Surroundings;
pub use wakeups::TriggerWakeups;
pub use work::TriggerWork;
