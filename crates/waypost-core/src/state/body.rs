//! Bodies: what a container knows of the scopes that it has opened.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::path::ScopeNo;

/// The body of a container that is under way.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Body {
    /// The scopes that are open, by index. A group has one at most, without an index.
    pub open: BTreeMap<Option<u64>, ScopeNo>,
}

impl Body {
    /// The open scope of this index.
    pub fn scope(&self, index: Option<u64>) -> Option<ScopeNo> {
        self.open.get(&index).copied()
    }
}
