//! `waypost bench`: opens stores and engines for the benchmark (crate `waypost-bench`), prints its result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use waypost_bench::{DatabaseUsage, EngineSetup, Host, NamedServer, Scenario, SystemUnderTest};
use waypost_core::plan::Plan;
use waypost_engine::{Engine, Parts};
use waypost_nodes::egress::{Allowance, Egress};
use waypost_ports::query::{ExecutionPage, ListRequest};
use waypost_ports::secret::NoSecrets;
use waypost_postgres::PostgresStore;

use super::{Context, Exit};
use crate::backend::{self, Backend};
use crate::cluster_services::ClusterServices;
use crate::open_files;
use crate::output::print_table;
use crate::settings::{Database, Settings, Source};
use crate::wiring;

/// Runs a scenario and prints its result.
pub(super) async fn run(scenario: &Scenario, context: &Context) -> Result<Exit> {
    if matches!(scenario, Scenario::Http(_) | Scenario::Hooks(_)) {
        open_files::raise_limit();
    }
    let printout = waypost_bench::run(scenario, &Opener(&context.settings)).await?;
    let exit = context.show(&printout, || print_table(&printout.rows()))?;
    printout.failure.map_or(Ok(exit), Err)
}

/// The process that the scenario `recover` starts and kills.
pub(super) async fn recover_child(
    executions: u64,
    folder: PathBuf,
    context: &Context,
) -> Result<Exit> {
    waypost_bench::recover_child(executions, folder, &Opener(&context.settings)).await?;
    Ok(Exit::Done)
}

/// Opens the configured backend.
struct Opener<'a>(&'a Settings);

impl Host for Opener<'_> {
    fn open(&self, folder: &Path) -> Result<Box<dyn SystemUnderTest>> {
        let Some(database) = &self.0.cluster.database else { return self.open_folder(folder) };
        let schema = format!("waypost_bench_{}", uuid::Uuid::now_v7().simple());
        let store = Arc::new(backend::open_database(&Database { schema, ..database.clone() })?);
        let backend = Arc::clone(&store) as Arc<dyn Backend>;
        let around = ClusterServices::of(&backend, self.0)?;
        Ok(Box::new(Opened { backend, around, database: Some(store) }))
    }

    fn open_folder(&self, folder: &Path) -> Result<Box<dyn SystemUnderTest>> {
        let backend = Arc::new(wiring::open_engine_store(folder)?);
        Ok(Box::new(Opened {
            backend,
            around: ClusterServices::alone(backend::folder_blobs(folder)),
            database: None,
        }))
    }

    fn named_server(&self) -> Option<NamedServer> {
        let Settings { remote, .. } = self.0;
        let url = remote.url.clone().filter(|_| self.0.source("server") == Some(&Source::Flag))?;
        Some(NamedServer { url, key: remote.key.clone() })
    }
}

/// A data folder, or a schema of a database with Redis where the settings name one.
struct Opened {
    backend: Arc<dyn Backend>,
    around: ClusterServices,
    /// The same store as `backend`.
    database: Option<Arc<PostgresStore>>,
}

impl SystemUnderTest for Opened {
    fn open_engine(&self, setup: EngineSetup) -> Result<Engine> {
        let EngineSetup { config, observer, handlers, callable } = setup;
        let allowed = callable.map(|address| address.parse::<Allowance>()).transpose()?;
        let egress = Egress::new(allowed);
        let nodes = waypost_nodes::Settings { egress, ..waypost_nodes::Settings::default() };
        let store = backend::store(&self.backend);
        let mut parts = wiring::parts(&self.around, store, &nodes, Arc::new(NoSecrets), config);
        parts.handlers.extend(handlers);
        Ok(Engine::open(Parts { observer, ..parts })?)
    }

    fn define(&self, source: &str) -> Result<(Arc<Plan>, u32)> {
        let compiled = wiring::compile(source.as_bytes())
            .map_err(|faults| anyhow!("the benchmark's definition is wrong: {faults:?}"))?;
        let definition = wiring::define(&*self.backend, &compiled)?;
        Ok((Arc::new(compiled.plan), definition.version))
    }

    fn list(&self, request: &ListRequest) -> Result<ExecutionPage> {
        Ok(self.backend.list(request)?)
    }

    fn wait_projected(&self) -> Result<()> {
        Ok(self.backend.wait_projected()?)
    }

    fn close(self: Box<Self>, keep: bool) -> Result<Option<DatabaseUsage>> {
        let Some(store) = &self.database else { return Ok(None) };
        let redis = self.around.redis.as_ref();
        let usage = DatabaseUsage {
            bytes: store.bytes()?,
            statements: store.statements().all(),
            round_trips: redis.map(|redis| redis.counters().round_trips.get()),
        };
        if !keep {
            store.remove()?;
        }
        Ok(Some(usage))
    }
}
