//! The hunt for planted bugs: how many seeds it takes to find each, and which rule does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use waypost_core::planted::{Bug, plant};

use crate::simulation::{Finding, WorldOptions, run};

/// Bugs that no seed below 40 finds: the hunt for each starts a few seeds before one that is known to find it.
/// When the worlds change, the hunt takes longer or fails; `planted --bug NAME --seeds 100000` finds another
/// seed to start from.
const RARE: &[(Bug, u64)] = &[
    (Bug::LookBeforeCommit, 270),
    (Bug::VersionIgnored, 90),
    (Bug::SweepByIdAlone, 40),
    (Bug::HoldByIdAlone, 320),
    (Bug::ExpiryByOwnClock, 70),
    (Bug::CrashUncounted, 60),
    (Bug::SuspectUnmarked, 2_070),
    (Bug::KeptBackRunsAnyway, 92_730),
    (Bug::KeptWhileOwned, 23_120),
    (Bug::CancelBeforeKept, 5_590),
    (Bug::CacheTrustedBySeq, 130),
    (Bug::OfferedOnce, 70),
    (Bug::ForgottenTaskKept, 470),
    (Bug::ForgottenAtOnce, 9_210),
    (Bug::AdmittedWithoutPermit, 270),
    (Bug::PermitForgottenInQueue, 16_070),
    (Bug::PermitReleasedTwice, 150),
    (Bug::HandedOverCounts, 210),
    (Bug::CancelForgotten, 370),
    (Bug::RetryUnnamed, 50),
    (Bug::SignalStopsEarly, 130),
    (Bug::AnyWait, 120),
    (Bug::RepeatRefused, 380),
    (Bug::LateMark, 2_550),
    (Bug::ClosedScopeHears, 3_990),
    (Bug::KeysIgnoreTries, 60),
    (Bug::TokenWithoutScope, 100),
    (Bug::ToleranceOffByOne, 50),
    (Bug::ResultsOutOfOrder, 130),
    (Bug::ClosedItemHears, 610),
    (Bug::WaitsUnsubscribed, 1_080),
    (Bug::FedForEver, 190),
    (Bug::SecondDecisionTaken, 120),
    (Bug::CursorOutsideCommit, 90),
    (Bug::FireNotFenced, 410),
    (Bug::BackfillMovesCursor, 200),
    (Bug::MoveNotFenced, 380),
    (Bug::OverlapLooksTooEarly, 1_460),
    (Bug::PoisonBlocks, 120),
    (Bug::EndAnsweredUnfired, 480),
    (Bug::EndLeftWhenStale, 3_790),
    (Bug::GroupReplaced, 310),
    (Bug::DebouncedForEver, 410),
];

/// The result of one planted bug.
#[derive(Debug)]
pub struct Hunted {
    pub bug: Bug,
    /// The first seed that finds it, and how; none where no seed does.
    pub caught: Option<(u64, Finding)>,
}

/// Searches for each bug in seeds from 0 on, or from a seed that is known to show it, at most so
/// many.
pub fn hunt(
    bugs: &[Bug],
    seeds_max: u64,
    jobs: usize,
    progress: &(dyn Fn(&Hunted) + Sync),
) -> Vec<Hunted> {
    let next = AtomicUsize::new(0);
    let hunted = Mutex::new(Vec::new());
    let work = || {
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = Hunted { bug: *bug, caught: first_seed(*bug, seeds_max) };
            progress(&found);
            hunted.lock().expect("no job panics while it holds this").push(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut hunted = hunted.into_inner().expect("no job panics while it holds this");
    hunted.sort_by_key(|found| found.bug);
    hunted
}

fn first_seed(bug: Bug, seeds_max: u64) -> Option<(u64, Finding)> {
    plant(Some(bug));
    let from = RARE.iter().find(|(rare, _)| *rare == bug).map_or(0, |(_, from)| *from);
    let mut seeds = from..from.saturating_add(seeds_max);
    let caught = seeds.find_map(|seed| Some((seed, run(&WorldOptions::seed(seed)).finding?)));
    plant(None);
    caught
}
