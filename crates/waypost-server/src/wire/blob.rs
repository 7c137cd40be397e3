//! Blobs.

wire! {
    /// A stored blob.
    pub struct Blob {
        /// The BLAKE3 digest of its content, by which it is read.
        pub digest: String,
        /// Bytes of its content.
        pub bytes: u64,
    }
}
