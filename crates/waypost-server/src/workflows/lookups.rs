//! Which version do submissions mean? Asked of the store anew for each of them, because another
//! instance may have deployed a newer one a moment ago, and answered by one thread, which looks once
//! for all who have asked the same meanwhile. The more submissions there are, the less each costs: a
//! look on a blocking thread each would have them all pay for two switches of threads.
//!
//! A look always begins after the question was asked, so nobody gets an answer that is older than
//! their question.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use waypost_core::id::DefinitionHash;
use waypost_ports::store::DefinitionRef;

use crate::problem::Problem;
use crate::reader::unknown_definition;
use crate::server::Home;

/// Questions that may wait, and be answered together.
const QUESTIONS_MAX: usize = 1_024;

/// Asks the store, away from the threads that serve.
pub(super) struct Lookups {
    /// There until this is dropped, which is how the thread learns of it.
    questions: Option<mpsc::Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

/// A version of a workflow, as the store knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// From 1.
    pub version: u32,
    /// Identity of the content.
    pub hash: DefinitionHash,
}

/// What a submission names: a workflow, maybe a version of it.
#[derive(PartialEq, Eq, Hash)]
struct Named {
    workflow: Arc<str>,
    version: Option<u32>,
}

struct Question {
    named: Named,
    answer: oneshot::Sender<Result<Found, Problem>>,
}

impl Lookups {
    /// Starts the thread.
    pub(super) fn start(home: Arc<dyn Home>) -> std::io::Result<Self> {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        let thread = std::thread::Builder::new()
            .name("waypost-lookups".to_owned())
            .spawn(move || answer(asked, &*home))?;
        Ok(Self { questions: Some(questions), thread: Some(thread) })
    }

    /// The named version, or else the latest one.
    pub(super) async fn find(
        &self,
        workflow: &str,
        version: Option<u32>,
    ) -> Result<Found, Problem> {
        let (answer, answered) = oneshot::channel();
        let question = Question { named: Named { workflow: workflow.into(), version }, answer };
        if let Some(questions) = &self.questions {
            // Nobody there to take it: then nobody answers it either.
            drop(questions.send(question).await);
        }
        answered.await.map_err(|error| Problem::internal(&error))?
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        self.questions = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that looks definitions up panicked");
        }
    }
}

fn answer(mut asked: mpsc::Receiver<Question>, home: &dyn Home) {
    let mut together = Vec::new();
    while asked.blocking_recv_many(&mut together, QUESTIONS_MAX) > 0 {
        let mut known = HashMap::new();
        for Question { named, answer } in together.drain(..) {
            let found = known.entry(named).or_insert_with_key(|named| look(home, named));
            // Whoever is gone does not want to know.
            drop(answer.send(found.clone()));
        }
    }
}

fn look(home: &dyn Home, named: &Named) -> Result<Found, Problem> {
    let workflow = &named.workflow;
    let found = match named.version {
        None => home.latest(workflow)?.map(|row| Found { version: row.version, hash: row.hash }),
        Some(version) => {
            let which = DefinitionRef::Version(Arc::clone(workflow), version);
            let known = home.definition(&which)?;
            known.map(|known| Found { version: known.version, hash: known.hash })
        }
    };
    found.ok_or_else(|| unknown_definition(workflow, named.version))
}
