//! Programs and the model, against the language and the core.

#![expect(clippy::unwrap_used, reason = "in a test, what is not there is a failure")]

mod driver;
mod forecasts;
mod mutations;
mod programs;
mod truth;
