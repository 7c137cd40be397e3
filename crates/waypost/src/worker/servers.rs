//! The servers that a worker may talk to: any of them will do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use waypost_server::problem::Code;

use crate::client::{Client, Refused};

/// How long to wait after no server has answered.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Servers {
    clients: Vec<Client>,
    current: AtomicUsize,
}

impl Servers {
    pub(crate) fn new(clients: Vec<Client>) -> Self {
        Self { clients, current: AtomicUsize::new(0) }
    }

    /// Asks the server that answered last, then each of the others, once, until one gives an answer
    /// that does not depend on the server. If none does, returns the most informative error.
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
                Err(error) if is_over(&error) || is_unfit(&error) => return Err(error),
                // A rejected key is more informative than an unreachable server.
                Err(error) if !last.is::<Refused>() || error.is::<Refused>() => last = error,
                Err(_) => {}
            }
        }
        self.current.store(first + 1, Ordering::Relaxed);
        Err(last)
    }

    pub(crate) async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Is the attempt over for this worker? It has ended, belongs to another worker, or to none: then
/// it has not started, and is offered again if its node is still open. No other error is a reason
/// to discard the result: an operator may fix a key or replace a wrong server.
pub(super) fn is_over(error: &anyhow::Error) -> bool {
    is_one_of(
        error,
        &[
            Code::StaleAttempt,
            Code::ForeignToken,
            Code::ExecutionEnded,
            // Its execution is held, and the attempt had not begun.
            Code::IllegalTransition,
            Code::UnknownExecution,
        ],
    )
}

/// Is a blob gone, or damaged?
pub(super) fn is_gone(error: &anyhow::Error) -> bool {
    is_one_of(error, &[Code::UnknownBlob, Code::BlobDamaged])
}

/// Is the content of the report rejected, and not the right to send it?
pub(super) fn is_unfit(error: &anyhow::Error) -> bool {
    is_one_of(error, &[Code::BadBody, Code::BodyTooLarge, Code::Unstorable])
}

fn is_one_of(error: &anyhow::Error, codes: &[Code]) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused.is_some_and(|refused| codes.iter().any(|code| code.name() == refused.code()))
}
