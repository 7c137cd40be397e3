//! What the benchmark needs from the program that runs it: opened stores and engines.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use waypost_core::plan::Plan;
use waypost_engine::config::Config;
use waypost_engine::{Engine, Observer};
use waypost_ports::handler::Handler;
use waypost_ports::query::{ExecutionPage, ListRequest};

/// The program that runs the benchmark. It has the settings and the stores.
///
/// For the scenario `http` and for crashes the benchmark starts the program's own file again, with
/// the arguments `serve` and `bench-recover-child`.
pub trait Host {
    /// Opens a new system by the settings: in the folder, or in a new schema of a database.
    fn open(&self, folder: &Path) -> Result<Box<dyn SystemUnderTest>>;

    /// Opens a system in the folder, regardless of the settings. The folder may have data.
    fn open_folder(&self, folder: &Path) -> Result<Box<dyn SystemUnderTest>>;

    /// The server to load instead of a new one. Only a server that the command line names: one that
    /// comes from the environment or the settings file would be loaded by accident.
    fn named_server(&self) -> Option<NamedServer>;
}

/// A server that the user named.
#[derive(Clone, Debug)]
pub struct NamedServer {
    /// Like `http://host:port`.
    pub url: String,
    /// The API key.
    pub key: Option<String>,
}

/// How an engine is opened.
#[derive(Default)]
pub struct EngineSetup {
    pub config: Config,
    pub observer: Option<Observer>,
    /// Handlers that replace those of built-in kinds, by the kind's name.
    pub handlers: BTreeMap<&'static str, Arc<dyn Handler>>,
    /// The address of this machine, like `127.0.0.1:8080`, that `api-call` may call.
    pub callable: Option<String>,
}

/// A store, and how to open an engine over it.
pub trait SystemUnderTest {
    /// Opens an engine over the store.
    fn open_engine(&self, setup: EngineSetup) -> Result<Engine>;

    /// Compiles a definition and stores it. Returns its plan and its version.
    fn define(&self, source: &str) -> Result<(Arc<Plan>, u32)>;

    /// Lists executions, as [`waypost_ports::query::Query::list`] does.
    fn list(&self, request: &ListRequest) -> Result<ExecutionPage>;

    /// Returns when the projections show everything that is in the log now.
    fn wait_projected(&self) -> Result<()>;

    /// Closes the store. A schema that was created for this run is removed unless `keep` is set; a
    /// folder stays. Returns a database's counts, and nothing for a folder.
    fn close(self: Box<Self>, keep: bool) -> Result<Option<DatabaseUsage>>;
}

/// The cost of a run on the servers of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseUsage {
    pub bytes: u64,
    /// SQL statements that were sent to PostgreSQL.
    pub statements: u64,
    /// Round trips to Redis, where there is one.
    pub round_trips: Option<u64>,
}
