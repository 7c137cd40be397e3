//! Tests of the driver and of the engine around it.
//!
//! `driver` tests are single-threaded and own everything: they choose the order of commits, answers,
//! reports, mail and time. `engine` tests run the real threads and wait for signals, never for time
//! to pass.

#![expect(clippy::unwrap_used, reason = "in a test, what is not there is a failure")]

mod driver;
mod engine;
mod support;
