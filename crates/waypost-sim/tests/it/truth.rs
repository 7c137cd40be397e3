//! The model against the truth: what the core does, the judge must allow.

use std::collections::BTreeMap;

use waypost_sim::model::{End, foretell, judge};
use waypost_sim::program::{Appetite, Program};
use waypost_sim::random::Random;

use super::driver::{SINK, Trouble, run};

/// Runs so many programs, and fails with the first that the judge complains of.
fn check(
    seeds: std::ops::Range<u64>,
    appetite: &Appetite,
    trouble: impl Fn(&mut Random) -> Trouble,
) {
    let mut ends = BTreeMap::new();
    for seed in seeds {
        let random = Random::new(seed);
        let program = Program::generate(&mut random.split("program"), appetite);
        let input = program.input(&mut random.split("input"), SINK);
        let trouble = trouble(&mut random.split("trouble"));
        let ran = run(&program, &input, &random, trouble);
        let complaints = judge(&program, &input, &ran);
        assert!(
            complaints.is_empty(),
            "seed {seed}, {trouble:?}, n = {}\n{program}\n{}\n{ran:#?}",
            input["n"],
            complaints.join("\n")
        );
        *ends.entry(format!("{:?}", ran.end)).or_insert(0) += 1;
    }
    assert!(ends.contains_key(&format!("{:?}", End::Waiting)));
    assert!(ends.len() >= 4, "{ends:?}");
}

#[test]
fn undisturbed_core_matches_the_forecast() {
    check(0..1_500, &Appetite::simulated(), |_| Trouble::default());
}

#[test]
fn disturbed_core_does_only_what_the_model_allows() {
    check(0..1_500, &Appetite::simulated(), |random| Trouble {
        cancels: random.percent(40),
        pauses: random.percent(50),
        losses: random.percent(50),
        silence: random.percent(30),
        lateness: random.percent(40),
    });
}

/// Sets must not be larger than they need to be: of most programs most nodes have one outcome.
#[test]
fn forecasts_are_sharp_where_nothing_races() {
    let (mut exact, mut all) = (0, 0);
    let appetite = Appetite { waits: false, limits: false, ..Appetite::simulated() };
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let program = Program::generate(&mut random, &appetite);
        let input = program.input(&mut random, SINK);
        let forecast = foretell(&program, &input);
        exact += forecast.nodes.iter().filter(|outcomes| outcomes.len() == 1).count();
        all += forecast.nodes.len();
    }
    assert!(exact * 100 > all * 60, "{exact} of {all}");
}

#[test]
fn programs_for_real_processes_match_the_forecast() {
    check(0..1_000, &Appetite::real(), |_| Trouble::default());
}
