//! The store itself: its runtime, its connections, and which of them does what.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_ports::mirror::Mirror;
use waypost_ports::query::Query;
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, MailOf, NewDefinition, Publication, Published, Receiver, Renewal, Store,
    StoreError, StoredFrame,
};

use crate::address::Address;
use crate::claim::{Copies, Sweeps};
use crate::connection::{Connection, Home, Role};
use crate::error::{Result, in_spite_of_others};
use crate::history::From as LoadFrom;
use crate::options::Options;
use crate::pool::Pool;
use crate::projections::Projections;
use crate::queries::sql;
use crate::sent::{Sent, Statements};
use crate::waiting::{Threads, wait};
use crate::{append, claim, definitions, history, instances, mail, migrate, outbox, topics};

/// Connections that append.
const WRITERS: usize = 2;

/// Connections for other calls of the engine.
const ENGINE: usize = 4;

/// How long the engine waits for one of its connections: longer than any statement takes.
const ENGINE_WAIT: Duration = Duration::from_secs(15);

/// The store of a cluster. Calls block, and must not be made from a task of an async runtime.
pub struct PostgresStore {
    pub(crate) threads: Threads,
    pub(crate) home: Arc<Home>,
    renewals: Pool,
    writers: Pool,
    engine: Pool,
    api: Pool,
    mirror: OnceLock<Arc<dyn Mirror>>,
    pub(crate) sweeps: Sweeps,
    pub(crate) projections: Projections,
}

impl PostgresStore {
    /// Opens a store and brings its database to the newest layout.
    pub fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        let (threads, home) = prepare(url, &options)?;
        wait(threads.handle(), migrate::apply(&home))?;
        let home = Arc::new(home);
        let pool = |role, size| Pool::new(&home, role, size, ENGINE_WAIT);
        Ok(Self {
            renewals: pool(Role::Renewals, 1),
            writers: pool(Role::Writers, WRITERS),
            engine: pool(Role::Engine, ENGINE),
            api: Pool::new(&home, Role::Api, options.api_connections, options.api_wait),
            projections: Projections::start(&home, threads.handle(), options.families)?,
            threads,
            home,
            mirror: options.mirror.map(OnceLock::from).unwrap_or_default(),
            sweeps: Sweeps::default(),
        })
    }

    /// Sets where copies of parked executions are looked up, once. Called after the store is open:
    /// sealing the copies needs the cluster's key, which is in the store.
    pub fn use_mirror(&self, mirror: Arc<dyn Mirror>) {
        // There is one already: the first one stays.
        self.mirror.set(mirror).unwrap_or_default();
    }

    pub(crate) fn mirror(&self) -> Option<&Arc<dyn Mirror>> {
        self.mirror.get()
    }

    /// How many statements were sent for it, by all its connections.
    pub fn statements(&self) -> Statements {
        self.home.sent.statements()
    }

    /// Its size on disk.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let bytes: i64 = self
            .run(Role::Api, async |db| Ok(db.query_one(sql!("schema_bytes"), &[]).await?.get(0)))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Drops the schema with everything in it. The store must not be used any more.
    pub fn remove(&self) -> Result<(), StoreError> {
        self.run(Role::Api, async |db| {
            db.execute(sql!("schema_drop"), &[]).await?;
            Ok(())
        })
    }

    /// How often copies of parked executions spared a load.
    pub fn copies(&self) -> Copies {
        self.sweeps.copies()
    }

    /// Blocks until the projections show everything that was committed before.
    pub fn wait_projected(&self) -> Result<(), StoreError> {
        self.projections.wait()
    }

    /// How many frames were left out of the projections because they could not be read.
    pub fn frames_skipped(&self) -> u64 {
        self.projections.skipped()
    }

    /// Lends a connection of a role to an action and waits for the action to end.
    pub(crate) fn run<T>(
        &self,
        role: Role,
        action: impl AsyncFnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T, StoreError> {
        Ok(self.try_run(role, action)?)
    }

    /// As `run`, with the original error.
    pub(crate) fn try_run<T>(
        &self,
        role: Role,
        action: impl AsyncFnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let pool = match role {
            Role::Renewals => &self.renewals,
            Role::Writers => &self.writers,
            Role::Engine => &self.engine,
            Role::Api | Role::Migration | Role::Listener | Role::Projections => &self.api,
        };
        wait(self.threads.handle(), pool.with(action))
    }
}

impl Store for PostgresStore {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        self.run(Role::Renewals, async |db| instances::heartbeat(db, heartbeat).await)
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        let outcomes = append::append(self, batch)?;
        self.projections.appended(batch, &outcomes);
        Ok(outcomes)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        claim::claim(self, request)
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.run(Role::Engine, async |db| history::load(db, execution, LoadFrom::Snapshot).await)
    }

    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        self.run(Role::Engine, async |db| history::load_after(db, execution, after).await)
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        // Another sender may deliver the same messages in another order, and deadlock with this
        // one.
        Ok(in_spite_of_others(|| {
            self.try_run(Role::Engine, async |db| mail::deliver(db, mail).await)
        })?)
    }

    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.run(Role::Engine, async |db| mail::collect(db, of, limit).await)
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.run(Role::Engine, async |db| claim::hold(db, execution, owner, reason).await)
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.run(Role::Engine, async |db| claim::doubt(db, owner, executions).await)
    }

    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError> {
        let Some(execution) = Query::find(self, Some(key))? else { return Ok(None) };
        Ok(Some(Receiver { execution, ended: !self.is_unfinished(execution)? }))
    }

    fn publish(&self, publication: &Publication) -> Result<Published, StoreError> {
        self.run(Role::Api, async |db| topics::publish(db, publication).await)
    }

    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError> {
        self.run(Role::Engine, async |db| claim::owners(db, executions).await)
    }

    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError> {
        self.run(Role::Engine, async |db| topics::owners(db, names).await)
    }

    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError> {
        self.run(Role::Engine, async |db| topics::subscribed(db, between).await)
    }

    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError> {
        self.run(Role::Engine, async |db| claim::reserve_births(db, root, count).await)
    }

    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError> {
        // It locks the triggers of the workflow, which fires lock in another order.
        let define = || {
            in_spite_of_others(|| {
                self.try_run(Role::Api, async |db| definitions::define(db, definition).await)
            })
        };
        let adds_endpoints = definition.triggers.iter().any(|trigger| trigger.ends.is_some());
        Ok(if adds_endpoints { outbox::registering(define) } else { define() }?)
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.run(Role::Api, async |db| definitions::find(db, which).await)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.projections.stop();
        for pool in [&self.renewals, &self.writers, &self.engine, &self.api] {
            pool.close();
        }
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("address", &self.home.address).finish_non_exhaustive()
    }
}

/// What must be valid before a connection can be opened.
pub(crate) fn prepare(url: &str, options: &Options) -> Result<(Threads, Home), StoreError> {
    let home = Home {
        address: Address::parse(url)?,
        schema: options.checked_schema()?.to_owned(),
        clock: options.clock.clone(),
        lease: options.lease,
        sent: Sent::default(),
    };
    Ok((Threads::start()?, home))
}
