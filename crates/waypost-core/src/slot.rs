//! Slots: which of an instance's limits an attempt counts against while it runs.

use serde::Serialize;

/// The class of slot that an attempt takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SlotClass {
    /// Its handler computes or blocks, so the machine bounds how many run at once.
    Work,
    /// Its handler only awaits the network: an attempt is a connection and some memory.
    Io,
}

impl SlotClass {
    /// The setting that limits how many attempts of this class run at once.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Work => "slots",
            Self::Io => "io_slots",
        }
    }
}

/// A number of slots of each class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotCounts {
    pub work: u32,
    pub io: u32,
}

impl SlotCounts {
    /// The same number of each class.
    pub fn each(count: u32) -> Self {
        Self { work: count, io: count }
    }

    /// The number of one class.
    pub fn of(&mut self, class: SlotClass) -> &mut u32 {
        match class {
            SlotClass::Work => &mut self.work,
            SlotClass::Io => &mut self.io,
        }
    }

    /// So many less, of each class.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { work: self.work.saturating_sub(other.work), io: self.io.saturating_sub(other.io) }
    }
}
