//! The trigger that an execution began with: what its first event says, and which nodes follow from it.

use super::invariant::Invariant::Justified;
use super::nodes::Nodes;
use super::{Verdict, require, require_with};
use crate::event::RunCreated;
use crate::kind::Behaviour;
use crate::path::{At, ScopeNo};
use crate::plan::Plan;

impl Nodes {
    /// An execution begins with a trigger of its own definition.
    pub(super) fn may_begin_with(&self, created: &RunCreated) -> Verdict {
        let Some(fired) = created.trigger.as_deref() else { return Ok(()) };
        let orphan = created.parent.is_none();
        require(orphan, Justified, "it has a parent, and a trigger started it")?;
        let Some(plan) = &self.plan else { return Ok(()) };
        let declared = plan.triggers.iter().any(|trigger| {
            trigger.name == fired.name
                && trigger.kind_name().name() == &*fired.kind
                && trigger.node == fired.node
        });
        require_with(declared, Justified, || {
            format!("its definition has no {} trigger {:?}", fired.kind, fired.name)
        })
    }

    /// Is this node a trigger with which the execution did not begin?
    pub(super) fn has_no_part(&self, plan: &Plan, at: At) -> bool {
        let Behaviour::Trigger { manual } = plan.node(at.node).behaviour else { return false };
        if at.scope != ScopeNo::ROOT {
            return false;
        }
        match &self.began_at {
            Some(began_at) => plan.node(at.node).id != *began_at,
            // By hand: at the nodes that stand for it, or at all triggers if there are none.
            None => {
                !manual
                    && plan.positions().any(|node| {
                        matches!(plan.node(node).behaviour, Behaviour::Trigger { manual: true })
                    })
            }
        }
    }
}
