//! Waypost as a library: an engine over a data folder, inside of another program.
//!
//! ```no_run
//! use waypost::embed::{Waypost, json};
//!
//! # async fn example() -> Result<(), waypost::embed::EmbedError> {
//! let engine = Waypost::open("data")?;
//! let definition = "
//! name: greet
//! nodes:
//!   - { id: answer, type: wait-for-events, config: { name: answer } }
//!   - { id: done, type: output, needs: [answer], config: { value: '${{ nodes.answer.output }}' } }
//! ";
//! let id = engine.start(definition, json!({ "name": "Ada" })).await?;
//! engine.signal(&id, "answer", json!({ "text": "Hello" })).await?;
//! let end = engine.ended(&id).await?;
//! println!("{} {}", end.status, end.output);
//! # Ok(())
//! # }
//! ```
//!
//! Executions are named by their ids, which are the ones that the command line and the HTTP API show.
//! An id stays valid after a restart.
//!
//! A request (signal, pause, resume, cancel, retry) is durable when its call returns. An execution that only
//! waits is not in memory: the engine loads it to handle the request. If the request comes to nothing
//! then, the log says so, and the call has returned without an error.
//!
//! Labels, idempotency keys and clusters need the layers below: [`Waypost::engine`], [`wiring`] and the
//! crates that they name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use waypost_core::command::Refusal;
use waypost_core::event::Origin;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::limits::OUTPUT_BYTES_MAX;
use waypost_engine::{ControlRequest, Engine, EngineError, StartRequest};
use waypost_ports::query::Query as _;
use waypost_ports::secret::{NoSecrets, Secrets};
use waypost_ports::store::{Store, StoreError};
use waypost_sqlite::SqliteStore;

pub use serde_json::{Value, json};
pub use waypost_core::command::Request;
pub use waypost_core::failure::Failure;
pub use waypost_core::status::Status;
pub use waypost_engine::config::Config as EngineConfig;
pub use waypost_nodes::Settings as NodeSettings;

use crate::cluster_services::ClusterServices;
use crate::wiring;

/// How an embedded engine runs.
#[derive(Clone)]
pub struct EmbedOptions {
    /// What definitions may do: shell commands, which are off by default, and outbound calls.
    pub nodes: NodeSettings,
    /// Intervals and limits.
    pub engine: EngineConfig,
    /// Where the secrets of tasks come from. By default there are none.
    pub secrets: Arc<dyn Secrets>,
    /// Recorded in the log with every start and every request.
    pub actor: Option<Arc<str>>,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        Self {
            nodes: NodeSettings::default(),
            engine: EngineConfig::default(),
            secrets: Arc::new(NoSecrets),
            actor: None,
        }
    }
}

/// Why an embedded engine did not fulfil a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The folder cannot be opened. One process at a time can.
    #[error("{0:#}")]
    Open(anyhow::Error),
    /// The definition is not valid: all faults, each with its position and a hint.
    #[error("the definition is not valid:\n{0}")]
    Definition(String),
    /// The input does not fit the definition's schema: one line for each fault.
    #[error("the input does not fit the definition:\n{0}")]
    Input(String),
    /// An input or a signal's body is not JSON, or is too large.
    #[error("{0}")]
    Payload(String),
    /// The folder has no execution with this id.
    #[error("there is no execution {0}")]
    Unknown(String),
    /// The engine was stopped first. Executions continue when the folder is opened again.
    #[error("the engine was stopped")]
    Stopped,
    /// The engine refused: for example a signal to an execution that has ended.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How an execution ended.
#[derive(Clone, PartialEq, Debug)]
pub struct ExecutionEnd {
    /// One of the final statuses.
    pub status: Status,
    /// `null` where there is no output.
    pub output: Value,
    /// Set where it failed.
    pub failure: Option<Failure>,
}

/// An engine over a data folder. Dropping it stops it at once; no durable work is lost.
pub struct Waypost {
    engine: Engine,
    store: Arc<SqliteStore>,
    actor: Option<Arc<str>>,
}

impl Waypost {
    /// Opens a folder, creates it where there is none, and resumes its unfinished executions. Must be
    /// called inside a Tokio runtime.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, EmbedError> {
        Self::open_with(folder, EmbedOptions::default())
    }

    /// Opens a folder with options other than the defaults.
    pub fn open_with(folder: impl AsRef<Path>, options: EmbedOptions) -> Result<Self, EmbedError> {
        let EmbedOptions { nodes, engine, secrets, actor } = options;
        let store = wiring::open_engine_store(folder.as_ref()).map_err(EmbedError::Open)?;
        let store = Arc::new(store);
        let around = ClusterServices::alone(crate::backend::folder_blobs(folder.as_ref()))
            .with_key(store.cluster_key()?);
        let engine = wiring::open_engine_in(
            &around,
            Arc::clone(&store) as Arc<dyn Store>,
            &nodes,
            secrets,
            engine,
            None,
        )
        .map_err(EmbedError::Open)?;
        Ok(Self { engine, store, actor })
    }

    /// Starts an execution of a definition, YAML or JSON, and returns its id when the start is durable.
    /// The definition is stored; the same text is stored once.
    pub async fn start(
        &self,
        definition: &str,
        input: impl Serialize,
    ) -> Result<String, EmbedError> {
        let compiled = wiring::compile(definition.as_bytes()).map_err(|faults| {
            EmbedError::Definition(faults.render(definition.as_bytes(), "definition", false))
        })?;
        let input = payload(input)?;
        wiring::check_input(&compiled.plan, &input)
            .map_err(|faults| EmbedError::Input(faults.join("\n")))?;
        let (compiled, version) = self
            .with_store(move |store| {
                let version = wiring::define(store, &compiled)?.version;
                Ok((compiled, version))
            })
            .await?;
        let request = StartRequest {
            actor: self.actor.clone(),
            ..StartRequest::new(Arc::new(compiled.plan), version, input)
        };
        let started = self.engine.start(request).await?;
        // The engine leaves the id out for a repeated idempotency key alone, and there is none here.
        let new = started.new.ok_or(EmbedError::Stopped)?;
        Ok(new.key.as_str().to_owned())
    }

    /// Sends a signal, and returns when it is durable. A signal that comes before its wait is kept.
    pub async fn signal(
        &self,
        id: &str,
        name: &str,
        body: impl Serialize,
    ) -> Result<(), EmbedError> {
        let body = payload(body)?;
        self.request(id, Request::Signal { name: name.into(), body }, None).await
    }

    /// Starts no more nodes of an execution; attempts that run end first. Reasons are recorded in the
    /// log.
    pub async fn pause(&self, id: &str, reason: Option<&str>) -> Result<(), EmbedError> {
        let reason = reason.map(str::to_owned);
        self.request(id, Request::Pause { now: false, reason }, None).await
    }

    /// Resumes an execution that was paused or quarantined.
    pub async fn resume(&self, id: &str, reason: Option<&str>) -> Result<(), EmbedError> {
        self.request(id, Request::Resume { reason: reason.map(str::to_owned) }, None).await
    }

    /// Cancels an execution and the attempts that run.
    pub async fn cancel(&self, id: &str, reason: Option<&str>) -> Result<(), EmbedError> {
        self.request(id, Request::Cancel { reason: reason.map(str::to_owned) }, None).await
    }

    /// Runs the failed and cancelled nodes of an ended execution again, and those after them.
    pub async fn retry(&self, id: &str, reason: Option<&str>) -> Result<(), EmbedError> {
        self.request(id, Request::Retry { reason: reason.map(str::to_owned), budget: None }, None)
            .await
    }

    /// Makes any request, under a message id of the caller's choice: sent twice under one id, it is done
    /// once.
    pub async fn request(
        &self,
        id: &str,
        request: Request,
        message_id: Option<&str>,
    ) -> Result<(), EmbedError> {
        let execution = self.find(id).await?;
        let origin = Origin { message: message_id.map(Into::into), actor: self.actor.clone() };
        match self.engine.request(ControlRequest { execution, request, origin }).await {
            Ok(_) | Err(EngineError::Refused(Refusal::Duplicate)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until an execution has ended, whichever process started it.
    pub async fn ended(&self, id: &str) -> Result<ExecutionEnd, EmbedError> {
        let execution = self.find(id).await?;
        let end = self.engine.ended(execution).await.ok_or(EmbedError::Stopped)?;
        let output = end.output.as_ref().map_or(Ok(Value::Null), Json::to_value);
        let output = output.map_err(|error| EmbedError::Payload(error.to_string()))?;
        Ok(ExecutionEnd { status: end.status, output, failure: end.failure })
    }

    /// Stops: nothing new starts, and running attempts get up to `grace` to end. Unfinished executions
    /// resume when the folder is opened again.
    pub async fn stop(&self, grace: Duration) {
        self.engine.stop(grace).await;
    }

    /// The engine below.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn find(&self, id: &str) -> Result<ExecutionNo, EmbedError> {
        let wanted = id.to_owned();
        let found = self.with_store(move |store| store.find(Some(&wanted))).await?;
        found.ok_or_else(|| EmbedError::Unknown(id.to_owned()))
    }

    /// Calls the store, which blocks, on a thread where that is allowed.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SqliteStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, EmbedError> {
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        // Not done where the runtime shuts down.
        Ok(done.map_err(|_| EmbedError::Stopped)??)
    }
}

/// A value as the log keeps it.
fn payload(value: impl Serialize) -> Result<Json, EmbedError> {
    let text = serde_json::to_string(&value);
    let text = text.map_err(|error| EmbedError::Payload(format!("not JSON: {error}")))?;
    if text.len() > OUTPUT_BYTES_MAX {
        let what = format!("{} bytes of JSON; the limit is {OUTPUT_BYTES_MAX}", text.len());
        return Err(EmbedError::Payload(what));
    }
    Json::parse(&text).map_err(|error| EmbedError::Payload(error.to_string()))
}
