//! The engine: what owns executions and drives them.
//!
//! | file | owns |
//! | --- | --- |
//! | `driver` | the synchronous heart: `step(now, inputs) -> outputs` |
//! | `driver/live` | one execution in memory: mailbox, the append in flight, held-back effects; in `live/orders` they become orders |
//! | `driver/requests` | what is asked of executions, and who awaits an end |
//! | `driver/remote` | remote attempts: offers, who holds what, what workers say |
//! | `driver/wheel`, `driver/claims`, `driver/slots`, `driver/ids` | timers of live executions; when to ask the store; what may run |
//! | `shell` | threads that carry: engine, store, worker |
//! | `shell/clerk` | what is done at the store, one try at a time |
//! | `shell/secrets` | into a task's config just before it runs, and out of what comes back |
//! | `shell/vitals` | does the store take what is written, and does the engine thread go on? |
//! | `shell/time` | what time it is for the store |
//! | `shell/load` | from a stored history to a state |
//! | `shell/desk`, `shell/tasks` | what is done with tasks for remote workers, and the thread that does it |
//! | `tokens`, `sealed` | the right to report on an remote attempt; the bodies of offers |
//! | `engine` | the library's door; in `engine/remote` the one for remote workers |
//! | `metrics` | what an engine tells of itself; `driver/measures` is what a step of it measured |
//! | `check` | are the invariants kept? what is not, and what of that can be repaired |
//! | `receipt` | what became of a message in an inbox, as far as its sender may be told |
//! | `queue` | what a store is asked for by who stands in the queue of a concurrency key |
//! | `config` | intervals and limits |
//! | `room` | memory that is given back after a burst |
//!
//! What happens to an execution is decided in `waypost-core`; where it is stored is behind
//! `waypost-ports`. Nothing here names a backend, a node kind or a file format.

pub mod check;
pub mod config;
pub mod driver;
mod engine;
pub mod metrics;
mod queue;
mod receipt;
mod room;
pub mod sealed;
mod shell;
pub mod tokens;

pub use driver::{EndSummary, Request, TaskReport};
pub use engine::{
    Engine, EngineError, Observer, Parts, Reported, Requested, StartRequest, Started,
};
pub use receipt::Receipt;
pub use shell::{
    Clerk, Damage, Desk, Handlers, Performed, PlanSource, Plans, Polled, RemoteTask, StoreTime,
    Taken, Work, WorkerPoll, attempt_outcome, fold, holds_secrets,
};

pub(crate) use driver::panic_text;
