//! The integration tests of the program: real processes on real folders.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod bench;
mod blobs;
mod breakers;
mod budgets;
mod chaos;
mod check;
mod cli;
mod cluster;
mod crashing;
mod differential;
mod docs;
mod embed;
mod examples;
mod golden;
mod hostile;
mod import;
mod large;
mod llm;
mod markdown;
mod newcomer;
mod operations;
mod permits;
mod program;
mod reference;
mod remote;
mod secrets;
mod snippets;
mod steering;
mod streams;
mod tables;
mod terminal;
mod ticking;
mod tidy;
mod unwritable;
mod words;
mod worker;
