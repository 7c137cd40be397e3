//! Does the store answer, and has it let this instance renew its lease? Asked at most twice a second,
//! however many want to know: anybody may, without a key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::problem::{Code, Problem};
use crate::server::Server;

/// For how long an answer is good.
const FRESH: Duration = Duration::from_millis(500);

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub(crate) struct Probe {
    /// When the store was asked, and what came of it. Whoever comes meanwhile waits for the answer.
    last: Mutex<Option<(Instant, Result<(), Problem>)>>,
}

impl Probe {
    /// Nothing, or why this instance is not ready.
    pub(crate) async fn look(&self, server: &Arc<Server>) -> Result<(), Problem> {
        let mut last = self.last.lock().await;
        if let Some((at, said)) = &*last
            && at.elapsed() < FRESH
        {
            return said.clone();
        }
        let me = server.engine.instance();
        let asked = server.blocking_first(move |server| Ok(server.reader.home().is_alive(me)?));
        let alive = server.patiently(PATIENCE, asked).await;
        let unavailable =
            |why: &'static str| Problem::new(Code::StoreUnavailable, why).retry_after(5);
        let said = match alive {
            None => Err(unavailable("the store does not answer")),
            Some(Err(problem)) => Err(problem),
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => {
                Err(unavailable("the store does not take this instance's signs of life"))
            }
        };
        *last = Some((Instant::now(), said.clone()));
        said
    }
}
