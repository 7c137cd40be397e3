//! What the rows of waits have.

use std::sync::Arc;

use crate::event::Wait;
use crate::time::Timestamp;

/// The columns of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTerms {
    /// The name of its kind.
    pub kind: &'static str,
    /// When time ends it.
    pub resume_at: Option<Timestamp>,
    /// When waiting becomes a failure.
    pub expires_at: Option<Timestamp>,
}

impl WaitTerms {
    /// Of a wait.
    pub fn of(wait: &Wait) -> Self {
        let (kind, resume_at, expires_at) = match wait {
            Wait::Delay { due } => ("DELAY", Some(*due), None),
            Wait::Signal { due, .. } | Wait::Signals { due, .. } => ("WAIT_EVENTS", None, *due),
            Wait::Approval(approval) => ("APPROVAL", None, approval.due),
            Wait::Callback { due, .. } => ("ASYNC_OPERATION", None, *due),
            Wait::Retry { due } => ("RETRY", Some(*due), None),
            // Never shown as a wait: the nodes of the body have their own rows.
            Wait::Body => ("BODY", None, None),
            Wait::Child { .. } => ("CHILD_WORKFLOW", None, None),
            Wait::Breaker(breaker) => ("BREAKER", Some(breaker.due), None),
        };
        Self { kind, resume_at, expires_at }
    }
}

/// What people are shown of a wait besides its times.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct WaitDetail {
    /// The signals that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Arc<str>>,
    /// Of an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// Who may decide it, as it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Arc<str>>,
    /// The key of the circuit breaker that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Arc<str>>,
}

impl WaitDetail {
    /// Of a wait; none where there is nothing to show.
    pub fn of(wait: &Wait) -> Option<Self> {
        match wait {
            Wait::Signal { name, .. } => {
                Some(Self { signals: vec![Arc::clone(name)], ..Self::default() })
            }
            Wait::Signals { names, .. } => Some(Self { signals: names.clone(), ..Self::default() }),
            Wait::Approval(approval) => Some(Self {
                title: Some(Arc::clone(&approval.title)),
                approvers: approval.approvers.clone(),
                ..Self::default()
            }),
            Wait::Breaker(breaker) => {
                Some(Self { breaker: Some(Arc::clone(&breaker.key)), ..Self::default() })
            }
            Wait::Delay { .. }
            | Wait::Retry { .. }
            | Wait::Body
            | Wait::Child { .. }
            | Wait::Callback { .. } => None,
        }
    }

    /// As rows have it: JSON.
    pub fn text_of(wait: &Wait) -> Option<String> {
        Self::of(wait).map(|detail| serde_json::json!(detail).to_string())
    }

    /// From a row. What cannot be read is not shown.
    pub fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}
