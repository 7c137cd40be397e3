//! Blobs.

wire! {
    /// A stored blob.
    pub struct Blob {
        /// The BLAKE3 digest of its content, by which it is read.
        pub digest: String,
        /// Bytes of its content.
        pub bytes: u64,
        /// Proves that it was uploaded for the task of the request; with `task` only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub receipt: Option<String>,
    }
}
