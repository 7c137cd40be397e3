//! `waypost run`: start an execution and watch it to its end, on a server where there is one, else
//! with an engine of this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use waypost_core::blob::BlobRef;
use waypost_core::event::{Event, RunEvent};
use waypost_core::json::Json;
use waypost_core::limits::BLOBS_IN_SCHEMA_BYTES_MAX;
use waypost_engine::driver::EndSummary;
use waypost_engine::{Engine, EngineError, StartRequest, Started};
use waypost_lang::Compiled;
use waypost_ports::blobs::{Blobs, inline_up_to};
use waypost_server::problem::Problem;
use waypost_server::wire;
use waypost_server::wire::payload::{Count, Short};

use super::input::Source;
use super::interrupts::{Interrupts, stop_at_once};
use super::watch::Unread;
use super::{Context, Exit, Usage, deploy, input, watch};
use crate::backend;
use crate::client::{Client, Refused};
use crate::output::{Format, print_json, print_line, print_line_somewhere};
use crate::progress::Progress;
use crate::target::engine::{self, Events};
use crate::target::{self, Folder, Target, actor};
use crate::wiring;

/// How long attempts that run may take to end after Ctrl-C; a second Ctrl-C ends at once.
const STOP_GRACE: Duration = Duration::from_secs(10);

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The definition, YAML or JSON, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The input: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    input: String,
    /// Choose the execution's id
    #[arg(long)]
    id: Option<String>,
    /// Start at most one execution under this key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Labels to find it by, `name=value` (may be repeated)
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    if args.file.as_os_str() == "-" && args.input == "-" {
        let message = "standard input can be the definition or the input, not both";
        return Err(Usage(message.to_owned()).into());
    }
    let source = Source::read(&args.file)?;
    match target::server(&context.settings)? {
        Some(client) => run_there(args, &source, client, context).await,
        None => run_here(args, &source, context).await,
    }
}

/// Deploys, starts and watches at a server, which drives the execution.
async fn run_there(args: &Args, file: &Source, client: Client, context: &Context) -> Result<Exit> {
    let (name, source) = (&file.name, &file.bytes);
    // A server may be newer than this program: it judges definitions that do not compile here.
    let compiled = wiring::compile(source).ok();
    let input = input::of_execution(&args.input)?;
    // It reads the blobs that an input names, too.
    if let Some(compiled) = compiled.filter(|_| !names_blobs(&input)) {
        check_input(&compiled, &input)?;
    }
    let start = input::start(input, args.id.as_deref(), &args.label)?;
    let target = Target::Remote(client.clone());
    let Some(deployed) = deploy::keep(&target, source, name, context).await? else {
        return Ok(Exit::Wrong);
    };
    let start = wire::Start {
        workflow: Short(deployed.workflow),
        version: deployed.version.map(Count),
        ..start
    };
    let (started, replayed) = client.start(&start, args.idempotency_key.as_deref()).await?;
    let execution = target.execution(&started.id).await?;
    watch::begin(&execution, context);
    match replayed && execution.status.0.is_end() {
        true => watch::finish(&target, &started.id, context).await,
        false => watch::follow(&target, &started.id, Unread::Continue, context).await,
    }
}

async fn run_here(args: &Args, file: &Source, context: &Context) -> Result<Exit> {
    let (name, source) = (&file.name, &file.bytes);
    let compiled = match wiring::compile(source) {
        Ok(compiled) => compiled,
        Err(faults) => {
            deploy::show_faults(&faults, source, name, context)?;
            return Ok(Exit::Wrong);
        }
    };
    deploy::show_warnings(&compiled, source, name, context);
    let input = input::of_execution(&args.input)?;
    let start = input::start(input.clone(), args.id.as_deref(), &args.label)?;
    // Before anything is written, if that is possible.
    if !names_blobs(&input) {
        check_input(&compiled, &input)?;
    }
    let store = backend::open_engine(&context.settings)?;
    let input = match names_blobs(&input) {
        true => adopt(input, &compiled, backend::open_blobs(&store, &context.settings)?).await?,
        false => input,
    };
    let definition = wiring::define(&*store, &compiled)?;
    // The submission that a server would get, so that the idempotency key means the same there.
    let submission = wire::Start {
        workflow: Short(compiled.name.clone()),
        version: Some(Count(definition.version)),
        ..start
    };
    let key = args.idempotency_key.as_deref();
    let (engine, events) = engine::open(&store, &context.settings)?;
    let request = StartRequest {
        idempotency: key.map(|key| submission.idempotency(key)),
        actor: actor(),
        input,
        ..submission.into_request(Arc::new(compiled.plan), definition.version)
    };
    let started = match engine.start(request).await {
        Ok(started) => started,
        Err(EngineError::IdTaken(_) | EngineError::IdempotencyKeyTaken(_)) => {
            bail!("this id or idempotency key belongs to another execution")
        }
        Err(error @ EngineError::Rejected(_)) => {
            return Err(Refused::from(Problem::from(error)).into());
        }
        Err(error) => return Err(error.into()),
    };
    watch(engine, Folder::over(store, &context.settings), started, events, context).await
}

/// May the input name blobs, `{"$blob": "<digest>"}`?
fn names_blobs(input: &Json) -> bool {
    input.text().contains("\"$blob\"")
}

/// The input with references to the blobs that it names, if they are there and their contents fit the
/// definition.
async fn adopt(input: Json, compiled: &Compiled, blobs: Arc<dyn Blobs>) -> Result<Json> {
    let read = move || -> Result<(Json, Json)> {
        let adopted = input.adopt(|claim| -> Result<BlobRef> {
            blobs.touch(&claim.digest)?;
            Ok(blobs.stat(&claim.digest)?.blob)
        })?;
        let whole = inline_up_to(&*blobs, &adopted, BLOBS_IN_SCHEMA_BYTES_MAX)?;
        Ok((adopted, whole))
    };
    let read = tokio::task::spawn_blocking(read).await?;
    let (adopted, whole) =
        read.map_err(|error| Usage(format!("the input cannot be used: {error:#}")))?;
    check_input(compiled, &whole)?;
    Ok(adopted)
}

fn check_input(compiled: &Compiled, input: &Json) -> Result<()> {
    wiring::check_input(&compiled.plan, input).map_err(|faults| {
        let faults: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
        Usage(format!("the input does not fit the definition's schema{faults}")).into()
    })
}

/// Shows the progress of an execution that this process drives until it ends, is quarantined, or the
/// user interrupts. Returns with the read tables up to date: the next command may be an SQL query.
pub(super) async fn watch(
    engine: Engine,
    folder: Folder,
    started: Started,
    events: Events,
    context: &Context,
) -> Result<Exit> {
    let store = Arc::clone(&folder.store);
    let exit = watch_to_end(engine, folder, started, events, context).await;
    let projected = tokio::task::spawn_blocking(move || store.catch_up()).await?;
    if let Err(error) = projected {
        tracing::warn!(%error, "the read tables are not up to date");
    }
    exit
}

async fn watch_to_end(
    engine: Engine,
    folder: Folder,
    started: Started,
    mut events: Events,
    context: &Context,
) -> Result<Exit> {
    let text = context.format == Format::Text;
    let execution = started.execution;
    let mut progress = Progress::new(context.color);
    let found = folder.reader.load(execution).map_err(Refused::from)?;
    let key = found.state.created.key.to_string();
    let target = Target::Folder(Box::new(folder));
    let found = target.execution(&key).await?;
    watch::begin(&found, context);
    if found.status.0.is_end() {
        // It ended before this call, or too fast: the rest of its events is there once the engine
        // has stopped.
        engine.stop(STOP_GRACE).await;
        while let Ok(committed) = events.try_recv() {
            if text && committed.execution == execution {
                progress.note(committed.at, committed.events.iter());
            }
        }
        return watch::finish(&target, &key, context).await;
    }
    let mut interrupts = Interrupts::listen()?;
    let ended = started.ended();
    tokio::pin!(ended);
    let stopped = loop {
        tokio::select! {
            biased; // what has happened is drawn before its end is; all arms are cancel-safe
            Some(committed) = events.recv() => {
                if committed.execution != execution {
                    continue;
                }
                if text {
                    progress.note(committed.at, committed.events.iter());
                }
                let aside = |event: &Event| matches!(event, Event::Run(RunEvent::Quarantined { .. }));
                if committed.events.iter().any(aside) {
                    break Stopped::Quarantined;
                }
            }
            end = &mut ended => break Stopped::Ended(end),
            () = interrupts.next() => break Stopped::Interrupted,
        }
    };
    match stopped {
        Stopped::Ended(Some(_)) => {
            engine.stop(STOP_GRACE).await;
            watch::finish(&target, &key, context).await
        }
        Stopped::Quarantined => {
            engine.stop(STOP_GRACE).await;
            watch::quarantine(&target, &key, context).await
        }
        Stopped::Ended(None) => bail!("the engine stopped; go on with: waypost resume {key}"),
        Stopped::Interrupted => {
            stop(&engine, &mut interrupts, context).await;
            if text {
                print_line_somewhere(&format!("stopped; go on with: waypost resume {key}"));
            } else {
                print_json(&json!({ "id": key, "status": "INTERRUPTED" }))?;
            }
            Ok(Exit::Interrupted)
        }
    }
}

enum Stopped {
    Ended(Option<EndSummary>),
    Quarantined,
    Interrupted,
}

/// Stops the engine, patiently unless the user interrupts once more.
async fn stop(engine: &Engine, interrupts: &mut Interrupts, context: &Context) {
    if context.format == Format::Text {
        print_line("stopping: waiting for running attempts (Ctrl-C again to stop now)");
    }
    tokio::select! { // both arms may be dropped: the log holds everything
        () = engine.stop(STOP_GRACE) => {}
        () = interrupts.next() => {}
    }
    stop_at_once(engine, Exit::Interrupted).await;
}
