//! Every interval and limit of the engine, with its default and the reason for it.

use waypost_core::limits::{
    ITEMS_OPENED_MAX, MAP_RESULTS_BYTES_MAX, PAYLOAD_BYTES_MAX, TAKERS_MAX, TREE_EXECUTIONS_MAX,
};
use waypost_core::time::Millis;
use waypost_ports::store::LEASE;

use crate::dispatcher::HandoffsWanted;
use crate::driver::DRIVERS_MAX;

/// The most drivers unless the configuration says how many.
pub const DRIVERS_AUTO_MAX: u32 = 8;

/// Declares the configuration: each field with its default.
macro_rules! config {
    ($(#[$doc:meta])* pub struct $Config:ident {
        $($(#[$about:meta])* $field:ident: $Type:ty = $default:expr;)*
    }) => {
        $(#[$doc])*
        pub struct $Config {
            $($(#[$about])* pub $field: $Type,)*
        }

        impl Default for $Config {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

config! {
    /// An engine's configuration.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Attempts that run at once in this process, without those that only await I/O.
        slots: u32 = 64;
        /// Attempts that run at once in this process and only await I/O. Each may hold a connection
        /// and a response.
        io_slots: u32 = 1_000;
        /// Drivers, each on a thread of its own; 0: half of the cores, at most [`DRIVERS_AUTO_MAX`].
        drivers: u32 = 0;
        /// Executions held in memory at once; further ones wait in the store.
        active_max: usize = 10_000;
        /// Further executions held in memory that wait for remote workers.
        remote_max: usize = 100_000;
        /// Submissions that wait to be accepted; further callers wait in the queue.
        backlog_max: usize = 1_000;
        /// An execution whose next due time is further away than this leaves memory.
        park_after: Millis = Millis::from_secs(2);
        /// Executions claimed at once: large enough to spread the cost of a commit, small enough not
        /// to hold up others' commits.
        claim_batch: usize = 500;
        /// How often claimable executions and mail are polled without a hint.
        poll_every: Millis = Millis::from_secs(1);
        /// How often the executions that this instance owns in the store are compared with those in
        /// its memory.
        reconcile_every: Millis = Millis::from_secs(30);
        /// Shortest time between two claims, so that a thousand dues a second share commits.
        claim_every_min: Millis = Millis(4);
        /// How long before its due time an execution is claimed and read, so that at its due time there is
        /// nothing left to do but to decide and to append.
        claim_ahead: Millis = Millis(100);
        /// How long the instance counts as alive after a sign of life: then others take over its
        /// executions, and in the last third it starts nothing.
        lease: Millis = LEASE;
        heartbeat_every: Millis = Millis::from_secs(5);
        /// Numbers for new executions that are reserved at once.
        id_block_size: u32 = 10_000;
        /// A snapshot is taken when the log has grown by this, or by the size of the last snapshot.
        snapshot_bytes_min: usize = 64 * 1024;
        /// Commands decided into one frame.
        frame_commands_max: usize = 1_000;
        /// How long one execution may decide commands before others have their turn; an eighth of it while
        /// others wait. The rest of its commands follow after the commit. Shorter: others wait less;
        /// longer: fewer and larger frames.
        decide_max: Millis = Millis(1);
        /// A frame takes no further command once the payloads of its events have this size.
        frame_bytes_max: usize = 4 * 1024 * 1024;
        /// Payloads up to this size are kept in the log, larger ones in the blob store; at most
        /// [`PAYLOAD_BYTES_MAX`](waypost_core::limits::PAYLOAD_BYTES_MAX).
        inline_bytes_max: usize = PAYLOAD_BYTES_MAX;
        /// Items of a map that one frame opens, an eighth of it while others wait; the rest follows in the
        /// next one.
        items_opened_max: u64 = ITEMS_OPENED_MAX;
        /// Waits that one decision delivers a signal to; the rest follows in the next ones.
        takers_max: usize = TAKERS_MAX;
        /// Bytes of results that the output of a map has, at most; above, they are a blob.
        map_results_bytes_max: u64 = MAP_RESULTS_BYTES_MAX;
        /// Bytes of frames and snapshots on their way to the store, of all drivers, from which on nothing
        /// more is decided until some are committed. The events of a frame take about twice its bytes
        /// besides. Smaller: less memory for wide executions; larger: larger commits.
        in_flight_bytes_max: usize = 64 * 1024 * 1024;
        /// Frames committed in one transaction.
        batch_frames_max: usize = 1_024;
        /// Threads that commit at once, for a store that many may write to at once; 0 where it has one
        /// writer, and one thread does everything.
        append_lanes: usize = 0;
        /// Executions in one tree.
        tree_max: u64 = TREE_EXECUTIONS_MAX;
        /// Do other instances drive executions whose end callers here may await?
        among_others: bool = false;
        /// Are the states of parked executions copied to a mirror, for their next owners?
        contexts: bool = false;
        /// A node that has waited for a slot for longer than this is counted as queued too long.
        queued_too_long: Millis = Millis::from_secs(60);
        /// How long an attempt waits for a slot before it is offered to remote workers, too, where
        /// one of them serves its handler; never, where absent.
        overflow_after: Option<Millis> = Some(Millis::from_secs(2));
        /// How long to wait before an offer to remote workers is repeated; doubles each time. This
        /// recovers tasks that were lost with a worker's connection or a server of tasks.
        offer_again: Millis = Millis::from_secs(10);
        /// The longest that an offer is left alone.
        offer_again_max: Millis = Millis::from_secs(300);
        /// How often the remote workers that hold attempts are checked, and cancellations are repeated:
        /// three times within the lease of a worker.
        watch_every: Millis = Millis::from_secs(5);
        /// Remote workers whose polls wait here at once; further ones wait in the queue.
        polls_max: usize = 10_000;
        /// What links to this server begin with, where outside systems reach one; no slash at the end.
        public_url: Option<String> = None;
        scope: Scope = Scope::All;
        /// Does a webhook endpoint ask for messages about attempts that remote workers took?
        handoffs: HandoffsWanted = HandoffsWanted::default();
        /// The newest log format that this engine reads and writes: this build's own, and an older one
        /// only in tests of upgrades. It learns with its renewals which one all live instances can
        /// read.
        fold: u16 = waypost_core::event::LOG_FORMAT;
        /// The lowest log format that its frames require, although most can be read by older ones.
        /// Above 1 for tests of upgrades only.
        log_format_min: u16 = 1;
        /// Deaths of processes, each while this one execution alone was loaded or decided, after which
        /// it is quarantined. Two deaths that point at nothing in particular come before them: four in
        /// all, one less than the abandoned attempts that a node with a long task may have, so that
        /// executions that were merely in hand with it are not quarantined for those.
        crashes_max: u32 = 2;
        /// How much faster than the store's clock this machine's may run, in parts per million. The
        /// default is the fastest that a clock is slewed when it is being set right.
        drift_ppm: u32 = 500;
    }
}

impl Config {
    /// How many drivers the engine has. One where there is little to divide.
    pub fn driver_count(&self) -> u32 {
        let wanted = match self.drivers {
            0 => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                u32::try_from(cores / 2).unwrap_or(1).min(DRIVERS_AUTO_MAX)
            }
            wanted => wanted.min(DRIVERS_MAX),
        };
        let places = u32::try_from(self.active_max).unwrap_or(u32::MAX);
        if self.scope == Scope::Adopted { 1 } else { wanted.min(places).max(1) }
    }

    /// Numbers for new executions to reserve at once: enough for each driver.
    pub fn numbers_wanted(&self) -> u32 {
        self.id_block_size.saturating_mul(self.driver_count())
    }
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
