//! `waypost pause`, `cancel`, `signal`, `complete-wait`, and `resume` if an engine is running:
//! requests to an execution.

use anyhow::Result;
use serde::Serialize;
use waypost_core::command::Request;
use waypost_core::id::{BadWaitId, WaitId};
use waypost_server::wire;

use super::{Context, Exit, Usage, find, input};
use crate::output::{Format, print_json, print_line};
use crate::target::{Outcome, Target};

#[derive(clap::Args, Debug)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    named: find::Named,
    /// Cancel what runs instead of awaiting it; it runs again after the pause
    #[arg(long)]
    now: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    named: find::Named,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct SignalArgs {
    #[command(flatten)]
    named: find::Named,
    /// The signal's name
    name: String,
    /// Its body: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    body: String,
    /// The message's id: sent twice under one id, it counts once
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CompleteWaitArgs {
    /// The wait's id, as `waypost why` names it
    wait: String,
    /// The node's output, where it waits for a signal: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    body: String,
    /// The message's id: sent twice under one id, it counts once
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
}

pub(crate) async fn pause(args: &PauseArgs, context: &Context) -> Result<Exit> {
    send(&args.named, Request::Pause { now: args.now, reason: None }, None, context).await
}

pub(crate) async fn cancel(args: &CancelArgs, context: &Context) -> Result<Exit> {
    send(&args.named, Request::Cancel { reason: args.reason.clone() }, None, context).await
}

pub(crate) async fn signal(args: &SignalArgs, context: &Context) -> Result<Exit> {
    let body = input::payload("the body", &args.body)?;
    let request = Request::Signal { name: args.name.as_str().into(), body };
    send(&args.named, request, args.message_id.clone(), context).await
}

pub(crate) async fn complete_wait(args: &CompleteWaitArgs, context: &Context) -> Result<Exit> {
    let body = input::payload("the body", &args.body)?;
    let server = crate::target::server_only("complete-wait", &context.settings)?;
    let wait: WaitId = args.wait.parse().map_err(|error: BadWaitId| Usage(error.to_string()))?;
    let request = Request::CompleteWait { wait: wait.seq, body };
    let target = Target::Remote(server);
    let outcome = target.control(wait.execution.as_str(), request, args.message_id.clone()).await?;
    told(&outcome, context)
}

/// Sends a request and prints its outcome.
async fn send(
    named: &find::Named,
    request: Request,
    message: Option<String>,
    context: &Context,
) -> Result<Exit> {
    let (target, id) = named.open(context).await?;
    told(&target.control(&id, request, message).await?, context)
}

pub(super) fn told(outcome: &Outcome, context: &Context) -> Result<Exit> {
    #[derive(Serialize)]
    struct Told<'a> {
        #[serde(flatten)]
        controlled: &'a wire::ControlResult,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'a str>,
    }
    let Outcome { controlled, note } = outcome;
    if context.format == Format::Json {
        print_json(&Told { controlled, note: note.as_deref() })?;
        return Ok(Exit::Done);
    }
    let status = if controlled.pausing { "PAUSING" } else { controlled.status.0.name() };
    match note {
        Some(note) => print_line(&format!("{} is {status}: {note}", controlled.id)),
        None => print_line(&format!("{} is {status}", controlled.id)),
    }
    if !controlled.nodes.is_empty() {
        print_line(&format!("would run again: {}", controlled.nodes.join(", ")));
    }
    Ok(Exit::Done)
}
