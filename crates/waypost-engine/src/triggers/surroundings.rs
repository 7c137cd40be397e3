//! What triggers need of the process that they fire in: the engine with its runtime, or the simulator, whose
//! calls take virtual time. An implementation decides when a call is made and when its caller goes on.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use waypost_core::id::InstanceId;
use waypost_core::time::Timestamp;
use waypost_ports::store::StoreError;

use crate::driver::StartRequest;
use crate::engine::{Engine, EngineError, Started};
use crate::metrics::EngineMetrics;

/// See the module.
pub trait Surroundings: Send + Sync {
    /// The store's time, at least.
    fn now(&self) -> Timestamp;

    /// Any number, for waits that should differ among instances.
    fn jitter(&self) -> u32;

    /// Makes a call that blocks, beside the task that asks for it. The call tells that task its result; where it
    /// is dropped instead, the result is that the store could not be reached.
    fn run(&self, call: Box<dyn FnOnce() + Send>);

    /// Starts an execution. Returns when it is durable.
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Started, EngineError>>;

    /// Announces mail to these owners, or that some executions that have none can be claimed.
    fn announce_mail(&self, owners: Vec<Option<InstanceId>>);

    /// Where fires are counted.
    fn metrics(&self) -> Arc<EngineMetrics>;
}

impl Surroundings for Engine {
    fn now(&self) -> Timestamp {
        self.time().least
    }

    fn jitter(&self) -> u32 {
        let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    fn run(&self, call: Box<dyn FnOnce() + Send>) {
        drop(tokio::task::spawn_blocking(call));
    }

    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Started, EngineError>> {
        Self::start(self, request).boxed()
    }

    fn announce_mail(&self, owners: Vec<Option<InstanceId>>) {
        Self::announce_mail(self, owners.into_iter());
    }

    fn metrics(&self) -> Arc<EngineMetrics> {
        Self::metrics(self)
    }
}

/// Makes a call that blocks, and returns its result.
pub(super) async fn blocking<T: Send + 'static>(
    engine: &dyn Surroundings,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let (tell, told) = tokio::sync::oneshot::channel();
    engine.run(Box::new(move || drop(tell.send(call()))));
    told.await.map_err(|_| StoreError::Unavailable("the call was interrupted".to_owned()))
}
