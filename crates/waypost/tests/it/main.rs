//! The integration tests of the program: real processes on real folders.

mod docs;
mod examples;
mod invariants;
mod kill;
mod sink;
mod tidy;
