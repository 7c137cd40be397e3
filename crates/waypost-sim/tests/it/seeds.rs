//! Many worlds, from the seeds that everybody runs.
//!
//! `SIM_SEEDS=n` runs more of them, `SIM_FROM=n` others.

use waypost_sim::fault::Fault;
use waypost_sim::fleet::{jobs, sweep};
use waypost_sim::shrink::{command, shrink};
use waypost_sim::simulation::{WorldOptions, run};

const SEEDS: u64 = 700;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn every_world_is_as_it_must_be() {
    let (from, seeds) = (number("SIM_FROM", 0), number("SIM_SEEDS", SEEDS));
    let harvest = sweep(from..from + seeds, jobs(), 3, &|_| {});
    if let Some((seed, finding)) = harvest.findings.first() {
        let small = shrink(&WorldOptions::seed(*seed), finding);
        let report = run(&WorldOptions { trace: true, ..small.clone() });
        let trace = report.trace.join("\n");
        panic!("{trace}\nseed {seed}: {finding:?}\nrun it again: {}", command(&small));
    }
    assert_eq!(harvest.seeds, seeds);
    assert!(harvest.twice >= seeds / 20, "some seeds are run twice, and were the same");
    assert_eq!(harvest.coverage.unknown(), [], "an undeclared transition was taken");
}

/// The streams of a seed do not disturb each other: a world without a fault is the same world.
#[test]
fn leaving_a_fault_out_leaves_the_rest() {
    let whole = run(&WorldOptions::seed(7));
    for fault in Fault::ALL {
        let without = [*fault].into_iter().collect();
        let part = run(&WorldOptions { without, ..WorldOptions::seed(7) });
        let at = Fault::ALL.iter().position(|other| other == fault).unwrap();
        assert_eq!(part.coverage.faults[at], 0, "{}", fault.name());
        assert_eq!(part.programs, whole.programs, "{}", fault.name());
        assert_eq!(part.finding, None, "{}", fault.name());
    }
}

#[test]
fn a_world_can_be_cut_down_to_some_of_its_submissions() {
    // What starts by itself would start more in a world with less to do.
    let fits = |seed: &u64| {
        let report = run(&WorldOptions::seed(*seed));
        report.programs.len() == 3 && report.flows == 0
    };
    let seed = (0..).find(fits).unwrap();
    let whole = run(&WorldOptions::seed(seed));
    let keep = Some([1].into_iter().collect());
    let part = run(&WorldOptions { keep, ..WorldOptions::seed(seed) });
    assert_eq!(part.programs[1], whole.programs[1]);
    let owned = ("RUNNING", "RunOwned", "RUNNING");
    assert!(part.coverage.arrows[&owned] < whole.coverage.arrows[&owned]);
    let shrink = [(1, vec![0])].into_iter().collect();
    let smaller = run(&WorldOptions { shrink, ..WorldOptions::seed(seed) });
    assert!(smaller.programs[1].weight() < whole.programs[1].weight());
    assert_eq!(smaller.programs[0], whole.programs[0]);
}
