//! YAML and JSON that is not a definition of Waypost, read as one is: the same syntax, the same limits,
//! the same positions. For the importer.

use crate::diagnostics::{Diagnostics, Faults};
use crate::source::Source;
use crate::tree::{self, Tree};

/// A source and its values.
#[derive(Debug)]
pub struct Document<'a> {
    source: Source<'a>,
    pub root: Tree,
}

impl<'a> Document<'a> {
    /// Reads YAML or JSON, at most 4 MiB of it, nested at most 100 levels deep.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Diagnostics> {
        let source = Source::new(bytes).map_err(Diagnostics::of)?;
        let mut faults = Faults::new();
        match tree::parse(&source, &mut faults) {
            Ok(root) if faults.errors() == 0 => Ok(Self { source, root }),
            Ok(_) => Err(faults.finish(&source)),
            Err(fault) => {
                faults.add(fault);
                Err(faults.finish(&source))
            }
        }
    }

    /// Line and column of a byte, both from 1.
    pub fn position(&self, byte: usize) -> (usize, usize) {
        self.source.position(byte)
    }
}
