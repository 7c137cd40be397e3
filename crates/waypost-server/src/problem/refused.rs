//! What the core refuses, as a problem: its code, and what to do about it.

use waypost_core::command::Refusal;

use super::{Code, Problem};

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Ended(_) | Refusal::RaisedWithRetry(_) => Code::ExecutionEnded,
            Refusal::NoSuchWait(_) => Code::UnknownWait,
            Refusal::Stale { .. } | Refusal::UnknownNode(_) | Refusal::Closed(_) => {
                Code::StaleAttempt
            }
            Refusal::ForeignToken { .. } => Code::ForeignToken,
            Refusal::NoSuchNode(_) | Refusal::NoSuchItem { .. } => Code::UnknownNode,
            Refusal::NotAnApprover { .. } => Code::NotAnApprover,
            Refusal::BadTuning | Refusal::BadBudget | Refusal::ReservedSignal => Code::BadBody,
            Refusal::CallbackReceived(_) => Code::CallbackReceived,
            Refusal::OperationOver(_) => Code::OperationOver,
            _ => Code::IllegalTransition,
        };
        let hint = match refusal {
            Refusal::Ended(_) => "what has ended cannot be controlled; start another execution",
            Refusal::Stale { .. }
            | Refusal::UnknownNode(_)
            | Refusal::Closed(_)
            | Refusal::ForeignToken { .. } => {
                "drop the task: it is done, or another worker runs it"
            }
            Refusal::Paused => "POST /v1/executions/{id}/resume first",
            Refusal::Queued => "POST /v1/executions/{id}/cancel takes it out of the line",
            Refusal::NoSuchNode(_)
            | Refusal::NoSuchItem { .. }
            | Refusal::NotAMap(_)
            | Refusal::NoItems(_) => {
                "GET /v1/executions/{id}/nodes lists the nodes, with the progress of maps"
            }
            Refusal::NotAnItem(_) | Refusal::ItemEnded(_) | Refusal::ItemEnding(_) => {
                "GET /v1/executions/{id}/nodes?under=each&status=RUNNING lists the open items of map each"
            }
            Refusal::NotListed(_) => "GET /v1/executions/{id}/events has the events of its nodes",
            Refusal::ItemPending(_) => {
                "cancel it when it is open; POST /v1/executions/{id}/nodes/{node}/tune holds the map"
            }
            Refusal::NeedsDecision(_) => "POST /v1/waits/{id}/decide",
            Refusal::NotAnApprover { .. } => "use the API key, or the link, of an approver",
            Refusal::BadTuning => "an example: {\"held\": true}",
            Refusal::BadBudget => "an example: {\"tokens\": 200000}",
            Refusal::RaisedWithRetry(_) => {
                "POST /v1/executions/{id}/retry with {\"budget\": {\"tokens\": 200000}}"
            }
            Refusal::NoBudget => {
                "a `budget` in a new version of the definition limits new executions"
            }
            Refusal::CallbackReceived(_) => "the first one counts; there is nothing more to do",
            Refusal::OperationOver(_) => "there is nothing more to do",
            Refusal::ReservedSignal => "choose another name",
            Refusal::EventNotAwaited => {
                "an event is for those who wait for it when it is published"
            }
            Refusal::Waits => "a signal, or resuming its wait, makes it go on sooner",
            _ => "GET /v1/executions/{id}/why says where it stands",
        };
        if refusal.is_passing() {
            return Self::signals_full(refusal.to_string());
        }
        Self::new(code, refusal.to_string()).hint(hint)
    }
}

impl Problem {
    /// There is no room for a signal now.
    pub(crate) fn signals_full(reason: String) -> Self {
        Self::new(Code::SignalsFull, reason)
            .hint(
                "send it again, with the same messageId, when the execution has taken some of them",
            )
            .retry_after(60)
    }
}
