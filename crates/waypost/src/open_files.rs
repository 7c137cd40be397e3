//! How many files this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as it goes. Every connection and stream is an open file; the customary
/// limit of 1,024 is not enough.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}
