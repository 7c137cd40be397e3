//! The target: the HTTP API over an engine and a store.
//!
//! ```text
//!   socket ─▶ http/listen ─▶ http/dispatch ─▶ actions/* ─▶ engine   (what changes something)
//!             limits, TLS    host, key, role,        └───▶ reader   (what only looks)
//!                            rate, parameters, body
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `table` | every route, one row each: path, rights, parameters, forms, action |
//! | `actions` | what routes do |
//! | `control` | requests to executions: refuse, send, wait until taken; also for the command line |
//! | `reader` | questions about executions, answered from the log; also for the command line |
//! | `workflows` | definitions, compiled; deploying |
//! | `watchers`, `stream` | who waits for what; streams of events |
//! | `access` | keys, identities, rates, the audit log |
//! | `wire` | what crosses the wire; never a type of the core |
//! | `problem`, `rate_limited_log` | answers that are not what was asked for, and how often they are logged |
//! | `http` | from bytes on a socket to an action and back |
//! | `budget` | how many bytes are in memory for clients at once |
//! | `server`, `config`, `metrics` | what requests share |
//!
//! Nothing here decides what becomes of an execution, and no store is named.

pub mod access;
mod actions;
pub mod budget;
pub mod config;
pub mod control;
pub mod http;
pub mod metrics;
mod probe;
pub mod problem;
pub mod rate_limited_log;
pub mod reader;
pub mod server;
mod stream;
pub mod table;
pub mod watchers;
pub mod wire;
pub mod workflows;
