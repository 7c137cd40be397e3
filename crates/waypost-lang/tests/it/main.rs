//! Integration tests of the definition language, through its public functions only.

mod canonical;
mod faults;
mod input;
mod kinds;
mod plans;
mod rendering;
mod robustness;
mod schema;
mod triggers;
