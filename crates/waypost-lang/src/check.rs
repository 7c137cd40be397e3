//! Rules about several nodes at once: ids, edges, cycles, paths, references, variables.
//!
//! ```text
//!   edges ──▶ Graph ──▶ shape: cycles, entries, exits ──▶ Order (a DAG, cycles cut open)
//!                                                           │
//!                              paths: who is upstream, who may have been skipped
//!                                                           │
//!                                        references, variables
//! ```
//!
//! Edges stay within a scope, so that the graph of a definition with bodies is several graphs that
//! are not connected. A node that is seen from inside of a body is upstream if it is upstream of
//! the container.
//!
//! Everything is O(V+E), but for the ancestors: one bit per pair of nodes, and only if a reference
//! or a variable needs them.

mod bits;
mod budget;
mod edges;
mod inputs;
mod paths;
mod references;
mod scopes;
mod shape;
mod variables;

use waypost_core::plan::{Condition, OnError};

use crate::definition::ParsedDefinition;
use crate::diagnostics::Faults;
use crate::source::Source;

/// The edges of a definition, resolved. Nodes are known by position.
#[derive(Debug)]
pub(crate) struct Graph {
    /// What each node needs, one entry a source.
    pub(crate) conditions: Vec<Vec<Condition>>,
    /// The nodes that have this one as a source.
    pub(crate) successors: Vec<Vec<usize>>,
    /// What follows a node's failure, including edges on the branch `error`.
    pub(crate) on_error: Vec<OnError>,
    /// Nodes that need a node that does not exist: their upstream nodes are unknown.
    pub(crate) incomplete: Vec<bool>,
}

/// Checks a definition as a whole and returns its edges.
pub(crate) fn check(
    definition: &ParsedDefinition<'_>,
    source: &Source<'_>,
    faults: &mut Faults,
) -> Option<Graph> {
    let scopes = scopes::Scopes::find(definition, faults);
    let graph = edges::resolve(definition, &scopes, faults)?;
    let order = shape::check(definition, &graph, faults);
    let paths = paths::Paths::find(definition, &graph, &order);
    paths.warn_about_mixed_merges(definition, faults);
    references::check_triggers(definition, &scopes, &paths, source, faults);
    references::check(definition, &scopes, &paths, source, faults);
    inputs::check(definition, &scopes, source, faults);
    variables::check(definition, &scopes, &paths, faults);
    budget::check(definition, faults);
    Some(graph)
}
