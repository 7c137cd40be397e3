//! Every interval and limit of the engine, with its default and the reason for it.

use waypost_core::time::Millis;
use waypost_ports::store::LEASE;

/// An engine's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Attempts that run at once in this process.
    pub slots: u32,
    /// Executions held in memory at once; further ones wait in the store.
    pub active_max: usize,
    /// Further executions held in memory that wait for remote workers.
    pub remote_max: usize,
    /// Submissions that wait to be accepted; further callers wait in the queue.
    pub backlog_max: usize,
    /// An execution whose next due time is further away than this leaves memory.
    pub park_after: Millis,
    /// Executions claimed at once: large enough to spread the cost of a commit, small enough not
    /// to hold up others' commits.
    pub claim_batch: usize,
    /// How often claimable executions and mail are polled without a hint.
    pub poll_every: Millis,
    /// How often the executions that this instance owns in the store are compared with those in
    /// its memory.
    pub reconcile_every: Millis,
    /// Shortest time between two claims, so that a thousand dues a second share commits.
    pub claim_every_min: Millis,
    /// How long before its due time an execution is claimed and read, so that at its due time there is
    /// nothing left to do but to decide and to append.
    pub claim_ahead: Millis,
    /// How long the instance counts as alive after a sign of life: then others take over its
    /// executions, and in the last third it starts nothing.
    pub lease: Millis,
    pub heartbeat_every: Millis,
    /// Numbers for new executions that are reserved at once.
    pub id_block_size: u32,
    /// A snapshot is taken when the log has grown by this, or by the size of the last snapshot.
    pub snapshot_bytes_min: usize,
    /// Commands decided into one frame.
    pub frame_commands_max: usize,
    /// Frames committed in one transaction.
    pub batch_frames_max: usize,
    /// Threads that commit at once, for a store that many may write to at once; 0 where it has one
    /// writer, and one thread does everything.
    pub append_lanes: usize,
    /// Do other instances drive executions whose end callers here may await?
    pub among_others: bool,
    /// Are the states of parked executions copied to a mirror, for their next owners?
    pub contexts: bool,
    /// A node that has waited for a slot for longer than this is counted as queued too long.
    pub queued_too_long: Millis,
    /// How long an attempt waits for a slot before it is offered to remote workers, too, where
    /// one of them serves its handler; never, where absent.
    pub overflow_after: Option<Millis>,
    /// How long to wait before an offer to remote workers is repeated; doubles each time. This
    /// recovers tasks that were lost with a worker's connection or a server of tasks.
    pub offer_again: Millis,
    /// The longest that an offer is left alone.
    pub offer_again_max: Millis,
    /// How often the remote workers that hold attempts are checked, and cancellations are repeated:
    /// three times within the lease of a worker.
    pub watch_every: Millis,
    /// Remote workers whose polls wait here at once; further ones wait in the queue.
    pub polls_max: usize,
    pub scope: Scope,
    /// The newest log format that this engine reads and writes: this build's own, and an older one
    /// only in tests of upgrades. It learns with its renewals which one all live instances can
    /// read.
    pub fold: u16,
    /// The lowest log format that its frames require, although most can be read by older ones.
    /// Above 1 for tests of upgrades only.
    pub log_format_min: u16,
    /// Deaths of processes, each while this one execution alone was loaded or decided, after which
    /// it is quarantined. Two deaths that point at nothing in particular come before them: four in
    /// all, one less than the abandoned attempts that a node with a long task may have, so that
    /// executions that were merely in hand with it are not quarantined for those.
    pub crashes_max: u32,
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
            remote_max: 100_000,
            backlog_max: 1_000,
            park_after: Millis::from_secs(2),
            claim_batch: 500,
            poll_every: Millis::from_secs(1),
            reconcile_every: Millis::from_secs(30),
            claim_every_min: Millis(4),
            claim_ahead: Millis(100),
            lease: LEASE,
            heartbeat_every: Millis::from_secs(5),
            id_block_size: 10_000,
            snapshot_bytes_min: 64 * 1024,
            frame_commands_max: 1_000,
            batch_frames_max: 1_024,
            append_lanes: 0,
            among_others: false,
            contexts: false,
            queued_too_long: Millis::from_secs(60),
            overflow_after: Some(Millis::from_secs(2)),
            offer_again: Millis::from_secs(10),
            offer_again_max: Millis::from_secs(300),
            watch_every: Millis::from_secs(5),
            polls_max: 10_000,
            scope: Scope::All,
            fold: waypost_core::event::LOG_FORMAT,
            log_format_min: 1,
            crashes_max: 2,
            drift_ppm: 500,
        }
    }
}
