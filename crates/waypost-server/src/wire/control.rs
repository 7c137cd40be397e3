//! The bodies of control requests, and their way to a [`Request`] and back. Unknown fields are refused:
//! a misspelt one would otherwise do nothing, silently.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::to_vec;
use waypost_core::budget::SpendingLimits;
use waypost_core::command::{ApprovalDecision, ApprovalVerdict, Request, Tuning};
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionId, WaitId};
use waypost_core::json::Json;
use waypost_core::limits::COMMENT_CHARS_MAX;
use waypost_core::outbox::delivery_signal;

use super::limits::MoneyText;
use super::payload::{Payload, Prose, Short};

/// A reason, as the log keeps it.
pub type ReasonText = Short<1000>;
/// A message id that the sender chose.
pub type MessageIdText = Short<256>;

/// The body of a control request to the execution in the path.
pub trait ControlBody: DeserializeOwned {
    /// The request, and its message id where the sender chose one.
    fn into_request(self) -> (Request, Option<MessageId>);
}

/// The body of a control request to the node in the path.
pub trait NodeBody: DeserializeOwned {
    /// The request, and its message id where the sender chose one.
    fn to_node(self, node: Arc<str>) -> (Request, Option<MessageId>);
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
        /// End without waiting for the executions that this one started; also if it is ending already. Has
        /// no effect on an item of a map.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub force: bool,
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A request to change how a map opens its items. What is left out stays as it is.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "TuneRequest")]
    pub struct Tune {
        /// `true` opens no more items, and those that are open finish; `false` releases the map.
        pub held?: bool,
        /// How many items may be open at once. With a lower number, open items finish.
        #[schemars(range(min = 1, max = 10_000))]
        pub concurrency?: u32,
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A request to change the limits of the budget. What is left out stays as it is.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "BudgetRequest")]
    pub struct SetBudget {
        /// The most tokens that the execution may use in all, those that it has used included.
        #[schemars(range(min = 1))]
        pub tokens?: u64,
        /// The most that they may cost in all.
        pub money?: MoneyText,
        /// The reason; recorded in the log.
        pub reason?: ReasonText,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// New limits of a budget; at least one.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "NewBudgetLimits")]
    pub struct NewLimits {
        /// The most tokens that the execution may use in all, those that it has used included.
        #[schemars(range(min = 1))]
        pub tokens?: u64,
        /// The most that they may cost in all.
        pub money?: MoneyText,
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
        /// New limits of the budget, for an execution that failed because its budget was exhausted. What is
        /// left out stays as it is.
        pub budget?: NewLimits,
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

    /// The decision of an approval.
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "DecideRequest")]
    pub struct Decide {
        /// What is decided.
        pub decision: DecisionWord,
        /// Why, for the output and the log.
        pub comment?: Prose<COMMENT_CHARS_MAX>,
        /// What was filled in. An approval's `form` must fit the schema of its node.
        #[serde(default)]
        pub form: Payload,
        /// Who decides, if the caller is local: with an API key, that is the name of the key.
        pub by?: Short<256>,
        /// The request's id: a repeat with the same id has no further effect.
        pub message_id?: MessageIdText,
    }

    /// A callback that was received.
    pub struct CallbackReceived {
        /// The execution that it is for.
        pub execution: String,
        /// The path of the node whose operation it completes.
        pub node: String,
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

/// What a person decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecisionWord {
    Approved,
    Rejected,
}

impl From<DecisionWord> for ApprovalVerdict {
    fn from(verdict: DecisionWord) -> Self {
        match verdict {
            DecisionWord::Approved => Self::Approved,
            DecisionWord::Rejected => Self::Rejected,
        }
    }
}

impl Decide {
    /// The request to decide this wait as this person, and its message id where the sender chose one.
    pub fn into_request(self, wait: u64, approver: Arc<str>) -> (Request, Option<MessageId>) {
        let message = self.message_id.map(|id| id.0.into());
        let decision = Box::new(ApprovalDecision {
            verdict: self.decision.into(),
            approver,
            link: false,
            comment: self.comment.map(|comment| comment.0),
            form: self.form.0,
        });
        (Request::Decide { wait, decision }, message)
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
    Cancel(self) => match self.force {
        true => Request::ForceCancel { reason: text(self.reason) },
        false => Request::Cancel { reason: text(self.reason) },
    };
    SetBudget(self) => Request::Budget {
        limits: SpendingLimits { tokens: self.tokens, money: self.money.map(|money| money.0) },
        reason: text(self.reason),
    };
    Retry(self) => Request::Retry {
        reason: text(self.reason),
        budget: self.budget.map(Into::into),
    };
    Signal(self) => Request::Signal { name: self.name.0.into(), body: self.body.0 };
}

impl NodeBody for Cancel {
    fn to_node(self, node: Arc<str>) -> (Request, Option<MessageId>) {
        let message = self.message_id.map(|id| id.0.into());
        (Request::CancelItem { node, reason: text(self.reason) }, message)
    }
}

impl NodeBody for Tune {
    fn to_node(self, node: Arc<str>) -> (Request, Option<MessageId>) {
        let message = self.message_id.map(|id| id.0.into());
        let tuning = Tuning { held: self.held, concurrency: self.concurrency };
        (Request::Tune { node, tuning, reason: text(self.reason) }, message)
    }
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

impl From<NewLimits> for SpendingLimits {
    fn from(NewLimits { tokens, money }: NewLimits) -> Self {
        Self { tokens, money: money.map(|money| money.0) }
    }
}

impl From<SpendingLimits> for NewLimits {
    fn from(SpendingLimits { tokens, money }: SpendingLimits) -> Self {
        Self { tokens, money: money.map(MoneyText) }
    }
}

/// A signal that a server refuses: only stores send results of messages, and callbacks have a route of
/// their own.
fn reserved(name: &str) -> Signal {
    Signal { name: Short(name.to_owned()), body: Payload(Json::null()), message_id: None }
}

/// The call of the API that makes a request: its path below `/v1`, and its body.
pub fn call_of(
    execution: &str,
    request: Request,
    message: Option<String>,
) -> serde_json::Result<(Vec<String>, Vec<u8>)> {
    let message_id = message.map(Short);
    let path = |verb: &str| ["executions", execution, verb].map(str::to_owned).to_vec();
    let node = |path: &str, verb: &str| {
        let steps = ["executions", execution, "nodes"].into_iter().chain(path.split('/'));
        steps.chain([verb]).map(str::to_owned).collect()
    };
    let (path, body) = match request {
        Request::Pause { now, reason } => {
            (path("pause"), to_vec(&Pause { now, reason: reason.map(Short), message_id }))
        }
        Request::Resume { reason } => {
            (path("resume"), to_vec(&Resume { reason: reason.map(Short), message_id }))
        }
        Request::Cancel { reason } => {
            let body = Cancel { force: false, reason: reason.map(Short), message_id };
            (path("cancel"), to_vec(&body))
        }
        Request::ForceCancel { reason } => {
            let body = Cancel { force: true, reason: reason.map(Short), message_id };
            (path("cancel"), to_vec(&body))
        }
        Request::Retry { reason, budget } => {
            let budget = budget.map(Into::into);
            let body = Retry { reason: reason.map(Short), message_id, budget, dry_run: false };
            (path("retry"), to_vec(&body))
        }
        Request::Signal { name, body } => {
            let body = Signal { name: Short(name.to_string()), body: Payload(body), message_id };
            (path("signals"), to_vec(&body))
        }
        Request::MessageSettled { wait, .. } => {
            (path("signals"), to_vec(&reserved(&delivery_signal(wait))))
        }
        Request::Callback(it) => {
            (path("signals"), to_vec(&reserved(&it.outcome.signal(&it.of.operation))))
        }
        Request::CompleteWait { wait, body } => {
            let wait = WaitId { execution: ExecutionId(execution.into()), seq: wait }.to_string();
            let path = vec!["waits".to_owned(), wait, "complete".to_owned()];
            (path, to_vec(&CompleteWait { body: Payload(body), message_id }))
        }
        Request::Decide { wait, decision } => {
            let wait = WaitId { execution: ExecutionId(execution.into()), seq: wait }.to_string();
            let ApprovalDecision { verdict, approver, comment, form, .. } = *decision;
            let decision = match verdict {
                ApprovalVerdict::Approved => DecisionWord::Approved,
                ApprovalVerdict::Rejected => DecisionWord::Rejected,
            };
            let by = Some(approver).filter(|by| !by.is_empty()).map(|by| Short(by.to_string()));
            let (comment, form) = (comment.map(Prose), Payload(form));
            let path = vec!["waits".to_owned(), wait, "decide".to_owned()];
            (path, to_vec(&Decide { decision, comment, form, by, message_id }))
        }
        Request::Budget { limits: SpendingLimits { tokens, money }, reason } => {
            let (money, reason) = (money.map(MoneyText), reason.map(Short));
            (path("budget"), to_vec(&SetBudget { tokens, money, reason, message_id }))
        }
        Request::CancelItem { node: item, reason } => {
            let body = Cancel { force: false, reason: reason.map(Short), message_id };
            (node(&item, "cancel"), to_vec(&body))
        }
        Request::Tune { node: map, tuning: Tuning { held, concurrency }, reason } => {
            let body = Tune { held, concurrency, reason: reason.map(Short), message_id };
            (node(&map, "tune"), to_vec(&body))
        }
    };
    Ok((path, body?))
}
