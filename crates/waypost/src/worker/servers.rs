//! The servers that a worker may talk to: any of them will do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use waypost_server::problem::Code;

use crate::client::{Client, Refused};

/// How long to wait after nobody has answered.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Servers {
    clients: Vec<Client>,
    current: AtomicUsize,
}

impl Servers {
    pub(crate) fn new(clients: Vec<Client>) -> Self {
        Self { clients, current: AtomicUsize::new(0) }
    }

    /// Asks the server that answered last, then each of the others, once.
    pub(crate) async fn ask<T, F: Future<Output = Result<T>>>(
        &self,
        asked: impl Fn(Client) -> F,
    ) -> Result<T> {
        let first = self.current.load(Ordering::Relaxed);
        let mut last = anyhow!("no server is named");
        for turn in 0..self.clients.len() {
            let at = (first + turn) % self.clients.len();
            let Some(client) = self.clients.get(at) else { continue };
            match asked(client.clone()).await {
                Ok(answer) => {
                    self.current.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) if !may_pass(&error) => return Err(error),
                Err(error) => last = error,
            }
        }
        self.current.store(first + 1, Ordering::Relaxed);
        Err(last)
    }

    pub(crate) async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Is it what was said that is refused, not whether it may be said?
pub(super) fn is_unfit(error: &anyhow::Error) -> bool {
    let codes = [Code::BadBody, Code::BodyTooLarge, Code::Unstorable].map(Code::name);
    error.downcast_ref::<Refused>().is_some_and(|refused| codes.contains(&refused.code()))
}

/// Could another server, or the same one later, answer otherwise?
pub(crate) fn may_pass(error: &anyhow::Error) -> bool {
    let passing = [
        Code::Draining,
        Code::StoreUnavailable,
        Code::Overloaded,
        Code::RateLimited,
        Code::BodyTimeout,
        Code::Internal,
    ];
    let passing = passing.map(Code::name);
    error.downcast_ref::<Refused>().is_none_or(|refused| passing.contains(&refused.code()))
}
