//! The parts of a definition in the read tables: the descriptions of its nodes.

use std::sync::Arc;

use serde::Deserialize;

use crate::json::Json;

/// A node, as a definition's canonical form describes it.
#[derive(Clone, Deserialize, Debug)]
pub struct CanonicalNode {
    /// Its path.
    pub id: Arc<str>,
    /// The name of its kind.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its label, where it has one.
    pub label: Option<String>,
    /// Its id in a registry of the user.
    #[serde(rename = "registryId")]
    pub registry: Option<String>,
    /// Its config, with its expressions.
    pub config: Option<Json>,
}

/// The nodes of a definition; none where its canonical form cannot be read.
pub fn canonical_nodes(canonical: &[u8]) -> Vec<CanonicalNode> {
    #[derive(Deserialize)]
    struct Canonical {
        #[serde(default)]
        nodes: Vec<CanonicalNode>,
    }
    serde_json::from_slice(canonical).map_or_else(|_| Vec::new(), |read: Canonical| read.nodes)
}
