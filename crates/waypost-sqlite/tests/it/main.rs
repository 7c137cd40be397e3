//! The store in a folder: the promises of every store, and those of this one.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a test that fails")]

mod bytes;
mod conformance;
mod files;
mod guests;
mod limits;
mod projections;
mod workload;
