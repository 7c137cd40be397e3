//! Ctrl-C and SIGTERM: requests to stop.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

    /// The next one, or one that came meanwhile.
    pub(crate) async fn next(&mut self) {
        tokio::select! { // both are cancel-safe: a signal that came is kept
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
