//! What became of a message that was put into an execution's inbox, as far as its sender can be
//! sure.
//!
//! Only the log says that a message was taken. Until then an owner may end the execution without
//! it: the frame that ends an execution empties its inbox. There is one case in which that cannot
//! happen:
//! 1. The execution is held and unowned, so it is claimed before anything is decided.
//! 2. The claim reads the inbox, and the driver decides signals before the request that it was
//!    claimed for.
//! 3. Its log says that it is held, so that these signals are recorded and nothing more.
//!
//! If only the control row holds it, the signals are acted on, and the first of them may end it. An
//! ending execution takes none.

use waypost_core::planted::{Bug, is_planted};
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_ports::store::Control;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// An event consumed it. The event may be that the message changed nothing.
    Taken,
    /// The execution ended without it.
    Ended(Status),
    /// An owner took it out of the inbox and refused it for now: there was no room for the signal. It may be
    /// sent again under the same id. The log has the refusal as a `MessageIgnored` that is repeatable; if it
    /// has none, the message was consumed so long ago that the execution does not remember it.
    Refused,
    /// It is in the inbox, and where it is a signal, the next owner appends it to the log.
    Kept,
    /// It is in the inbox, and an owner may take it or end the execution without it.
    Open,
}

impl Receipt {
    /// The outcome of a message that the store has accepted, from a state and a control row that
    /// were read after that, together with the inbox: may it be in there?
    pub fn of(message: &str, state: &State, control: Option<&Control>, in_inbox: bool) -> Self {
        let held_by_log = state.held_for();
        let is_held = |row: &Control| match is_planted(Bug::KeptWhileOwned) {
            true => row.held.is_some(),
            false => row.owner.is_none() && row.held.is_some() && row.held == held_by_log,
        };
        if state.messages.contains(message) {
            Self::Taken
        } else if state.status.is_end() {
            Self::Ended(state.status)
        } else if !in_inbox {
            Self::Refused
        } else if control.is_some_and(is_held) {
            Self::Kept
        } else {
            Self::Open
        }
    }
}
