//! Every place for blobs keeps the promises of all of them.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a test that fails")]

mod folder;
mod s3;
