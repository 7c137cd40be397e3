//! Does the store answer and accept writes, is this instance's lease renewed, and does the engine
//! make progress? The store is asked at most twice a second, however many probes come: they need no
//! key.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use waypost_core::time::Millis;

use crate::problem::{Code, Problem, store_fails};
use crate::server::Server;

/// For how long an answer is good.
const FRESH: Duration = Duration::from_millis(500);

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the engine's thread may be busy with one step.
const STEP_MAX: Millis = Millis::from_secs(5);

/// Nothing, or why this instance is not ready.
type Readiness = Result<(), Problem>;

/// See the module.
#[derive(Default)]
pub(crate) struct Probe {
    /// When the store was last asked, and its answer. Concurrent callers wait for that answer.
    last: Arc<Mutex<Option<(Instant, Readiness)>>>,
}

impl Probe {
    pub(crate) async fn look(&self, server: &Arc<Server>) -> Readiness {
        if let Some(trouble) = server.engine.store_trouble() {
            return Err(store_fails(&trouble));
        }
        let since_step = server.engine.since_step();
        if since_step > STEP_MAX {
            let detail = format!("the engine has been busy with one step for {since_step}");
            return Err(Problem::new(Code::Overloaded, detail).retry_after(5));
        }
        self.unless_fresh(ask(Arc::clone(server))).await
    }

    /// The last answer if it is fresh, or a new one. In a Tokio task of its own: a caller that
    /// hangs up leaves the question to the store pending, and the next caller must not ask again.
    async fn unless_fresh(
        &self,
        ask: impl Future<Output = Readiness> + Send + 'static,
    ) -> Readiness {
        let last = Arc::clone(&self.last);
        let answer = tokio::spawn(async move {
            let mut last = last.lock().await;
            if let Some((at, answer)) = &*last
                && at.elapsed() < FRESH
            {
                return answer.clone();
            }
            let answer = ask.await;
            *last = Some((Instant::now(), answer.clone()));
            answer
        });
        answer.await.map_err(|error| Problem::internal(&error))?
    }
}

async fn ask(server: Arc<Server>) -> Readiness {
    let me = server.engine.instance();
    let asked = server.blocking_first(move |server| Ok(server.reader.backend().is_alive(me)?));
    let unavailable = |why: &'static str| Problem::new(Code::StoreUnavailable, why).retry_after(5);
    match server.wait_for(PATIENCE, asked).await {
        None => Err(unavailable("the store does not answer")),
        Some(Err(problem)) => Err(problem),
        Some(Ok(true)) => Ok(()),
        Some(Ok(false)) => {
            Err(unavailable("the store does not take this instance's signs of life"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn probe_callers_that_disconnect_leave_one_pending_question() {
        let (probe, asked) = (Probe::default(), Arc::new(AtomicUsize::new(0)));
        let answered = Arc::new(Semaphore::new(0));
        let look = || {
            let (asked, answered) = (Arc::clone(&asked), Arc::clone(&answered));
            probe.unless_fresh(async move {
                asked.fetch_add(1, Ordering::Relaxed);
                answered.acquire().await.map(drop).map_err(|error| Problem::internal(&error))
            })
        };
        for _ in 0..10 {
            let hung_up = tokio::time::timeout(Duration::from_millis(1), look()).await;
            assert!(hung_up.is_err());
        }
        answered.add_permits(1);
        assert!(look().await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH).await;
        assert!(look().await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
