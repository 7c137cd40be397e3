//! The engine: owns executions and drives them.
//!
//! | file | owns |
//! | --- | --- |
//! | `driver` | the synchronous core of the engine: `step(now, inputs) -> outputs` |
//! | `driver/live` | one execution in memory; `live/mailbox` has its commands, `live/deciding` decides them, `live/frame` has the frame in flight and what waits for its commit, `live/orders` turns effects into orders |
//! | `driver/admission`, `driver/taking` | submissions and claimed executions come into memory |
//! | `driver/following`, `driver/leaving` | the consequences of a commit; executions leave memory |
//! | `driver/io`, `driver/output` | inputs of the driver; outputs, by destination |
//! | `driver/requests`, `driver/ends` | requests to executions; callers that await an end |
//! | `driver/remote` | remote attempts: offers, holders, reports |
//! | `driver/slots`, `driver/running` | slots and the attempts in them |
//! | `driver/stopwatch` | how long one execution occupies the driver |
//! | `driver/routes`, `driver/sharing`, `driver/drivers` | several drivers in one instance: who gets an input; what they share; all of them in one thread |
//! | `driver/wheel`, `driver/claims`, `driver/ids` | timers of live executions; when to call the store; ids |
//! | `shell` | the threads around the drivers: engine, store, worker |
//! | `shell/inputs`, `shell/ending` | the inputs of each engine thread; when these threads end |
//! | `shell/shared` | what the callers and the threads of one engine share |
//! | `shell/store_calls` | calls to the store, one try at a time |
//! | `shell/secrets` | inserts secrets into a config just before a task runs, and masks them in its results |
//! | `shell/vitals` | whether the store accepts writes, and whether the engine thread makes progress |
//! | `shell/time` | the store's time |
//! | `shell/load` | from a stored history to a state |
//! | `shell/remote_tasks`, `shell/tasks` | calls for remote tasks, and the thread that makes them |
//! | `tokens`, `sealed` | tokens that authorise reports on remote attempts; the bodies of offers |
//! | `links` | tokens in URLs that authorise one action on one execution, without a key |
//! | `sealed_secrets` | secrets sealed to the key of a remote worker |
//! | `engine` | the library's API; `engine/remote` is its part for remote workers |
//! | `metrics` | the engine's metrics; `driver/measures` is what one step measured |
//! | `dispatcher` | sends the messages of the outbox to webhook endpoints |
//! | `triggers` | fires triggers |
//! | `blob_sweep` | deletes blobs that no execution names |
//! | `check` | verifies the invariants, and repairs what can be derived from the logs |
//! | `receipt` | the outcome of a message in an inbox |
//! | `config` | intervals and limits |
//! | `room` | returns memory after a burst |
//!
//! `waypost-core` decides what happens to an execution; where it is stored is behind `waypost-ports`.
//! Nothing here names a backend, a node kind or a file format.

pub mod blob_sweep;
pub mod check;
pub mod config;
pub mod dispatcher;
pub mod driver;
mod engine;
pub mod links;
pub mod metrics;
mod receipt;
mod room;
pub mod sealed;
pub mod sealed_secrets;
mod shell;
pub mod tokens;
pub mod triggers;

pub use driver::{ControlRequest, EndSummary, StartRequest, TaskReport};
pub use engine::{
    AnnounceMail, Engine, EngineError, NewExecution, Observer, Parts, Reported, Requested, Started,
};
pub use receipt::Receipt;
pub use shell::{
    BREAKER_CROWDED_MAX, BREAKER_PROBATION, BadItems, BreakerBook, BreakerEntry, BreakerPass,
    Damage, Handlers, ItemLists, MarkReporter, NotKept, Performed, PlanSource, Plans, Polled,
    RemoteTask, RemoteTasks, ResultsOf, StoreCalls, StoreTime, Supplies, Taken, TreeCounts,
    WorkerPoll, attempt_outcome, breaker_hold, fold, holds_secrets, put_results,
};

pub(crate) use driver::panic_text;
