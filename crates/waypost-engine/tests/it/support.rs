//! What the tests are made of.
//!
//! | file | owns |
//! | --- | --- |
//! | `world` | store, clock and the record of handler calls that drivers share |
//! | `rig` | one driver whose outputs are performed when a test says so |
//! | `lab` | an engine with its threads, and handlers that do as a test says |
//! | `triggers` | instances with a trigger runner each |
//! | `store` | a store that fails, damages and panics on demand |

pub(crate) mod lab;
pub(crate) mod rig;
pub(crate) mod store;
pub(crate) mod triggers;
pub(crate) mod world;

pub(crate) use rig::Rig;
pub(crate) use world::World;
