//! The engine's interfaces to the world, as traits and the values that cross them.
//!
//! | file | owns |
//! | --- | --- |
//! | `store` | the log and the rows beside it: for the engine |
//! | `query` | lists and logs: for readers |
//! | `access` | API keys, and the audit log |
//! | `breakers` | the states of circuit breakers |
//! | `outbox` | webhook endpoints, and the messages that wait for them |
//! | `inspect` | everything of every execution: for a checker |
//! | `migration` | the layouts of a store |
//! | `statement` | SQL that the stores generate from the columns of the read tables |
//! | `handler` | the code of action kinds |
//! | `secret` | values that only tasks may hold |
//! | `tasks` | tasks for remote workers, and the workers |
//! | `nudge` | "poll now", between instances |
//! | `relay` | mail straight to its owner |
//! | `mirror` | copies outside of the store, for speed and for people |
//! | `blobs` | payloads outside of the log, by the digest of their content |
//! | `source` | what a poll reads |
//! | `triggers` | triggers, the items that have fired, windows |
//! | `webhook` | sending messages to webhook endpoints |
//! | `clock` | time |
//! | `memory` | a store without a disk, for tests |
//! | `conformance` | the tests that every store must pass; behind the feature of that name |
//!
//! Nothing here decides what becomes of an execution, and no backend is named.

pub mod access;
pub mod blobs;
pub mod breakers;
pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod handler;
pub mod inspect;
pub mod memory;
pub mod migration;
pub mod mirror;
pub mod nudge;
pub mod outbox;
pub mod query;
pub mod relay;
pub mod secret;
pub mod source;
pub mod statement;
pub mod store;
pub mod tasks;
pub mod triggers;
pub mod webhook;
