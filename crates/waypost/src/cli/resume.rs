//! `waypost resume`: go on with an execution, or with all that are not finished.

use std::sync::Arc;

use anyhow::{Result, bail};
use waypost_core::event::PauseReason;
use waypost_core::status::Status;
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{Mail, MailBody, Store};
use waypost_sqlite::SqliteStore;

use super::{Context, Exit, find, requests, run};
use crate::output::print_line;
use crate::wiring;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The execution's id, `last` for the newest one, or `all` for all that are not finished
    #[arg(value_name = "EXECUTION")]
    execution: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    // Looks before it leaps: a folder without data is an error, not a new folder.
    let guest = wiring::open_store(&context.settings.data)?;
    if guest.engine_process().is_some() && args.execution != "all" {
        // Somebody drives this folder: what can be resumed there is what a user paused.
        let named = find::Named { execution: args.execution.clone() };
        return requests::send(&named, MailBody::Resume, None, context).await;
    }
    drop(guest);
    let store = Arc::new(wiring::open_engine_store(&context.settings.data)?);
    if args.execution != "all" {
        return resume(&args.execution, &store, context).await;
    }
    let mut worst = Exit::Done;
    for key in unfinished(&store)? {
        match resume(&key, &store, context).await? {
            Exit::Interrupted => return Ok(Exit::Interrupted),
            Exit::Done => {}
            exit => worst = exit,
        }
    }
    Ok(worst)
}

async fn resume(key: &str, store: &Arc<SqliteStore>, context: &Context) -> Result<Exit> {
    let named = find::Named { execution: key.to_owned() };
    let execution = named.find(store)?;
    let found = find::load(Arc::clone(store), execution)?;
    let state = &found.state;
    if state.status.is_end() {
        bail!("{} has ended: {}", state.created.key, state.status);
    }
    let held = found.control.as_ref().is_some_and(|control| control.held.is_some());
    if held || state.pausing || state.paused == Some(PauseReason::User) {
        let message = format!("msg_{}", uuid::Uuid::now_v7().simple()).into();
        let actor = std::env::var("USER").ok().map(Into::into);
        store.deliver(&[Mail { execution, message, actor, body: MailBody::Resume }])?;
    }
    let (engine, events) = run::open(store, context)?;
    let started = engine.adopt(execution);
    run::watch(engine, Arc::clone(store), started, events, context).await
}

/// Keys of all executions that have not ended, oldest first.
fn unfinished(store: &SqliteStore) -> Result<Vec<String>> {
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let statuses = Status::ALL.into_iter().filter(|status| !status.is_end()).collect();
        let request = ListRequest { statuses, before, limit: 1_000, ..ListRequest::default() };
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
