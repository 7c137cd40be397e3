//! `waypost retry`: run the failed nodes of an execution again, and those after them.

use anyhow::{Result, bail};
use waypost_core::command::Request;
use waypost_core::event::Origin;
use waypost_engine::ControlRequest;
use waypost_server::wire::ControlResult;
use waypost_server::wire::payload::ExecutionStatus;

use super::{Context, Exit, find, requests, run};
use crate::backend;
use crate::client::Refused;
use crate::target::{Folder, Outcome, Target, engine};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    named: find::Named,
    /// Why; kept in the log
    #[arg(long)]
    reason: Option<String>,
    /// The message's id: sent twice under one id, it counts once
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// List the nodes that would run again, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let (target, id) = args.named.open(context).await?;
    let (reason, message) = (args.reason.clone(), args.message_id.clone());
    let folder = match target {
        Target::Remote(client) => {
            let outcome = if args.dry_run {
                client.dry_retry(&id).await?
            } else {
                Target::Remote(client).control(&id, Request::Retry { reason }, message).await?
            };
            return requests::told(&outcome, context);
        }
        Target::Folder(folder) => folder,
    };
    let execution = folder.find(&id)?;
    let found = folder.reader.load(execution).map_err(Refused::from)?;
    let repeated = message.as_deref().is_some_and(|message| found.state.messages.contains(message));
    if args.dry_run || repeated {
        let nodes = if repeated { Vec::new() } else { found.retries().map_err(refused)? };
        let status = ExecutionStatus(found.status());
        let controlled = ControlResult {
            duplicate: repeated,
            ..ControlResult::of(&id, status).with_nodes(nodes)
        };
        return requests::told(&Outcome { controlled, note: None }, context);
    }
    found.retries().map_err(refused)?;
    if let Some(process) = folder.store.engine().filter(|_| !is_shared(context)) {
        bail!(
            "{process} runs an engine in this folder without a server; retry when it has ended\n\
             hint: `waypost serve` accepts retries at any time"
        );
    }
    drop((folder, found));
    let store = backend::open_engine(&context.settings)?;
    let folder = Folder::over(std::sync::Arc::clone(&store), &context.settings);
    let (engine, events) = engine::open(&store, &context.settings)?;
    let actor = std::env::var("USER").ok().map(Into::into);
    let origin = Origin { message: message.map(Into::into), actor };
    let request = Request::Retry { reason };
    engine.request(ControlRequest { execution, request, origin }).await?;
    let started = engine.adopt(execution);
    run::watch(engine, folder, started, events, context).await
}

fn refused(refusal: waypost_core::command::Refusal) -> anyhow::Error {
    Refused::from(waypost_server::problem::Problem::from(refusal)).into()
}

/// Several engines may drive the executions of a database.
fn is_shared(context: &Context) -> bool {
    context.settings.cluster.database.is_some()
}
