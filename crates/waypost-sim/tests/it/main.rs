//! Programs and the model, against the language and the core.

mod driver;
mod forecasts;
mod mutations;
mod programs;
mod truth;
