//! Approvals: what a program asks people to decide.

use serde_json::{Value as Json, json};

/// Who is named as an approver.
pub const APPROVER: &str = "ann";
/// Who may decide, too, after the escalation.
pub const DEPUTY: &str = "dee";

/// What people are asked, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Approval {
    /// May only [`APPROVER`] decide, or anyone?
    pub named: bool,
    /// When it expires.
    pub timeout_ms: Option<u64>,
    /// When people are reminded.
    pub reminder_ms: Option<u64>,
    /// When [`DEPUTY`] may decide, too.
    pub escalate_ms: Option<u64>,
}

impl Approval {
    /// One without any times, which anyone may decide.
    pub const SIMPLEST: Self =
        Self { named: false, timeout_ms: None, reminder_ms: None, escalate_ms: None };

    /// The config of its node.
    pub(super) fn config(self) -> Json {
        let mut config = json!({ "title": "n is ${{ input.n }}" });
        if self.named {
            config["approvers"] = json!([APPROVER]);
        }
        if let Some(timeout) = self.timeout_ms {
            config["timeout"] = json!(timeout);
        }
        if let Some(reminder) = self.reminder_ms {
            config["reminder"] = json!(reminder);
        }
        if let Some(after) = self.escalate_ms {
            config["escalate"] = json!({ "after": after, "to": [DEPUTY] });
        }
        config
    }

    /// On one line, for people.
    pub(super) fn text(self) -> String {
        let named = self.named.then(|| format!(" by {APPROVER}"));
        let timeout = self.timeout_ms.map(|ms| format!(" {ms}"));
        let reminder = self.reminder_ms.map(|ms| format!(" remind={ms}"));
        let escalate = self.escalate_ms.map(|ms| format!(" escalate={ms}"));
        let options = [named, timeout, reminder, escalate].into_iter().flatten();
        format!("approval{}", options.collect::<String>())
    }

    /// How many options it has, for a measure that shrinking makes smaller.
    pub(super) fn weight(self) -> usize {
        let times = [self.timeout_ms, self.reminder_ms, self.escalate_ms];
        usize::from(self.named) + times.iter().flatten().count()
    }
}
