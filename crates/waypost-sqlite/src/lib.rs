//! The store of one machine: SQLite, one file for the log and one for the projections.
//!
//! ```text
//!   folder/
//!     lock               held by the one process that runs the engine; names it, and the address of
//!                        its server
//!     log.db             frames, control, inbox, …: the truth; WAL, every commit is synced
//!     projections.db     rows for readers; WAL, may be deleted at any time
//!     projections.lock   held by the process that writes the projections
//!
//!   append ──▶ one writer connection ──▶ log.db ──▶ projector thread ──▶ projections.db
//!   load, claim, collect, events ──▶ readers of log.db            list ──▶ readers of it
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `store` | opening, closing, and who may do what |
//! | `append` | frames and their side rows |
//! | `last_frames` | parents that need not be looked up |
//! | `claim` | taking ownership |
//! | `instances` | leases and numbers |
//! | `mail` | the inbox |
//! | `topics` | signals by key: who waits for them, and what waits for a wait |
//! | `history` | reading executions back |
//! | `feed` | the frames of all executions, in the order of commits |
//! | `definitions` | versions of workflows |
//! | `access` | API keys and the audit log |
//! | `breakers` | circuit breakers |
//! | `outbox` | webhook endpoints and their messages |
//! | `triggers` | triggers, the items that have fired, windows |
//! | `blob_refs` | which executions name a blob |
//! | `query` | lists and logs for people |
//! | `inspect` | everything of every execution, for a checker |
//! | `projections` | the second file and the thread that writes it |
//! | `cache` | when a connection releases the memory of its pages |
//! | `checkpoint` | copying the WAL back, on a thread of its own |
//! | `connection` | pragmas, readers, errors of the port |
//! | `migrate` | layouts of the log's file |
//! | `lock` | one engine a folder |
//! | `queries` | the SQL |
//!
//! Nothing here decides what becomes of an execution.

mod access;
mod append;
mod blob_refs;
mod breakers;
mod cache;
mod checkpoint;
mod claim;
mod connection;
mod definitions;
mod feed;
mod history;
mod inspect;
mod instances;
mod last_frames;
mod lock;
mod mail;
mod migrate;
mod options;
mod outbox;
mod permits;
mod projections;
mod queries;
mod query;
mod store;
mod topics;
mod triggers;

pub use lock::{EngineProcess, engine_of};
pub use migrate::{migrate, migrations};
pub use options::{Families, Options};
pub use store::SqliteStore;
