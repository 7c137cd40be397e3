//! The services around an engine besides its store: tasks for remote workers, notifications between
//! instances, copies, and forwarding of reports. With a folder all of it is in this process; in a
//! cluster it is the database, with Redis above it if there is one.
//!
//! ```text
//!   embedded: MemoryTasks        Alone             NoMirror
//!   cluster:  PostgresStore      LISTEN/NOTIFY     NoMirror       the inbox
//!   + Redis:  RedisTasks ──┐     RedisNudges ──┐   RedisMirror    RedisRelay ──┐
//!             PostgresStore◀     LISTEN/NOTIFY ◀                  the inbox    ◀
//! ```

use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_engine::config::Config;
use waypost_ports::blobs::Blobs;
use waypost_ports::clock::SystemClock;
use waypost_ports::memory::MemoryTasks;
use waypost_ports::mirror::{Mirror, NoMirror};
use waypost_ports::nudge::{Alone, Nudges};
use waypost_ports::relay::Relay;
use waypost_ports::tasks::Tasks;
use waypost_redis::{Redis, RedisMirror, RedisNudges, RedisRelay, RedisTasks};

use crate::backend::{Backend, open_blobs};
use crate::settings::Settings;

/// See the module.
pub struct ClusterServices {
    /// Which process this is.
    pub instance: InstanceId,
    /// Where tasks for remote workers wait.
    pub tasks: Arc<dyn Tasks>,
    /// How instances nudge each other.
    pub nudges: Arc<dyn Nudges>,
    /// Where copies go.
    pub mirror: Arc<dyn Mirror>,
    /// How reports get straight to their owners, where there is such a way.
    pub relay: Option<Arc<dyn Relay>>,
    /// Where payloads go that are too large for the log.
    pub blobs: Arc<dyn Blobs>,
    /// Redis, where there is one.
    pub redis: Option<Redis>,
    /// Is the backend a database, with room for several who write at once?
    pub shared: bool,
}

impl ClusterServices {
    /// Those of a process that is alone. Its key is lost with it, and so are links and tokens for workers;
    /// see [`Self::with_key`].
    pub fn alone(blobs: Arc<dyn Blobs>) -> Self {
        Self {
            instance: InstanceId(Uuid::now_v7()),
            tasks: Arc::new(MemoryTasks::new(Arc::new(SystemClock), new_key())),
            nudges: Arc::new(Alone),
            mirror: Arc::new(NoMirror),
            relay: None,
            blobs,
            redis: None,
            shared: false,
        }
    }

    /// The services of a process that is alone, with the key of its store.
    #[must_use]
    pub fn with_key(self, key: [u8; 32]) -> Self {
        Self { tasks: Arc::new(MemoryTasks::new(Arc::new(SystemClock), key)), ..self }
    }

    /// The services of a backend, by the settings.
    pub fn of(backend: &Arc<dyn Backend>, settings: &Settings) -> Result<Self> {
        let alone = Self::alone(open_blobs(backend, settings)?).with_key(backend.cluster_key()?);
        let Some(tasks) = Arc::clone(backend).tasks() else { return Ok(alone) };
        let nudges = backend.nudges().unwrap_or_else(|| Arc::new(Alone));
        let within = Self { tasks, nudges, shared: true, ..alone };
        let Some(settings) = &settings.cluster.redis else { return Ok(within) };
        let key = within.tasks.cluster_key()?;
        let authority = settings.authority.as_ref().map(|path| {
            fs::read(path)
                .with_context(|| format!("redis_authority {} cannot be read", path.display()))
        });
        let config = waypost_redis::RedisConfig {
            prefix: settings.prefix.clone(),
            authority: authority.transpose()?,
            ..waypost_redis::RedisConfig::new(settings.url.0.clone())
        };
        let redis = Redis::connect(&config, &key)
            .with_context(|| format!("Redis at {} cannot be used", settings.url))?;
        let mirror: Arc<dyn Mirror> = Arc::new(RedisMirror::new(&redis));
        backend.use_mirror(Arc::clone(&mirror));
        let Self { instance, tasks, nudges, .. } = within;
        Ok(Self {
            tasks: Arc::new(RedisTasks::new(&redis, tasks, instance)),
            nudges: Arc::new(RedisNudges::new(&redis, nudges, instance)),
            mirror,
            relay: Some(Arc::new(RedisRelay::new(&redis, instance))),
            redis: Some(redis),
            ..within
        })
    }

    /// An engine's config with what these services require.
    pub fn config(&self, mut config: Config) -> Config {
        config.append_lanes = if self.shared { 2 } else { 0 };
        config.among_others = self.shared;
        config.contexts = self.redis.is_some();
        config
    }
}

fn new_key() -> [u8; 32] {
    let mut key = [0; 32];
    let random = [Uuid::new_v4(), Uuid::new_v4()];
    let bytes = random.iter().flat_map(|id| id.as_bytes());
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    key
}
