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
        if let (Some(wait), Target::Remote(_)) = (&reason.wait, &target) {
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
        return "No instance drives it now: any of them takes it up when it goes on.".to_owned();
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
    let since = format!("since {} ({} ago)", reason.since.0, now.since(reason.since.0));
    let until = match reason.until.map(|until| until.0) {
        Some(until) if until > now => format!(", until {until} (in {})", until.since(now)),
        Some(until) => format!(", until {until} (due)"),
        None => String::new(),
    };
    let moved = match (reason.unblocked_by.as_str(), &reason.signal) {
        ("signal", Some(name)) => format!(" `waypost signal {id} {name}` moves it."),
        ("resume", _) => {
            format!(" `waypost resume {id}` moves it on, `waypost cancel {id}` ends it.")
        }
        ("attempt", _) => " Its attempt's outcome moves it.".to_owned(),
        ("slot", _) => " A free slot moves it; --slots sets how many there are.".to_owned(),
        ("turn", _) => {
            format!(" The end of one before it moves it, `waypost cancel {id}` ends it.")
        }
        ("engine", _) => " The engine takes it at once.".to_owned(),
        _ => String::new(),
    };
    format!("{subject} {}, {since}{until}.{moved}", reason.what)
}
