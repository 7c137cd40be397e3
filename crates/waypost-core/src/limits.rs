//! Every limit of the core in one place, with its default.
//!
//! A limit that is reached results in a failure or a refusal that names it; nothing is cut off
//! silently.

use crate::time::Millis;

/// Nodes in one definition.
pub const NODES_MAX: usize = 10_000;
/// Edges in one definition.
pub const EDGES_MAX: usize = 100_000;
/// How many containers a node may be in.
pub const NESTING_MAX: usize = 8;
/// The maximum of `maxIterations` of a loop.
pub const ITERATIONS_MAX: u64 = 1_000_000_000;
/// Iterations of a loop that does not set `maxIterations`.
pub const ITERATIONS_DEFAULT: u64 = 1_000;
/// Bytes of a definition's source.
pub const DEFINITION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Characters of a node id.
pub const NODE_ID_CHARS_MAX: usize = 64;
/// Characters of a workflow's name.
pub const WORKFLOW_NAME_CHARS_MAX: usize = 128;
/// Labels of one execution.
pub const LABELS_MAX: usize = 64;
/// Characters of the name of a label, and of its value.
pub const LABEL_CHARS_MAX: usize = 256;
/// Bytes of a concurrency key, once it is evaluated.
pub const CONCURRENCY_KEY_BYTES_MAX: usize = 512;
/// Bytes of a circuit breaker's key, once it is evaluated.
pub const BREAKER_KEY_BYTES_MAX: usize = 256;
/// The maximum of `failures` of a circuit breaker.
pub const BREAKER_FAILURES_MAX: u32 = 100;
/// The minimum of `period` and `cooldown` of a circuit breaker.
pub const BREAKER_SPAN_MIN: Millis = Millis(100);
/// The maximum of `period` and `cooldown` of a circuit breaker.
pub const BREAKER_SPAN_MAX: Millis = Millis::from_secs(24 * 3_600);
/// Bytes of the last failure's message that a circuit breaker keeps.
pub const BREAKER_MESSAGE_BYTES_MAX: usize = 300;
/// Bytes of one payload in the log: an input, an output, a signal's body.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of an output that a handler makes in memory. Above the inline limit it is kept as a blob.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of one blob.
pub const BLOB_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Bytes of a blob that an expression looks into.
pub const BLOB_IN_EXPRESSION_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of the blobs in an input, together, that its schema is checked on.
pub const BLOBS_IN_SCHEMA_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of a `fail` node's message.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Bytes of a `fail` node's details, as JSON.
pub const FAILURE_DETAILS_BYTES_MAX: usize = 64 * 1024;
/// Different secrets in the config of one node.
pub const SECRETS_MAX: usize = 16;
/// Characters of a secret's name.
pub const SECRET_NAME_CHARS_MAX: usize = 64;
/// Signals that came early and wait in the state of one execution.
pub const EARLY_SIGNALS_MAX: usize = 1_000;
/// Bytes of their bodies: the state is written and read as a whole, so this bounds what one more signal
/// costs.
pub const EARLY_SIGNALS_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Characters of a signal's name, and of its correlation key.
pub const SIGNAL_KEY_CHARS_MAX: usize = 256;
/// How long a published signal is kept until an execution waits for it, unless its sender says so.
pub const SIGNAL_KEEP: Millis = Millis::from_secs(24 * 3_600);
/// The shortest time for which it may be kept.
pub const SIGNAL_KEEP_MIN: Millis = Millis::from_secs(1);
/// The longest time for which it may be kept.
pub const SIGNAL_KEEP_MAX: Millis = Millis::from_secs(30 * 24 * 3_600);
/// Bytes of the body of a signal that is published from outside of executions.
pub const PUBLISHED_BYTES_MAX: usize = 256 * 1024;
/// Signals of one name and key that wait to be taken. More are not accepted from outside of executions.
pub const PUBLISHED_PER_KEY_MAX: u64 = 1_000;
/// Signals that one node waits for.
pub const SIGNALS_OF_WAIT_MAX: usize = 64;
/// Approvers of one approval.
pub const APPROVERS_MAX: usize = 100;
/// Characters of the comment of a decision.
pub const COMMENT_CHARS_MAX: usize = 4_000;
/// Waits that one decision delivers a signal to, at most; the rest follows in the next ones.
pub const TAKERS_MAX: usize = 1_000;
/// Bytes of the outputs that one decision makes of a signal.
pub const TAKERS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Message ids that an execution remembers in order to refuse duplicates.
pub const MESSAGES_REMEMBERED_MAX: usize = 1_000;
/// Abandoned attempts of one node before its execution is quarantined.
pub const ABANDONED_MAX: u32 = 5;
/// The longest wait before an attempt that could not use the blob store is made again, without jitter.
pub const BLOB_STORE_WAIT_MAX: Millis = Millis::from_secs(60);
/// Ends of remote attempts that a node remembers, to recognise a repeated report.
pub const ENDS_REMEMBERED_MAX: usize = 8;
/// Items of one map.
pub const ITEMS_MAX: u64 = 10_000_000;
/// Bytes of an item of a list in a blob. Larger ones become blobs of their own.
pub const ITEM_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the results of a map that are kept in its output. More are kept as a blob.
pub const MAP_RESULTS_BYTES_MAX: u64 = 256 * 1024;
/// Items that one frame opens at most; the rest follows in the next one.
pub const ITEMS_OPENED_MAX: u64 = 256;
/// Items of one map that may be open at once, unless it says otherwise.
pub const MAP_CONCURRENCY_DEFAULT: u32 = 100;
/// Items of one map that may be open at once.
pub const MAP_CONCURRENCY_MAX: u32 = 10_000;
/// Failures of items that a map lists with their messages.
pub const ITEM_FAILURES_MAX: usize = 1_000;
/// Characters of each of their messages.
pub const ITEM_FAILURE_CHARS_MAX: usize = 500;
/// How many executions may be above one: a workflow that starts itself ends here.
pub const CHILD_DEPTH_MAX: u32 = 16;
/// Executions in one tree: those that have been started below one root, and the root.
pub const TREE_EXECUTIONS_MAX: u64 = 100_000;
/// Executions that one execution has started and waits for, at once. More are started when some of them
/// have ended.
pub const CHILDREN_OPEN_MAX: u32 = 1_000;
/// Executions that begin with one frame, at most.
pub const BIRTHS_MAX: usize = 100;
/// The maximum of `maxAttempts` in a retry policy.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Cron lines of one schedule.
pub const CRON_LINES_MAX: usize = 20;
/// Bytes of one cron line.
pub const CRON_BYTES_MAX: usize = 1_024;
/// Times in the list `at` of a schedule.
pub const SCHEDULE_TIMES_MAX: usize = 1_000;
/// The shortest time between two times of a schedule.
pub const SCHEDULE_INTERVAL_MIN: Millis = Millis::from_secs(1);
/// The maximum of `catchUp.max` of a schedule.
pub const CATCH_UP_MAX: u32 = 1_000;
/// Triggers of one definition.
pub const TRIGGERS_MAX: usize = 100;
/// Event types of one trigger.
pub const EVENT_TYPES_MAX: usize = 20;
/// Characters of an event's type, and of its source.
pub const EVENT_TYPE_CHARS_MAX: usize = 256;
/// Fields that an event must have for a wait (`match`).
pub const EVENT_MATCH_FIELDS_MAX: usize = 16;
/// Bytes of the name of a wait for events: its type and what it matches. Stores have it in an index.
pub const EVENT_NAME_BYTES_MAX: usize = 1_024;
/// The shortest span of a window of events.
pub const WINDOW_SPAN_MIN: Millis = Millis(100);
/// The longest span of a window of events.
pub const WINDOW_SPAN_MAX: Millis = Millis::from_secs(7 * 24 * 3_600);
/// The maximum of `size` of a batch.
pub const BATCH_SIZE_MAX: u32 = 1_000;
/// The maximum of `limit` of a throttle.
pub const THROTTLE_LIMIT_MAX: u32 = 1_000;
/// Secrets of one webhook trigger: more than one are for a rotation.
pub const HOOK_SECRETS_MAX: usize = 4;
/// Request headers that the expressions of a webhook trigger see.
pub const HOOK_HEADERS_MAX: usize = 32;
/// Bytes of a request to a webhook trigger that does not set `maxBodyBytes`.
pub const HOOK_BODY_BYTES: usize = 1024 * 1024;
/// The maximum of `maxBodyBytes`.
pub const HOOK_BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
/// The shortest interval of a poll.
pub const POLL_INTERVAL_MIN: Millis = Millis::from_secs(1);
/// How often a stream is read that does not set `every`.
pub const STREAM_INTERVAL: Millis = Millis::from_secs(1);
/// The shortest interval of a stream.
pub const STREAM_INTERVAL_MIN: Millis = Millis(100);
/// The longest interval of a stream.
pub const STREAM_INTERVAL_MAX: Millis = Millis::from_secs(3_600);
/// Characters of the name of a source in the settings.
pub const SOURCE_NAME_CHARS_MAX: usize = 64;
/// Bytes of the name of a stream.
pub const STREAM_NAME_BYTES_MAX: usize = 512;
/// The maximum of `lookback`: items are remembered for longer.
pub const LOOKBACK_MAX: Millis = Millis::from_secs(7 * 24 * 3_600);
/// Times of one backfill.
pub const BACKFILL_TIMES_MAX: usize = 10_000;
/// Times of a schedule that are counted; of more, it is only known that there are more.
pub const TICKS_COUNTED_MAX: usize = 1_000_000;
