//! Many seeds, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::coverage::Coverage;
use crate::simulation::{Finding, WorldOptions, run};

/// One seed in so many is run twice, to check that both runs are equal.
const TWICE_EVERY: u64 = 20;

/// The results of many seeds.
#[derive(Debug, Default)]
pub struct Harvest {
    /// Seeds that were run.
    pub seeds: u64,
    /// Seeds that were run a second time and compared.
    pub twice: u64,
    /// Events in all.
    pub events: u64,
    /// Virtual time in all.
    pub ms: u64,
    pub coverage: Coverage,
    /// The findings, by seed.
    pub findings: Vec<(u64, Finding)>,
    /// How long it took.
    pub took: Duration,
}

/// Runs seeds until all are done or so many have failed. Calls `progress` with how many are done.
pub fn sweep(
    seeds: std::ops::Range<u64>,
    jobs: usize,
    findings_max: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Harvest {
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let harvest = Mutex::new(Harvest::default());
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end {
            return;
        }
        let report = run(&WorldOptions::seed(seed));
        let twice = seed.is_multiple_of(TWICE_EVERY);
        let again = twice.then(|| run(&WorldOptions::seed(seed)).hash);
        let mut harvest = harvest.lock().expect("no job panics while it holds this");
        harvest.seeds += 1;
        harvest.twice += u64::from(twice);
        harvest.events += report.events;
        harvest.ms += report.ms;
        harvest.coverage.add(&report.coverage);
        let differs = again.is_some_and(|hash| hash != report.hash).then(|| Finding {
            rule: "determinism".to_owned(),
            what: "two runs of this seed differ".to_owned(),
        });
        harvest.findings.extend(report.finding.or(differs).map(|finding| (seed, finding)));
        progress(harvest.seeds);
        if harvest.findings.len() >= findings_max {
            next.store(seeds.end, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut harvest = harvest.into_inner().expect("no job panics while it holds this");
    harvest.findings.sort_by_key(|(seed, _)| *seed);
    harvest.took = began.elapsed();
    harvest
}

/// As many jobs as there are cores.
pub fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
