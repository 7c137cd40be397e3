//! Ctrl-C and SIGTERM: requests to stop.

use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use waypost_engine::Engine;

use super::Exit;

/// Ctrl-C and SIGTERM.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one; one that came meanwhile counts.
    pub(crate) async fn next(&mut self) {
        tokio::select! { // both are cancel-safe: a signal that came is kept
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// How long an engine's final store calls may take when it stops at once.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// Stops an engine without waiting for what runs. Where its store does not answer, the process ends here,
/// as it would after this: to await its threads would be to wait for the store.
pub(crate) async fn stop_at_once(engine: &Engine, exit: Exit) {
    let stopped = tokio::time::timeout(LAST_WORDS_MAX, engine.stop(Duration::ZERO)).await;
    if stopped.is_err() {
        tracing::warn!("the store does not answer; stopping without a final heartbeat");
        #[expect(clippy::exit, reason = "destructors would wait for the store")]
        std::process::exit(exit.code().into());
    }
}
