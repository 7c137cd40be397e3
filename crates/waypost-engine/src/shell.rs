//! The shell: the threads around the driver. It only carries; it decides nothing.
//!
//! ```text
//!   callers ──▶ inbox ──▶ engine thread: Driver::step ──▶ store thread: one commit for all ──┐
//!                 ▲              │ tasks                                                     │
//!                 │              ▼                                                           │
//!                 │        worker (Tokio): handlers                                          │
//!                 └──────── reports, commit answers, claims ◀────────────────────────────────┘
//! ```

mod clerk;
mod inbox;
mod load;
mod run;
mod secrets;
mod store;
mod time;
mod worker;

pub use clerk::{Clerk, Performed, Work};
pub(crate) use inbox::Inbox;
pub use load::{Damage, PlanSource, Plans, fold};
pub(crate) use run::{EngineThread, Questions};
pub(crate) use store::StoreThread;
pub use time::StoreTime;
pub(crate) use worker::Worker;
pub use worker::{Handlers, holds_secrets};
