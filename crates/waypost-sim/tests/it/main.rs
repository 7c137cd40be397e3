//! Programs and the model, against the language and the core; and the simulator itself.

#![expect(clippy::unwrap_used, reason = "in a test, what is not there is a failure")]

mod driver;
mod forecasts;
mod mutations;
#[cfg(feature = "planted")]
mod planted;
mod programs;
mod seeds;
mod truth;
