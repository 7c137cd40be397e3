//! Opening, closing, and who may do what. The work itself is in the modules named after it.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::Clock;
use waypost_ports::query::Query;
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Claims, Defined, Definition, DefinitionRef, Heartbeat, History,
    Mail, MailDelivery, MailOf, NewDefinition, Publication, Published, Receiver, Renewal, Store,
    StoreError, StoredFrame,
};
use waypost_ports::triggers::TriggerNo;
use waypost_ports::triggers::rules::{StoredTrigger, too_many_triggers};

use crate::cache::{self, PageCache};
use crate::checkpoint::Checkpoints;
use crate::connection::{self, Readers, normalise};
use crate::last_frames::LastFrames;
use crate::lock::FolderLock;
use crate::options::Options;
use crate::projections::Projections;
use crate::{append, claim, definitions, history, instances, lock, mail, migrate, queries, topics};

/// The log's file, in its folder.
pub(crate) const LOG_FILE: &str = "log.db";

/// A store in a folder.
///
/// One process opens it with [`Options::engine`]; any number of others with [`Options::guest`], to
/// read and to deliver mail. Dropping it is a clean close.
pub struct SqliteStore {
    // In the order in which they must go: the projector before the log that it reads, the lock last.
    projections: Projections,
    pub(crate) readers: Readers,
    /// Absent for a guest.
    checkpoints: Option<Checkpoints>,
    writer: Mutex<Writer>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    /// Absent for a guest.
    engine: Option<FolderLock>,
}

/// The one connection of this process that writes to the log's file.
pub(crate) struct Writer {
    connection: Connection,
    /// Numbers of instances that are committed.
    instances: HashMap<InstanceId, i64>,
    last_frames: LastFrames,
    time: StoreClock,
    cache: PageCache,
}

/// The store's time. It follows the wall clock, never goes back, and never stands still: if the
/// wall clock is set back by hours, it continues from its last value at its own pace. If it waited
/// for the wall clock to catch up, every wait would.
struct StoreClock {
    last: Timestamp,
    last_steady: Millis,
}

impl StoreClock {
    /// The time now, not before the latest that is stored.
    fn now(&mut self, clock: &dyn Clock, stored: Timestamp) -> Timestamp {
        let steady = clock.steady();
        let passed = Millis(steady.0.saturating_sub(self.last_steady.0));
        let now = self.last.plus(passed).max(clock.now()).max(stored);
        (self.last, self.last_steady) = (now, steady);
        now
    }
}

/// A write in progress. Takes the file's write lock when it begins, so that nothing it has read can
/// change before it commits.
pub(crate) struct Write<'a> {
    pub(crate) tx: Transaction<'a>,
    /// The store's time: never before that of an earlier frame.
    pub(crate) now: Timestamp,
    instances: RefCell<&'a mut HashMap<InstanceId, i64>>,
    pub(crate) last_frames: &'a LastFrames,
    /// Is there a webhook endpoint? Asked once, since no other process can add one before the commit.
    pub(crate) has_endpoints: OnceCell<bool>,
    /// The triggers of the fires so far: one that is busy has many in one commit.
    pub(crate) fired: RefCell<HashMap<TriggerNo, StoredTrigger>>,
}

impl SqliteStore {
    /// Opens the store in a folder, and makes both where there is none.
    pub fn open(folder: &Path, options: Options) -> Result<Self, StoreError> {
        connection::check_version()?;
        lock::create_folder(folder)?;
        let engine = match options.engine {
            true => Some(FolderLock::engine(folder, options.clock.now(), options.address.clone())?),
            false => None,
        };
        let path = folder.join(LOG_FILE);
        let mut connection = connection::open_log(&path, &options)?;
        migrate::update_layout(&mut connection, folder, engine.as_ref())?;
        let checkpoints = match options.engine {
            true => Some(Checkpoints::start(&path, &mut connection)?),
            false => None,
        };
        let readers = Readers::new(path);
        let projections = match options.engine {
            true => Projections::engine(folder, &readers, options.families)?,
            false => Projections::guest(folder, options.families),
        };
        let time = StoreClock { last: options.clock.now(), last_steady: options.clock.steady() };
        let cache = PageCache::new(Instant::now());
        let writer = Writer {
            connection,
            instances: HashMap::new(),
            last_frames: LastFrames::default(),
            time,
            cache,
        };
        let store = Self {
            projections,
            readers,
            checkpoints,
            writer: Mutex::new(writer),
            clock: options.clock,
            folder: folder.to_owned(),
            engine,
        };
        if store.engine.is_some() {
            store.write(instances::release_all)?;
        }
        Ok(store)
    }

    /// The process that runs the engine of this folder, if one does.
    pub fn engine_process(&self) -> Option<String> {
        lock::engine_of(&self.folder).map(|process| process.description)
    }

    /// The key of links and of tokens for workers, made with the folder.
    pub fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        self.readers.read(|db| db.query_row(queries::CLUSTER_KEY, [], |row| row.get(0)))
    }

    /// Copies the WAL back, empties it and lets go of the folder.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.shut_down()
    }

    /// Blocks until the projections show everything that was appended before this call.
    pub fn wait_projected(&self) -> Result<(), StoreError> {
        self.projections.wait(&self.readers, None)
    }

    /// How many frames the projections had to leave out since this store was opened, because they
    /// cannot be read.
    pub fn frames_skipped(&self) -> u64 {
        self.projections.skipped()
    }

    /// The store's time, for judging leases without a write.
    pub(crate) fn time(&self) -> Timestamp {
        let mut writer = self.writer.lock();
        let last = writer.time.last;
        writer.time.now(self.clock.as_ref(), last)
    }

    /// The time by this store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Refuses what only the process that runs the engine may do.
    pub(crate) fn expect_engine(&self, what: &str) -> Result<(), StoreError> {
        match self.engine {
            Some(_) => Ok(()),
            None => Err(StoreError::Refused(format!(
                "only the process that runs the engine can {what}"
            ))),
        }
    }

    pub(crate) fn projections(&self) -> &Projections {
        &self.projections
    }

    fn shut_down(&mut self) -> Result<(), StoreError> {
        self.projections.stop();
        self.readers.close();
        // It would be in the way of the last copy.
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.stop();
        }
        match self.engine {
            Some(_) => connection::checkpoint(&self.writer.lock().connection).map_err(normalise),
            None => Ok(()),
        }
    }

    /// Runs an action as one transaction; a failed one leaves nothing behind.
    pub(crate) fn write<T>(
        &self,
        action: impl FnOnce(&Write<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.try_write(action).map_err(normalise)
    }

    /// Counts written frames, and releases memory if there were few for a while.
    fn wrote(&self, frames: usize) {
        self.wrote_with(self.writer.lock(), frames);
    }

    fn wrote_with(&self, mut writer: MutexGuard<'_, Writer>, frames: usize) {
        let frames = u64::try_from(frames).unwrap_or(u64::MAX);
        if writer.cache.wrote(frames, Instant::now()) {
            cache::release(&writer.connection);
            writer.last_frames.release();
            drop(writer);
            self.readers.release();
            self.projections.release();
        }
    }

    fn try_write<T>(
        &self,
        action: impl FnOnce(&Write<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut writer = self.writer.lock();
        let result = transact(&mut writer, self.clock.as_ref(), action);
        if result.is_err() {
            // A number that was given in the transaction is gone with it.
            writer.instances.clear();
        }
        result
    }
}

fn transact<T>(
    writer: &mut Writer,
    clock: &dyn Clock,
    action: impl FnOnce(&Write<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let Writer { connection, instances, last_frames, time, .. } = writer;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let latest = connection::first(&tx, queries::TIME_LATEST, [], |row| row.get(0))?;
    let now = time.now(clock, latest.map_or(Timestamp(i64::MIN), Timestamp));
    let (instances, has_endpoints) = (RefCell::new(instances), OnceCell::new());
    let write = Write { tx, now, instances, last_frames, has_endpoints, fired: RefCell::default() };
    let value = action(&write)?;
    write.tx.commit()?;
    Ok(value)
}

impl Write<'_> {
    /// Must follow a partial rollback: numbers may have been given in the part that is gone.
    pub(crate) fn forget_instances(&self) {
        self.instances.borrow_mut().clear();
    }

    /// The number of an instance, new or not.
    pub(crate) fn instance(&self, instance: InstanceId) -> rusqlite::Result<i64> {
        if let Some(number) = self.instances.borrow().get(&instance) {
            return Ok(*number);
        }
        let id = instance.0.as_bytes().as_slice();
        let number =
            match connection::first(&self.tx, queries::INSTANCE_FIND, [id], |row| row.get(0))? {
                Some(number) => number,
                None => self.tx.prepare_cached(queries::INSTANCE_ADD)?.insert([id])?,
            };
        self.instances.borrow_mut().insert(instance, number);
        Ok(number)
    }
}

impl Store for SqliteStore {
    fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Renewal, StoreError> {
        let renewal = self.write(|write| instances::heartbeat(write, heartbeat))?;
        // The one call that comes every few seconds, however little there is to do.
        self.wrote(0);
        Ok(renewal)
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Appended>, StoreError> {
        let attempt = self.try_write(|write| append::append_all(write, batch));
        let (outcomes, head) = match attempt {
            Err(error) if connection::is_about_data(&error) => {
                self.write(|write| append::append_each(write, batch))?
            }
            other => other.map_err(normalise)?,
        };
        self.projections.wake(head);
        let mut writer = self.writer.lock();
        writer.last_frames.committed(batch, &outcomes);
        self.wrote_with(writer, batch.len());
        Ok(outcomes)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Claims, StoreError> {
        self.expect_engine("claim executions")?;
        let forgotten =
            self.readers.read(|connection| claim::find_forgotten(connection, request))?;
        let taken = self.write(|write| claim::take(write, request, &forgotten))?;
        claim::read(&self.readers, taken, request.instance)
    }

    fn load(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.readers.read(|connection| history::load(connection, execution))
    }

    fn load_after(
        &self,
        execution: ExecutionNo,
        after: u64,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        self.readers.read(|connection| history::load_after(connection, execution, after))
    }

    fn deliver(&self, mail: &[Mail]) -> Result<Vec<MailDelivery>, StoreError> {
        let deliveries = self.write(|write| mail::deliver(write, mail))?;
        self.wrote(mail.len());
        Ok(deliveries)
    }

    fn collect(&self, of: MailOf, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.readers.read(|connection| mail::collect(connection, of, limit))
    }

    fn hold(
        &self,
        execution: ExecutionNo,
        owner: InstanceId,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.write(|write| claim::hold(write, execution, owner, reason))
    }

    fn doubt(
        &self,
        owner: InstanceId,
        executions: &[ExecutionNo],
    ) -> Result<Vec<ExecutionNo>, StoreError> {
        self.write(|write| claim::doubt(write, owner, executions))
    }

    fn receiver(&self, key: &str) -> Result<Option<Receiver>, StoreError> {
        let Some(execution) = Query::find(self, Some(key))? else { return Ok(None) };
        Ok(Some(Receiver { execution, ended: !self.is_unfinished(execution)? }))
    }

    fn publish(&self, publication: &Publication) -> Result<Published, StoreError> {
        let published = self.write(|write| topics::publish(write, publication))?;
        self.wrote(1);
        Ok(published)
    }

    fn owners(
        &self,
        executions: &[ExecutionNo],
    ) -> Result<Vec<(ExecutionNo, InstanceId)>, StoreError> {
        self.readers.read(|connection| claim::owners(connection, executions))
    }

    fn signal_owners(&self, names: &[Arc<str>]) -> Result<Vec<InstanceId>, StoreError> {
        self.readers.read(|connection| topics::owners(connection, names))
    }

    fn subscribed(
        &self,
        between: &[Range<String>],
    ) -> Result<Vec<(ExecutionNo, Arc<str>)>, StoreError> {
        self.readers.read(|connection| topics::subscribed(connection, between))
    }

    fn reserve_births(&self, root: &ExecutionId, count: u64) -> Result<u64, StoreError> {
        self.write(|write| claim::reserve_births(write, root, count))
    }

    fn define(&self, definition: &NewDefinition) -> Result<Defined, StoreError> {
        self.write(|write| definitions::define(write, definition))?.ok_or_else(too_many_triggers)
    }

    fn definition(&self, which: &DefinitionRef) -> Result<Option<Definition>, StoreError> {
        self.readers.read(|connection| definitions::find(connection, which))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::warn!(%error, "the store was not closed cleanly; nothing is lost");
        }
    }
}
