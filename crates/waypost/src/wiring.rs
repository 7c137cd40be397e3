//! The wiring: the only place that names the store, the node kinds and the language together.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use waypost_core::json::Json;
use waypost_engine::config::Config;
use waypost_engine::{Engine, Observer, Parts, Plans};
use waypost_lang::{Compiled, Diagnostics, InputFault, InputSchema};
use waypost_ports::clock::SystemClock;
use waypost_ports::secret::Secrets;
use waypost_ports::store::{Definition, NewDefinition, Store};
use waypost_sqlite::{Options, SqliteStore};

/// Opens a data folder to run executions in it; there is one such process a folder.
pub fn open_engine_store(folder: &Path) -> Result<SqliteStore> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the data folder {}", folder.display()))?;
    Ok(SqliteStore::open(folder, with_families(Options::engine()))?)
}

/// Opens a data folder to look into it, or to put mail into its inboxes, whoever runs it.
pub fn open_store(folder: &Path) -> Result<SqliteStore> {
    if !folder.join("log.db").exists() {
        bail!(
            "there is no data in {}: run a workflow first, or name another folder with --data",
            folder.display()
        );
    }
    Ok(SqliteStore::open(folder, with_families(Options::guest()))?)
}

/// The read tables show the families of node kinds, which only the catalogue knows.
fn with_families(options: Options) -> Options {
    let family = |name: &str| waypost_nodes::catalog().find(name).map(|kind| kind.spec().family);
    Options { families: Arc::new(family), ..options }
}

/// Compiles a definition that a user wrote.
pub fn compile(source: &[u8]) -> Result<Compiled, Box<Diagnostics>> {
    waypost_lang::parse(source, &waypost_nodes::catalog()).map_err(Box::new)
}

/// Keeps a definition in the store.
pub fn define(store: &dyn Store, compiled: &Compiled) -> Result<Definition> {
    Ok(store.define(&NewDefinition {
        name: compiled.name.as_str().into(),
        hash: compiled.hash,
        canonical: compiled.canonical.as_str().into(),
    })?)
}

/// Checks an input against the definition's schema; one line per fault.
pub fn check_input(compiled: &Compiled, input: &Json) -> Result<(), Vec<String>> {
    let Some(schema) = &compiled.plan.input_schema else { return Ok(()) };
    let schema = InputSchema::compile(schema).map_err(|error| vec![error.to_string()])?;
    let line = |fault: &InputFault| {
        let place = if fault.path.is_empty() { "input" } else { &fault.path };
        format!("{place}: {}", fault.message)
    };
    schema.check(input).map_err(|faults| faults.iter().map(line).collect())
}

/// Plans of the definitions in a store.
pub fn plans() -> Plans {
    Plans::new(Box::new(|canonical| {
        waypost_lang::compile_canonical(canonical.as_bytes(), &waypost_nodes::catalog())
            .map_err(|faults| faults.to_string())
    }))
}

/// Starts an engine over a store. Must be called inside a Tokio runtime.
pub fn open_engine(
    store: Arc<dyn Store>,
    nodes: &waypost_nodes::Settings,
    secrets: Arc<dyn Secrets>,
    config: Config,
    observer: Option<Observer>,
) -> Result<Engine> {
    Ok(Engine::open(Parts {
        store,
        plans: Arc::new(plans()),
        handlers: waypost_nodes::handlers(nodes),
        secrets,
        clock: Arc::new(SystemClock),
        observer,
        config,
    })?)
}
