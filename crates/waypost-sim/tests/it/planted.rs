//! Every planted bug is caught, by a bounded number of seeds; and what is shown of it is small.

use waypost_core::planted::{Bug, plant};
use waypost_sim::fleet::jobs;
use waypost_sim::hunt::hunt;
use waypost_sim::shrink::shrink;
use waypost_sim::simulation::{WorldOptions, run};

const SEEDS_MAX: u64 = 5_000;

#[test]
fn every_planted_bug_is_caught() {
    let hunted = hunt(Bug::ALL, SEEDS_MAX, jobs(), &|_| {});
    let missed: Vec<_> = hunted
        .iter()
        .filter(|found| found.caught.is_none())
        .map(|found| found.bug.name())
        .collect();
    assert!(missed.is_empty(), "not caught within {SEEDS_MAX} seeds: {missed:?}");
    assert_eq!(hunted.len(), Bug::ALL.len());
}

#[test]
fn without_a_bug_the_same_build_passes() {
    plant(None);
    for seed in 0..100 {
        assert_eq!(run(&WorldOptions::seed(seed)).finding, None, "seed {seed}");
    }
}

#[test]
fn a_failing_world_is_made_small_and_still_fails() {
    plant(Some(Bug::JoinCountedTwice));
    let found = (0..).find_map(|seed| Some((seed, run(&WorldOptions::seed(seed)).finding?)));
    let (seed, finding) = found.expect("there is such a seed");
    let small = shrink(&WorldOptions::seed(seed), &finding);
    let report = run(&small);
    assert_eq!(report.finding.map(|finding| finding.rule), Some(finding.rule));
    let keep = small.keep.expect("not all submissions are needed to count wrong");
    assert_eq!(keep.len(), 1);
    let program = &report.programs[*keep.first().unwrap()];
    assert!(program.nodes.len() <= 4, "a join of two and what it takes: {program}");
    plant(None);
}
