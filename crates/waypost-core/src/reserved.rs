//! Names of signals that only Waypost sends: the callbacks of operations and the results of messages that
//! nodes wait for are recorded as signals, and neither people nor workflows may send one by hand.

use crate::event_wait::is_event;

/// What reserved names begin with.
const PREFIXES: [&str; 2] = ["waypost.", "waypost/"];

/// Is this the name of a signal that only Waypost sends? An event may be sent to one execution by hand.
pub fn is_reserved(signal: &str) -> bool {
    has_prefix(signal) && !is_event(signal)
}

fn has_prefix(signal: &str) -> bool {
    PREFIXES.iter().any(|prefix| signal.starts_with(prefix))
}

/// Rejects the name of a signal that a definition or a person gives.
pub fn refuse_reserved(signal: &str) -> Result<(), String> {
    match has_prefix(signal) {
        true => Err(format!(
            "the name of a signal must not begin with `waypost.` or `waypost/`, which are reserved: {signal:?}"
        )),
        false => Ok(()),
    }
}
