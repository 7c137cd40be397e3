//! The integration tests of the program: real processes on real folders.

mod invariants;
mod kill;
mod sink;
