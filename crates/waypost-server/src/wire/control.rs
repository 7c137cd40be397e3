//! The bodies of control requests, and their way to a [`Request`] and back. Unknown fields are refused:
//! a misspelt one would otherwise do nothing, silently.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use waypost_core::command::Request;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionId, WaitId};

use super::payload::{Payload, Short, present};

/// A reason, as the log keeps it.
pub type ReasonText = Short<1000>;
/// A message id that the sender chose.
pub type MessageIdText = Short<256>;

/// The body of a control request to the execution in the path.
pub trait ControlBody: DeserializeOwned {
    /// The request, and its message id where the sender chose one.
    fn into_request(self) -> (Request, Option<MessageId>);
}

/// A request to pause.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PauseRequest")]
pub struct Pause {
    /// Cancel what runs instead of awaiting it? It runs again after the pause.
    #[serde(default)]
    pub now: bool,
    /// Why; kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "ReasonText")]
    pub reason: Option<ReasonText>,
    /// The request's id: sent twice under one id, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "MessageIdText")]
    pub message_id: Option<MessageIdText>,
}

impl ControlBody for Pause {
    fn into_request(self) -> (Request, Option<MessageId>) {
        (Request::Pause { now: self.now, reason: text(self.reason) }, id(self.message_id))
    }
}

/// A request to resume.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ResumeRequest")]
pub struct Resume {
    /// Why; kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "ReasonText")]
    pub reason: Option<ReasonText>,
    /// The request's id: sent twice under one id, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "MessageIdText")]
    pub message_id: Option<MessageIdText>,
}

impl ControlBody for Resume {
    fn into_request(self) -> (Request, Option<MessageId>) {
        (Request::Resume { reason: text(self.reason) }, id(self.message_id))
    }
}

/// A request to cancel.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CancelRequest")]
pub struct Cancel {
    /// Why; kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "ReasonText")]
    pub reason: Option<ReasonText>,
    /// The request's id: sent twice under one id, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "MessageIdText")]
    pub message_id: Option<MessageIdText>,
}

impl ControlBody for Cancel {
    fn into_request(self) -> (Request, Option<MessageId>) {
        (Request::Cancel { reason: text(self.reason) }, id(self.message_id))
    }
}

/// A request to retry.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RetryRequest")]
pub struct Retry {
    /// Why; kept in the log.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "ReasonText")]
    pub reason: Option<ReasonText>,
    /// The request's id: sent twice under one id, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "MessageIdText")]
    pub message_id: Option<MessageIdText>,
    /// List the nodes that would run again, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

impl ControlBody for Retry {
    fn into_request(self) -> (Request, Option<MessageId>) {
        (Request::Retry { reason: text(self.reason) }, id(self.message_id))
    }
}

/// A signal.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SignalRequest")]
pub struct Signal {
    /// Its name.
    pub name: Short<256>,
    /// What it says.
    #[serde(default)]
    pub body: Payload,
    /// Its id: sent twice under one id, it is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "MessageIdText")]
    pub message_id: Option<MessageIdText>,
}

impl ControlBody for Signal {
    fn into_request(self) -> (Request, Option<MessageId>) {
        (Request::Signal { name: self.name.0.into(), body: self.body.0 }, id(self.message_id))
    }
}

/// A request to end one wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompleteWaitRequest")]
pub struct CompleteWait {
    /// What the node gives, where it waits for a signal.
    #[serde(default)]
    pub body: Payload,
    /// The request's id: sent twice under one id, it is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "MessageIdText")]
    pub message_id: Option<MessageIdText>,
}

impl CompleteWait {
    /// The request to end this wait, and its message id where the sender chose one.
    pub fn into_request(self, wait: u64) -> (Request, Option<MessageId>) {
        (Request::CompleteWait { wait, body: self.body.0 }, id(self.message_id))
    }
}

/// The call of the API that makes a request: its path below `/v1`, and its body.
pub fn call_of(
    execution: &str,
    request: Request,
    message: Option<String>,
) -> serde_json::Result<([String; 3], Vec<u8>)> {
    let message_id = message.map(Short);
    let (verb, body) = match request {
        Request::Pause { now, reason } => {
            let body = Pause { now, reason: reason.map(Short), message_id };
            ("pause", serde_json::to_vec(&body)?)
        }
        Request::Resume { reason } => {
            let body = Resume { reason: reason.map(Short), message_id };
            ("resume", serde_json::to_vec(&body)?)
        }
        Request::Cancel { reason } => {
            let body = Cancel { reason: reason.map(Short), message_id };
            ("cancel", serde_json::to_vec(&body)?)
        }
        Request::Retry { reason } => {
            let body = Retry { reason: reason.map(Short), message_id, dry_run: false };
            ("retry", serde_json::to_vec(&body)?)
        }
        Request::Signal { name, body } => {
            let body = Signal { name: Short(name.to_string()), body: Payload(body), message_id };
            ("signals", serde_json::to_vec(&body)?)
        }
        Request::CompleteWait { wait, body } => {
            let wait = WaitId { execution: ExecutionId(execution.into()), seq: wait }.to_string();
            let body = CompleteWait { body: Payload(body), message_id };
            return Ok((
                ["waits".to_owned(), wait, "complete".to_owned()],
                serde_json::to_vec(&body)?,
            ));
        }
    };
    Ok((["executions".to_owned(), execution.to_owned(), verb.to_owned()], body))
}

fn text(reason: Option<ReasonText>) -> Option<String> {
    reason.map(|reason| reason.0)
}

fn id(message: Option<MessageIdText>) -> Option<MessageId> {
    message.map(|message| message.0.into())
}
