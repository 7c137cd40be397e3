//! The secrets of remote workers: resolved and sealed when a task is handed over, and resolved again to
//! search its report for them.
//!
//! ```text
//!   offer: places ─▶ the instance that a worker polls: resolve, grants ─▶ sealed to the worker's key
//!   report ─▶ the instance that takes it: resolve, scrub ─▶ driver, inbox, relay
//! ```
//!
//! The instance that takes a report need not be the one that handed the task over. It reads which
//! secrets the node has from the definition, and their values as they are then: a value that was
//! rotated meanwhile is not found. `waypost worker` masks what it was given before it reports.
//! Links of callbacks need no value: `reported_links.rs` finds them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use waypost_core::command::Outcome;
use waypost_core::event::{Event, RunEvent};
use waypost_core::expr::Placeholder;
use waypost_core::failure::Failure;
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_ports::secret::{Grant, SecretRefused, Secrets};
use waypost_ports::store::{LogReader, Store, StoreError};

use super::reported_links::without_links;
use super::{NotRead, Scrubber, Withheld, fill, named, read, refused};
use crate::driver::TaskReport;
use crate::links::CallbackLinks;
use crate::sealed_secrets::{PublicKey, SealError, SealedFor};
use crate::shell::{Damage, Plans, RemoteTask};
use crate::tokens::may_have_secrets;

/// See the module.
pub(crate) struct WorkerSecrets {
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) withheld: Withheld,
    pub(crate) callbacks: CallbackLinks,
}

/// The worker that a task is handed to.
#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    pub(crate) public_key: PublicKey,
    /// The name of the API key that it polls with.
    pub(crate) key: Option<Arc<str>>,
}

/// Why a task is not handed over.
#[derive(Debug)]
pub(crate) enum NotSealed {
    /// It ends the attempt.
    Failed(Failure),
    /// Workers that poll with another key may have it.
    ForAnotherKey(SecretRefused),
    BadKey(SealError),
}

impl From<Failure> for NotSealed {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<NotRead> for NotSealed {
    fn from(error: NotRead) -> Self {
        Self::Failed(error.into())
    }
}

/// Why a report is not taken: its worker keeps and repeats it.
#[derive(Debug)]
pub(crate) enum NotScrubbed {
    Store(StoreError),
    /// The secrets of the task cannot be read now, by this instance.
    Unreadable(String),
}

impl From<StoreError> for NotScrubbed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The config of a task with secrets.
#[derive(Deserialize)]
struct Filled {
    input: Json,
    secrets: Json,
}

impl WorkerSecrets {
    /// Seals the secrets of a task to the key of its worker.
    pub(crate) async fn seal(
        &self,
        task: &mut RemoteTask,
        to: &Recipient,
    ) -> Result<(), NotSealed> {
        let places = std::mem::take(&mut task.places);
        let names = named(&places)?;
        let grants = read(Arc::clone(&self.secrets), names, Arc::clone(&task.workflow)).await?;
        let not_for = |grant: &Grant, key| SecretRefused::NotForWorker {
            name: Arc::clone(&grant.name),
            handler: Arc::clone(&task.handler),
            key,
        };
        if let Some(grant) = grants.values().find(|grant| !grant.workers.serve(&task.handler)) {
            return Err(Failure::from(not_for(grant, None)).into());
        }
        let key = to.key.as_deref();
        if let Some(grant) = grants.values().find(|grant| !grant.workers.poll_with(key)) {
            let key = to.key.clone().unwrap_or_default();
            return Err(NotSealed::ForAnotherKey(not_for(grant, Some(key))));
        }
        let granted = |place: &Placeholder| {
            grants.get(&place.name).map(|grant| grant.value.reveal().to_owned())
        };
        let config = fill(&task.input, &places, granted)?;
        // A parser's message could quote a secret.
        let Filled { input, secrets } = serde_json::from_str(config.text())
            .map_err(|_| refused("the config has no `input` and `secrets`".to_owned()))?;
        let delivery = SealedFor {
            execution: &task.execution,
            node: &task.node,
            attempt: task.attempt,
            token: task.token,
        };
        let sealed = to.public_key.seal(&delivery, secrets.text().as_bytes());
        task.secrets = Some(sealed.map_err(NotSealed::BadKey)?);
        task.input = input;
        Ok(())
    }

    /// The report without the links and secrets of its task. A report that cannot be searched is not taken, so
    /// that its worker repeats it: the work is done, and its result must not be lost because a file is
    /// away for a while, or on one instance. Where a secret was removed or its grant withdrawn, a repeat
    /// would not help, and the attempt fails instead.
    pub(crate) async fn scrub(&self, report: TaskReport) -> Result<TaskReport, NotScrubbed> {
        let has_content = match &report.outcome {
            Outcome::Completed(_)
            | Outcome::Failed(_)
            | Outcome::Lost(_)
            | Outcome::Checkpoint(_) => true,
            Outcome::Started | Outcome::Cancelled | Outcome::Blocked(_) => false,
        };
        if !has_content || !may_have_secrets(report.token) {
            return Ok(report);
        }
        let report = match &report.key {
            Some(key) => {
                let outcome = without_links(report.outcome, key, &self.callbacks);
                TaskReport { outcome, ..report }
            }
            None => report,
        };
        let (store, plans) = (Arc::clone(&self.store), Arc::clone(&self.plans));
        let (execution, node) = (report.execution, Arc::clone(&report.node));
        let of_node = move || secrets_of(&*store, &plans, execution, &node);
        let unknown = || StoreError::Unavailable("reading the definition panicked".to_owned());
        let found = tokio::task::spawn_blocking(of_node).await.map_err(|_| unknown())??;
        let Some((workflow, names)) = found.filter(|(_, names)| !names.is_empty()) else {
            return Ok(report);
        };
        match read(Arc::clone(&self.secrets), names, workflow).await {
            Ok(grants) => {
                let scrubber = Scrubber::new(grants.values().map(|grant| grant.value.reveal()));
                Ok(TaskReport { outcome: scrubber.outcome(report.outcome), ..report })
            }
            Err(error) if error.may_pass() => {
                Err(NotScrubbed::Unreadable(Failure::from(error).message))
            }
            Err(error) => {
                let failure = Failure::from(error);
                let message = format!(
                    "the result of a remote worker cannot be searched for the secrets of its task, \
                     so it is not stored: {}",
                    failure.message
                );
                let failure = Failure { message, unsent: false, ..failure };
                Ok(TaskReport { outcome: Outcome::Failed(failure), ..report })
            }
        }
    }
}

type NodeSecrets = Option<(Arc<str>, BTreeSet<Arc<str>>)>;

/// The workflow of an execution, and the secrets that one of its nodes gives to remote workers.
fn secrets_of(
    store: &dyn Store,
    plans: &Plans,
    execution: ExecutionNo,
    node: &str,
) -> Result<NodeSecrets, StoreError> {
    // What cannot be read here cannot be read by the owner either, and the report goes nowhere.
    let unreadable = |reason: String| StoreError::Unavailable(reason);
    let Some(first) = LogReader::whole(store, execution).next() else { return Ok(None) };
    let body = first?.body.map_err(unreadable)?;
    let events = decode(&body).map_err(|error| unreadable(error.to_string()))?;
    let Some(Event::Run(RunEvent::Created(created))) = events.first() else { return Ok(None) };
    let plan = plans.get(created.definition, store).map_err(|damage| match damage {
        Damage::Store(error) => error,
        damage @ (Damage::Log(_) | Damage::Definition(_)) => unreadable(damage.to_string()),
    })?;
    Ok(Some((Arc::clone(&plan.workflow), names_of(&plan, node))))
}

fn names_of(plan: &Plan, node: &str) -> BTreeSet<Arc<str>> {
    let mut names = BTreeSet::new();
    if let Some(at) = plan.locate(node) {
        let note = &mut |hole: &waypost_core::expr::Expression| {
            let secret = hole.secret().filter(|_| hole.references().mentions("secrets"));
            names.extend(secret.map(Arc::from));
        };
        plan.node(at).behaviour.visit(note);
    }
    names
}
