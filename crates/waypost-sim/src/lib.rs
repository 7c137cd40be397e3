//! The deterministic simulator: the engine as it is, in a world that is made up from one seed.
//!
//! ```text
//!   random    every choice, from one seed, in streams that do not disturb each other
//!   program   the workload: random workflows that are valid definitions
//!   model     what must come of them: the graph's rules, written a second time, and a judge
//! ```
//!
//! Development only: nothing of this is part of the product. Programs are self-contained, so that
//! the same ones can be run by real processes against a real HTTP server, and judged alike.

pub mod model;
pub mod program;
pub mod random;
