//! Did each node that starts an execution end as that execution did?

use serde_json::{Value as Json, json};
use waypost_core::failure::kind;
use waypost_core::status::{NodeStatus, Status};

use super::Judge;
use super::outcomes::expect;
use crate::model::{ChildRan, NodeRan};
use crate::program::{ChildCall, Node, RetryOn, Tie};

impl Judge<'_> {
    pub(super) fn is_child_allowed(
        &self,
        node: &Node,
        call: ChildCall,
        ran: &NodeRan,
    ) -> Result<(), String> {
        expect(ran.branch.is_none(), "it has no branches")?;
        let awaits = call.tie != Tie::Detached;
        let fits = |child: &ChildRan| child.awaited == awaits;
        expect(ran.children.iter().all(fits), "its definition says otherwise whether it waits")?;
        expect(ran.children.len() <= 1, "a retry opens its child again")?;
        let ends: Vec<Status> =
            ran.children.iter().flat_map(|child| child.ends.iter().map(|(_, end)| *end)).collect();
        let failure = ran.failure.as_deref().unwrap_or_default();
        let struck = failure == kind::TIMEOUT && self.may_strike(node);
        // A start that an older instance of the cluster delays is a try without a child.
        let unstarted = ran.tries - u32::try_from(ends.len()).unwrap_or(0).min(ran.tries);
        if awaits && !struck {
            expect(unstarted == 0 || self.ran.world.mixed, "each try has an end of its child")?;
        }
        for (at, end) in ends.iter().enumerate() {
            let last = at + 1 == ends.len() && unstarted == 0;
            let again = ran.tries > 1 && is_retried(node, *end);
            expect(last || struck || again || self.ran.world.mixed, "it is not tried again")?;
        }
        if ran.status == NodeStatus::Completed {
            return match awaits {
                true => expect(ends.last() == Some(&Status::Completed), "its child did not"),
                false => expect(ran.children.len() == 1, "it starts one execution"),
            };
        }
        if struck {
            return Ok(());
        }
        if failure == kind::CLUSTER_TOO_OLD {
            return expect(self.ran.world.mixed, "all instances have one version");
        }
        let Some(end) = ends.last().filter(|_| awaits) else {
            return Err("nothing fails it".into());
        };
        let (expected, status) = match end {
            Status::Failed => (kind::CHILD_FAILED, NodeStatus::Failed),
            Status::TimedOut => (kind::TIMEOUT, NodeStatus::TimedOut),
            Status::Cancelled => (kind::CHILD_CANCELLED, NodeStatus::Failed),
            _ => return Err(format!("its child is {end}")),
        };
        expect(failure == expected && ran.status == status, &format!("its child is {end}"))?;
        // A retry that would begin after the deadline is none.
        let spared = self.is_cut_short(ran) || self.may_strike(node);
        let again = ran.tries < node.tries_max() && is_retried(node, *end);
        expect(!again || spared, "it is tried again")
    }

    /// Is this the output that its child had, or the one that names it?
    pub(super) fn is_child_output(&self, call: ChildCall, ran: &NodeRan, output: &Json) -> bool {
        let Some(child) = ran.children.last() else { return false };
        if call.tie == Tie::Detached {
            return *output == json!({ "execution": child.key });
        }
        let last = child.ends.last().map(|(generation, _)| (child.execution, *generation));
        last.and_then(|last| self.ran.children.get(&last)) == Some(output)
    }
}

/// Does a node's policy cover this end of its child?
fn is_retried(node: &Node, end: Status) -> bool {
    node.retry.is_some_and(|retry| match (retry.on, end) {
        (RetryOn::Transient, Status::Failed | Status::TimedOut)
        | (RetryOn::Timeouts, Status::TimedOut) => true,
        (RetryOn::ServerErrors | RetryOn::ClientErrors | RetryOn::Timeouts, _)
        | (RetryOn::Transient, _) => false,
    })
}
