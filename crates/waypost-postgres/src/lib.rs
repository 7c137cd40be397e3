//! The store of a cluster: PostgreSQL.
//!
//! ```text
//!   heartbeat ─▶ renewals (1)  ┐
//!   append    ─▶ writers  (2)  │ connections of a runtime of their own; callers are
//!   claim, …  ─▶ engine   (4)  │ plain threads, which wait
//!   queries   ─▶ api      (n)  ┘
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `store` | opening, and which connection does what |
//! | `append` | frames and their side rows; `append/rows` gathers them into arrays |
//! | `permits` | queues of concurrency keys |
//! | `claim` | taking ownership |
//! | `instances` | leases and numbers |
//! | `mail` | the inbox |
//! | `topics` | signals by key: who waits for them, and what waits for a wait |
//! | `history` | reading executions back |
//! | `definitions` | versions of workflows |
//! | `access` | API keys and the audit log |
//! | `breakers` | circuit breakers |
//! | `outbox` | webhook endpoints and their messages |
//! | `tables` | tables of other programs, as sources of triggers: with connections of their own |
//! | `triggers` | triggers, the items that have fired, windows |
//! | `blob_refs` | which executions name a blob |
//! | `blobs` | blobs, where they are in the database |
//! | `query`, `feed` | lists and logs for people |
//! | `inspect` | reads and repairs of a checker |
//! | `projections` | rows for readers, and the thread that writes them |
//! | `tasks` | tasks for remote workers |
//! | `nudges` | "poll now", by LISTEN and NOTIFY |
//! | `pool` | connections, lent and taken back |
//! | `connection` | one of them: statements, time limits |
//! | `sent` | how many statements, by role |
//! | `waiting` | waiting for the runtime, on any thread |
//! | `error` | errors of the port |
//! | `address` | where the database is, and how to trust it |
//! | `migrate` | layouts |
//! | `text` | values on their way into rows and back |
//! | `queries` | the SQL |
//!
//! Nothing here decides what becomes of an execution, and nothing but the projections' thread runs by
//! itself.

mod access;
mod address;
mod append;
mod blob_refs;
mod blobs;
mod breakers;
mod claim;
mod connection;
mod definitions;
mod error;
mod feed;
mod history;
mod inspect;
mod instances;
mod mail;
mod migrate;
mod nudges;
mod options;
mod outbox;
mod permits;
mod pool;
mod projections;
mod queries;
mod query;
mod sent;
mod store;
mod tables;
mod tasks;
mod text;
mod topics;
mod triggers;
mod waiting;

pub use blobs::PostgresBlobs;
pub use claim::Copies;
pub use migrate::{migrate, migrations};
pub use nudges::PostgresNudges;
pub use options::{Families, Options};
pub use sent::Statements;
pub use store::PostgresStore;
pub use tables::{PostgresTables, SourceTable};
