//! The testbed's own tests: that its servers live and die as they should, and that the proxy breaks
//! what the test asks for.

#![expect(clippy::unwrap_used, reason = "a test helper that fails is a test that fails")]

mod process;
mod proxy;
mod redis;
mod sink;

use std::time::Duration;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);
