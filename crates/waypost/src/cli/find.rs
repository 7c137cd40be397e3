//! Finding the execution that a user means.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use waypost_core::id::ExecutionId;
use waypost_core::plan::Plan;
use waypost_core::state::State;
use waypost_ports::query::Query;
use waypost_ports::store::{Control, Store};
use waypost_sqlite::SqliteStore;

use super::Context;
use crate::wiring;

/// An execution, by name.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Named {
    /// The execution's id, or `last` for the newest one
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: String,
}

/// An execution as it stands in the store.
pub(crate) struct Found {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) execution: ExecutionId,
    pub(crate) plan: Arc<Plan>,
    pub(crate) state: State,
    pub(crate) control: Option<Control>,
}

impl Named {
    /// The execution's number.
    pub(crate) fn find(&self, store: &SqliteStore) -> Result<ExecutionId> {
        let key = (self.execution != "last").then_some(self.execution.as_str());
        match store.find(key)? {
            Some(execution) => Ok(execution),
            None if key.is_none() => bail!("there are no executions yet"),
            None => bail!(
                "there is no execution {:?}; `waypost list` shows those that are",
                self.execution
            ),
        }
    }

    /// Reads the execution back from its log.
    pub(crate) fn load(&self, context: &Context) -> Result<Found> {
        let store = Arc::new(wiring::open_store(&context.settings.data)?);
        let execution = self.find(&store)?;
        load(store, execution)
    }
}

/// Reads an execution back from its log.
pub(crate) fn load(store: Arc<SqliteStore>, execution: ExecutionId) -> Result<Found> {
    let history = store.load(execution)?.context("the execution has no log")?;
    let control = history.control.clone();
    let loaded = waypost_engine::fold(history, &wiring::plans(), &*store).map_err(|damage| {
        let held = control.as_ref().and_then(|control| control.held.as_deref());
        match held {
            Some(reason) => anyhow::anyhow!("the execution is set aside: {reason}"),
            None => anyhow::anyhow!("the execution cannot be read: {damage}"),
        }
    })?;
    Ok(Found { store, execution, plan: loaded.plan, state: loaded.state, control })
}
