//! One simulated process: the product's drivers and store calls, the clocks of its machine, and the tasks
//! that its worker runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waypost_core::id::{InstanceId, Token};
use waypost_core::limits::{ITEMS_OPENED_MAX, TAKERS_MAX};
use waypost_core::time::{Now, Timestamp};
use waypost_engine::config::Config;
use waypost_engine::driver::{Drivers, Input, Output, Stopwatch, TaskOrder};
use waypost_engine::tokens::TokenIssuer;
use waypost_engine::{Plans, StoreCalls, StoreTime};
use waypost_ports::nudge::Alone;

use crate::clock::MachineClock;
use crate::random::Random;
use crate::simulation::WorldEvent;
use crate::store::{Connection, SimStore};

/// Numbers the lives of processes: a message for one never reaches the next.
pub type Life = u32;

/// The key that all processes of a world share.
pub const CLUSTER_KEY: [u8; 32] = [7; 32];

/// See the module.
pub struct Process {
    pub machine: usize,
    /// Its id in the store.
    pub instance: InstanceId,
    /// Its store calls.
    pub store_calls: Arc<StoreCalls>,
    /// Its machine's clocks.
    pub clock: Arc<MachineClock>,
    /// Its estimate of the store's time.
    pub time: StoreTime,
    /// The inputs of its next step.
    pub inputs: Vec<Input>,
    /// When its next step is.
    pub step_at: Option<u64>,
    /// Attempts that its worker makes.
    pub tasks: BTreeMap<Token, Running>,
    /// Events that come in while it is frozen.
    pub suspended: Option<Vec<WorldEvent>>,
    /// Has the store answered its first heartbeat? Before that it serves no caller.
    pub open: bool,
    /// Is it stopping in order?
    pub draining: bool,
    drivers: Drivers,
}

/// An attempt that is being made.
pub struct Running {
    pub order: TaskOrder,
    /// Was the attempt cancelled?
    pub cancelled: bool,
}

/// The parameters of a process.
pub struct Birth {
    pub machine: usize,
    /// Its id in the store.
    pub instance: InstanceId,
    /// The fold that it reads and writes.
    pub fold: u16,
    /// The lowest log format that its frames require.
    pub log_format_min: u16,
    /// Its machine's clocks.
    pub clock: Arc<MachineClock>,
    /// Bytes of results that the outputs of the world's maps have, at most.
    pub map_results_bytes_max: u64,
}

impl Process {
    /// A process that has not called the store yet.
    pub fn start(birth: Birth, random: &mut Random, store: &SimStore, plans: &Arc<Plans>) -> Self {
        let Birth { machine, instance, fold, log_format_min, clock, map_results_bytes_max } = birth;
        let config = Config { fold, log_format_min, map_results_bytes_max, ..config(random) };
        let seed = u128::from(random.next()) << 64 | u128::from(random.next());
        let connection = Arc::new(Connection(store.clone()));
        let issuer = TokenIssuer::new(&CLUSTER_KEY);
        let mut drivers = Drivers::new(&config, instance, seed, &issuer);
        drivers.set_stopwatches(|| stopwatch(seed));
        let store_calls = StoreCalls {
            about: waypost_ports::store::About::default(),
            running: Arc::default(),
            store: connection,
            plans: Arc::clone(plans),
            config: config.clone(),
            instance,
            issuer,
            nudges: Arc::new(Alone),
            trees: Arc::default(),
        };
        Self {
            machine,
            instance,
            store_calls: Arc::new(store_calls),
            clock,
            time: StoreTime::new(config.drift_ppm),
            inputs: Vec::new(),
            step_at: None,
            tasks: BTreeMap::new(),
            suspended: None,
            open: false,
            draining: false,
            drivers,
        }
    }

    /// The process's estimate of the store's time.
    pub fn now(&mut self) -> Now {
        self.time.now(&*self.clock)
    }

    /// One step of the drivers. Returns after how many milliseconds the next must come, if nothing
    /// comes in before; zero would be a busy loop.
    pub fn step(&mut self, outputs: &mut Vec<Output>) -> Option<u64> {
        let now = self.now();
        self.drivers.step(now, &mut self.inputs, outputs);
        match self.drivers.next_wake() {
            Timestamp(i64::MAX) => None,
            wake => Some(wake.since(now.least).0),
        }
    }
}

/// Every reading advances it by the same: a decision takes as long as it has commands. In a third of the
/// processes the time budget ends each decision after its first command, in another third never.
fn stopwatch(seed: u128) -> Stopwatch {
    let reading = [0, 300, 1_000][usize::try_from(seed % 3).unwrap_or(0)];
    let micros = AtomicU64::new(0);
    Box::new(move || Duration::from_micros(micros.fetch_add(reading, Ordering::Relaxed)))
}

/// Small limits and odd intervals bring out what large and round ones hide.
fn config(random: &mut Random) -> Config {
    use waypost_core::time::Millis;
    let small = |random: &mut Random, few: usize, many: usize| match random.percent(50) {
        true => few + random.index(3),
        false => many,
    };
    let slots = u32::try_from(small(random, 1, 8)).unwrap_or(1);
    let config = Config {
        slots,
        // The local tasks of programs are `api-call`s.
        io_slots: slots,
        active_max: small(random, 1, 1_000),
        park_after: Millis(*random.pick(&[0, 50, 2_000])),
        claim_batch: small(random, 1, 100),
        poll_every: Millis(*random.pick(&[200, 1_000, 1_000])),
        id_block_size: u32::try_from(small(random, 1, 100)).unwrap_or(1),
        snapshot_bytes_min: *random.pick(&[100, 1_000, 64 * 1024]),
        frame_commands_max: small(random, 1, 1_000),
        // One command, a few, or many.
        frame_bytes_max: match small(random, 1, 4 << 20) {
            3 => 1024,
            bytes => bytes,
        },
        items_opened_max: *random.split("maps").pick(&[1, 2, ITEMS_OPENED_MAX]),
        takers_max: *random.split("takers").pick(&[1, 2, TAKERS_MAX]),
        batch_frames_max: small(random, 1, 100),
        drivers: *random.pick(&[1, 1, 2, 3]),
        overflow_after: *random.pick(&[None, Some(Millis(0)), Some(Millis(2_000))]),
        offer_again: Millis(*random.pick(&[1_000, 10_000])),
        ..Config::default()
    };
    // Where frames are short, one at a time is on its way to the store.
    let one = config.frame_bytes_max < 4 << 20;
    Config { in_flight_bytes_max: if one { 1 } else { config.in_flight_bytes_max }, ..config }
}
