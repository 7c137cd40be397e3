//! The answer to "why does this execution not continue?" on the wire.

use super::payload::{ExecutionStatus, Time};

wire! {
    /// Why an execution is where it is.
    pub struct Why {
        /// The execution's id.
        pub id: String,
        /// Its status.
        pub status: ExecutionStatus,
        /// All reasons, the most important first.
        pub reasons: Vec<Reason>,
        /// The instance that drives it.
        pub owner?: String,
    }

    /// One reason why an execution is not further than it is.
    pub struct Reason {
        /// The node it is about.
        pub node?: String,
        /// The reason, as a phrase: `waits for signal "go"`.
        pub what: String,
        /// When it began.
        pub since: Time,
        /// When time alone will change it.
        pub until?: Time,
        /// What would unblock it: `time`, `signal`, `decision`, `resume`, `attempt`, `slot`, `io-slot`,
        /// `permit`, `worker`, `engine`, `retry`, `release`, `budget`, `callback`, `delivery` or `nothing`.
        pub unblocked_by: String,
        /// The signal's name, where one would.
        pub signal?: String,
        /// The wait's id, where there is one.
        pub wait?: String,
    }
}
