//! The wiring: the only place that names the store, the node kinds and the language together.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use waypost_core::json::Json;
use waypost_core::kind::Family;
use waypost_core::plan::Plan;
use waypost_core::projection::inputs::Describe;
use waypost_core::time::Millis;
use waypost_core::trigger::StreamSource;
use waypost_engine::blob_sweep::{BlobSweep, BlobSweeper};
use waypost_engine::config::Config;
use waypost_engine::dispatcher::{Dispatcher, DispatcherWakeups};
use waypost_engine::driver::Committed;
use waypost_engine::triggers::{
    EndedTriggers, Firing, HandlerPages, TriggerControl, TriggerRunner, TriggerWakeups,
};
use waypost_engine::{Engine, Observer, Parts, Plans};
use waypost_lang::{Compiled, Diagnostics, InputFault, InputSchema, InputSchemas};
use waypost_nodes::webhook::HttpWebhooks;
use waypost_ports::blobs::{BlobRefs, Blobs};
use waypost_ports::clock::SystemClock;
use waypost_ports::outbox::Outbox;
use waypost_ports::secret::Secrets;
use waypost_ports::store::{About, Definition, NewDefinition, Store, StoreError};
use waypost_ports::triggers::Triggers;
use waypost_server::server::{Compiler, Server};
use waypost_server::watchers::Watchers;
use waypost_sqlite::{Options, SqliteStore};

use crate::backend::Backend;
use crate::cluster_services::ClusterServices;
use crate::settings::{Database, Settings};

/// Opens a data folder to run executions in it; there is one such process a folder.
pub fn open_engine_store(folder: &Path) -> Result<SqliteStore> {
    open_engine_store_at(folder, None)
}

/// As `open_engine_store` for a server, whose address others find through the folder.
pub fn open_engine_store_at(folder: &Path, address: Option<String>) -> Result<SqliteStore> {
    use std::os::unix::fs::DirBuilderExt;
    // For its owner alone: inputs, outputs and logs are private.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot create the data folder {}", folder.display()))?;
    Ok(SqliteStore::open(folder, Options { address, ..with_families(Options::engine()) })?)
}

/// Opens a data folder for reading and for delivering mail, also while another process runs an
/// engine on it.
pub fn open_store(folder: &Path) -> Result<SqliteStore> {
    if !folder.join("log.db").exists() {
        bail!(
            "there is no data in {}: run a workflow first, or name another folder with --data",
            folder.display()
        );
    }
    Ok(SqliteStore::open(folder, with_families(Options::guest()))?)
}

fn with_families(options: Options) -> Options {
    Options { families: Arc::new(Catalogued), ..options }
}

/// Describes definitions for the read tables by the catalogue of node kinds.
#[derive(Debug)]
pub struct Catalogued;

impl Describe for Catalogued {
    fn family(&self, kind: &str) -> Option<Family> {
        waypost_nodes::catalog().find(kind).map(|kind| kind.spec().family)
    }

    fn plan(&self, canonical: &[u8]) -> Option<Plan> {
        waypost_lang::compile_canonical(canonical, &waypost_nodes::catalog()).ok()
    }
}

/// How a database is opened.
pub fn database_options(database: &Database) -> waypost_postgres::Options {
    waypost_postgres::Options {
        lease: database.lease.to_std(),
        schema: database.schema.clone(),
        api_connections: usize::try_from(database.connections).unwrap_or(usize::MAX),
        families: Arc::new(Catalogued),
        ..waypost_postgres::Options::default()
    }
}

/// Compiles a definition that a user wrote.
pub fn compile(source: &[u8]) -> Result<Compiled, Box<Diagnostics>> {
    waypost_lang::parse(source, &waypost_nodes::catalog()).map_err(Box::new)
}

/// Compiles definitions for a deploy by a process with these settings: sources of streams that it cannot read are
/// reported.
pub fn deploying(settings: &Settings) -> Box<Compiler> {
    let (sources, fires) = (settings.sources.clone(), !settings.server.no_triggers);
    Box::new(move |source| {
        let check = |workflow: &str, stream: &StreamSource| sources.check(workflow, stream, fires);
        waypost_lang::parse_for(source, &waypost_nodes::catalog(), &check).map_err(Box::new)
    })
}

/// Stores a definition, and leaves the workflow's current version as it is, if there is one: trying
/// a file must not change what others start by name.
pub fn define(store: &dyn Store, compiled: &Compiled) -> Result<Definition, StoreError> {
    let defined = store.define(&NewDefinition {
        name: compiled.name.as_str().into(),
        hash: compiled.hash,
        canonical: compiled.canonical.as_str().into(),
        make_current: false,
        triggers: Vec::new(),
        paused: false,
    })?;
    Ok(defined.definition)
}

/// Checks an input against the definition's schema; one line per fault.
pub fn check_input(plan: &Plan, input: &Json) -> Result<(), Vec<String>> {
    let Some(schema) = &plan.input_schema else { return Ok(()) };
    let schema = InputSchema::compile(schema).map_err(|error| vec![error.to_string()])?;
    check_by(&schema, input)
}

fn check_by(schema: &InputSchema, input: &Json) -> Result<(), Vec<String>> {
    let line = |fault: &InputFault| {
        let place = if fault.path.is_empty() { "input" } else { &fault.path };
        format!("{place}: {}", fault.message)
    };
    schema.check(input).map_err(|faults| faults.iter().map(line).collect())
}

/// Plans of the definitions in a store.
pub fn plans() -> Plans {
    let schemas = InputSchemas::default();
    Plans::new(Box::new(|canonical| {
        waypost_lang::compile_canonical(canonical.as_bytes(), &waypost_nodes::catalog())
            .map_err(|faults| faults.to_string())
    }))
    .checking(Box::new(move |plan: &Plan, input: &Json| {
        let Some(source) = &plan.input_schema else { return Ok(()) };
        let schema = schemas.get(plan.hash, source).map_err(|error| vec![error.to_string()])?;
        check_by(&schema, input)
    }))
}

/// Starts an engine over a store, in a process that is alone. Must be called inside a Tokio runtime.
pub fn open_engine(
    (store, blobs): (Arc<dyn Store>, Arc<dyn Blobs>),
    nodes: &waypost_nodes::Settings,
    secrets: Arc<dyn Secrets>,
    config: Config,
    observer: Option<Observer>,
) -> Result<Engine> {
    open_engine_in(&ClusterServices::alone(blobs), store, nodes, secrets, config, observer)
}

/// As `open_engine`, with cluster services.
pub fn open_engine_in(
    around: &ClusterServices,
    store: Arc<dyn Store>,
    nodes: &waypost_nodes::Settings,
    secrets: Arc<dyn Secrets>,
    config: Config,
    observer: Option<Observer>,
) -> Result<Engine> {
    Ok(Engine::open(Parts { observer, ..parts(around, store, nodes, secrets, config) })?)
}

/// The parts of an engine, which may be replaced before it is opened.
pub(crate) fn parts(
    around: &ClusterServices,
    store: Arc<dyn Store>,
    nodes: &waypost_nodes::Settings,
    secrets: Arc<dyn Secrets>,
    config: Config,
) -> Parts {
    Parts {
        store,
        plans: Arc::new(plans()),
        handlers: waypost_nodes::handlers(nodes, Some(&around.blobs)),
        blobs: Arc::clone(&around.blobs),
        secrets,
        instance: around.instance,
        about: About { version: env!("CARGO_PKG_VERSION").into(), address: None, running: 0 },
        tasks: Arc::clone(&around.tasks),
        nudges: Arc::clone(&around.nudges),
        mirror: Arc::clone(&around.mirror),
        relay: around.relay.clone(),
        clock: Arc::new(SystemClock),
        observer: None,
        config: around.config(config),
    }
}

/// Starts an engine that drives everything in a backend, and puts a server in front of it. Must be
/// called inside a Tokio runtime.
pub fn open_server(backend: Arc<dyn Backend>, url: &str, settings: &Settings) -> Result<Server> {
    let around = ClusterServices::of(&backend, settings)?;
    let watchers = Arc::new(match around.shared {
        true => Watchers::among_others(),
        false => Watchers::default(),
    });
    let blobs = Arc::clone(&around.blobs);
    let store = Arc::clone(&backend) as Arc<dyn Store>;
    let secrets = Arc::clone(&settings.secrets) as Arc<dyn Secrets>;
    let trigger_wakeups = TriggerWakeups::default();
    let wakeups = DispatcherWakeups::default();
    let config = Config { handoffs: wakeups.handoffs(), ..settings.engine.clone() };
    let mut parts = parts(&around, store, &settings.nodes, secrets, config);
    parts.about.address = Some(url.into());
    parts.observer = Some(observer(&watchers, wakeups.clone(), trigger_wakeups.clone()));
    let plans = Arc::clone(&parts.plans);
    let store = Arc::clone(&parts.store);
    let engine = Arc::new(Engine::open(parts)?);
    let firing = Firing {
        engine: Arc::clone(&engine) as Arc<_>,
        store,
        triggers: Arc::clone(&backend) as Arc<dyn Triggers>,
        plans: Arc::clone(&plans),
    };
    let outbox = Arc::clone(&backend) as Arc<dyn Outbox>;
    let ends = EndedTriggers { firing: firing.clone(), outbox };
    Ok(Server::new(waypost_server::server::Parts {
        engine,
        backend,
        blobs,
        plans,
        compiler: deploying(settings),
        definition_schema: waypost_lang::schema(&waypost_nodes::catalog()),
        clock: Arc::new(SystemClock),
        watchers,
        webhooks: Arc::new(HttpWebhooks::new(
            settings.nodes.egress.clone(),
            settings.server.webhook_timeout,
        )),
        wakeups,
        triggers: Some(TriggerControl { firing, ends, wakeups: trigger_wakeups }),
        secrets: Arc::clone(&settings.secrets) as Arc<dyn Secrets>,
        config: settings.server.clone(),
        limits: limits(settings),
    })?)
}

/// Tells the streams, the dispatcher and the trigger runner of every commit.
fn observer(
    watchers: &Arc<Watchers>,
    wakeups: DispatcherWakeups,
    triggers: TriggerWakeups,
) -> Observer {
    let watchers = watchers.observer();
    Arc::new(move |committed: &Committed| {
        watchers(committed);
        wakeups.committed(committed);
        triggers.committed(committed);
    })
}

/// The trigger runner of a server; none if it leaves triggers to other instances.
pub fn trigger_runner(server: &Server, settings: &Settings) -> Option<TriggerRunner> {
    let TriggerControl { firing, ends, wakeups } = server.triggers.clone()?;
    if server.config.no_triggers {
        return None;
    }
    // Without a blob store: the items of a page are read here and now.
    let handler = waypost_nodes::handlers(&settings.nodes, None).remove("api-call")?;
    let secrets = Arc::clone(&settings.secrets) as Arc<dyn Secrets>;
    let pages = Arc::new(HandlerPages::new(handler, secrets));
    let streams = Arc::new(settings.sources.clone());
    Some(TriggerRunner { firing, pages, streams, ends, wakeups })
}

/// The dispatcher of a server's messages to webhook endpoints.
pub fn dispatcher(server: &Server, backend: &Arc<dyn Backend>) -> Dispatcher {
    Dispatcher {
        instance: server.engine.instance(),
        outbox: Arc::clone(backend) as Arc<dyn Outbox>,
        store: Arc::clone(backend) as Arc<dyn Store>,
        sender: Arc::clone(&server.webhooks),
        wakeups: server.wakeups.clone(),
        metrics: server.engine.metrics(),
        links: server.engine.links().clone(),
        public_url: server.engine.public_url().map(Into::into),
        announce_mail: server.engine.mail_announcer(),
        ends: server
            .triggers
            .as_ref()
            .filter(|_| !server.config.no_triggers)
            .map(|triggers| triggers.ends.clone()),
        claim: Millis(server.config.webhook_timeout.0 * 3),
    }
}

/// Starts to sweep the blobs of a server, until the sweeper is dropped.
pub fn sweep_blobs(server: &Server, backend: Arc<dyn Backend>) -> Result<BlobSweeper> {
    let refs = backend as Arc<dyn BlobRefs>;
    let (instance, metrics) = (server.engine.instance(), server.engine.metrics());
    let sweep = BlobSweep::new(Arc::clone(&server.blobs), refs, instance, metrics);
    BlobSweeper::start(sweep).context("cannot start the thread that sweeps blobs")
}

/// The limits that the server crate does not have.
pub(crate) fn limits(settings: &Settings) -> Vec<(&'static str, u64)> {
    use waypost_core::limits as core;
    let engine = &settings.engine;
    vec![
        ("nodes_max", core::NODES_MAX as u64),
        ("edges_max", core::EDGES_MAX as u64),
        ("definition_bytes_max", core::DEFINITION_BYTES_MAX as u64),
        ("node_id_chars_max", core::NODE_ID_CHARS_MAX as u64),
        ("workflow_name_chars_max", core::WORKFLOW_NAME_CHARS_MAX as u64),
        ("concurrency_key_bytes_max", core::CONCURRENCY_KEY_BYTES_MAX as u64),
        ("payload_bytes_max", core::PAYLOAD_BYTES_MAX as u64),
        ("json_depth_max", waypost_core::json::DEPTH_MAX as u64),
        ("early_signals_max", core::EARLY_SIGNALS_MAX as u64),
        ("early_signals_bytes_max", core::EARLY_SIGNALS_BYTES_MAX as u64),
        ("messages_remembered_max", core::MESSAGES_REMEMBERED_MAX as u64),
        ("abandoned_max", u64::from(core::ABANDONED_MAX)),
        ("attempts_max", u64::from(core::ATTEMPTS_MAX)),
        ("slots", u64::from(engine.slots)),
        ("io_slots", u64::from(engine.io_slots)),
        ("active_max", engine.active_max as u64),
        ("remote_max", engine.remote_max as u64),
        ("backlog_max", engine.backlog_max as u64),
    ]
}
