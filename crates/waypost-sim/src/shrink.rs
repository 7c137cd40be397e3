//! Shrinking: the smallest world that still breaks the same rule.
//!
//! Every part of a seed comes from a stream of its own, so parts can be left out one by one:
//! submissions, faults, nodes of programs, the tail of the faults. A smaller world that still fails
//! is kept.

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::simulation::{Finding, WorldOptions, WorldReport, run};

/// Simulations that shrinking may take.
const RUNS_MAX: u32 = 600;

/// Makes a failing world smaller, as long as it breaks the same rule.
pub fn shrink(options: &WorldOptions, finding: &Finding) -> WorldOptions {
    let mut shrinker =
        Shrinker { best: options.clone(), rule: finding.rule.clone(), runs: 0, events: u64::MAX };
    loop {
        let before = shrinker.best.clone();
        shrinker.drop_submissions();
        shrinker.drop_faults();
        shrinker.shrink_programs();
        shrinker.end_earlier();
        if shrinker.best == before || shrinker.runs >= RUNS_MAX {
            return shrinker.best;
        }
    }
}

struct Shrinker {
    best: WorldOptions,
    rule: String,
    runs: u32,
    /// How many events the best one takes.
    events: u64,
}

impl Shrinker {
    /// Keeps a smaller world if it fails in the same way.
    fn try_it(&mut self, options: WorldOptions) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        let WorldReport { finding, events, .. } = run(&options);
        // A world that gets stuck takes as long as many others.
        self.runs += 1 + u32::try_from(events / 10_000).unwrap_or(u32::MAX);
        let same = finding.is_some_and(|finding| finding.rule == self.rule);
        if same {
            self.best = options;
            self.events = events;
        }
        same
    }

    fn drop_submissions(&mut self) {
        let count = run(&self.best).programs.len();
        let kept = self.best.keep.clone().unwrap_or_else(|| (0..count).collect());
        for at in kept.clone() {
            let mut fewer = self.best.keep.clone().unwrap_or_else(|| kept.clone());
            fewer.remove(&at);
            if !fewer.is_empty() {
                self.try_it(WorldOptions { keep: Some(fewer), ..self.best.clone() });
            }
        }
    }

    fn drop_faults(&mut self) {
        for fault in Fault::ALL {
            if !self.best.without.contains(fault) {
                let mut without: BTreeSet<Fault> = self.best.without.clone();
                without.insert(*fault);
                self.try_it(WorldOptions { without, ..self.best.clone() });
            }
        }
    }

    fn shrink_programs(&mut self) {
        let programs = run(&self.best).programs;
        let kept = self.best.keep.clone().unwrap_or_else(|| (0..programs.len()).collect());
        for at in kept {
            let Some(mut program) = programs.get(at).cloned() else { continue };
            let mut step = 0;
            while step < program.shrink_candidates().len() && self.runs < RUNS_MAX {
                let mut shrink = self.best.shrink.clone();
                shrink.entry(at).or_default().push(step);
                if self.try_it(WorldOptions { shrink, ..self.best.clone() }) {
                    program = program.shrink_candidates().swap_remove(step);
                    step = 0;
                } else {
                    step += 1;
                }
            }
        }
    }

    /// Ends the faults earlier: removes events that the failure does not need.
    fn end_earlier(&mut self) {
        let mut low = 0;
        let mut high = self.best.events_max.unwrap_or(self.events.min(20_000));
        while low + 1 < high && self.runs < RUNS_MAX {
            let middle = u64::midpoint(low, high);
            if self.try_it(WorldOptions { events_max: Some(middle), ..self.best.clone() }) {
                high = middle;
            } else {
                low = middle;
            }
        }
    }
}

/// The command that runs this world again.
pub fn command(options: &WorldOptions) -> String {
    let mut command = format!("cargo run --release -p waypost-sim -- seed {}", options.seed);
    let list = |items: Vec<String>| items.join(",");
    if let Some(keep) = &options.keep {
        command += &format!(" --keep {}", list(keep.iter().map(ToString::to_string).collect()));
    }
    if !options.without.is_empty() {
        let names = options.without.iter().map(|fault| fault.name().to_owned()).collect();
        command += &format!(" --without {}", list(names));
    }
    for (at, path) in &options.shrink {
        let path = list(path.iter().map(ToString::to_string).collect());
        command += &format!(" --shrink {at}:{path}");
    }
    if let Some(events) = options.events_max {
        command += &format!(" --events {events}");
    }
    command
}
