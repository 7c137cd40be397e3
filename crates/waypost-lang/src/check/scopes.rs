//! Ids, scope by scope: which node an id means where, and what to say where it means none.
//!
//! A node needs nodes of its own scope only. Its expressions see these, and the nodes of the scopes
//! around it; they do not see into bodies.

use std::collections::HashMap;

use waypost_core::kind::BodyKind;

use crate::definition::{ParsedDefinition, ParsedNode};
use crate::diagnostics::{Code, Fault, Faults, quoted};
use crate::source::Span;

/// The ids of a definition.
pub(super) struct Scopes<'d> {
    definition: &'d ParsedDefinition<'d>,
    /// Per scope: positions by id. The first of two nodes with one id has it.
    index: Vec<HashMap<&'d str, usize>>,
    /// Positions by id, of one node each if several have it.
    everywhere: HashMap<&'d str, usize>,
}

/// A node that can be seen from a scope.
#[derive(Clone, Copy)]
pub(super) struct Visible {
    pub(super) node: usize,
    /// The node of the same scope that the observer is, or is in the body of.
    pub(super) seen_by: usize,
}

impl<'d> Scopes<'d> {
    /// Finds all ids; two nodes that see each other must not have the same.
    pub(super) fn find(definition: &'d ParsedDefinition<'d>, faults: &mut Faults) -> Self {
        let index = vec![HashMap::new(); definition.scopes.len()];
        let mut scopes = Self { definition, index, everywhere: HashMap::new() };
        let named = definition.nodes.iter().enumerate().filter(|(_, node)| !node.id.is_empty());
        for (at, node) in named {
            let id = node.id.as_str();
            match scopes.visible(at, id) {
                None => {
                    scopes.index[node.scope].insert(id, at);
                    scopes.everywhere.entry(id).or_insert(at);
                }
                Some(other) => {
                    faults.add(scopes.duplicate(at, other));
                }
            }
        }
        scopes
    }

    fn duplicate(&self, at: usize, other: Visible) -> Fault {
        let node = &self.definition.nodes[at];
        let (message, hint) = if other.seen_by == at {
            let message = format!("there is another node with the id {}", quoted(&node.id));
            (message, "every node needs an id of its own")
        } else {
            let container = quoted(&self.definition.nodes[other.seen_by].id);
            let message = format!("{} is also the id of a node outside", quoted(&node.id));
            let hint = "the nodes of a body see those outside, so that their ids must differ";
            match other.node == other.seen_by {
                true => (format!("{container} is also the id of the node around this one"), hint),
                false => (format!("{message} of {container}"), hint),
            }
        };
        Fault::error(Code::DuplicateId, node.id_span.clone(), message).with_hint(hint)
    }

    pub(super) fn node(&self, at: usize) -> &'d ParsedNode<'d> {
        &self.definition.nodes[at]
    }

    /// The node of this id in the scope of another one.
    pub(super) fn sibling(&self, of: usize, id: &str) -> Option<usize> {
        self.index[self.node(of).scope].get(id).copied()
    }

    /// The node that an expression of the node `by` means by this id: the nearest one.
    pub(super) fn visible(&self, by: usize, id: &str) -> Option<Visible> {
        std::iter::once(by).chain(self.around(by)).find_map(|seen_by| {
            let node = self.sibling(seen_by, id)?;
            Some(Visible { node, seen_by })
        })
    }

    /// Some node of this id, visible or not.
    pub(super) fn anywhere(&self, id: &str) -> Option<usize> {
        self.everywhere.get(id).copied()
    }

    /// The containers that a node is in, from the inside outwards.
    pub(super) fn around(&self, at: usize) -> impl Iterator<Item = usize> + use<'d> {
        let definition = self.definition;
        let container = move |at: &usize| {
            let scope = definition.scopes.get(definition.nodes[*at].scope)?;
            scope.container
        };
        std::iter::successors(container(&at), container)
    }

    /// The ids of a node's scope.
    pub(super) fn sibling_ids(&self, of: usize) -> impl Iterator<Item = &'d str> + use<'_, 'd> {
        self.index[self.node(of).scope].keys().copied()
    }

    /// Every id that can be seen from a node.
    pub(super) fn visible_ids(&self, by: usize) -> impl Iterator<Item = &'d str> + use<'_, 'd> {
        let seen_by = std::iter::once(by).chain(self.around(by));
        seen_by.flat_map(|at| self.sibling_ids(at))
    }

    /// Two nodes of one scope that are, or contain, these two. They are one node if one of the two
    /// is in the body of the other.
    pub(super) fn meet(&self, mut a: usize, mut b: usize) -> (usize, usize) {
        // A body has a greater number than the scope that its container is in.
        while self.node(a).scope != self.node(b).scope {
            let inner = if self.node(a).scope > self.node(b).scope { &mut a } else { &mut b };
            let Some(container) = self.around(*inner).next() else { break };
            *inner = container;
        }
        (a, b)
    }

    /// Is the node a loop? A node of an unknown kind may be one.
    pub(super) fn may_repeat(&self, at: usize) -> bool {
        self.node(at).kind.is_none_or(|kind| kind.body == Some(BodyKind::Repeated))
    }

    /// Is the node a map? A node of an unknown kind may be one.
    pub(super) fn may_have_items(&self, at: usize) -> bool {
        self.node(at).kind.is_none_or(|kind| kind.body == Some(BodyKind::Each))
    }

    /// The nearest map that a node is in.
    pub(super) fn map_around(&self, at: usize) -> Option<usize> {
        let is_map =
            |at: &usize| self.node(*at).kind.is_some_and(|kind| kind.body == Some(BodyKind::Each));
        self.around(at).find(is_map)
    }

    /// The fault of a `needs` that names a node of another scope; `None` if there is no such node.
    pub(super) fn need_across(&self, by: usize, id: &str, span: Span) -> Option<Fault> {
        let name = |at: usize| quoted(&self.node(at).id);
        let own = quoted(id);
        let (message, hint) = if let Some(found) = self.visible(by, id) {
            let container = self.around(by).next()?;
            if found.node == found.seen_by {
                let message = format!("{own} cannot be needed in its own body");
                (message, "the nodes of a body begin when their container does".to_owned())
            } else {
                let hint = format!(
                    "add {own} to the `needs` of {}: its body begins after {own}, and its \
                     expressions see `nodes.{id}.output`",
                    name(found.seen_by)
                );
                (
                    format!("{own} is outside of {}: `needs` stay within a body", name(container)),
                    hint,
                )
            }
        } else {
            let found = self.anywhere(id)?;
            let (whole, part) = (self.around(found).next()?, self.meet(found, by));
            let hint = match part {
                (container, node) if container == node => "remove it from `needs`".to_owned(),
                (container, node) if node == by => format!("write {} instead", name(container)),
                (container, node) => {
                    format!("add {} to the `needs` of {}", name(container), name(node))
                }
            };
            (
                format!(
                    "{own} is in the body of {whole}: outside, only {whole} can be needed",
                    whole = name(whole)
                ),
                hint,
            )
        };
        Some(Fault::error(Code::OutsideScope, span, message).with_hint(hint))
    }

    /// The fault of an expression that names a node in a body; `None` if there is no such node.
    pub(super) fn reference_into_body(&self, by: usize, id: &str, span: Span) -> Option<Fault> {
        let found = self.anywhere(id)?;
        let (container, node) = self.meet(found, by);
        let outer = &self.node(container).id;
        let message = format!(
            "{} is in the body of {}: outside, only `nodes.{outer}.output` can be read",
            quoted(id),
            quoted(outer)
        );
        let hint = match container == node {
            true if self.may_repeat(container) => PREVIOUS.to_owned(),
            true => "in `variables`, the result of the node itself is `output`".to_owned(),
            false => format!("write `nodes.{outer}.output`, or move this into the body"),
        };
        Some(Fault::error(Code::OutsideScope, span, message).with_hint(hint))
    }
}

pub(super) const PREVIOUS: &str = "the output of the iteration before is `previous`";
