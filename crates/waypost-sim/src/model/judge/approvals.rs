//! Did each approval end by the decision of a person who may decide it, or by its time?

use serde_json::{Value as Json, json};
use waypost_core::failure::kind;
use waypost_core::kind::EXPIRED;
use waypost_core::status::NodeStatus;

use super::Judge;
use super::outcomes::expect;
use crate::model::{AskedDecision, NodeRan};
use crate::program::{APPROVER, Approval, DEPUTY, Node};

impl Judge<'_> {
    pub(super) fn is_approval_allowed(
        &self,
        node: &Node,
        approval: Approval,
        ran: &NodeRan,
    ) -> Result<(), String> {
        expect(ran.tries == 1, "it is tried once")?;
        if ran.status != NodeStatus::Completed {
            let timed_out = ran.status == NodeStatus::TimedOut;
            expect(timed_out && ran.failure.as_deref() == Some(kind::TIMEOUT), "nothing fails it")?;
            return expect(node.deadline_ms.is_some(), "it has no deadline");
        }
        let Some(branch) = ran.branch.as_deref() else { return Err("it selects a branch".into()) };
        if branch == EXPIRED {
            expect(ran.resumed.is_empty(), "a person decided it")?;
            return expect(approval.timeout_ms.is_some(), "it does not expire");
        }
        let [wait] = ran.resumed[..] else { return Err("one person decides it".into()) };
        let mut decisions = self.ran.world.decisions.iter().filter(|asked| asked.wait == wait);
        let may = |asked: &AskedDecision| match approval.named {
            true if asked.by == DEPUTY => approval.escalate_ms.is_some(),
            true => asked.by == APPROVER,
            false => true,
        };
        let fits = |asked: &AskedDecision| asked.branch == branch && may(asked);
        expect(decisions.any(fits), "no person who may decide it did so")
    }

    /// Is this the output of a decision, or of none?
    pub(super) fn is_decision(&self, ran: &NodeRan, output: &Json) -> bool {
        let branch = ran.branch.as_deref();
        if branch == Some(EXPIRED) {
            return output["decision"] == EXPIRED && output["by"].is_null();
        }
        self.ran.world.decisions.iter().any(|asked| {
            ran.resumed.last() == Some(&asked.wait)
                && branch == Some(asked.branch)
                && output["decision"] == asked.branch
                && output["by"] == asked.by
                && output["comment"] == json!(asked.comment)
        })
    }
}
