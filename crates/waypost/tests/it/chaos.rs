//! Real processes: the simulator's random workloads, run by the real engine over a real folder, in
//! processes that are killed, stopped, told to end and left without a disk, and judged by the same
//! checker and the same model.
//!
//! ```text
//!   this process ── round ─┬─ life ─▶ victim ── orders, lines ──▶ engine over SQLite
//!                          ├─ guests ▶ waypost signal, pause, resume, cancel, check, list, run
//!                          ├─ sink   ◀ api-call, over HTTP
//!                          └─ ledger, then audit: checker, model
//! ```
//!
//! | file | owns |
//! | --- | --- |
//! | `round` | one round from start to verdict, and what the processes in it say |
//! | `life`, `faults`, `people` | what is done in it |
//! | `ledger`, `audit` | what is known of each execution; is it as it should be? |
//! | `victim`, `workload` | the process that is killed; what both sides derive from the seed |
//! | `process`, `guests`, `sink`, `disk` | handles on the real world |
//!
//! The programs and the plan of the lives are drawn from the round's seed; the moments at which things
//! happen, and what people do at them, are those of real processes, so a seed that found something may
//! have to be run more than once.

mod audit;
mod disk;
mod faults;
mod guests;
mod ledger;
mod life;
mod people;
mod process;
mod round;
mod sink;
mod victim;
mod workload;

use std::process::Command;
use std::time::{Duration, Instant};

use round::Round;
use sink::Sink;
use waypost_sim::random::Random;

/// How long to go on, instead of for [`ROUNDS`].
const MINUTES: &str = "CHAOS_MINUTES";
/// The seed of the only round.
const SEED: &str = "CHAOS_SEED";
/// Set for the process that may mount.
const INSIDE: &str = "CHAOS_INSIDE";

/// Seeds of the rounds of an ordinary test run. Together their plans have every kind of fault: kills, stops,
/// full disks, terminations, guests, `waypost run`, checks under load and damaged snapshots.
const ROUNDS: [u64; 3] = [3_139_146_329, 3, 4];

/// What was done, in all rounds.
#[derive(Default)]
struct Tally {
    /// Is there time for faults that take long?
    patient: bool,
    rounds: u64,
    kills: u64,
    stops: u64,
    fills: u64,
    terminations: u64,
    guests: u64,
    runs: u64,
    checks: u64,
    snapshots_damaged: u64,
    acknowledged: u64,
    undisturbed: u64,
    moved: u64,
    quarantined: u64,
}

#[test]
fn real_processes_keep_what_was_promised() {
    if !go_inside() {
        let minutes = std::env::var(MINUTES).ok().filter(|text| !text.is_empty());
        let minutes = minutes.map(|text| text.parse::<f64>().expect("a number of minutes"));
        let seed = std::env::var(SEED).ok().filter(|text| !text.is_empty());
        let seed = seed.map(|text| text.parse::<u64>().expect("a seed is a number"));
        rounds(minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)), seed);
    }
}

/// Does nothing in an ordinary test run; see `victim.rs`.
#[test]
fn victim() {
    victim::run();
}

/// Runs this test in a namespace of its own, where that is allowed: there it may mount a small file
/// system, and nothing of it is left when it ends, in whatever way. False where it is not allowed,
/// or where this is the process inside.
fn go_inside() -> bool {
    const UNSHARE: &[&str] = &["--map-root-user", "--mount", "--kill-child"];
    let possible = || {
        let tried = Command::new("unshare").args(UNSHARE).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    if std::env::var_os(INSIDE).is_some() || !possible() {
        return false;
    }
    let status = Command::new("unshare")
        .args(UNSHARE)
        .arg(std::env::current_exe().unwrap())
        .args(["chaos::real_processes_keep_what_was_promised", "--exact", "--nocapture"])
        .env(INSIDE, "yes")
        .status()
        .unwrap();
    assert!(status.success(), "see above");
    true
}

fn rounds(time: Option<Duration>, only: Option<u64>) {
    let sink = Sink::start();
    let mut tally = Tally { patient: time.is_some(), ..Tally::default() };
    let began = Instant::now();
    // An ordinary test run has the same programs and the same plan of lives every time; only the
    // moments differ, and what follows from them.
    let mut ordinary = ROUNDS.iter().copied();
    let mut seeds = Random::new(u64::from(std::process::id())).split("rounds");
    let mut reported = 0;
    loop {
        let seed = match time {
            Some(_) => only.unwrap_or_else(|| seeds.below(1 << 32)),
            None => only.or_else(|| ordinary.next()).expect("the loop ends with the last one"),
        };
        let round = Instant::now();
        let mut play = Round::new(seed, &sink, &mut tally);
        if play.tally.rounds == 0 {
            say(&format!("the disk that is filled is {}", play.disk.describe()));
        }
        let verdict = play.play();
        drop(play);
        tally.rounds += 1;
        let verdict = verdict.unwrap_or_else(|finding| {
            panic!("{finding:#}\n\nround {seed}; again with: make chaos SEED={seed}")
        });
        tally.undisturbed += verdict.undisturbed;
        tally.moved += verdict.moved;
        tally.quarantined += verdict.quarantined;
        let took = round.elapsed().as_secs_f64();
        say(&format!("round {seed}: {} executions, well, {took:.1} s", verdict.executions));
        let over = match time {
            Some(time) => began.elapsed() >= time,
            None => ordinary.len() == 0 || only.is_some(),
        };
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > reported || over {
            reported = minutes;
            say(&tally.report(&sink, began));
        }
        if over {
            return;
        }
    }
}

impl Tally {
    fn report(&self, sink: &Sink, began: Instant) -> String {
        let Self { rounds, kills, stops, fills, terminations, guests, runs, checks, .. } = self;
        let Self { acknowledged, undisturbed, moved, quarantined, snapshots_damaged, .. } = self;
        format!(
            "{} s: {rounds} rounds, {acknowledged} executions acknowledged ({undisturbed} \
             undisturbed, {moved} moved, {quarantined} quarantined), {} calls; {kills} kills, \
             {stops} stops, {fills} fills, {terminations} terminations, {guests} guests, {runs} \
             `waypost run`, {checks} checks under load, {snapshots_damaged} snapshots damaged; no \
             findings",
            began.elapsed().as_secs(),
            sink.calls(),
        )
    }
}

#[expect(clippy::print_stdout, reason = "for whoever watches a long run")]
fn say(line: &str) {
    println!("{line}");
}
