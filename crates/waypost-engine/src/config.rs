//! Every interval and limit of the engine, with its default and the reason for it.

use waypost_core::time::Millis;

/// What an engine is told about itself.
#[derive(Clone, Debug)]
pub struct Config {
    /// Attempts that run at once in this process.
    pub slots: u32,
    /// Executions held in memory at once; further ones wait in the store.
    pub active_max: usize,
    /// Submissions that wait to be accepted; further callers wait in line.
    pub backlog_max: usize,
    /// An execution whose next due time is further away than this leaves memory.
    pub park_after: Millis,
    /// Executions claimed at once: large enough to spread the cost of a commit, small enough not
    /// to hold up others' commits.
    pub claim_batch: usize,
    /// How often claimable executions and mail are looked for when nothing points to any.
    pub poll_every: Millis,
    /// How often the executions that this instance owns in the store are compared with those in
    /// its memory.
    pub roll_call_every: Millis,
    /// Shortest time between two claims, so that a thousand dues a second share commits.
    pub claim_every_min: Millis,
    /// How often the instance renews its lease.
    pub heartbeat_every: Millis,
    /// Numbers for new executions that are set aside at once.
    pub numbers_at_once: u32,
    /// A snapshot is taken when the log has grown by this, or by the size of the last snapshot.
    pub snapshot_bytes_min: usize,
    /// Commands decided into one frame.
    pub frame_commands_max: usize,
    /// Frames committed in one transaction.
    pub batch_frames_max: usize,
    /// A node that has waited for a slot for longer than this is counted as queued too long.
    pub queued_too_long: Millis,
    /// Which executions to claim.
    pub scope: Scope,
    /// The fold that this engine reads and writes. Others than this build's own are for tests of
    /// upgrades.
    pub fold: u16,
    /// How much faster than the store's clock this machine's may run, in parts per million. The
    /// default is the fastest that a clock is slewed when it is being set right.
    pub drift_ppm: u32,
}

/// Which executions an engine claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every one that can be claimed.
    All,
    /// Those that were started or adopted here: for a process that drives one execution in a folder
    /// with many.
    Adopted,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slots: 64,
            active_max: 10_000,
            backlog_max: 1_000,
            park_after: Millis::from_secs(2),
            claim_batch: 500,
            poll_every: Millis::from_secs(1),
            roll_call_every: Millis::from_secs(30),
            claim_every_min: Millis(4),
            heartbeat_every: Millis::from_secs(5),
            numbers_at_once: 10_000,
            snapshot_bytes_min: 64 * 1024,
            frame_commands_max: 1_000,
            batch_frames_max: 1_024,
            queued_too_long: Millis::from_secs(60),
            scope: Scope::All,
            fold: waypost_core::event::FOLD_VERSION,
            drift_ppm: 500,
        }
    }
}
