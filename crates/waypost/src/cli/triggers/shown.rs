//! Triggers as people read them.

use anyhow::Result;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::{Clock, SystemClock};
use waypost_server::wire;
use waypost_server::wire::payload::Time;

use super::{Ask, Client, Exit, print_columns, print_json, print_line, print_table};
use crate::cli::Context;
use crate::output::Format;
use crate::target::server_only;

fn time(time: Option<Time>) -> String {
    time.map(|time| time.0.to_string()).unwrap_or_default()
}

pub(super) fn print(trigger: &wire::Trigger) {
    let mut rows = vec![
        ("trigger", format!("{}/{}", trigger.workflow, trigger.name)),
        ("kind", trigger.kind.clone()),
        ("state", trigger.state.clone()),
        ("version", trigger.version.to_string()),
    ];
    let optional = [
        ("reason", trigger.reason.clone().unwrap_or_default()),
        ("topics", trigger.topics.join(", ")),
        ("waiting", trigger.waiting.map(|count| count.to_string()).unwrap_or_default()),
        ("next due", time(trigger.next_due_at)),
        ("last fired", time(trigger.last_fired_at)),
        (
            "failures",
            Some(trigger.failures)
                .filter(|count| *count > 0)
                .map_or_else(String::new, |count| count.to_string()),
        ),
        ("failure", trigger.failure.clone().unwrap_or_default()),
        (
            "cursor",
            trigger.cursor.as_ref().map(|cursor| cursor.0.text().to_owned()).unwrap_or_default(),
        ),
    ];
    rows.extend(optional.into_iter().filter(|(_, text)| !text.is_empty()));
    if trigger.kind == "webhook" {
        rows.push(("path", format!("/v1/hooks/{}/{}", trigger.workflow, trigger.name)));
    }
    print_table(&rows);
}

pub(super) fn print_times(times: &wire::TriggerTimes) {
    if times.times.is_empty() {
        return print_line("no more times: the schedule has ended");
    }
    let columns = |time: &wire::TriggerTime| {
        let is_later = time.fires_at > time.at;
        vec![
            time.at.0.to_string(),
            time.local.clone(),
            if is_later { time.fires_at.0.to_string() } else { String::new() },
            time.remark.clone().unwrap_or_default(),
        ]
    };
    print_columns(&["TIME", "LOCAL", "WITH JITTER", "REMARK"], &times.times, columns);
}

pub(super) fn print_fires(list: &wire::TriggerFireList) {
    if list.fires.is_empty() {
        return print_line("nothing has fired");
    }
    let columns = |fire: &wire::TriggerFire| {
        vec![
            fire.at.0.to_string(),
            fire.outcome.clone(),
            fire.key.clone(),
            fire.id.clone().or_else(|| fire.reason.clone()).unwrap_or_default(),
        ]
    };
    print_columns(&["AT", "OUTCOME", "KEY", "EXECUTION OR REASON"], &list.fires, columns);
    if let Some(next) = &list.next {
        print_line(&format!("more: the same with --before {next}"));
    }
}

pub(super) fn print_tested(tested: &wire::TriggerTested) {
    match tested.outcome.as_str() {
        "start" => {
            let id = tested.id.as_ref().map_or("an execution", |id| id.0.as_str());
            let input = tested.input.as_ref().map_or("null", |input| input.0.text());
            let labels = tested.labels.iter().flat_map(|labels| &labels.0);
            let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={value}")).collect();
            let mut rows = vec![("starts", id.to_owned()), ("input", input.to_owned())];
            rows.extend((!labels.is_empty()).then(|| ("labels", labels.join(", "))));
            print_table(&rows);
        }
        "filtered" => print_line("starts nothing: its `if` does not hold"),
        _ => {
            let reason = tested.reason.as_deref().unwrap_or_default();
            print_line(&format!("cannot start anything: {reason}"));
        }
    }
}

pub(super) fn print_published(published: &wire::EventsPublished) {
    let wire::EventsPublished {
        accepted,
        started: _,
        woken,
        held,
        duplicates,
        filtered,
        skipped,
        dead,
    } = published;
    for started in &published.started {
        let wire::StartedByTrigger { workflow, trigger, id } = started;
        print_line(&format!("started {id} by {workflow}/{trigger}"));
    }
    let counts = [
        (*woken, "sent to executions that wait"),
        (*held, "held in a window or by a throttle"),
        (*duplicates, "known before"),
        (*filtered, "filtered"),
        (*skipped, "skipped by a concurrency limit or a throttle"),
        (*dead, "dead"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, what)| format!(", {count} {what}")).collect();
    let started = published.started.len();
    print_line(&format!("{accepted} published: {started} started{}", counts.concat()));
}

/// `waypost why` for a trigger: why it fires, or why it does not.
pub(crate) async fn why(name: (&str, &str), context: &Context) -> Result<Exit> {
    let client: Client = server_only("why of a trigger", &context.settings)?;
    let trigger: wire::Trigger = client.get(&["triggers", name.0, name.1]).await?;
    if context.format == Format::Json {
        print_json(&trigger)?;
        return Ok(Exit::Done);
    }
    let fires: wire::TriggerFireList = client
        .ask(Ask::get(&["triggers", name.0, name.1, "fires"]).query("limit", Some(1)))
        .await?
        .body;
    let reasons = reasons(&trigger, fires.fires.first(), SystemClock.now());
    reasons.iter().for_each(|line| print_line(line));
    Ok(Exit::Done)
}

/// How late a trigger may be before that is news: an instance that fires triggers takes a few seconds at most.
const OVERDUE: Millis = Millis::from_secs(60);

/// What a trigger waits for, in sentences.
fn reasons(
    trigger: &wire::Trigger,
    last: Option<&wire::TriggerFire>,
    now: Timestamp,
) -> Vec<String> {
    let wire::Trigger { workflow, name, kind, state, version, .. } = trigger;
    let named = format!("{workflow}/{name}");
    let because = trigger.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let mut lines = vec![format!("{named} is {state}{because}.")];
    match state.as_str() {
        "paused" | "broken" => lines.push(format!("`waypost triggers resume {named}` lets it go on.")),
        "retired" => lines.push(format!(
            "The current version of {workflow} does not have it; one that does makes it active again."
        )),
        _ => lines.push(match (kind.as_str(), trigger.next_due_at) {
            ("schedule" | "poll" | "stream", Some(due)) if now.since(due.0) > OVERDUE => format!(
                "It was due at {} and nothing has taken it up: does a server without --no-triggers run?",
                due.0
            ),
            ("schedule" | "poll" | "stream", Some(due)) => format!("It is due next at {}.", due.0),
            ("schedule", None) => "It has no more times: the schedule has ended.".to_owned(),
            ("webhook", _) => format!("It fires with requests to /v1/hooks/{named}."),
            ("event", _) => {
                format!("It fires with events of type {}.", trigger.topics.join(", "))
            }
            ("workflow-ended", _) => {
                format!("It fires when executions of {} end.", trigger.topics.join(", "))
            }
            _ => "It fires when its source has something new.".to_owned(),
        }),
    }
    if let Some(waiting) = trigger.waiting {
        let due = trigger.next_due_at.map(|due| format!("; the next is due at {}", due.0));
        lines.push(format!("Events that wait: {waiting}{}.", due.unwrap_or_default()));
    }
    if let Some(failure) = trigger.failure.as_deref().filter(|_| trigger.failures > 0) {
        let reads = match trigger.failures {
            1 => "read".to_owned(),
            count => format!("{count} reads"),
        };
        lines.push(format!("Its last {reads} failed: {failure}"));
    }
    lines.push(match last {
        None => "Nothing has fired it in the last days.".to_owned(),
        Some(wire::TriggerFire { key, outcome, id, reason, at, .. }) => {
            let id = id.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
            let why = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("Its last item, {key} at {}: {outcome}{id}{why}.", at.0)
        }
    });
    if state != "retired" {
        lines.push(format!("It starts version {version}."));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(kind: &str, state: &str) -> wire::Trigger {
        wire::Trigger {
            workflow: "report".to_owned(),
            name: "nightly".to_owned(),
            kind: kind.to_owned(),
            state: state.to_owned(),
            reason: (state == "paused").then(|| "holidays".to_owned()),
            version: 2,
            topics: vec!["order.*".to_owned()],
            waiting: (kind == "event").then_some(3),
            next_due_at: (kind == "schedule").then_some(Time(Timestamp(0))),
            last_fired_at: None,
            registered_at: Time(Timestamp(0)),
            failures: u32::from(kind == "poll"),
            failure: Some("no route".to_owned()),
            cursor: None,
            revision: 1,
        }
    }

    #[test]
    fn why_names_what_the_trigger_waits_for() {
        for (kind, state, expected) in [
            ("schedule", "active", "It is due next at 1970-01-01T00:00:00.000Z."),
            ("webhook", "active", "It fires with requests to /v1/hooks/report/nightly."),
            ("event", "active", "It fires with events of type order.*."),
            ("event", "paused", "Events that wait: 3."),
            ("schedule", "paused", "report/nightly is paused: holidays."),
            ("schedule", "broken", "`waypost triggers resume report/nightly` lets it go on."),
            ("poll", "active", "Its last read failed: no route"),
        ] {
            let lines = reasons(&trigger(kind, state), None, Timestamp(0));
            assert!(lines.iter().any(|line| line == expected), "{lines:?}");
        }
        let late = reasons(&trigger("schedule", "active"), None, Timestamp(61_000));
        assert!(late.iter().any(|line| line.starts_with("It was due at 1970")), "{late:?}");
        let retired = reasons(&trigger("schedule", "retired"), None, Timestamp(0));
        assert!(!retired.iter().any(|line| line.contains("It starts")), "{retired:?}");
        let paused = reasons(&trigger("schedule", "paused"), None, Timestamp(0));
        assert!(!paused.iter().any(|line| line.contains("due next")), "{paused:?}");
    }
}
