//! The pure heart of Waypost.
//!
//! ```text
//!   command ─▶ decide(plan, state, command) ─▶ events + effects      no I/O, no clock, no
//!                     events ─▶ apply ─▶ state                       randomness, no async
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `plan` | a definition, compiled: nodes, conditions, joins |
//! | `budget` | what executions may spend on tokens, and what attempts cost |
//! | `path` | the address of a node in an execution |
//! | `permits` | the queue of a concurrency key: one rule for all stores |
//! | `kind` | the description of a node kind, and the behaviours of `decide` |
//! | `expr` | expressions and templates, fenced in |
//! | `event`, `frame` | the facts, and how they are written |
//! | `transitions` | the two state machines, as tables |
//! | `state`, `apply` | the fold of the facts |
//! | `command`, `decide` | commands, and decisions |
//! | `ended` | ends of remote attempts, so that a repeated report is recognised |
//! | `outbox` | messages to webhook endpoints: what causes one, and when it is sent |
//! | `event_wait` | waits for published events: their names, and which events they are for |
//! | `published` | signals by key, for every execution that waits for them |
//! | `reserved` | names of signals that only Waypost sends |
//! | `why` | what an execution waits for, in words |
//! | `check` | the invariants that every log must satisfy |
//! | `flow` | plans from a line of text, for tests; behind the feature of that name |
//! | `planted` | bugs for the simulator to find, in builds of their own |
//! | `schedule` | the times at which schedules fire |
//! | `trigger` | what starts executions without a person asking for it |
//! | `spelling` | names that people type: how messages show them, and which one a mistyped name is near |
//! | `slot` | which limit of an instance an attempt counts against |
//! | `callback` | operations that outside systems complete |
//! | `child` | executions that other executions start, and what they tell each other |
//! | `retry`, `failure` | failures as data, and what follows them |
//! | `breaker` | circuit breakers: one rule for all stores |
//! | `blob` | references to payloads outside of the log |
//! | `id`, `time`, `json`, `status`, `limits` | the small values |
//!
//! Nothing here may read a clock, use a hash map's order, log, or use a store.

// A new event, command, status or behaviour is named by the compiler wherever it matters.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod apply;
pub mod blob;
pub mod breaker;
pub mod budget;
pub mod callback;
pub mod check;
pub mod child;
pub mod command;
pub mod decide;
pub mod ended;
pub mod event;
pub mod event_wait;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most operators and filters take few of the many kinds of values and tokens"
)]
pub mod expr;
pub mod failure;
#[cfg(feature = "flow")]
pub mod flow;
pub mod frame;
pub mod id;
pub mod json;
pub mod kind;
pub mod limits;
pub mod outbox;
pub mod path;
pub mod permits;
pub mod plan;
pub mod planted;
pub mod projection;
pub mod published;
pub mod refused;
pub mod reserved;
pub mod retry;
pub mod schedule;
pub mod slot;
pub mod spelling;
pub mod state;
pub mod status;
pub mod time;
pub mod transitions;
pub mod trigger;
pub mod why;
