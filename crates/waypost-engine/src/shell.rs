//! The shell: the threads around the driver. It only carries; it decides nothing.
//!
//! ```text
//!   callers ──▶ inbox ──▶ engine thread: Driver::step ──▶ store thread: one commit for all ──┐
//!                 ▲              │ tasks                                                     │
//!                 │              ▼                                                           │
//!                 │        worker (Tokio): handlers                                          │
//!                 └──────── reports, commit answers, claims ◀────────────────────────────────┘
//!
//!   remote workers ──▶ polls ──▶ tasks thread ◀── offers ── engine thread
//! ```

mod clerk;
mod desk;
mod inbox;
mod lease;
mod load;
mod mirrored;
mod ownership;
mod run;
mod secrets;
mod store;
mod tasks;
mod time;
mod vitals;
mod worker;

pub use clerk::{Clerk, Performed};
pub use desk::{Desk, Polled, RemoteTask, Taken, WorkerPoll};
pub(crate) use inbox::Inbox;
pub(crate) use lease::Lease;
pub use load::{Damage, PlanSource, Plans, fold};
pub(crate) use mirrored::Mirrored;
pub(crate) use run::{EngineThread, Questions};
pub(crate) use store::{Lanes, StoreThread};
pub(crate) use tasks::{Answer as PollAnswer, TasksOrder, TasksThread, Waiting};
pub use time::StoreTime;
pub(crate) use vitals::Vitals;
pub(crate) use worker::Worker;
pub use worker::{Handlers, attempt_outcome, holds_secrets};
