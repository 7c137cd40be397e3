//! What the tests are made of.
//!
//! | file | owns |
//! | --- | --- |
//! | `flows` | a toy definition language, compiled to plans |
//! | `world` | store, clock and the record of handler calls that drivers share |
//! | `rig` | one driver whose outputs are performed when a test says so |
//! | `audit` | the invariants that every log must satisfy |

pub(crate) mod audit;
pub(crate) mod flows;
pub(crate) mod rig;
pub(crate) mod world;

pub(crate) use rig::{Rig, StoreWork};
pub(crate) use world::World;
