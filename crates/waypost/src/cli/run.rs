//! `waypost run`: start an execution and watch it to its end.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tokio::sync::mpsc;
use waypost_core::event::Event;
use waypost_core::id::{ExecutionId, ExecutionKey};
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::status::Status;
use waypost_engine::config::{Config, Scope};
use waypost_engine::driver::{Committed, EndSummary};
use waypost_engine::{Engine, EngineError, Observer, StartRequest, Started};
use waypost_ports::secret::Secrets;
use waypost_ports::store::{Idempotency, Store};
use waypost_sqlite::SqliteStore;

use super::interrupts::Interrupts;
use super::{Context, Exit, find, read_definition};
use crate::output::{Format, print_json, print_line};
use crate::progress::Progress;
use crate::wiring;

/// How long attempts that run may take to end after Ctrl-C; a second Ctrl-C ends at once.
const STOP_GRACE: Duration = Duration::from_secs(10);

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The definition, YAML or JSON
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

#[expect(clippy::print_stderr, reason = "faults go to standard error")]
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let source = read_definition(&args.file)?;
    let name = args.file.display().to_string();
    let compiled = match wiring::compile(&source) {
        Ok(compiled) => compiled,
        Err(faults) => {
            if context.format == Format::Json {
                print_json(&json!({ "valid": false, "diagnostics": faults }))?;
            } else {
                eprintln!("{}", faults.render(&source, &name, context.color).trim_end());
            }
            return Ok(Exit::Wrong);
        }
    };
    let warnings = compiled.warnings.render(&source, &name, context.color);
    if !warnings.is_empty() {
        eprintln!("{}", warnings.trim_end());
    }
    let input = match read_input(&args.input) {
        Ok(input) => input,
        Err(error) => {
            eprintln!("error: the input cannot be used: {error:#}");
            return Ok(Exit::Wrong);
        }
    };
    if let Err(faults) = wiring::check_input(&compiled, &input) {
        eprintln!("error: the input does not fit the definition's schema");
        faults.iter().for_each(|fault| eprintln!("  {fault}"));
        return Ok(Exit::Wrong);
    }
    let request = match request(args, compiled.canonical.as_bytes(), input) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(Exit::Wrong);
        }
    };

    let store = Arc::new(wiring::open_engine_store(&context.settings.data)?);
    let definition = wiring::define(&*store, &compiled)?;
    let (engine, events) = open(&store, context)?;
    let plan = Arc::new(compiled.plan);
    let started = match engine.start(request.into_start(plan, definition.version)).await {
        Ok(started) => started,
        Err(EngineError::Exists(_)) => {
            bail!("this id or idempotency key belongs to another execution")
        }
        Err(error) => return Err(error.into()),
    };
    watch(engine, store, started, events, context).await
}

/// Reads an input: JSON, `@file`, or `-`.
pub(super) fn read_input(text: &str) -> Result<Json> {
    let bytes = match text.strip_prefix('@') {
        Some(path) => std::fs::read(path).with_context(|| format!("cannot read {path}"))?,
        None if text == "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
            bytes
        }
        None => text.as_bytes().to_vec(),
    };
    let limit = waypost_core::limits::PAYLOAD_BYTES_MAX;
    if bytes.len() > limit {
        bail!("it has {} bytes; at most {limit} are kept", bytes.len());
    }
    Json::parse_bytes(&bytes).map_err(|error| anyhow::anyhow!("it is not JSON: {error}"))
}

/// What the user asked for, apart from the definition.
struct Request {
    input: Json,
    key: Option<ExecutionKey>,
    idempotency: Option<Idempotency>,
    labels: std::collections::BTreeMap<String, String>,
}

impl Request {
    fn into_start(self, plan: Arc<Plan>, version: u32) -> StartRequest {
        StartRequest {
            key: self.key,
            idempotency: self.idempotency,
            labels: self.labels,
            actor: std::env::var("USER").ok().map(Into::into),
            ..StartRequest::new(plan, version, self.input)
        }
    }
}

fn request(args: &Args, canonical: &[u8], input: Json) -> Result<Request> {
    let mut labels = std::collections::BTreeMap::new();
    for label in &args.label {
        let (name, value) =
            label.split_once('=').with_context(|| format!("label {label:?} is not NAME=VALUE"))?;
        labels.insert(name.to_owned(), value.to_owned());
    }
    if let Some(id) = &args.id {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        if id.is_empty() || id.len() > 128 || !id.chars().all(fits) || id == "last" {
            bail!("id {id:?} must be 1 to 128 letters, digits, '_', '-', '.' or ':'");
        }
    }
    let idempotency = args.idempotency_key.as_ref().map(|key| {
        let mut digest = waypost_core::id::DefinitionHash::of(canonical).0.to_vec();
        digest.extend_from_slice(input.text().as_bytes());
        Idempotency {
            key: key.as_str().into(),
            digest: waypost_core::id::DefinitionHash::of(&digest).0,
        }
    });
    let key = args.id.as_ref().map(|id| ExecutionKey(id.as_str().into()));
    Ok(Request { input, key, idempotency, labels })
}

/// Everything that becomes durable, for whoever draws it.
pub(super) type Events = mpsc::UnboundedReceiver<Committed>;

/// An engine that drives what this process starts or adopts, and nothing else in the folder.
pub(super) fn open(store: &Arc<SqliteStore>, context: &Context) -> Result<(Engine, Events)> {
    let (sender, events) = mpsc::unbounded_channel();
    let observer: Observer = Arc::new(move |committed: &Committed| {
        // The receiver is gone when the command is about to end.
        sender.send(committed.clone()).unwrap_or_default();
    });
    let config = Config { scope: Scope::Adopted, ..context.settings.engine.clone() };
    let store = Arc::clone(store) as Arc<dyn Store>;
    let secrets = Arc::clone(&context.settings.secrets) as Arc<dyn Secrets>;
    let nodes = &context.settings.nodes;
    let engine = wiring::open_engine(store, nodes, secrets, config, Some(observer))?;
    Ok((engine, events))
}

/// Shows an execution's progress until it ends, is set aside, or the user interrupts.
pub(super) async fn watch(
    engine: Engine,
    store: Arc<SqliteStore>,
    started: Started,
    mut events: Events,
    context: &Context,
) -> Result<Exit> {
    let text = context.format == Format::Text;
    let execution = started.execution;
    let mut progress = Progress::new(context.color);
    let found = find::load(Arc::clone(&store), execution)?;
    let key = found.state.created.key.clone();
    if text {
        let created = &found.state.created;
        print_line(&format!("execution {key}  workflow {} v{}", created.workflow, created.version));
    }
    if found.state.status.is_end() {
        engine.stop(STOP_GRACE).await;
        return finish(&store, execution, summary(&found.state), context);
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
                    progress.note(&committed);
                }
                let aside = |event: &Event| matches!(event, Event::RunQuarantined { .. });
                if committed.events.iter().any(aside) {
                    break Stopped::SetAside;
                }
            }
            end = &mut ended => break Stopped::Ended(end),
            () = interrupts.next() => break Stopped::Interrupted,
        }
    };
    match stopped {
        Stopped::Ended(Some(end)) => {
            engine.stop(STOP_GRACE).await;
            finish(&store, execution, end, context)
        }
        Stopped::SetAside => {
            engine.stop(STOP_GRACE).await;
            print_line(&format!("set aside: `waypost why {key}` says why"));
            Ok(Exit::Failed)
        }
        Stopped::Ended(None) => bail!("the engine stopped"),
        Stopped::Interrupted => {
            if text {
                print_line("stopping; attempts that run may end (again to stop at once)");
            }
            tokio::select! { // both arms may be dropped: the log holds everything
                () = engine.stop(STOP_GRACE) => {}
                () = interrupts.next() => {}
            }
            engine.stop(Duration::ZERO).await;
            if text {
                print_line(&format!("stopped; go on with: waypost resume {key}"));
            } else {
                print_json(&json!({ "id": key, "status": "INTERRUPTED" }))?;
            }
            Ok(Exit::Interrupted)
        }
    }
}

enum Stopped {
    Ended(Option<EndSummary>),
    SetAside,
    Interrupted,
}

fn summary(state: &waypost_core::state::State) -> EndSummary {
    let end = state.end.as_ref();
    EndSummary {
        status: state.status,
        output: end.and_then(|end| end.output.clone()),
        failure: end.and_then(|end| end.failure.clone()),
    }
}

/// Says how it ended.
fn finish(
    store: &Arc<SqliteStore>,
    execution: ExecutionId,
    end: EndSummary,
    context: &Context,
) -> Result<Exit> {
    let exit = if end.status == Status::Completed { Exit::Done } else { Exit::Failed };
    let found = find::load(Arc::clone(store), execution)?;
    if context.format == Format::Json {
        print_json(&super::show::wire(&found))?;
        return Ok(exit);
    }
    let took = found.state.updated_at.since(found.state.created_at);
    print_line(&format!("{} in {took}", end.status));
    if let Some(failure) = &end.failure {
        print_line(&format!("failure: {} ({})", failure.message, failure.kind));
    }
    if let Some(output) = end.output.filter(|output| !output.is_null()) {
        print_line(&format!("output: {output}"));
    }
    Ok(exit)
}
