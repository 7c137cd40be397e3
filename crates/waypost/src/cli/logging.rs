//! The log of a process, on standard error.

use anyhow::Result;
use tracing_subscriber::EnvFilter;

use crate::output::LogWriter;

/// Panics go to the log, which never panics itself; those of handlers that hold secrets without their
/// text.
pub(super) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if waypost_engine::holds_secrets() {
            let location = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(location, "a handler that holds secrets panicked");
        } else {
            tracing::error!("{panic}");
        }
    }));
}

pub(super) fn start(filter: &str, color: bool) -> Result<()> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("--log {filter:?} is not a log filter: {error}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || LogWriter { color })
        .with_ansi(color)
        // It would do so on standard error, and panic where that cannot be written either.
        .log_internal_errors(false)
        .init();
    Ok(())
}
