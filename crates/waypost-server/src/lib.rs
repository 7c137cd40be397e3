//! The HTTP API over an engine and a store.
//!
//! ```text
//!   socket ─▶ http/listen ─▶ http/dispatch ─▶ actions/* ─▶ engine   (changes)
//!             limits, TLS    host, key, role,        └───▶ reader   (reads)
//!                            rate, parameters, body
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `table` | every route, one row each: path, rights, parameters, forms, action |
//! | `actions` | the functions of routes |
//! | `control` | requests to executions: refuse, send, wait until taken; also for the command line |
//! | `reader` | questions about executions, answered from the log; also for the command line |
//! | `workflows` | definitions, compiled; deploying |
//! | `watchers`, `stream` | tasks that wait for commits; streams of events |
//! | `access` | keys, identities, rates, the audit log |
//! | `wire` | the types of the API; never a type of the core |
//! | `problem`, `rate_limited_log` | error responses, and how often they are logged |
//! | `http` | from bytes on a socket to an action and back |
//! | `cloud_events` | published events, read and checked |
//! | `event_triggers` | the active event triggers, by the types that they want |
//! | `hooks` | requests of other systems that fire triggers |
//! | `budget` | how many bytes are in memory for clients at once |
//! | `server`, `config`, `metrics` | shared by requests |
//!
//! Nothing here decides what becomes of an execution, and no store is named.

pub mod access;
mod actions;
pub mod budget;
pub mod cloud_events;
pub mod config;
pub mod control;
mod event_triggers;
pub mod hooks;
mod html;
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
