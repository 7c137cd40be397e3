//! Connections, lent to one caller at a time and reused while they are usable.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::connection::{Connection, Home, Role};
use crate::error::{DbError, Result};

pub(crate) struct Pool {
    home: Arc<Home>,
    role: Role,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    wait: Duration,
}

impl Pool {
    /// At most `size` connections, opened on demand; a caller that finds none free waits for
    /// `wait`.
    pub(crate) fn new(home: &Arc<Home>, role: Role, size: usize, wait: Duration) -> Self {
        Self {
            home: Arc::clone(home),
            role,
            idle: Mutex::default(),
            permits: Semaphore::new(size.max(1)),
            wait,
        }
    }

    /// Lends a connection to an action. Afterwards it is reused only if it is usable: not if it
    /// failed, is inside of a transaction, or its action was dropped half-way.
    pub(crate) async fn with<T>(
        &self,
        action: impl AsyncFnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let permit = timeout(self.wait, self.permits.acquire()).await;
        let _permit = permit.ok().and_then(Result::ok).ok_or_else(|| {
            let wait = self.wait.as_millis();
            DbError::Unavailable(format!("no connection was free within {wait} ms"))
        })?;
        let mut connection = self.take().await?;
        connection.tell_time().await?;
        let result = action(&mut connection).await;
        if connection.is_usable() {
            self.idle.lock().push(connection);
        }
        result
    }

    /// Closes the idle ones.
    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }

    async fn take(&self) -> Result<Connection> {
        loop {
            let Some(connection) = self.idle.lock().pop() else { break };
            // The server may have closed it meanwhile.
            if connection.is_usable() {
                return Ok(connection);
            }
        }
        Connection::open(&self.home, self.role).await
    }
}
