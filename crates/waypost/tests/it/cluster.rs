//! The cluster: real `waypost` processes on a real PostgreSQL, with and without a real Redis, and what
//! may happen to all of them.
//!
//! | file | shows |
//! | --- | --- |
//! | `rig` | the processes, and how to talk to them |
//! | `numbers` | what instances count, how long these tests are, and chance |
//! | `flows` | the workflows of these tests |
//! | `resuming` | what is paused on one instance goes on on another |
//! | `killing` | instances killed under load, and take-overs |
//! | `leaving` | an instance that is told to go |
//! | `freezing` | an instance that stands still beyond its lease |
//! | `redis` | everything that may happen to Redis |
//! | `relay` | reports that go straight to their owners, and get lost |
//! | `database` | everything that may happen to PostgreSQL, and to the way there |
//! | `hanging_up` | clients that go away |
//! | `signals` | no wake-up is lost |
//! | `event_waits` | events that are published while executions wait for them |
//! | `sources` | entries of streams and rows of tables, while instances are killed |
//! | `stopping` | waits that came due during a full stop |
//! | `limits` | concurrency keys |
//! | `workers` | tasks through remote workers |
//! | `secrets` | secrets of remote workers |
//! | `killed_workers` | a map at workers that are killed |
//! | `forgetting` | remote workers that forget what they began |
//! | `upgrading` | instances of two builds |
//! | `callbacks` | callbacks to another instance than the owner |
//! | `children` | executions that others start, while instances are killed |
//! | `approvals` | two people who decide at once, at two instances |
//! | `start_races` | instances killed just when executions start others |
//! | `webhooks` | messages to webhook endpoints, while their senders are killed |
//! | `awaited` | nodes that wait for the delivery of a message, while instances are killed |
//! | `schedules`, `catching_up` | nominal times, while instances die, stand still, or are all away |
//! | `polling` | items of sources that polls read |
//! | `hooks` | requests to webhook triggers |
//! | `events` | published events, and their windows |
//! | `ended` | triggers that fire with ends, while their deploys are killed |
//! | `ticks`, `entries` | what triggers did, on the database; what polls read |
//! | `counting` | what is written, counted on the database |
//!
//! Lengths and counts are a part of the full ones here; `make cluster` has the full ones.

mod absent;
mod approvals;
mod awaited;
mod callbacks;
mod catching_up;
mod children;
mod counting;
mod database;
mod ended;
pub(crate) mod entries;
mod event_waits;
mod events;
mod flows;
mod forgetting;
mod freezing;
mod hanging_up;
mod hooks;
mod killed_workers;
mod killing;
mod leaving;
mod limits;
mod load;
mod numbers;
mod polling;
mod redis;
mod relay;
mod resuming;
mod retrying;
mod rig;
mod schedules;
mod secrets;
mod signals;
mod sources;
mod start_races;
mod stopping;
mod ticks;
mod upgrading;
mod webhooks;
mod workers;
