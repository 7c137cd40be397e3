//! The integration tests of the server: a real one on a socket of its own, over the store in memory,
//! asked by a client that sends bytes as they are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod approval_links;
mod approvals;
mod audit;
mod bad_input;
mod blobs;
mod breakers;
mod callbacks;
mod concurrency;
mod control;
mod current;
mod description;
mod events;
mod guard;
mod hooks;
mod limits;
mod metrics;
mod order;
mod paging;
mod payloads;
mod racing;
mod signals;
mod slow_readers;
mod starting;
mod steering;
mod streams;
mod support;
mod tls;
mod triggers;
mod trouble;
mod webhooks;
mod workers;
