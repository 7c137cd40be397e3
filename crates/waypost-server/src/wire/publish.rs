//! Signals by key on the wire.

use super::MessageIdText;
use super::payload::{Payload, Short};

wire! {
    /// A signal for every execution that waits for it by its key.
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "PublishRequest")]
    pub struct Publish {
        /// The signal's name.
        pub name: Short<256>,
        /// The correlation key that executions wait for.
        pub key: Short<256>,
        /// The signal's payload.
        #[serde(default)]
        pub body: Payload,
        /// How long it is kept for the first execution that waits for it, if none does yet, such as `2h`.
        /// Default: 1 day; from 1 second to 30 days.
        pub keep?: Short<64>,
        /// The signal's id: a repeat with the same name, key and id has no further effect as long as the first
        /// one is kept.
        pub message_id?: MessageIdText,
    }

    /// What became of a published signal.
    #[schemars(rename = "Published")]
    pub struct PublishResult {
        /// The signal's id.
        pub message_id: String,
        /// How many executions it went to. With 0, it is kept.
        pub executions: u64,
        /// Was a signal with this id published before?
        pub repeated: bool,
    }
}
