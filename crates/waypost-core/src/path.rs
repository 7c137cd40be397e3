//! Paths: the address of a node in an execution.
//!
//! | path | the node |
//! | --- | --- |
//! | `ship` | `ship` of the definition |
//! | `checks/lint` | `lint` in the body of group `checks` |
//! | `poll[3]/get` | `get` of iteration 3 of loop `poll`, from 1 |
//! | `each[17]/fetch` | `fetch` of item 17 of map `each`, from 0 |
//!
//! Inside the core a node is at an [`At`]: a scope that is open, and a position in the plan.

use serde::{Deserialize, Serialize};

use crate::id::NodeIx;

/// A scope of one execution: its nodes see each other. Numbers are given in the order in which
/// scopes are opened, and never again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScopeNo(pub u64);

impl ScopeNo {
    /// The scope of the definition's own nodes.
    pub const ROOT: Self = Self(0);
}

/// Where a node stands in an execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct At {
    pub scope: ScopeNo,
    pub node: NodeIx,
}

impl At {
    /// Another node of the same scope.
    #[must_use]
    pub fn sibling(self, node: NodeIx) -> Self {
        Self { node, ..self }
    }
}

impl From<NodeIx> for At {
    /// A node of the definition itself.
    fn from(node: NodeIx) -> Self {
        Self { scope: ScopeNo::ROOT, node }
    }
}

/// One step of a path: a node, and for a container with several scopes, which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    pub id: &'a str,
    pub index: Option<u64>,
}

/// The steps of a path, from the definition inwards. A step that cannot be read names no node.
pub fn segments(path: &str) -> impl Iterator<Item = Segment<'_>> {
    path.split('/').map(|step| {
        let unindexed = Segment { id: step, index: None };
        let Some((id, index)) = step.strip_suffix(']').and_then(|step| step.split_once('[')) else {
            return unindexed;
        };
        let is_plain = index == "0" || index.starts_with(|c: char| matches!(c, '1'..='9'));
        match index.parse().ok().filter(|_| is_plain) {
            Some(index) => Segment { id, index: Some(index) },
            None => unindexed,
        }
    })
}

/// Is a path inside of a loop or a map, so that there may be any number of such nodes?
pub fn is_repeated(path: &str) -> bool {
    path.contains('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_written_and_not_otherwise() {
        let read = |path| segments(path).map(|s| (s.id, s.index)).collect::<Vec<_>>();
        assert_eq!(read("ship"), [("ship", None)]);
        assert_eq!(
            read("a/b[0]/c[17]/d"),
            [("a", None), ("b", Some(0)), ("c", Some(17)), ("d", None)]
        );
        for step in ["b[]", "b[01]", "b[+1]", "b[-1]", "b[1", "b1]", "b[18446744073709551616]"] {
            assert_eq!(read(step), [(step, None)]);
        }
    }
}
