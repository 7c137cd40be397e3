//! A failure: an error recorded as data, in one form for events, expressions and display.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::json::{Json, present};
use crate::limits::FAILURE_MESSAGE_BYTES_MAX;
use crate::time::Millis;

/// The failure of one attempt, with everything that the retry policy needs to judge it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Failure {
    /// A stable, lower-case name: `timeout`, `connection`, `http`, `exit_code`, …
    pub kind: Cow<'static, str>,
    /// A sentence for people.
    pub message: String,
    /// The HTTP status, when a server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Would trying again be of use, as the handler sees it?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    /// Is it sure that nothing was sent, so that there can have been no effect?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsent: bool,
    /// Was the node's `onError` passed by, because the definition itself is at fault?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_error_skipped: bool,
    /// How long the other side asked to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Millis>,
    /// Further details: response body, exit code, captured output.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub details: Option<Json>,
}

impl Failure {
    /// A failure that a retry will not fix. A message may quote what an execution made, of any size: it is cut
    /// after [`FAILURE_MESSAGE_BYTES_MAX`].
    pub fn permanent(kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: clipped(message.into()), ..Self::default() }
    }

    /// A failure that may pass.
    pub fn transient(kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::permanent(kind, message) }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.message.len() + self.details.as_ref().map_or(0, Json::bytes)
    }

    /// Is the definition, or its configuration, at fault? Such a failure is not an outcome of the
    /// workflow's logic, so `onError` handles it only on request.
    pub fn is_definition_error(&self) -> bool {
        kind::DEFINITION_ERRORS.contains(&&*self.kind)
    }

    /// The failure as it is recorded where `onError` is passed by.
    #[must_use]
    pub fn past_on_error(self) -> Self {
        let message = format!(
            "{}; this is a mistake in the definition, so `onError` was not taken",
            self.message
        );
        Self { message, on_error_skipped: true, ..self }
    }

    /// The end of an attempt whose process stops in order: the next owner or worker runs it again.
    pub fn handed_over(message: impl Into<String>) -> Self {
        Self::transient(kind::HANDED_OVER, message)
    }

    /// Was the attempt handed over in order? Then its end is no evidence against its node.
    pub fn is_handed_over(&self) -> bool {
        self.kind == kind::HANDED_OVER
    }

    /// Did the attempt end because the blob store takes or gives no bytes? Then its node waits for the
    /// store.
    pub fn is_blob_store(&self) -> bool {
        self.kind == kind::BLOB_STORE
    }

    /// Did the attempt fail before it could call anything?
    pub fn is_before_call(&self) -> bool {
        let kinds = [kind::NO_HANDLER, kind::EGRESS_DENIED, kind::SECRET_HOST];
        self.is_definition_error() || kinds.contains(&&*self.kind)
    }

    /// Is an attempt that was closed with this failure, to be made again, neither a try nor a loss?
    pub fn is_uncounted(&self) -> bool {
        self.is_handed_over() || self.is_blob_store()
    }
}

fn clipped(mut message: String) -> String {
    const CUT: &str = "…";
    if message.len() > FAILURE_MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(FAILURE_MESSAGE_BYTES_MAX - CUT.len()));
        message.push_str(CUT);
    }
    message
}

/// Names of failures that the engine itself makes or judges.
pub mod kind {
    macro_rules! kinds {
        ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
            $($(#[doc = $doc])+ pub const $name: &str = $word;)+

            /// All of them: a `fail` node may use none of these names.
            pub const RESERVED: &[&str] = &[$($word,)+];
        };
    }

    /// Kinds of failures for which the definition, or its configuration, is at fault.
    pub const DEFINITION_ERRORS: &[&str] = &[
        EXPRESSION,
        EXPRESSION_LIMIT,
        NUMBER_OUT_OF_RANGE,
        INVALID_CONFIG,
        SECRET,
        SECRET_NOT_GRANTED,
    ];

    kinds! {
        /// An attempt, a node or a wait took longer than it may.
        TIMEOUT = "timeout",
        /// No connection, or it broke.
        CONNECTION = "connection",
        /// The server answered with a status that was not accepted.
        HTTP = "http",
        /// More items of a map failed than it tolerates.
        TOO_MANY_FAILURES = "too_many_failures",
        /// A map has more items than are allowed.
        TOO_MANY_ITEMS = "too_many_items",
        /// The budget of the execution has no room for an attempt.
        BUDGET_EXHAUSTED = "budget_exhausted",
        /// A loop would have begun more iterations than its `maxIterations`.
        LOOP_LIMIT = "loop_limit",
        /// The execution that a `workflow` node started failed.
        CHILD_FAILED = "child_failed",
        /// The execution that a `workflow` node started was cancelled.
        CHILD_CANCELLED = "child_cancelled",
        /// A `workflow` node names a workflow or a version that is not there.
        UNKNOWN_WORKFLOW = "unknown_workflow",
        /// An `emit` node names an execution that is not there, or has ended.
        NO_RECEIVER = "no_receiver",
        /// A `workflow` node names a workflow that may not be started by others.
        NOT_CALLABLE = "not_callable",
        /// The input of a `workflow` node does not fit the schema of the workflow.
        INVALID_INPUT = "invalid_input",
        /// A `workflow` node starts a workflow that an older instance of the cluster cannot read.
        CLUSTER_TOO_OLD = "cluster_too_old",
        /// A `workflow` node would have started an execution with too many others above it.
        TOO_DEEP = "too_deep",
        /// A `workflow` node would have started an execution in a tree that has too many.
        TREE_TOO_LARGE = "tree_too_large",
        /// An execution above this one holds the permit that this one would wait for.
        CONCURRENCY_DEADLOCK = "concurrency_deadlock",
        /// All permits of the concurrency key of a child are held, and its policy is to reject.
        CONCURRENCY_REJECTED = "concurrency_rejected",
        /// An operation that was started called back, and says that it failed.
        OPERATION_FAILED = "operation_failed",
        /// A call was answered, and the node's `failWhen` holds for the response.
        FAIL_WHEN = "fail_when",
        /// A call was answered, and the node's `retryWhen` holds for the response.
        RETRY_WHEN = "retry_when",
        /// The definition's config is wrong in a way that appears only at run time.
        INVALID_CONFIG = "invalid_config",
        /// An expression failed: an undefined name, a wrong type.
        EXPRESSION = "expression",
        /// An expression exceeded a limit: steps, depth, bytes.
        EXPRESSION_LIMIT = "expression_limit",
        /// A number that does not fit into 64 bits.
        NUMBER_OUT_OF_RANGE = "number_out_of_range",
        /// No case of a switch matched and it has no default.
        NO_CASE = "no_case",
        /// An `any` or `n` join can no longer be met.
        JOIN_UNSATISFIABLE = "join_unsatisfiable",
        /// The instance or worker that ran the attempt is gone.
        ABANDONED = "abandoned",
        /// The instance or worker that ran the attempt was stopped in order, and gave it back.
        HANDED_OVER = "handed_over",
        /// A person cancelled the item of a map.
        CANCELLED = "cancelled",
        /// The handler panicked.
        PANIC = "panic",
        /// An at-most-once attempt was interrupted: it is unknown whether it had its effect.
        OUTCOME_UNKNOWN = "outcome_unknown",
        /// An output or a response is larger than allowed.
        TOO_LARGE = "too_large",
        /// An expression would look into a blob that is too large for that.
        TOO_LARGE_FOR_EXPRESSION = "too_large_for_expression",
        /// A blob is damaged or gone.
        BLOB = "blob",
        /// The blob store is full or out of reach.
        BLOB_STORE = "blob_store",
        /// The call's target is not allowed.
        EGRESS_DENIED = "egress_denied",
        /// A secret cannot be had, or may not be used here.
        SECRET = "secret",
        /// A secret may not be given to this remote worker.
        SECRET_NOT_GRANTED = "secret_not_granted",
        /// A secret may not be sent to this host.
        SECRET_HOST = "secret_host",
        /// No handler of this name is registered.
        NO_HANDLER = "no_handler",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_past_on_error_says_so_and_is_read_from_old_logs_as_handled() {
        let old = r#"{"kind":"expression","message":"input.a is undefined"}"#;
        let failure: Failure = serde_json::from_str(old).expect("as old logs have it");
        assert!(failure.is_definition_error() && !failure.on_error_skipped);
        let passed = failure.past_on_error();
        assert!(passed.on_error_skipped);
        assert!(passed.message.ends_with("so `onError` was not taken"), "{}", passed.message);
        assert!(!Failure::permanent(kind::HTTP, "answered 500").is_definition_error());
    }
}
