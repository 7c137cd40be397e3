//! The deterministic simulator: the engine as it is, in a world that is made up from one seed.
//!
//! ```text
//!   random       every choice, from one seed, in streams that do not disturb each other
//!   program      the workload: random workflows that are valid definitions
//!   model        what must come of them: the graph's rules, written a second time, and a judge
//!   fault        what goes wrong, and how likely it is in this world
//!   store        the tables of a store, behind connections that fail
//!   process      one process: the product's driver and store calls, and the clocks of its machine
//!   outside      the sink that workers call
//!   simulation   one queue of events in virtual time; people, fate, auditor
//!   coverage     which arrows and faults were reached
//!   trace        what happened: equal for two runs of one seed
//!   shrink       the smallest world that still fails
//!   fleet        many seeds on all cores
//!   hunt         how many seeds it takes to find a planted bug
//! ```
//!
//! Development only: nothing of this is part of the product. Programs are self-contained, so that
//! the same ones can be run by real processes against a real HTTP server, and judged alike.

pub mod blobs;
pub mod clock;
pub mod coverage;
pub mod fault;
pub mod fleet;
#[cfg(feature = "planted")]
pub mod hunt;
pub mod model;
pub mod outside;
pub mod process;
pub mod program;
pub mod quiet;
pub mod random;
pub mod record;
pub mod shrink;
pub mod simulation;
pub mod store;
pub mod trace;
