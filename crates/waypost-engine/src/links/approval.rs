//! Links of approvals: each is for one wait and one approver, until a time.

use std::sync::Arc;

use waypost_core::id::{ExecutionId, WaitId};
use waypost_core::time::{Millis, Timestamp};

use super::{LINK_CHARS_MAX, Link, LinkPurpose, Links};

/// The path of links of approvals, before the token.
pub const APPROVALS_PATH: &str = "/v1/approvals/";

/// How long a link is good for if the approval does not expire and no other time is asked for.
pub const APPROVAL_LINK_KEPT: Millis = Millis::from_secs(7 * 24 * 3_600);

/// What the link of an approval says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalLink {
    pub wait: WaitId,
    /// The person that it was made for.
    pub approver: Arc<str>,
    pub expires_at: Timestamp,
}

impl ApprovalLink {
    /// When a link that is made now expires, unless another time is asked for.
    pub fn expiry(due: Option<Timestamp>, now: Timestamp) -> Timestamp {
        due.unwrap_or_else(|| now.plus(APPROVAL_LINK_KEPT))
    }

    /// What a verified link says; `None` if it names no wait.
    pub fn of(link: &Link) -> Option<Self> {
        let seq = link.node.parse().ok()?;
        let wait = WaitId { execution: link.execution.clone(), seq };
        Some(Self { wait, approver: Arc::clone(&link.subject), expires_at: link.expires_at? })
    }

    /// Its URL, where links begin like this. `None` if the name of the approver is too long for one.
    pub fn url(&self, links: &Links, public_url: &str) -> Option<String> {
        let link = Link {
            execution: ExecutionId(self.wait.execution.0.clone()),
            // The seq of a wait names it for good: no generation has another one of it.
            generation: 0,
            node: self.wait.seq.to_string().into(),
            subject: Arc::clone(&self.approver),
            expires_at: Some(self.expires_at),
        };
        let token = links.issue(LinkPurpose::Approval, &link);
        let base = public_url.trim_end_matches('/');
        (token.len() <= LINK_CHARS_MAX).then(|| format!("{base}{APPROVALS_PATH}{token}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(approver: &str) -> ApprovalLink {
        let wait = WaitId { execution: ExecutionId("refund-7".into()), seq: 5 };
        ApprovalLink { wait, approver: approver.into(), expires_at: Timestamp(9_000) }
    }

    #[test]
    fn approval_link_is_read_back_from_its_url() {
        let links = Links::new(&[7; 32]);
        for base in ["https://flows.example.com", "https://example.com/flows/"] {
            let url = link("ann").url(&links, base).unwrap();
            let (before, token) = url.rsplit_once('/').unwrap();
            assert_eq!(
                format!("{before}/"),
                base.trim_end_matches('/').to_owned() + APPROVALS_PATH
            );
            let verified = links.verify(LinkPurpose::Approval, token, Timestamp(1)).unwrap();
            assert_eq!(ApprovalLink::of(&verified), Some(link("ann")));
        }
        assert_eq!(link(&"a".repeat(LINK_CHARS_MAX)).url(&links, "https://example.com"), None);
    }

    #[test]
    fn approval_link_expires_with_the_approval_or_after_a_week() {
        let now = Timestamp(1_000);
        assert_eq!(ApprovalLink::expiry(Some(Timestamp(2_000)), now), Timestamp(2_000));
        assert_eq!(ApprovalLink::expiry(None, now), Timestamp(1_000 + 7 * 24 * 3_600_000));
    }
}
