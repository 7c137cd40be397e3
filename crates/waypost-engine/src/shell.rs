//! The shell: the threads around the drivers. It only carries; it decides nothing. Each driver has an
//! engine thread and a queue; the other threads are there once.
//!
//! ```text
//!   callers ──▶ queue ──▶ engine thread: Driver::step ──▶ store thread: one commit for all ──┐
//!                 ▲              │ tasks                                                     │
//!                 │              ▼                                                           │
//!                 │        worker (Tokio): handlers                                          │
//!                 └──────── reports, commit answers, claims ◀────────────────────────────────┘
//!
//!   remote workers ──▶ polls ──▶ tasks thread ◀── offers ── engine thread
//! ```

mod batch_queue;
mod breakers;
mod ending;
mod inputs;
mod items;
mod lanes;
mod lease;
mod load;
mod mirrored;
mod ownership;
mod payloads;
mod remote_tasks;
mod results;
mod run;
mod secrets;
mod shared;
mod store;
mod store_calls;
mod tasks;
mod time;
mod vitals;
mod worker;

pub(crate) use batch_queue::BatchQueue;
pub(crate) use breakers::BreakerGate;
pub use breakers::{
    BREAKER_CROWDED_MAX, BREAKER_PROBATION, BreakerBook, BreakerEntry, BreakerPass, breaker_hold,
};
pub(crate) use ending::Ending;
pub(crate) use inputs::InputQueues;
pub use items::{BadItems, ItemLists};
pub(crate) use lanes::Lanes;
pub(crate) use lease::Lease;
pub use load::{Damage, PlanSource, Plans, fold};
pub(crate) use mirrored::Mirrored;
pub use payloads::NotKept;
pub(crate) use payloads::Payloads;
pub use remote_tasks::{Polled, RemoteTask, RemoteTasks, Taken, WorkerPoll};
pub use results::{ResultsOf, put_results};
pub(crate) use run::{EngineThread, EngineThreadGuard, Questions};
pub(crate) use secrets::{NotScrubbed, NotSealed, PassedOver, Recipient, Withheld, WorkerSecrets};
pub(crate) use shared::Shared;
pub(crate) use store::StoreThread;
pub use store_calls::{Performed, StoreCalls, TreeCounts};
pub(crate) use tasks::{Given, PollAnswer, TasksOrder, TasksThread, Waiting};
pub use time::StoreTime;
pub(crate) use vitals::Vitals;
pub(crate) use worker::LocalWorker;
pub use worker::{Handlers, MarkReporter, Supplies, attempt_outcome, holds_secrets};
