//! The stable names of problems, with their statuses and titles.

use hyper::StatusCode;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident => $status:literal $name:literal $title:literal,)+) => {
        /// The stable names of problems.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Code {
            $($(#[doc = $doc])* $variant,)+
        }

        impl Code {
            /// Every code, for the reference and its test.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in `code`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The HTTP status that goes with it.
            pub fn status(self) -> StatusCode {
                let status: u16 = match self { $(Self::$variant => $status,)+ };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// Its title, equal for every occurrence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

codes! {
    BadRequest => 400 "bad_request" "the request cannot be understood",
    /// A query parameter or header that is missing, unknown or of a wrong form.
    BadParameter => 400 "bad_parameter" "a parameter is wrong",
    BadBody => 400 "bad_body" "the body is wrong",
    /// An attribute of a CloudEvent that is missing or wrong.
    BadEvent => 400 "bad_event" "an event is wrong",
    Unauthenticated => 401 "unauthenticated" "a valid API key is needed",
    BadSignature => 401 "bad_signature" "the request is not signed as the trigger wants it",
    /// The signature fits, but the time that it covers is too far away.
    StaleTimestamp => 401 "stale_timestamp" "the request was signed too long ago",
    Forbidden => 403 "forbidden" "the key's role does not allow this",
    /// The approval names others who decide it.
    NotAnApprover => 403 "not_an_approver" "the caller may not decide this approval",
    /// The `Host` or `Origin` is not one of ours.
    ForeignOrigin => 403 "foreign_origin" "requests from other sites are refused",
    NotFound => 404 "not_found" "there is nothing at this path",
    UnknownExecution => 404 "unknown_execution" "there is no such execution",
    /// No workflow has this name, or it has no such version.
    UnknownDefinition => 404 "unknown_definition" "there is no such definition",
    /// The definition has no such node, or the map no such item.
    UnknownNode => 404 "unknown_node" "there is no such node",
    /// No open wait has this id.
    UnknownWait => 404 "unknown_wait" "there is no such wait",
    UnknownBlob => 404 "unknown_blob" "there is no such blob",
    UnknownKey => 404 "unknown_key" "there is no such key",
    UnknownBreaker => 404 "unknown_breaker" "there is no such circuit breaker",
    UnknownEndpoint => 404 "unknown_endpoint" "there is no such webhook endpoint",
    UnknownTrigger => 404 "unknown_trigger" "there is no such trigger",
    /// No active webhook trigger has this path.
    UnknownHook => 404 "unknown_hook" "there is no such webhook trigger",
    UnknownDeadLetter => 404 "unknown_dead_letter" "there is no such dead letter",
    /// No event of the stream has this id.
    UnknownEvent => 404 "unknown_event" "there is no such event",
    MethodNotAllowed => 405 "method_not_allowed" "the method is not allowed for this path",
    NotAcceptable => 406 "not_acceptable" "no accepted media type is available",
    BodyTimeout => 408 "body_timeout" "the body was not received in time",
    ExecutionEnded => 409 "execution_ended" "the execution has ended",
    ExecutionRuns => 409 "execution_runs" "the execution has not ended",
    IllegalTransition => 409 "illegal_transition" "the execution's status does not allow this",
    /// Another decision came first.
    AlreadyDecided => 409 "already_decided" "the approval was decided before",
    CallbackReceived => 409 "callback_received" "the operation was called back before",
    IdTaken => 409 "id_taken" "an execution of this id exists",
    ConcurrencyLimit => 409 "concurrency_limit" "too many executions of the concurrency key",
    /// It is paused, broken or retired, or changes all the time.
    TriggerState => 409 "trigger_state" "the trigger's state does not allow this",
    /// An instance of the cluster is too old for what the definition uses, or for the request.
    ClusterTooOld => 409 "cluster_too_old" "an instance of the cluster is too old for this",
    /// The report is about an attempt that is not the current one.
    StaleAttempt => 409 "stale_attempt" "the attempt is over",
    /// The sender of the report does not hold the attempt.
    ForeignToken => 409 "foreign_token" "another worker holds the attempt",
    /// The execution is quarantined because its log cannot be read.
    ExecutionDamaged => 409 "execution_damaged" "the execution is quarantined",
    OperationOver => 410 "operation_over" "the operation is over",
    LinkExpired => 410 "link_expired" "the link has expired",
    BodyTooLarge => 413 "body_too_large" "the body is too large",
    /// The body is neither JSON nor, where that is allowed, YAML; or it is compressed.
    UnsupportedMediaType => 415 "unsupported_media_type" "the body has the wrong content type or encoding",
    RangeNotSatisfiable => 416 "range_not_satisfiable" "the range is beyond the end",
    InvalidDefinition => 422 "invalid_definition" "the definition has faults",
    InvalidInput => 422 "invalid_input" "the input does not fit the workflow",
    /// What is asked for does not go with the trigger's kind, or not with what it is.
    InvalidTriggerChange => 422 "invalid_trigger_change" "the trigger cannot be changed like this",
    IdempotencyMismatch => 422 "idempotency_mismatch" "the key was used for something else",
    /// Messages may not be sent to this URL from here, or there are too many endpoints.
    EndpointRefused => 422 "endpoint_refused" "the webhook endpoint is refused",
    /// The store refuses the data for good.
    Unstorable => 422 "unstorable" "the store cannot hold this data",
    RateLimited => 429 "rate_limited" "too many requests",
    /// As many signals are kept for the execution as may be, and no node waits for this one.
    SignalsFull => 429 "signals_full" "the execution keeps no more signals",
    Internal => 500 "internal" "internal server error",
    /// The execution whose output a webhook trigger answers with failed.
    ExecutionFailed => 500 "execution_failed" "the execution failed",
    /// The stored bytes of the blob are not those that were put.
    BlobDamaged => 500 "blob_damaged" "the blob is damaged",
    /// The instance is about to stop; another one takes it.
    Draining => 503 "draining" "this instance is stopping",
    /// The store does not answer or is full.
    StoreUnavailable => 503 "store_unavailable" "the store is not available",
    /// This instance cannot search a report for the secrets of its task.
    SecretsUnreadable => 503 "secrets_unreadable" "the secrets of the task cannot be read",
    /// Too many connections or streams.
    Overloaded => 503 "overloaded" "the server is overloaded",
}
