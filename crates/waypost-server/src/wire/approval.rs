//! Links of approvals on the wire.

use waypost_core::limits::COMMENT_CHARS_MAX;

use super::control::DecisionWord;
use super::payload::{Payload, Prose, Short, Time};

wire! {
    /// Which links to make.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    pub struct NewApprovalLinks {
        /// Whom to make a link for; default: each approver, or with a key of the role `operator` the name of the key. An administrator needs it where the approval names none.
        pub approver?: Short<256>,
        /// When the links expire; default: when the approval does, or in 7 days.
        pub expires_at?: Time,
    }

    /// The links of an approval.
    pub struct ApprovalLinks {
        /// The wait's id.
        pub wait: String,
        /// One for each approver.
        pub links: Vec<ApprovalLinkOf>,
    }

    /// The link of one approver. Who has it can decide in that name.
    pub struct ApprovalLinkOf {
        /// Whom it is for.
        pub approver: String,
        /// Where that person sees what is to be decided, and decides.
        pub url: String,
        /// Until when it can be used.
        pub expires_at: Time,
    }

    /// What a link is about.
    pub struct LinkedApproval {
        /// The execution's id.
        pub execution: String,
        /// The workflow.
        pub workflow: String,
        /// The node's path.
        pub node: String,
        /// What is to be decided.
        pub title: String,
        /// More about it.
        pub description?: String,
        /// Whom the link is for.
        pub approver: String,
        /// JSON Schema of the `form` that comes with an approval.
        pub form?: Payload,
        /// When the approval expires.
        pub due?: Time,
        /// Until when the link can be used.
        pub expires_at: Time,
    }

    /// A decision by a link.
    #[serde(deny_unknown_fields)]
    pub struct DecideByLink {
        /// What is decided.
        pub decision: DecisionWord,
        /// Why, for the output and the log.
        pub comment?: Prose<COMMENT_CHARS_MAX>,
        /// What was filled in. An approval's `form` must fit the schema of its node.
        #[serde(default)]
        pub form: Payload,
    }
}
