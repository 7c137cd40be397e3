//! The store in PostgreSQL: the promises of every store, and those of this one.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a test that fails")]

mod blobs;
mod conformance;
mod connections;
mod copies;
mod feed;
mod fence;
mod lives;
mod open;
mod outbox;
mod permits;
mod plans;
mod portions;
mod projections;
mod rebuilding;
mod support;
mod tables;
mod tasks;
mod tls;
mod triggers;
mod unwritable;
mod waking;
