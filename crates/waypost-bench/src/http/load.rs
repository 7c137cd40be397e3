//! The load: clients that each start an execution, wait for its end, and then start the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use super::client::{Client, ServerAddress};
use super::traffic::Traffic;

/// The requests to the server.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) target: ServerAddress,
    pub(super) traffic: Arc<Traffic>,
    pub(super) clients: usize,
    pub(super) executions: u64,
}

/// The results.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) seconds: Duration,
    /// How long each execution took that completed.
    pub(super) times: Vec<Duration>,
    pub(super) errors: u64,
    /// The first error that was noticed.
    pub(super) first_error: Option<String>,
}

impl Load {
    /// Runs all executions. The clients come in before the clock starts, and each makes one
    /// execution that does not count, so that no connection is new and no cache is cold.
    pub(super) async fn run(&self) -> Result<Tally> {
        let clients = (0..self.clients).map(|_| self.warm_client());
        let clients = futures_util::future::try_join_all(clients).await?;
        let next = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let begin = Instant::now();
        for client in clients {
            tasks.spawn(self.clone().repeat(client, Arc::clone(&next)));
        }
        let mut tally = Tally::default();
        while let Some(part) = tasks.join_next().await {
            tally.add(part?);
        }
        tally.seconds = begin.elapsed();
        // Clients that could not come back have left some undone.
        let done = u64::try_from(tally.times.len())? + tally.errors;
        tally.errors += self.executions.saturating_sub(done);
        Ok(tally)
    }

    async fn warm_client(&self) -> Result<Client> {
        let mut client = Client::connect(&self.target).await?;
        self.complete_one(&mut client).await?;
        Ok(client)
    }

    async fn repeat(self, mut client: Client, next: Arc<AtomicU64>) -> Tally {
        let mut tally = Tally::default();
        while next.fetch_add(1, Ordering::Relaxed) < self.executions {
            let begin = Instant::now();
            match self.complete_one(&mut client).await {
                Ok(()) => tally.times.push(begin.elapsed()),
                Err(error) => {
                    tally.fail(&error);
                    match Client::connect(&self.target).await {
                        Ok(fresh) => client = fresh,
                        Err(_) => break,
                    }
                }
            }
        }
        tally
    }

    /// One execution, from the request to the reply that it has completed.
    async fn complete_one(&self, client: &mut Client) -> Result<()> {
        let reply = client.ask(&self.traffic.next()).await?;
        if !self.traffic.is_completed(&reply) {
            bail!("the server answers {}: {}", reply.status, reply.text());
        }
        Ok(())
    }
}

impl Tally {
    fn fail(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }

    fn add(&mut self, part: Self) {
        self.times.extend(part.times);
        self.errors += part.errors;
        self.first_error = self.first_error.take().or(part.first_error);
    }
}
