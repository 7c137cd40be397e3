//! `waypost retry`: run the failed nodes of an execution again, and those after them.

use std::sync::Arc;

use anyhow::{Result, bail};
use waypost_core::command::Request;
use waypost_core::event::{MessageId, Origin};
use waypost_engine::ControlRequest;

use super::budget::NewLimits;
use super::requests::{self, Stated};
use super::{Context, Exit, find, run};
use crate::backend;
use crate::target::{Folder, Target, actor, engine};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    named: find::Named,
    #[command(flatten)]
    limits: NewLimits,
    #[command(flatten)]
    stated: Stated,
    /// List the nodes that would run again, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let (target, id) = args.named.open(context).await?;
    let Stated { reason, sent } = args.stated;
    let budget = args.limits.given();
    let request = Request::Retry { reason, budget };
    let folder = match target {
        target if args.dry_run => {
            return requests::show_outcome(&target.dry_retry(&id, budget).await?, context);
        }
        Target::Remote(_) => {
            return requests::show_outcome(
                &target.control(&id, request, sent.message_id).await?,
                context,
            );
        }
        Target::Folder(folder) => folder,
    };
    let execution = folder.find(&id)?;
    let message: Option<MessageId> = sent.message_id.map(Into::into);
    if let Some(first) = folder.early(execution, &request, message.as_ref()).await? {
        return requests::show_outcome(&first, context);
    }
    // Several engines may drive the executions of a database, and one those of a folder.
    let is_shared = context.settings.cluster.database.is_some();
    if let Some(process) = folder.store.engine().filter(|_| !is_shared) {
        bail!(
            "{process} runs an engine in this folder without a server; retry when it has ended\n\
             hint: `waypost serve` accepts retries at any time"
        );
    }
    drop(folder);
    let store = backend::open_engine(&context.settings)?;
    let folder = Folder::over(Arc::clone(&store), &context.settings);
    let (engine, events) = engine::open(&store, &context.settings)?;
    let origin = Origin { message, actor: actor() };
    engine.request(ControlRequest { execution, request, origin }).await?;
    let started = engine.adopt(execution);
    run::watch(engine, folder, started, events, context).await
}
