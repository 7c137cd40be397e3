//! The layouts of a store: steps from one to the next, and which of them a store still needs. How a step is
//! applied is the store's.

use crate::store::StoreError;

/// A step from one layout to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The layout it leads to, from 1 without gaps.
    pub version: u32,
    pub name: &'static str,
    pub sql: &'static str,
    /// Can builds that do not know it use the layout? It only adds tables, and columns that may be null.
    pub additive: bool,
}

impl Migration {
    /// A step after which builds that do not know it refuse the store.
    pub const fn new(version: u32, name: &'static str, sql: &'static str) -> Self {
        Self { version, name, sql, additive: false }
    }

    /// The same, as one that only adds.
    #[must_use]
    pub const fn additive(self) -> Self {
        Self { additive: true, ..self }
    }

    /// How a store records that it was applied: an additive one with its version negated. Builds that do
    /// not know it refuse a store whose largest version they do not know.
    pub fn recorded(&self) -> i32 {
        let version = i32::try_from(self.version).unwrap_or(i32::MAX);
        if self.additive { -version } else { version }
    }
}

/// The layout that a store records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Its layout; 0 when there is none.
    pub current: u32,
    /// The layout that a build must know to use it.
    pub required: u32,
}

/// The layout of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migrations {
    /// Its layout; 0 when there is none.
    pub current: u32,
    /// Migrations still to be applied, in order.
    pub pending: Vec<Migration>,
}

impl Migrations {
    /// Which of the known migrations a store of this layout still needs.
    pub fn of(known: &[Migration], current: u32) -> Self {
        let pending = known.iter().filter(|migration| migration.version > current);
        Self { current, pending: pending.copied().collect() }
    }

    /// Refuses a layout that a newer version has written, unless what it added does not matter here.
    pub fn refuse_newer(known: &[Migration], layout: Layout) -> Result<(), StoreError> {
        let newest = known.last().map_or(0, |migration| migration.version);
        let required = layout.required;
        if required <= newest {
            return Ok(());
        }
        Err(StoreError::Refused(format!(
            "the store has layout {required} and this version knows {newest}: \
             use the version that wrote it, or a newer one"
        )))
    }
}
