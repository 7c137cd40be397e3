//! The bodies of control requests, and their way to a [`Request`] and back. Unknown fields are refused:
//! a misspelt one would otherwise do nothing, silently.

use serde::de::DeserializeOwned;
use serde_json::to_vec;
use waypost_core::command::Request;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionId, WaitId};

use super::payload::{Payload, Short};

/// A reason, as the log keeps it.
pub type ReasonText = Short<1000>;
/// A message id that the sender chose.
pub type MessageIdText = Short<256>;

/// The body of a control request to the execution in the path.
pub trait ControlBody: DeserializeOwned {
    /// The request, and its message id where the sender chose one.
    fn into_request(self) -> (Request, Option<MessageId>);
}

wire! {
    /// A request to pause.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "PauseRequest")]
    pub struct Pause {
        /// Cancel running attempts instead of waiting for them; they run again after the pause.
        #[serde(default)]
        pub now: bool,
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A request to resume.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "ResumeRequest")]
    pub struct Resume {
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A request to cancel.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "CancelRequest")]
    pub struct Cancel {
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A request to retry.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "RetryRequest")]
    pub struct Retry {
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
        /// List the nodes that would run again, and change nothing.
        #[serde(default)]
        pub dry_run: bool,
    }

    /// A signal.
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "SignalRequest")]
    pub struct Signal {
        /// The signal's name.
        pub name: Short<256>,
        /// The signal's payload.
        #[serde(default)]
        pub body: Payload,
        /// The signal's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A request to end one wait.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "CompleteWaitRequest")]
    pub struct CompleteWait {
        /// The node's output, if it waits for a signal.
        #[serde(default)]
        pub body: Payload,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }
}

/// Which request each body makes.
macro_rules! requests {
    ($($body:ident($self:ident) => $request:expr;)+) => {$(
        impl ControlBody for $body {
            fn into_request($self) -> (Request, Option<MessageId>) {
                ($request, $self.message_id.map(|id| id.0.into()))
            }
        }
    )+};
}

requests! {
    Pause(self) => Request::Pause { now: self.now, reason: text(self.reason) };
    Resume(self) => Request::Resume { reason: text(self.reason) };
    Cancel(self) => Request::Cancel { reason: text(self.reason) };
    Retry(self) => Request::Retry { reason: text(self.reason) };
    Signal(self) => Request::Signal { name: self.name.0.into(), body: self.body.0 };
}

impl CompleteWait {
    /// The request to end this wait, and its message id where the sender chose one.
    pub fn into_request(self, wait: u64) -> (Request, Option<MessageId>) {
        let message = self.message_id.map(|id| id.0.into());
        (Request::CompleteWait { wait, body: self.body.0 }, message)
    }
}

fn text(reason: Option<ReasonText>) -> Option<String> {
    reason.map(|reason| reason.0)
}

/// The call of the API that makes a request: its path below `/v1`, and its body.
pub fn call_of(
    execution: &str,
    request: Request,
    message: Option<String>,
) -> serde_json::Result<([String; 3], Vec<u8>)> {
    let message_id = message.map(Short);
    let path = |verb: &str| ["executions", execution, verb].map(str::to_owned);
    let (path, body) = match request {
        Request::Pause { now, reason } => {
            (path("pause"), to_vec(&Pause { now, reason: reason.map(Short), message_id }))
        }
        Request::Resume { reason } => {
            (path("resume"), to_vec(&Resume { reason: reason.map(Short), message_id }))
        }
        Request::Cancel { reason } => {
            (path("cancel"), to_vec(&Cancel { reason: reason.map(Short), message_id }))
        }
        Request::Retry { reason } => {
            let body = Retry { reason: reason.map(Short), message_id, dry_run: false };
            (path("retry"), to_vec(&body))
        }
        Request::Signal { name, body } => {
            let body = Signal { name: Short(name.to_string()), body: Payload(body), message_id };
            (path("signals"), to_vec(&body))
        }
        Request::CompleteWait { wait, body } => {
            let wait = WaitId { execution: ExecutionId(execution.into()), seq: wait }.to_string();
            let path = ["waits".to_owned(), wait, "complete".to_owned()];
            (path, to_vec(&CompleteWait { body: Payload(body), message_id }))
        }
    };
    Ok((path, body?))
}
