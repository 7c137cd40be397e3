//! `waypost check`: do the invariants hold, in the logs and in the rows beside them?

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use waypost_engine::check::{
    BlobTally, CheckOptions, CheckReport, Finding, Tally, check, check_blobs, repair,
};
use waypost_server::problem::Problem;

use super::{Context, Exit, when};
use crate::backend::{self, Backend};
use crate::client::Refused;
use crate::output::{print_line, progress_line};
use crate::target;
use crate::wiring;

/// Most findings that are written out; `-o json` has them all.
const FINDINGS_MAX: usize = 50;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Check this execution alone: its id, or `last` for the newest one
    #[arg(value_name = "EXECUTION")]
    execution: Option<String>,
    /// Only executions that moved in this span, such as `24h`, or since a time such as
    /// `2026-01-31T09:00:00Z`
    #[arg(long, value_name = "WHEN", conflicts_with = "execution")]
    since: Option<String>,
    /// Fix what can be derived from logs and definitions: control rows, snapshots, projections, rows of
    /// triggers; no engine may be running
    #[arg(long)]
    repair: bool,
    /// Also read every blob that an execution names, and compare it with its digest
    #[arg(long, conflicts_with_all = ["execution", "since"])]
    blobs: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    target::home_only("check", &context.settings)?;
    let store = backend::open(&context.settings)?;
    if args.repair
        && let Some(process) = store.engine()
    {
        bail!(
            "--repair needs the {} to itself, and it is driven by {process}: stop what drives it first",
            backend::name(&context.settings)
        );
    }
    let options = options(args, &*store)?;
    let plans = wiring::plans();
    let mut report = check(&*store, &plans, &options, &|tally| {
        progress_line(&format!("checked {} executions", grouped(tally.executions)));
    })?;
    if args.blobs {
        let blobs = backend::open_blobs(&store, &context.settings)?;
        let (tally, findings) = check_blobs(&*blobs, &*store, &|tally| {
            progress_line(&format!("checked {} blobs", grouped(tally.blobs)));
        })?;
        report.blobs = Some(tally);
        report.findings.extend(findings);
    }
    progress_line("");
    if args.repair && report.findings.iter().any(|finding| finding.cure.is_some()) {
        drop(store);
        let store = backend::open_engine(&context.settings)?;
        repair(&*store, &plans, &mut report)?;
    }
    context.show(&wire(&report), || print(&report, args.repair))?;
    Ok(if report.is_well() { Exit::Done } else { Exit::Failed })
}

fn options(args: &Args, store: &dyn Backend) -> Result<CheckOptions> {
    let only = match args.execution.as_deref() {
        None => None,
        Some("last") => Some(store.find(None)?.context("there are no executions yet")?),
        Some(id) => Some(
            store.find(Some(id))?.ok_or_else(|| Refused::from(Problem::unknown_execution(id)))?,
        ),
    };
    let since = args.since.as_deref().map(|text| when::parse("--since", text)).transpose()?;
    Ok(CheckOptions { only, since })
}

fn print(report: &CheckReport, repaired: bool) {
    for finding in report.findings.iter().take(FINDINGS_MAX) {
        print_line(&line(finding, repaired));
    }
    let more = report.findings.len().saturating_sub(FINDINGS_MAX);
    if more > 0 {
        print_line(&format!("… and {} more; -o json prints all", grouped(more as u64)));
    }
    let blobs = report.blobs.map(|BlobTally { blobs, bytes }| {
        format!(", {} of {}", several(blobs, "blob"), several(bytes, "byte"))
    });
    let scope = scope(&report.tally) + &blobs.unwrap_or_default();
    print_line(&format!("{scope}: {}", verdict(report, repaired)));
}

fn line(finding: &Finding, repaired: bool) -> String {
    let violation = &finding.violation;
    let invariant = violation.invariant;
    let fate = match (finding.repaired, &finding.cure) {
        (true, _) => " [repaired]",
        (false, Some(_)) if repaired => " [could not be repaired]",
        (false, Some(_)) => " [--repair fixes it]",
        (false, None) => "",
    };
    format!(
        "{} breaks {invariant} ({}): {}{fate}",
        place(finding),
        invariant.meaning(),
        violation.what
    )
}

/// Where it is: in a log, or at a trigger.
fn place(finding: &Finding) -> String {
    let (execution, seq) = (finding.violation.execution, finding.violation.seq);
    match (&finding.trigger, &finding.key) {
        (Some(about), _) => format!("trigger {}", about.name),
        (None, Some(key)) => format!("{key} seq {seq}"),
        (None, None) => format!("execution {execution} seq {seq}"),
    }
}

fn scope(tally: &Tally) -> String {
    let counts = [
        (tally.executions, "execution"),
        (tally.frames, "frame"),
        (tally.events, "event"),
        (tally.nodes, "node"),
    ];
    let triggers = (tally.triggers > 0).then_some((tally.triggers, "trigger"));
    let counts = counts.into_iter().chain(triggers);
    let counts: Vec<String> = counts.map(|(count, what)| several(count, what)).collect();
    format!("checked {}", counts.join(", "))
}

fn verdict(report: &CheckReport, repaired: bool) -> String {
    let count = |wanted: fn(&&Finding) -> bool| {
        u64::try_from(report.findings.iter().filter(wanted).count()).unwrap_or(u64::MAX)
    };
    let (all, repaired_count) = (count(|_| true), count(|finding| finding.repaired));
    let repairable = count(|finding| finding.cure.is_some());
    match (all, repaired) {
        (0, _) => "all is well".to_owned(),
        (all, true) => format!("{}, {} repaired", several(all, "finding"), grouped(repaired_count)),
        (all, false) if repairable > 0 => {
            let all = several(all, "finding");
            format!("{all}, {} of which --repair can fix", grouped(repairable))
        }
        (all, false) => several(all, "finding"),
    }
}

fn several(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", grouped(count))
}

/// A number with its thousands set apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn wire(report: &CheckReport) -> Value {
    let Tally { executions, frames, events, nodes, triggers } = report.tally;
    let findings: Vec<Value> = report.findings.iter().map(wire_finding).collect();
    let mut wire = json!({
        "executions": executions, "frames": frames, "events": events, "nodes": nodes,
        "triggers": triggers,
        "well": report.is_well(), "findings": findings,
    });
    if let Some(BlobTally { blobs, bytes }) = report.blobs {
        wire["blobs"] = blobs.into();
        wire["blobBytes"] = bytes.into();
    }
    wire
}

fn wire_finding(finding: &Finding) -> Value {
    let violation = &finding.violation;
    json!({
        "id": finding.key, "trigger": finding.trigger.as_ref().map(|about| &*about.name),
        "number": violation.execution.0, "seq": violation.seq,
        "invariant": violation.invariant.name(), "meaning": violation.invariant.meaning(),
        "what": violation.what, "repairable": finding.cure.is_some(), "repaired": finding.repaired,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
