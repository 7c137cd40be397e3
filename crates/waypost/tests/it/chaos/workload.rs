//! The workload: what both sides make from a seed, so that only numbers have to pass between them.

use serde_json::Value;
use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_ports::store::{Definition, Idempotency};
use waypost_server::wire;
use waypost_server::wire::payload::{Count, Labels, OwnId, Payload, Short};
use waypost_sim::program::{Appetite, Kind, Program, Script};
use waypost_sim::random::Random;

/// What a real call may need until the sink has seen it, the first one of a process above all: the
/// model expects that an attempt which times out has got that far.
const TRAVEL_MS: u64 = 500;

/// The n-th submission of a round.
pub(super) struct Submission {
    pub(super) program: Program,
    pub(super) input: Value,
}

impl Submission {
    pub(super) fn new(seed: u64, n: u64, sink: &str) -> Self {
        let random = Random::new(seed).split(&format!("submission {n}"));
        let mut program = Program::generate(&mut random.split("program"), &Appetite::real());
        program.each_node_mut(&mut |node| {
            if node.kind == Kind::Task(Script::Hang) {
                node.timeout_ms = node.timeout_ms.map(|timeout| timeout + TRAVEL_MS);
            }
        });
        let input = program.input(&mut random.split("input"), sink);
        Self { program, input }
    }

    pub(super) fn input(&self) -> Json {
        Json::from_value(&self.input)
    }
}

/// The execution's key: whose it is can be told from it, in the log and at the sink.
pub(super) fn key(seed: u64, n: u64) -> ExecutionId {
    ExecutionId(format!("{seed:x}-{n}").into())
}

/// The number of the submission with this key.
pub(super) fn number(seed: u64, key: &str) -> Option<u64> {
    key.strip_prefix(&format!("{seed:x}-"))?.parse().ok()
}

/// The idempotency key of a submission.
pub(super) fn idempotency_key(n: u64) -> String {
    format!("once-{n}")
}

/// What is kept under that key: as `waypost run` has it, so that either may submit what the other
/// began to.
pub(super) fn idempotency(seed: u64, n: u64, definition: &Definition, input: &Json) -> Idempotency {
    let submission = wire::Start {
        workflow: Short(definition.name.to_string()),
        version: Some(Count(definition.version)),
        input: Payload(input.clone()),
        id: Some(OwnId(key(seed, n).to_string())),
        labels: Labels::default(),
        signal: None,
    };
    Idempotency { key: idempotency_key(n).into(), digest: submission.digest() }
}

/// What an engine is told in one of its lives.
pub(super) struct Temper {
    pub(super) config: Config,
    /// Does work have to wait its turn, so that it may be late?
    pub(super) narrow: bool,
}

/// The life in which everything ends: nothing is in the way of that.
pub(super) const LAST_LIFE: u32 = u32::MAX;

/// Most lives have the defaults, where nothing is in the way; the others have limits so low that
/// the rare paths behind them become the usual ones.
pub(super) fn temper(seed: u64, life: u32) -> Temper {
    let mut random = Random::new(seed).split(&format!("temper {life}"));
    let mut config = Config { slots: 128, ..Config::default() };
    if life == LAST_LIFE || random.percent(50) {
        return Temper { config, narrow: false };
    }
    let mut narrow = false;
    if random.percent(30) {
        config.slots = u32::try_from(random.between(2, 8)).expect("8 is small");
        config.io_slots = config.slots;
        narrow = true;
    }
    if random.percent(30) {
        config.active_max = 4 + random.index(12);
        narrow = true;
    }
    if random.percent(50) {
        config.park_after = Millis(random.below(100));
    }
    if random.percent(50) {
        config.snapshot_bytes_min = 256;
    }
    if random.percent(40) {
        config.claim_batch = 1 + random.index(4);
    }
    if random.percent(40) {
        config.id_block_size = u32::try_from(random.between(1, 5)).expect("5 is small");
    }
    if random.percent(40) {
        config.batch_frames_max = 1 + random.index(3);
    }
    if random.percent(40) {
        config.frame_commands_max = 1 + random.index(3);
    }
    config.drivers = u32::try_from(random.between(1, 3)).expect("3 is small");
    Temper { config, narrow }
}
