//! The simulator's command line: many seeds, one seed, planted bugs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use waypost_sim::coverage::{Coverage, reachable};
use waypost_sim::fault::Fault;
use waypost_sim::fleet::{Harvest, jobs, sweep};
use waypost_sim::shrink::{command, shrink};
use waypost_sim::simulation::{Finding, WorldOptions, run};

/// Runs the engine in generated worlds, one for each seed, and checks the invariants.
#[derive(Parser)]
#[command(name = "waypost-sim", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Run many seeds; print what was reached, and the first failures made small
    Run {
        /// How many
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        /// The first one
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// At once; as many as there are cores, if absent
        #[arg(long)]
        jobs: Option<usize>,
        /// Do not fail where an arrow or a fault was not reached
        #[arg(long)]
        partial: bool,
    },
    /// Run one seed and print what happens in it
    Seed(World),
    /// Write logs for golden tests into a folder: a few that show every event and arrow
    Record {
        /// The folder
        folder: std::path::PathBuf,
        /// How many seeds to choose from
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
    },
    /// List the faults that a world may hold
    Faults,
    /// Plant each bug in turn and look for it (needs the feature `planted`)
    #[cfg(feature = "planted")]
    Planted {
        /// Seeds to look in, at most
        #[arg(long, default_value_t = 5_000)]
        seeds: u64,
        /// This bug alone
        #[arg(long)]
        bug: Option<String>,
    },
}

/// One world, or a part of it.
#[derive(Args)]
struct World {
    /// The seed
    seed: u64,
    /// Of its submissions, none but these
    #[arg(long, value_delimiter = ',')]
    keep: Option<Vec<usize>>,
    /// Faults that do not strike
    #[arg(long, value_delimiter = ',', value_parser = fault)]
    without: Vec<Fault>,
    /// Smaller versions of programs: `SUBMISSION:STEP,STEP,…`; may be repeated
    #[arg(long, value_parser = shrink_path)]
    shrink: Vec<(usize, Vec<usize>)>,
    /// End all faults after so many events
    #[arg(long)]
    events: Option<u64>,
    /// Make it as small as it can be before it is shown, if it fails
    #[arg(long)]
    smaller: bool,
    /// With this bug planted (needs the feature `planted`)
    #[cfg(feature = "planted")]
    #[arg(long, value_parser = bug)]
    bug: Option<waypost_core::planted::Bug>,
}

fn fault(name: &str) -> Result<Fault, String> {
    Fault::parse(name).ok_or_else(|| format!("no fault is called {name:?}"))
}

#[cfg(feature = "planted")]
fn bug(name: &str) -> Result<waypost_core::planted::Bug, String> {
    waypost_core::planted::Bug::parse(name).ok_or_else(|| format!("no bug is called {name:?}"))
}

fn shrink_path(text: &str) -> Result<(usize, Vec<usize>), String> {
    let wrong = || format!("{text:?} is not SUBMISSION:STEP,STEP,…");
    let (at, path) = text.split_once(':').ok_or_else(wrong)?;
    let path: Result<_, _> = path.split(',').map(str::parse).collect();
    Ok((at.parse().map_err(|_| wrong())?, path.map_err(|_| wrong())?))
}

fn main() -> ExitCode {
    let passed = match Cli::parse().command {
        SimCommand::Run { seeds, from, jobs: at_once, partial } => {
            run_many(from..from.saturating_add(seeds), at_once.unwrap_or_else(jobs), partial)
        }
        SimCommand::Seed(world) => run_one(&world),
        SimCommand::Record { folder, seeds } => write_logs(&folder, seeds),
        SimCommand::Faults => {
            for fault in Fault::ALL {
                say(&format!("{:<22} {}", fault.name(), fault.meaning()));
            }
            true
        }
        #[cfg(feature = "planted")]
        SimCommand::Planted { seeds, bug } => hunt_planted(seeds, bug.as_deref()),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Failures that are shrunk and printed.
const SHOWN_MAX: usize = 3;
/// Lines of a trace that are printed after a run of many seeds.
const TRACE_LINES_MAX: usize = 40;

fn run_many(seeds: std::ops::Range<u64>, jobs: usize, partial: bool) -> bool {
    let all = seeds.end - seeds.start;
    let terminal = std::io::stderr().is_terminal();
    let harvest = sweep(seeds, jobs, 20, &|done| {
        if terminal && done.is_multiple_of(100) {
            progress(&format!("{done} of {all} seeds"));
        }
    });
    if terminal {
        progress("");
    }
    summary(&harvest);
    let reached = coverage(&harvest.coverage);
    for (seed, finding) in &harvest.findings {
        say(&format!("seed {seed} fails: {}: {}", finding.rule, finding.what));
    }
    for (seed, finding) in harvest.findings.iter().take(SHOWN_MAX) {
        show_failure(&WorldOptions::seed(*seed), finding);
    }
    harvest.findings.is_empty() && (reached || partial)
}

fn summary(harvest: &Harvest) {
    let seconds = harvest.took.as_secs_f64().max(0.001);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = harvest.seeds as f64 / seconds;
    say(&format!(
        "{} seeds in {seconds:.1} s: {rate:.0} seeds/s, {} events, {} h of virtual time; {} run twice",
        harvest.seeds,
        harvest.events,
        harvest.ms / 3_600_000,
        harvest.twice,
    ));
}

/// Prints the coverage; returns whether it is complete.
fn coverage(coverage: &Coverage) -> bool {
    let (arrows, faults) = coverage.missing();
    let all = reachable();
    say(&format!("arrows: {} of {} taken", all.len() - arrows.len(), all.len()));
    for arrow in all {
        let (from, event, to) = arrow;
        let count = coverage.arrows.get(&arrow).copied().unwrap_or(0);
        say(&format!("  {count:>10}  {from} ── {event} ─▶ {to}"));
    }
    for (from, event, to) in coverage.unknown() {
        say(&format!("  not drawn: {from} ── {event} ─▶ {to}"));
    }
    say(&format!("faults: {} of {} struck", Fault::ALL.len() - faults.len(), Fault::ALL.len()));
    for (fault, count) in Fault::ALL.iter().zip(&coverage.faults) {
        say(&format!("  {count:>10}  {:<22} {}", fault.name(), fault.meaning()));
    }
    arrows.is_empty() && faults.is_empty() && coverage.unknown().is_empty()
}

fn show_failure(options: &WorldOptions, finding: &Finding) {
    let small = shrink(options, finding);
    let report = run(&WorldOptions { trace: true, ..small.clone() });
    say(&format!("\nseed {}, made small:", small.seed));
    let skipped = report.trace.len().saturating_sub(TRACE_LINES_MAX);
    if skipped > 0 {
        say(&format!("  … {skipped} lines before …"));
    }
    report.trace.iter().skip(skipped).for_each(|line| say(line));
    say(&format!("run it again: {}", command(&small)));
}

fn run_one(world: &World) -> bool {
    #[cfg(feature = "planted")]
    waypost_core::planted::plant(world.bug);
    let mut options = WorldOptions {
        keep: world.keep.as_ref().map(|keep| keep.iter().copied().collect::<BTreeSet<_>>()),
        without: world.without.iter().copied().collect(),
        shrink: world.shrink.iter().cloned().collect::<BTreeMap<_, _>>(),
        events_max: world.events,
        ..WorldOptions::seed(world.seed)
    };
    if world.smaller
        && let Some(finding) = run(&options).finding
    {
        options = shrink(&options, &finding);
    }
    let report = run(&WorldOptions { trace: true, ..options.clone() });
    say(&format!("weather: {}", report.weather));
    report.trace.iter().for_each(|line| say(line));
    say(&format!(
        "{} events, {} ms of virtual time, hash {:016x}",
        report.events, report.ms, report.hash
    ));
    match report.finding {
        None => say("all is as it must be"),
        Some(finding) => {
            say(&format!("{}: {}", finding.rule, finding.what));
            say(&format!("run it again: {}", command(&options)));
            return false;
        }
    }
    true
}

fn write_logs(folder: &std::path::Path, seeds: u64) -> bool {
    let logs = waypost_sim::record::record(0..seeds);
    for (number, log) in logs.iter().enumerate() {
        let file = folder.join(format!("{:02}.jsonl", number + 1));
        if let Err(error) = std::fs::write(&file, log) {
            say(&format!("cannot write {}: {error}", file.display()));
            return false;
        }
    }
    say(&format!("{} logs in {}", logs.len(), folder.display()));
    true
}

#[cfg(feature = "planted")]
fn hunt_planted(seeds: u64, only: Option<&str>) -> bool {
    use waypost_core::planted::Bug;
    use waypost_sim::hunt::hunt;
    let bugs: Vec<Bug> =
        Bug::ALL.iter().copied().filter(|bug| only.is_none_or(|name| bug.name() == name)).collect();
    if bugs.is_empty() {
        say("no bug is called so; these are:");
        Bug::ALL.iter().for_each(|bug| say(&format!("  {:<26} {}", bug.name(), bug.meaning())));
        return false;
    }
    say(&format!("{:<26} {:>6}  {:<12} {}", "bug", "seeds", "found by", "which means"));
    let hunted = hunt(&bugs, seeds, jobs(), &|found| {
        let (needed, rule) = match &found.caught {
            Some((seed, finding)) => ((seed + 1).to_string(), finding.rule.as_str()),
            None => (format!(">{seeds}"), "NOTHING"),
        };
        say(&format!("{:<26} {needed:>6}  {rule:<12} {}", found.bug.name(), found.bug.meaning()));
    });
    let caught = hunted.iter().filter(|found| found.caught.is_some()).count();
    say(&format!("{caught} of {} planted bugs caught", hunted.len()));
    caught == hunted.len()
}

fn say(line: &str) {
    let mut stdout = std::io::stdout();
    // The exit code has the result, also if nothing reads the lines.
    drop(writeln!(stdout, "{line}").and_then(|()| stdout.flush()));
}

fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    // A progress line that cannot be written is no reason to stop.
    drop(write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush()));
}
