//! `waypost pause`, `cancel`, `tune`, `signal`, `complete-wait`, `approve`, `reject`, and `resume` if an engine is running:
//! requests to an execution.

use anyhow::Result;
use serde::Serialize;
use waypost_core::command::{ApprovalDecision, ApprovalVerdict, Request, Tuning};
use waypost_core::id::{BadWaitId, WaitId};
use waypost_core::limits::MAP_CONCURRENCY_MAX;
use waypost_server::wire;

use super::{Context, Exit, Usage, find, input};
use crate::output::print_line;
use crate::target::{self, RequestOutcome, Target};

/// Why, and under which id.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Stated {
    /// The reason; recorded in the log
    #[arg(long)]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) sent: Identified,
}

impl Stated {
    pub(super) fn resume(&self) -> (Request, Option<String>) {
        (Request::Resume { reason: self.reason.clone() }, self.sent.message_id.clone())
    }
}

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Identified {
    /// An id for this request: a repeat with the same id has no further effect
    #[arg(long, value_name = "ID")]
    pub(super) message_id: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    named: find::Named,
    /// Cancel running attempts instead of waiting for them; they run again after the pause
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    stated: Stated,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    named: find::Named,
    /// Cancel only this item of a map, such as `each[17]`: it counts as failed
    #[arg(long, value_name = "ITEM")]
    node: Option<String>,
    /// End without waiting for the executions that this one started, also if it is ending already
    #[arg(long, conflicts_with = "node")]
    force: bool,
    #[command(flatten)]
    stated: Stated,
}

#[derive(clap::Args, Debug)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    named: find::Named,
    /// The map's path, such as `each`
    node: String,
    /// Open no more items; those that are open finish
    #[arg(long, conflicts_with = "release")]
    hold: bool,
    /// Open items again
    #[arg(long)]
    release: bool,
    /// How many items may be open at once, from 1 to 10,000; open ones finish
    #[arg(long, value_name = "N", value_parser = concurrency())]
    concurrency: Option<u32>,
    #[command(flatten)]
    stated: Stated,
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
    #[command(flatten)]
    sent: Identified,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CompleteWaitArgs {
    /// The wait's id, as `waypost why` names it
    wait: String,
    /// The node's output, where it waits for a signal: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    body: String,
    #[command(flatten)]
    sent: Identified,
}

#[derive(clap::Args, Debug)]
pub(crate) struct DecideArgs {
    /// The wait's id, as `waypost waits` lists it
    wait: String,
    /// Why; recorded with the decision
    #[arg(long)]
    comment: Option<String>,
    /// What is filled in: JSON, `@file`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "null")]
    form: String,
    /// Who decides, if the server asks for no API key; otherwise that is the key's name
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    sent: Identified,
}

pub(crate) async fn approve(args: DecideArgs, context: &Context) -> Result<Exit> {
    decide(args, ApprovalVerdict::Approved, context).await
}

pub(crate) async fn reject(args: DecideArgs, context: &Context) -> Result<Exit> {
    decide(args, ApprovalVerdict::Rejected, context).await
}

async fn decide(args: DecideArgs, verdict: ApprovalVerdict, context: &Context) -> Result<Exit> {
    let form = input::payload("the form", &args.form)?;
    let server = target::server_only("approve", &context.settings)?;
    let wait: WaitId = args.wait.parse().map_err(|error: BadWaitId| Usage(error.to_string()))?;
    // Without a name, the server takes that of the caller.
    let approver = args.by.unwrap_or_default().into();
    let comment = args.comment;
    let decision = Box::new(ApprovalDecision { verdict, approver, link: false, comment, form });
    let request = Request::Decide { wait: wait.seq, decision };
    let (target, id) = (Target::Remote(server), wait.execution.as_str());
    show_outcome(&target.control(id, request, args.sent.message_id).await?, context)
}

pub(crate) async fn pause(args: PauseArgs, context: &Context) -> Result<Exit> {
    let PauseArgs { named, now, stated: Stated { reason, sent } } = args;
    send(&named, Request::Pause { now, reason }, sent, context).await
}

pub(crate) async fn cancel(args: CancelArgs, context: &Context) -> Result<Exit> {
    let CancelArgs { named, node, force, stated: Stated { reason, sent } } = args;
    let request = match node {
        Some(node) => Request::CancelItem { node: node.into(), reason },
        None if force => Request::ForceCancel { reason },
        None => Request::Cancel { reason },
    };
    send(&named, request, sent, context).await
}

pub(crate) async fn tune(args: TuneArgs, context: &Context) -> Result<Exit> {
    let TuneArgs { named, node, hold, release, concurrency, stated } = args;
    let Stated { reason, sent } = stated;
    let tuning = Tuning { held: (hold || release).then_some(hold), concurrency };
    if tuning == Tuning::default() {
        return Err(Usage("say what to change: --hold, --release or --concurrency N".into()).into());
    }
    send(&named, Request::Tune { node: node.into(), tuning, reason }, sent, context).await
}

pub(crate) async fn signal(args: SignalArgs, context: &Context) -> Result<Exit> {
    let body = input::payload("the body", &args.body)?;
    send(&args.named, Request::Signal { name: args.name.into(), body }, args.sent, context).await
}

pub(crate) async fn complete_wait(args: CompleteWaitArgs, context: &Context) -> Result<Exit> {
    let body = input::payload("the body", &args.body)?;
    let server = target::server_only("complete-wait", &context.settings)?;
    let wait: WaitId = args.wait.parse().map_err(|error: BadWaitId| Usage(error.to_string()))?;
    let request = Request::CompleteWait { wait: wait.seq, body };
    let (target, id) = (Target::Remote(server), wait.execution.as_str());
    show_outcome(&target.control(id, request, args.sent.message_id).await?, context)
}

fn concurrency() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAP_CONCURRENCY_MAX))
}

/// Sends a request and prints its outcome.
pub(super) async fn send(
    named: &find::Named,
    request: Request,
    sent: Identified,
    context: &Context,
) -> Result<Exit> {
    let (target, id) = named.open(context).await?;
    show_outcome(&target.control(&id, request, sent.message_id).await?, context)
}

pub(super) fn show_outcome(outcome: &RequestOutcome, context: &Context) -> Result<Exit> {
    #[derive(Serialize)]
    struct ShownOutcome<'a> {
        #[serde(flatten)]
        controlled: &'a wire::ControlResult,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'a str>,
    }
    let RequestOutcome { controlled, note } = outcome;
    context.show(&ShownOutcome { controlled, note: note.as_deref() }, || {
        let status = if controlled.pausing { "PAUSING" } else { controlled.status.0.name() };
        let note = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        print_line(&format!("{} is {status}{note}", controlled.id));
        if !controlled.nodes.is_empty() {
            print_line(&format!("would run again: {}", controlled.nodes.join(", ")));
        }
    })
}
