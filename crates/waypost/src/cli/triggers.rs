//! `waypost triggers` and `events`: what starts executions on a server.

use anyhow::Result;
use waypost_core::json::Json;
use waypost_server::reader::PAGE_MAX;
use waypost_server::wire;
use waypost_server::wire::payload::{Count, Payload, Short, Time};

use super::{Context, Exit, Usage, input, when};
use crate::client::{Ask, Client};
use crate::output::{print_columns, print_json, print_line, print_table};
use crate::target::server_only;

mod dead;
mod shown;

pub(crate) use shown::why;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// List triggers, by workflow and name
    List(ListArgs),
    /// Show a trigger
    Show(Named),
    /// List the next times of a schedule
    Next {
        #[command(flatten)]
        trigger: Named,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
        count: u64,
        /// The times after this one: a time, or an age such as 2h
        #[arg(long, value_name = "WHEN")]
        after: Option<String>,
    },
    /// Fire a trigger by hand
    Fire {
        #[command(flatten)]
        trigger: Named,
        #[command(flatten)]
        payload: PayloadArg,
        /// The request's id: a repeat with the same id fires nothing
        #[arg(long, value_name = "ID")]
        message_id: Option<String>,
    },
    /// Show what a trigger would start with a payload, without starting it
    Test {
        #[command(flatten)]
        trigger: Named,
        #[command(flatten)]
        payload: PayloadArg,
    },
    /// Pause a trigger; it starts nothing from then on
    Pause {
        #[command(flatten)]
        trigger: Named,
        /// The reason, which the trigger shows
        #[arg(long)]
        reason: Option<String>,
    },
    /// Resume a trigger that is paused or broken
    Resume {
        #[command(flatten)]
        trigger: Named,
        /// A schedule catches up, as far as its `catchUp` says; otherwise times that have passed are left out
        #[arg(long)]
        catch_up: bool,
    },
    /// Fire times of the past of a schedule
    Backfill(BackfillArgs),
    /// Cancel a backfill; what it has fired stays
    CancelBackfill {
        #[command(flatten)]
        trigger: Named,
        /// The backfill's id
        id: u64,
    },
    /// Let a schedule, a poll or a stream go on from another place
    Rewind(RewindArgs),
    /// List what a trigger did with its items, newest first
    Fires {
        #[command(flatten)]
        trigger: Named,
        /// Only items that were `started`, `filtered`, `skipped`, `missed`, `dead`, `collected` or `gap`
        #[arg(long)]
        outcome: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// List, retry or discard dead letters of a trigger
    Dead(dead::Args),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Named {
    /// The trigger: WORKFLOW/NAME
    #[arg(value_name = "TRIGGER")]
    name: String,
}

impl Named {
    fn parts(&self) -> Result<(&str, &str)> {
        let parts = self.name.split_once('/').filter(|(workflow, name)| {
            !workflow.is_empty() && !name.is_empty() && !name.contains('/')
        });
        parts.ok_or_else(|| {
            Usage(format!("{:?} is not a trigger: write WORKFLOW/NAME", self.name)).into()
        })
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct PayloadArg {
    /// What its kind brings, such as a body or an event: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    payload: String,
    /// A request header that the expressions of a webhook trigger see; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

impl PayloadArg {
    fn asked(&self, message_id: Option<String>) -> Result<wire::FireTrigger> {
        let mut headers = serde_json::Map::new();
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                return Err(
                    Usage(format!("--header {header:?} has no colon: write NAME: VALUE")).into()
                );
            };
            headers.insert(name.trim().to_owned(), value.trim().into());
        }
        let headers = match headers.is_empty() {
            true => Json::null(),
            false => Json::from_value(&headers.into()),
        };
        let payload = Payload(input::payload("the payload", &self.payload)?);
        Ok(wire::FireTrigger {
            payload,
            headers: Payload(headers),
            message_id: message_id.map(Short),
        })
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct PageArgs {
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after the last result of an earlier page
    #[arg(long, value_name = "CURSOR")]
    before: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {
    /// Only those of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only those of this kind: schedule, webhook, event, poll, stream or workflow-ended
    #[arg(long)]
    kind: Option<String>,
    /// Only those that are active, paused, broken or retired
    #[arg(long)]
    state: Option<String>,
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after this trigger
    #[arg(long, value_name = "TRIGGER")]
    after: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct BackfillArgs {
    #[command(flatten)]
    trigger: Named,
    /// The first time that fires: a time, or an age such as 7d
    #[arg(long, value_name = "WHEN")]
    from: String,
    /// The first one that does not; by default now
    #[arg(long, value_name = "WHEN", default_value = "0s")]
    to: String,
    /// Fire times again that fired before; needed for times that may have fired more than 8 days ago
    #[arg(long)]
    again: bool,
    /// Fires in a second
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
    /// Only count the times
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args, Debug)]
#[group(id = "place", required = true, multiple = false, args = ["to", "cursor"])]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    trigger: Named,
    /// A schedule goes on after this time: a time, or an age such as 2h
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    /// A poll goes on from this cursor, or a stream from the text `now`, `beginning` or the id of an entry: JSON,
    /// `@file`, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    cursor: Option<String>,
    /// Let items fire again that fired before
    #[arg(long)]
    again: bool,
}

pub(crate) async fn run(action: &Action, context: &Context) -> Result<Exit> {
    let client = server_only("triggers", &context.settings)?;
    match action {
        Action::List(args) => list(&client, args, context).await,
        Action::Show(named) => {
            let trigger: wire::Trigger = client.ask(Ask::get(&path(named, &[])?)).await?.body;
            context.show(&trigger, || shown::print(&trigger))
        }
        Action::Next { trigger, count, after } => {
            let after = after.as_deref().map(|text| when::parse("--after", text)).transpose()?;
            let path = path(trigger, &["next"])?;
            let ask = Ask::get(&path).query("count", Some(*count)).query("after", after);
            let times: wire::TriggerTimes = client.ask(ask).await?.body;
            context.show(&times, || shown::print_times(&times))
        }
        Action::Fire { trigger, payload, message_id } => {
            let asked = payload.asked(message_id.clone())?;
            fired(&client, Ask::post(&path(trigger, &["fire"])?).json(&asked)?, context).await
        }
        Action::Test { trigger, payload } => {
            let asked = payload.asked(None)?;
            let ask = Ask::post(&path(trigger, &["test"])?).json(&asked)?;
            let tested: wire::TriggerTested = client.ask(ask).await?.body;
            context.show(&tested, || shown::print_tested(&tested))?;
            Ok(if tested.outcome == "failed" { Exit::Failed } else { Exit::Done })
        }
        Action::Pause { trigger, reason } => {
            let asked = wire::PauseTrigger { reason: reason.clone().map(Short) };
            changed(&client, Ask::post(&path(trigger, &["pause"])?).json(&asked)?, context).await
        }
        Action::Resume { trigger, catch_up } => {
            let path = path(trigger, &["resume"])?;
            let ask = Ask::post(&path).query("catchUp", catch_up.then_some(true));
            changed(&client, ask, context).await
        }
        Action::Backfill(args) => backfill(&client, args, context).await,
        Action::CancelBackfill { trigger, id } => {
            let id = id.to_string();
            let ask = Ask::delete(&path(trigger, &["backfills", &id])?);
            changed(&client, ask, context).await
        }
        Action::Rewind(args) => rewind(&client, args, context).await,
        Action::Fires { trigger, outcome, page } => {
            let path = path(trigger, &["fires"])?;
            let ask = paged(Ask::get(&path).query("outcome", outcome.clone()), page);
            let list: wire::TriggerFireList = client.ask(ask).await?.body;
            context.show(&list, || shown::print_fires(&list))
        }
        Action::Dead(args) => dead::run(&client, args, context).await,
    }
}

/// The path of a trigger, or of something below it.
fn path<'a>(named: &'a Named, rest: &[&'a str]) -> Result<Vec<&'a str>> {
    let (workflow, name) = named.parts()?;
    Ok([&["triggers", workflow, name], rest].concat())
}

fn paged<'a>(ask: Ask<'a>, page: &PageArgs) -> Ask<'a> {
    ask.query("cursor", page.before).query("limit", Some(page.limit.min(PAGE_MAX)))
}

async fn list(client: &Client, args: &ListArgs, context: &Context) -> Result<Exit> {
    let ask = Ask::get(&["triggers"])
        .query("workflow", args.workflow.clone())
        .query("kind", args.kind.clone())
        .query("state", args.state.clone())
        .query("limit", Some(args.limit.min(PAGE_MAX)))
        .query("cursor", args.after.clone());
    let list: wire::TriggerList = client.ask(ask).await?.body;
    let time = |time: Option<Time>| time.map(|time| time.0.to_string()).unwrap_or_default();
    let columns = |trigger: &wire::Trigger| {
        vec![
            format!("{}/{}", trigger.workflow, trigger.name),
            trigger.kind.clone(),
            trigger.state.clone(),
            time(trigger.next_due_at),
            time(trigger.last_fired_at),
            trigger.reason.clone().or_else(|| trigger.failure.clone()).unwrap_or_default(),
        ]
    };
    context.show(&list, || {
        if list.triggers.is_empty() {
            return print_line("no triggers; a definition declares them under `on`");
        }
        let headings = ["TRIGGER", "KIND", "STATE", "NEXT", "LAST", "REASON"];
        print_columns(&headings, &list.triggers, columns);
        if let Some(next) = &list.next {
            print_line(&format!("more: the same with --after {next}"));
        }
    })
}

async fn changed(client: &Client, ask: Ask<'_>, context: &Context) -> Result<Exit> {
    let trigger: wire::Trigger = client.ask(ask).await?.body;
    context.show(&trigger, || {
        let wire::Trigger { workflow, name, state, .. } = &trigger;
        print_line(&format!("{workflow}/{name} is {state}"));
        if let Some(due) = trigger.next_due_at {
            print_line(&format!("next due at {}", due.0));
        }
    })
}

/// Prints what a fire led to.
async fn fired(client: &Client, ask: Ask<'_>, context: &Context) -> Result<Exit> {
    let fired: wire::TriggerFired = client.ask(ask).await?.body;
    context.show(&fired, || {
        let wire::TriggerFired { outcome, id, reason } = &fired;
        let id = id.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
        let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        print_line(&format!("{outcome}{id}{reason}"));
    })?;
    Ok(match fired.outcome.as_str() {
        "dead" | "rejected" => Exit::Failed,
        _ => Exit::Done,
    })
}

async fn backfill(client: &Client, args: &BackfillArgs, context: &Context) -> Result<Exit> {
    let asked = wire::BackfillTrigger {
        from: Time(when::parse("--from", &args.from)?),
        to: Time(when::parse("--to", &args.to)?),
        again: args.again,
        rate: Some(Count(args.rate)),
        dry_run: args.dry_run,
    };
    let ask = Ask::post(&path(&args.trigger, &["backfill"])?).json(&asked)?;
    let backfill: wire::TriggerBackfill = client.ask(ask).await?.body;
    context.show(&backfill, || {
        let count = backfill.count;
        let times = if count == 1 { "time" } else { "times" };
        match backfill.id {
            Some(id) => print_line(&format!("backfill {id} fires {count} {times}")),
            None => print_line(&format!("{count} {times}; nothing is fired")),
        }
        for time in &backfill.times {
            print_line(&format!("  {}", time.0));
        }
        if backfill.count > backfill.times.len() as u64 {
            print_line("  …");
        }
    })
}

async fn rewind(client: &Client, args: &RewindArgs, context: &Context) -> Result<Exit> {
    let cursor = args.cursor.as_deref().map(|text| input::payload("the cursor", text));
    let asked = wire::RewindTrigger {
        to: args.to.as_deref().map(|text| when::parse("--to", text)).transpose()?.map(Time),
        cursor: cursor.transpose()?.map(Payload),
        again: args.again,
    };
    changed(client, Ask::post(&path(&args.trigger, &["rewind"])?).json(&asked)?, context).await
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum EventAction {
    /// Publish CloudEvents to event triggers, and to executions that wait for them
    Publish {
        /// An event such as '{"specversion": "1.0", "type": "order.paid", "source": "shop", "id": "1", "data": {}}',
        /// or a list of events: JSON, `@file`, or `-` for standard input
        events: String,
    },
}

pub(crate) async fn events(action: &EventAction, context: &Context) -> Result<Exit> {
    let EventAction::Publish { events } = action;
    let client = server_only("events", &context.settings)?;
    let events = input::events(events)?;
    let kind = match is_list(&events) {
        true => "application/cloudevents-batch+json",
        false => "application/cloudevents+json",
    };
    let ask = Ask::post(&["events"]).body(kind, events.text().as_bytes().to_vec());
    let published: wire::EventsPublished = client.ask(ask).await?.body;
    context.show(&published, || shown::print_published(&published))
}

fn is_list(events: &Json) -> bool {
    events.text().trim_start().starts_with('[')
}
