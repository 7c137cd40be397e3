//! Programs and the model, against the language and the core.

mod driver;
mod mutations;
mod programs;
mod truth;
