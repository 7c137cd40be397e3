//! The accelerator against a real Redis, in every state that one can be in.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a test that fails")]

mod chaos;
mod cluster;
mod garbage;
mod logs;
mod mirror;
mod nudges;
mod outages;
mod presence;
mod relay;
mod scripts;
mod stale;
mod streams;
mod support;
mod tasks;
mod tls;
