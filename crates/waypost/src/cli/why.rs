//! `waypost why`: what an execution waits for, in a sentence or two.

use anyhow::Result;
use serde_json::json;
use waypost_core::time::Timestamp;
use waypost_core::why::{MovedBy, Reason, why};
use waypost_ports::clock::{Clock, SystemClock};

use super::find::Found;
use super::{Context, Exit, find};
use crate::output::{Format, print_json, print_line};

/// Most reasons that are written out; a fan of thousands has as many.
const REASONS_MAX: usize = 10;

pub(crate) fn run(args: &find::Named, context: &Context) -> Result<Exit> {
    let found = args.load(context)?;
    let reasons = why(&found.plan, &found.state);
    let engine = found.store.engine_process();
    if context.format == Format::Json {
        print_json(&json!({
            "id": found.state.created.key, "status": found.state.status.name(),
            "reasons": reasons, "engine": engine,
        }))?;
        return Ok(Exit::Done);
    }
    let now = SystemClock.now();
    let key = &found.state.created.key;
    print_line(&format!("{key} is {}.", found.state.status));
    for reason in reasons.iter().take(REASONS_MAX) {
        print_line(&sentence(reason, key.as_str(), now));
    }
    if reasons.len() > REASONS_MAX {
        print_line(&format!("And {} more nodes.", reasons.len() - REASONS_MAX));
    }
    if !found.state.status.is_end() {
        print_line(&who_drives(&found, engine));
    }
    Ok(Exit::Done)
}

fn sentence(reason: &Reason, key: &str, now: Timestamp) -> String {
    let subject = reason.node.as_ref().map_or("It".to_owned(), |node| format!("Node {node}"));
    let since = format!("since {} ({} ago)", reason.since, now.since(reason.since));
    let until = match reason.until {
        Some(until) if until > now => format!(", until {until} (in {})", until.since(now)),
        Some(until) => format!(", until {until} (due)"),
        None => String::new(),
    };
    let moved = match &reason.moved_by {
        MovedBy::Time => String::new(),
        MovedBy::Signal(name) => format!(" `waypost signal {key} {name}` moves it."),
        MovedBy::Resume => {
            format!(" `waypost resume {key}` moves it on, `waypost cancel {key}` ends it.")
        }
        MovedBy::Attempt => " Its attempt's outcome moves it.".to_owned(),
        MovedBy::Slot => " A free slot moves it; --slots sets how many there are.".to_owned(),
        MovedBy::Engine => " The engine takes it at once.".to_owned(),
        MovedBy::Repair | MovedBy::Nothing => String::new(),
    };
    format!("{subject} {}, {since}{until}.{moved}", reason.what)
}

fn who_drives(found: &Found, engine: Option<String>) -> String {
    let key = &found.state.created.key;
    match engine {
        Some(process) => format!("The engine of this folder is {process}."),
        None => format!("No engine is running in this folder: `waypost resume {key}` starts one."),
    }
}
