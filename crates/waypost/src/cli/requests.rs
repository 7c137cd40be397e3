//! `waypost pause`, `cancel`, `signal`, and `resume` where an engine is running: what people ask of an execution.
//!
//! A request is mail: durable in the execution's inbox whoever runs the engine. Where an engine is
//! running in the folder, it takes the mail within a second and we wait for that; where none is,
//! pauses and cancellations are carried out here, and a signal is kept for whoever resumes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use waypost_core::command::Refusal;
use waypost_core::event::Event;
use waypost_core::id::ExecutionId;
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_ports::store::{Delivery, Mail, MailBody, Store, StoreError};
use waypost_sqlite::SqliteStore;

use super::{Context, Exit, find, run};
use crate::output::{Format, print_json, print_line};
use crate::wiring;

/// How long the engine in another process is awaited.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often its progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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

pub(crate) async fn pause(args: &PauseArgs, context: &Context) -> Result<Exit> {
    send(&args.named, MailBody::Pause { now: args.now }, None, context).await
}

pub(crate) async fn cancel(args: &CancelArgs, context: &Context) -> Result<Exit> {
    send(&args.named, MailBody::Cancel { reason: args.reason.clone() }, None, context).await
}

#[expect(clippy::print_stderr, reason = "usage errors go to standard error")]
pub(crate) async fn signal(args: &SignalArgs, context: &Context) -> Result<Exit> {
    let body = match run::read_input(&args.body) {
        Ok(body) => body,
        Err(error) => {
            eprintln!("error: the body cannot be used: {error:#}");
            return Ok(Exit::Wrong);
        }
    };
    let body = MailBody::Signal { name: args.name.as_str().into(), body };
    send(&args.named, body, args.message_id.clone(), context).await
}

/// Sends a request and says what became of it.
pub(super) async fn send(
    named: &find::Named,
    body: MailBody,
    message: Option<String>,
    context: &Context,
) -> Result<Exit> {
    let found = named.load(context)?;
    let (store, execution) = (found.store, found.execution);
    let state = &found.state;
    if state.status.is_end() {
        bail!("{}", Refusal::Ended(state.status));
    }
    let held = found.control.as_ref().is_some_and(|control| control.held.is_some());
    let is_pause = matches!(body, MailBody::Pause { .. });
    if held && is_pause {
        // It would not wake for this, and nobody would ever say so.
        bail!("{}", Refusal::AlreadyPaused);
    }
    let message = message.unwrap_or_else(|| format!("msg_{}", uuid::Uuid::now_v7().simple()));
    // What only an engine that goes on with the execution can make use of.
    let waits = matches!(body, MailBody::Signal { .. } | MailBody::Resume);
    let is_signal = matches!(body, MailBody::Signal { .. });
    let mail = Mail {
        execution,
        message: message.as_str().into(),
        actor: std::env::var("USER").ok().map(Into::into),
        body,
    };
    match store.deliver(std::slice::from_ref(&mail))?.first() {
        Some(Delivery::Accepted { .. } | Delivery::Duplicate) => {}
        Some(Delivery::Ended) => bail!("the execution has just ended"),
        Some(Delivery::Unknown) | None => bail!("there is no such execution"),
    }
    let key = state.created.key.clone();
    if is_signal && held {
        return kept(&format!("{key}: kept; it is taken when the execution is resumed"), context);
    }
    match until_taken(&store, execution, &message)? {
        Awaited::Taken(state) => return told(&state, context),
        Awaited::TooLong => {
            return kept(&format!("{key}: the engine has not taken it yet; it is kept"), context);
        }
        Awaited::NoEngine => {}
    }
    if waits {
        let note = format!("{key}: kept; no engine is running, go on with: waypost resume {key}");
        return kept(&note, context);
    }
    carry_out(&mail, store, context).await
}

/// What came of waiting for an engine in another process.
enum Awaited {
    Taken(Box<State>),
    TooLong,
    /// There is none, or it ended while it was awaited.
    NoEngine,
}

/// Waits until the engine in another process has taken the message.
fn until_taken(store: &Arc<SqliteStore>, execution: ExecutionId, message: &str) -> Result<Awaited> {
    let deadline = Instant::now() + PATIENCE;
    while store.engine_process().is_some() {
        let state = find::load(Arc::clone(store), execution)?.state;
        if state.messages.contains(message) {
            return Ok(Awaited::Taken(Box::new(state)));
        }
        if Instant::now() >= deadline {
            return Ok(Awaited::TooLong);
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    Ok(Awaited::NoEngine)
}

/// Opens an engine here, for as long as the request takes.
async fn carry_out(mail: &Mail, store: Arc<SqliteStore>, context: &Context) -> Result<Exit> {
    let execution = mail.execution;
    drop(store);
    let store = match wiring::open_engine_store(&context.settings.data) {
        Ok(store) => Arc::new(store),
        // Somebody started an engine this very moment: it takes the mail.
        Err(error) if error.downcast_ref::<StoreError>().is_some() => {
            return kept(&format!("kept; {error:#}"), context);
        }
        Err(error) => return Err(error),
    };
    // Where an engine that has gone since did all there was to do, or somebody else's pause came
    // first, nothing will happen that could be awaited.
    let found = find::load(Arc::clone(&store), execution)?;
    let state = &found.state;
    let held = found.control.as_ref().is_some_and(|control| control.held.is_some());
    let is_pause = matches!(mail.body, MailBody::Pause { .. });
    let under_way = state.pausing || state.status == Status::Ending;
    let done = state.messages.contains(&mail.message) && !under_way;
    if done || held && is_pause {
        return told(state, context);
    }
    let (engine, mut events) = run::open(&store, context)?;
    let started = engine.adopt(execution);
    let ended = started.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! { // both are cancel-safe
            Some(committed) = events.recv() => {
                let settled = |event: &Event| {
                    matches!(event, Event::RunPaused { .. } | Event::MessageIgnored { .. })
                };
                if committed.execution == execution && committed.events.iter().any(settled) {
                    break;
                }
            }
            _ = &mut ended => break,
        }
    }
    engine.stop(PATIENCE).await;
    let state = find::load(Arc::clone(&store), execution)?.state;
    if !state.messages.contains(&mail.message) {
        return kept("kept; it is taken when the execution goes on", context);
    }
    told(&state, context)
}

fn told(state: &State, context: &Context) -> Result<Exit> {
    let status = if state.pausing { "PAUSING" } else { state.status.name() };
    match context.format {
        Format::Json => print_json(&json!({ "id": state.created.key, "status": status }))?,
        Format::Text => print_line(&format!("{} is {status}", state.created.key)),
    }
    Ok(Exit::Done)
}

fn kept(note: &str, context: &Context) -> Result<Exit> {
    match context.format {
        Format::Json => print_json(&json!({ "status": "ACCEPTED", "note": note }))?,
        Format::Text => print_line(note),
    }
    Ok(Exit::Done)
}
