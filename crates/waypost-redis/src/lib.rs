//! Speed for a cluster: Redis 7 or Valkey 8, as an accelerator.
//!
//! ```text
//!   RedisTasks  RedisNudges  RedisRelay  RedisMirror                what the engine sees
//!        └──────────┴────────────┼───────────┴───────────┘
//!                              Redis                                one handle, clones share it
//!              ┌─────────────────┼──────────────────┐
//!            wire              hub                keys, seal
//!     commands, breaker   what is published     names, secrecy
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `config` | the address, the prefix, the limits |
//! | `keys` | the name of every key and channel |
//! | `seal` | values that only this cluster can read |
//! | `link` | one server or a cluster of them, behind one trait |
//! | `ask` | commands and scripts, and how their answers are read |
//! | `wire` | the connection: who may use it, when it counts as broken, how it comes back |
//! | `outage` | which failures of an outage are logged |
//! | `hub` | the subscriptions |
//! | `tasks` | tasks in streams, workers' presence; above another `Tasks` |
//! | `nudges` | nudges as published messages; above other `Nudges` |
//! | `relay` | mail straight to its owner |
//! | `mirror` | contexts, locks and heartbeats for speed and for people |
//! | `streams` | streams of other programs, as sources of triggers: with connections of their own |
//! | `counters` | the counters behind the metrics |
//!
//! Everything in Redis may be deleted, be garbage, be of the wrong type or be years old at any
//! moment. Nothing here may lose anything because of it, end the process, or delay a caller for
//! longer than [`Limits::response`]: what Redis does not do in time, the store beneath does.

mod ask;
mod config;
mod counters;
mod hub;
mod keys;
mod link;
mod mirror;
mod nudges;
mod outage;
mod relay;
mod seal;
mod streams;
mod tasks;
mod wire;

pub use config::{BadConfig, Limits, PREFIX, RedisConfig};
pub use counters::Counters;
pub use keys::Keys;
pub use mirror::RedisMirror;
pub use nudges::RedisNudges;
pub use relay::RedisRelay;
pub use streams::RedisStreams;
pub use tasks::RedisTasks;
pub use wire::Redis;
