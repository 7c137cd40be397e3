//! `waypost why`: what an execution waits for, in a sentence or two.

use anyhow::Result;
use waypost_core::time::Timestamp;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_server::wire;

use super::{Context, Exit, find};
use crate::output::{Format, print_json, print_line};
use crate::target::Target;

/// Most reasons that are written out; a fan of thousands has as many.
const REASONS_MAX: usize = 10;

pub(crate) async fn run(args: &find::Named, context: &Context) -> Result<Exit> {
    // No execution has a slash in its id.
    if let Some(trigger) = args.execution.split_once('/') {
        return super::triggers::why(trigger, context).await;
    }
    let (target, id) = args.open(context).await?;
    let why = target.why(&id).await?;
    if context.format == Format::Json {
        print_json(&why)?;
        return Ok(Exit::Done);
    }
    let now = SystemClock.now();
    print_line(&format!("{} is {}.", why.id, why.status.0));
    for reason in why.reasons.iter().take(REASONS_MAX) {
        print_line(&sentence(reason, &why.id, now));
        let is_named = matches!(&*reason.unblocked_by, "decision" | "callback");
        if let (Some(wait), Target::Remote(_), false) = (&reason.wait, &target, is_named) {
            print_line(&format!("  `waypost complete-wait {wait}` ends this wait now."));
        }
    }
    if why.reasons.len() > REASONS_MAX {
        print_line(&format!("And {} more nodes.", why.reasons.len() - REASONS_MAX));
    }
    if !why.status.0.is_end() {
        let driven = match (target.driver(), target.is_shared()) {
            (None, _) => {
                format!("No engine is running here: `waypost resume {}` starts one.", why.id)
            }
            (Some(_), true) => driven(&why, &target.instances().await?.instances),
            (Some(driver), false) => driver,
        };
        print_line(&driven);
    }
    Ok(Exit::Done)
}

/// Which of several instances drives it.
fn driven(why: &wire::Why, instances: &[wire::Instance]) -> String {
    let Some(owner) = &why.owner else {
        return "No instance owns it now; any of them can resume it.".to_owned();
    };
    let instance = instances.iter().find(|instance| instance.id == *owner);
    let place = instance.and_then(|instance| instance.address.as_deref());
    let place = place.map_or(String::new(), |place| format!(" at {place}"));
    match instance.is_some_and(|instance| instance.alive) {
        true => format!("Instance {owner}{place} drives it."),
        false => format!("Instance {owner}{place} drove it and is gone: another one takes over."),
    }
}

fn sentence(reason: &wire::Reason, id: &str, now: Timestamp) -> String {
    let subject = reason.node.as_ref().map_or("It".to_owned(), |node| format!("Node {node}"));
    // Only what has ended needs a retry, or nothing.
    let ended = matches!(&*reason.unblocked_by, "retry" | "nothing");
    let since = if ended { "at" } else { "since" };
    let since = format!("{since} {} ({} ago)", reason.since.0, now.since(reason.since.0));
    let until = match reason.until.map(|until| until.0) {
        Some(until) if until > now => format!(", until {until} (in {})", until.since(now)),
        Some(until) => format!(", until {until} (due)"),
        None => String::new(),
    };
    let decided =
        reason.wait.as_deref().filter(|_| matches!(&*reason.unblocked_by, "decision" | "callback"));
    let name = decided.or(reason.signal.as_deref()).or(reason.node.as_deref());
    let next = next_step(&reason.unblocked_by, name, id);
    format!("{subject} {}, {since}{until}.{next}", reason.what)
}

/// What unblocks it, as a sentence; nothing where the reason itself says so. The name is that of the
/// signal, the wait, or the node.
fn next_step(unblocked_by: &str, name: Option<&str>, id: &str) -> String {
    match (unblocked_by, name) {
        ("signal", Some(name)) => format!(" `waypost signal {id} {}` sends it.", quoted(name)),
        ("decision", Some(wait)) => {
            format!(" `waypost approve {wait}` or `waypost reject {wait}` decides it.")
        }
        ("callback", Some(wait)) => {
            format!(" The outside system ends it; `waypost complete-wait {wait}` does so by hand.")
        }
        ("resume", _) => {
            format!(" `waypost resume {id}` continues it, `waypost cancel {id}` ends it.")
        }
        ("retry", _) => {
            format!(" `waypost retry {id}` runs the failed nodes again, and those after them.")
        }
        ("release", Some(node)) => {
            format!(" `waypost tune {id} {} --release` lets it open items again.", quoted(node))
        }
        ("budget", _) => format!(
            " `waypost budget {id} --tokens N` or `--money AMOUNT` raises the budget, and `waypost resume \
             {id}` continues it then."
        ),
        ("delivery", _) => {
            format!(" `waypost webhooks messages --execution {id}` shows how far its message is.")
        }
        ("attempt", _) => " It continues when the attempt ends.".to_owned(),
        ("slot", _) => {
            " It continues when a slot is free; --slots sets how many there are.".to_owned()
        }
        ("io-slot", _) => {
            " It continues when a slot is free; --io-slots sets how many there are.".to_owned()
        }
        ("permit", _) => format!(
            " It starts when an execution ahead of it ends; `waypost cancel {id}` takes it out of \
             the queue."
        ),
        ("worker", _) => {
            " It continues when a worker takes it; `waypost workers` lists them.".to_owned()
        }
        ("engine", _) => " The engine continues it at once.".to_owned(),
        _ => String::new(),
    }
}

/// A name as an argument: a shell would take brackets for a pattern.
fn quoted(name: &str) -> String {
    if name.contains('[') { format!("'{name}'") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_is_said_for_everything_that_unblocks() {
        let schema = serde_json::to_value(schemars::schema_for!(wire::Reason)).unwrap();
        let about = schema["properties"]["unblockedBy"]["description"].as_str().unwrap();
        let names: Vec<&str> = about.split('`').skip(1).step_by(2).collect();
        assert_eq!(names.len(), 16, "{about}");
        for name in names {
            let said = !next_step(name, Some("go"), "e").is_empty();
            assert_eq!(said, !["time", "nothing"].contains(&name), "{name}");
        }
        let retry = next_step("retry", None, "e");
        assert!(retry.contains("`waypost retry e`"), "{retry}");
    }
}
