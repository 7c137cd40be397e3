//! Tests of the built-in kinds: how configs compile, and what handlers do to the real world (a local
//! server, local processes). Nothing leaves the machine.

#![expect(clippy::unwrap_used, reason = "in a test, what is not there is a failure")]

mod api_call;
mod api_call_blobs;
mod api_call_limits;
mod egress;
mod kinds;
mod llm;
mod llm_config;
mod llm_failures;
mod redirects;
mod secrets;
mod server;
mod shell;
mod support;
mod tls;
mod verdict;
