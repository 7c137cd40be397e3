//! How many statements were sent, by the role of their connection. Counted where connections are
//! opened, so that all are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::connection::Role;

/// How many statements were sent, by role. A prepared statement counts each time it is run; `BEGIN`
/// and `COMMIT` count as any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statements {
    /// Signs of life.
    pub renewals: u64,
    /// Appends.
    pub writers: u64,
    /// Other calls of the engine.
    pub engine: u64,
    /// Requests of people.
    pub api: u64,
    /// Rows for readers.
    pub projections: u64,
    /// Nudges.
    pub listener: u64,
    /// Changes of the layout.
    pub migration: u64,
}

impl Statements {
    /// All of them together.
    pub fn all(&self) -> u64 {
        let Self { renewals, writers, engine, api, projections, listener, migration } = self;
        renewals + writers + engine + api + projections + listener + migration
    }
}

/// One counter for each role.
#[derive(Default)]
pub(crate) struct Sent {
    renewals: Arc<AtomicU64>,
    writers: Arc<AtomicU64>,
    engine: Arc<AtomicU64>,
    api: Arc<AtomicU64>,
    projections: Arc<AtomicU64>,
    listener: Arc<AtomicU64>,
    migration: Arc<AtomicU64>,
}

impl Sent {
    /// The counter that all connections of a role share.
    pub(crate) fn by(&self, role: Role) -> Arc<AtomicU64> {
        Arc::clone(match role {
            Role::Renewals => &self.renewals,
            Role::Writers => &self.writers,
            Role::Engine => &self.engine,
            Role::Api => &self.api,
            Role::Projections => &self.projections,
            Role::Listener => &self.listener,
            Role::Migration => &self.migration,
        })
    }

    pub(crate) fn statements(&self) -> Statements {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statements {
            renewals: read(&self.renewals),
            writers: read(&self.writers),
            engine: read(&self.engine),
            api: read(&self.api),
            projections: read(&self.projections),
            listener: read(&self.listener),
            migration: read(&self.migration),
        }
    }
}
