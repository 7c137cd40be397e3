//! Tests of the importer: what each format becomes, and that no input breaks it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod broken;
mod converted;
mod detection;
