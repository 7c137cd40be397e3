//! How many statements were sent, by the role of their connection. Counted where connections are
//! opened, so that all are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::connection::Role;

/// How many statements were sent, by role. A prepared statement counts each time it is run; `BEGIN`
/// and `COMMIT` count as any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statements {
    pub renewals: u64,
    pub writers: u64,
    pub engine: u64,
    pub api: u64,
    pub projections: u64,
    pub listener: u64,
    pub migration: u64,
}

impl Statements {
    /// All of them together.
    pub fn all(&self) -> u64 {
        let Self { renewals, writers, engine, api, projections, listener, migration } = self;
        renewals + writers + engine + api + projections + listener + migration
    }
}

/// One counter for each role, the last of which is the listener.
#[derive(Default)]
pub(crate) struct Sent([Arc<AtomicU64>; Role::Listener as usize + 1]);

impl Sent {
    /// The counter that all connections of a role share.
    pub(crate) fn by(&self, role: Role) -> Arc<AtomicU64> {
        Arc::clone(&self.0[role as usize])
    }

    pub(crate) fn statements(&self) -> Statements {
        let sent = |role| self.by(role).load(Ordering::Relaxed);
        Statements {
            renewals: sent(Role::Renewals),
            writers: sent(Role::Writers),
            engine: sent(Role::Engine),
            api: sent(Role::Api),
            projections: sent(Role::Projections),
            listener: sent(Role::Listener),
            migration: sent(Role::Migration),
        }
    }
}
