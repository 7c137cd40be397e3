//! `waypost resume`: resume an execution, or all that are not finished.

use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::json;
use waypost_core::event::PauseReason;
use waypost_core::status::Status;
use waypost_ports::query::ListRequest;
use waypost_ports::store::Mail;
use waypost_server::problem::Code;

use super::requests::{self, Stated};
use super::{Context, Exit, run};
use crate::backend::{self, Backend};
use crate::client::{Client, Refused};
use crate::output::{Format, print_json, print_line};
use crate::target::{Folder, Target, actor, engine, new_message};

/// Executions of a page.
const PAGE: usize = 1_000;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The execution's id, `last` for the newest one, or `all` for all that are not finished
    #[arg(value_name = "EXECUTION")]
    execution: String,
    #[command(flatten)]
    stated: Stated,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    // Looks before it leaps: a folder without data is an error, not a new folder.
    let target = Target::open(&context.settings)?;
    if args.execution == "all" {
        return resume_all(target, &args.stated, context).await;
    }
    let id = target.resolve(&args.execution).await?;
    if target.driver().is_some() {
        // An engine drives it, so only a user's pause can be resumed there.
        let (request, message) = args.stated.resume();
        return requests::show_outcome(&target.control(&id, request, message).await?, context);
    }
    drop(target);
    let store = backend::open_engine(&context.settings)?;
    resume(&id, &args.stated, &store, context).await
}

async fn resume_all(target: Target, stated: &Stated, context: &Context) -> Result<Exit> {
    if let Target::Remote(client) = &target {
        return resume_paused(client, stated, context).await;
    }
    drop(target);
    let store = backend::open_engine(&context.settings)?;
    let mut worst = Exit::Done;
    for key in unfinished(&store)? {
        match resume(&key, stated, &store, context).await? {
            Exit::Interrupted => return Ok(Exit::Interrupted),
            Exit::Done => {}
            exit => worst = exit,
        }
    }
    Ok(worst)
}

async fn resume(
    id: &str,
    stated: &Stated,
    store: &Arc<dyn Backend>,
    context: &Context,
) -> Result<Exit> {
    let folder = Folder::over(Arc::clone(store), &context.settings);
    let execution = folder.find(id)?;
    let found = folder.reader.load(execution).map_err(Refused::from)?;
    let state = &found.state;
    if state.status.is_end() {
        bail!("{} has ended: {}", state.created.key, state.status);
    }
    let held = found.control.as_ref().is_some_and(|control| control.held.is_some());
    if (held && !found.is_queued()) || state.pausing || state.paused == Some(PauseReason::User) {
        let (request, message) = stated.resume();
        let message = message.map(Into::into);
        if let Some(first) = folder.early(execution, &request, message.as_ref()).await? {
            return requests::show_outcome(&first, context);
        }
        let message = message.unwrap_or_else(new_message);
        store.deliver(&[Mail {
            execution,
            message,
            actor: actor(),
            body: request.into(),
            blobs: Vec::new(),
        }])?;
    }
    let (engine, events) = engine::open(store, &context.settings)?;
    let started = engine.adopt(execution);
    run::watch(engine, folder, started, events, context).await
}

/// Keys of all executions that have not ended, oldest first.
fn unfinished(store: &Arc<dyn Backend>) -> Result<Vec<String>> {
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let statuses = Status::SHOWN.into_iter().filter(|status| !status.is_end()).collect();
        let request = ListRequest { statuses, before, limit: PAGE, ..ListRequest::default() };
        let page = store.list(&request)?;
        keys.extend(page.rows.iter().map(|row| row.key.to_string()));
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    keys.reverse();
    if keys.is_empty() {
        print_line("every execution has ended");
    }
    Ok(keys)
}

/// A server continues everything by itself, except executions that users have paused.
async fn resume_paused(client: &Client, stated: &Stated, context: &Context) -> Result<Exit> {
    let (mut resumed, mut before) = (Vec::new(), None);
    loop {
        let statuses = vec![Status::Paused];
        let request = ListRequest { statuses, before, limit: PAGE, ..ListRequest::default() };
        let page = client.list(&request).await?;
        for paused in &page.executions {
            let (request, message) = stated.resume();
            match Target::Remote(client.clone()).control(&paused.id, request, message).await {
                Ok(_) => resumed.push(paused.id.clone()),
                // It waits for something, or has ended since.
                Err(error) if is_not_paused(&error) => {}
                Err(error) => return Err(error),
            }
        }
        match page.next.and_then(|next| next.parse().ok()) {
            Some(next) => before = Some(waypost_core::id::ExecutionNo(next)),
            None => break,
        }
    }
    match context.format {
        Format::Json => print_json(&json!({ "resumed": resumed }))?,
        Format::Text if resumed.is_empty() => print_line("no execution was paused by a user"),
        Format::Text => resumed.iter().for_each(|id| print_line(&format!("{id} is resumed"))),
    }
    Ok(Exit::Done)
}

fn is_not_paused(error: &anyhow::Error) -> bool {
    let expected = [Code::IllegalTransition, Code::ExecutionEnded].map(Code::name);
    error.downcast_ref::<Refused>().is_some_and(|refused| expected.contains(&refused.code()))
}
