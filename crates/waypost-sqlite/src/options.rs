//! How a store is opened.

use std::sync::Arc;

use waypost_core::projection::inputs::Describe;
use waypost_ports::clock::{Clock, SystemClock};

/// Describes definitions, for the projections.
pub type Families = Arc<dyn Describe>;

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Does this process run the engine? Only one may, and only it claims executions and writes the
    /// projections. Others read, and deliver mail.
    pub engine: bool,
    pub clock: Arc<dyn Clock>,
    /// The URL that the server of this process listens at: others read it from the folder's lock.
    pub address: Option<String>,
    /// What the projections show of definitions: the families of their nodes, and their plans.
    pub families: Families,
    /// How many pages the log's file may have; for tests of a full disk.
    pub pages_max: Option<u32>,
    /// Bytes of a page of a file that is new.
    pub page_bytes: u32,
}

/// Measured with 256 interleaved executions: a little smaller than 4096 (283 to 285 bytes a frame)
/// and, with half as many pages to write and to sync, faster.
const PAGE_BYTES: u32 = 8192;

impl Options {
    /// For the process that runs the engine.
    pub fn engine() -> Self {
        Self {
            engine: true,
            clock: Arc::new(SystemClock),
            address: None,
            families: Arc::new(|_: &str| None),
            pages_max: None,
            page_bytes: PAGE_BYTES,
        }
    }

    /// For a process that reads a folder and sends mail, next to the engine's or without one.
    pub fn guest() -> Self {
        Self { engine: false, ..Self::engine() }
    }
}
