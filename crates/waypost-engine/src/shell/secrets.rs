//! Secrets: inserted into a task's config just before its handler is called, and removed from its
//! outcome.
//!
//! ```text
//!   task with places ─▶ supply ─▶ task with values ─▶ handler ─▶ outcome ─▶ Scrubber ─▶ report
//!                       grants
//! ```
//!
//! A value exists only between the two arrows at the ends. Neither the driver, nor the log, nor
//! their readers ever have one. `remote.rs` does the same for tasks of remote workers.

mod forms;
mod layout;
mod remote;
mod reported_links;
mod scrub;
mod withheld;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use waypost_core::expr::Placeholder;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::{PAYLOAD_BYTES_MAX, SECRETS_MAX};
use waypost_ports::handler::{Handler, Task};
use waypost_ports::secret::{Grant, SecretRefused, Secrets};

pub(crate) use remote::{NotScrubbed, NotSealed, Recipient, WorkerSecrets};
pub(super) use scrub::Scrubber;
pub(crate) use withheld::{PassedOver, Withheld};

use crate::links::CallbackLinks;

/// How long the secrets of a task may take to be read.
const READ_MAX: Duration = Duration::from_secs(10);

type Grants = BTreeMap<Arc<str>, Grant>;

/// Why the secrets of a task are not there.
#[derive(Debug)]
enum NotRead {
    Refused(SecretRefused),
    Slow,
    Panicked,
}

impl NotRead {
    /// May the same secrets be read later, or by another instance? Otherwise they were removed, or their
    /// grant was withdrawn.
    fn may_pass(&self) -> bool {
        match self {
            Self::Refused(refused) => matches!(refused, SecretRefused::Unusable { .. }),
            Self::Slow | Self::Panicked => true,
        }
    }
}

impl From<NotRead> for Failure {
    fn from(error: NotRead) -> Self {
        match error {
            NotRead::Refused(refused) => refused.into(),
            NotRead::Slow => {
                let message =
                    format!("reading the secrets took longer than {} s", READ_MAX.as_secs());
                Self { retryable: true, ..refused(message) }
            }
            NotRead::Panicked => refused("reading the secrets panicked".to_owned()),
        }
    }
}

/// Where the values come from that a task's config has places for.
#[derive(Clone)]
pub struct Supplies {
    pub(crate) secrets: Arc<dyn Secrets>,
    /// Absent in a remote worker, which is given tasks with their links.
    pub(crate) callbacks: Option<CallbackLinks>,
}

impl From<Arc<dyn Secrets>> for Supplies {
    fn from(secrets: Arc<dyn Secrets>) -> Self {
        Self { secrets, callbacks: None }
    }
}

impl<S: Secrets + 'static> From<Arc<S>> for Supplies {
    fn from(secrets: Arc<S>) -> Self {
        Self { secrets, callbacks: None }
    }
}

/// Inserts a task's secrets into its config. Returns the scrubber for its outcome.
pub(super) async fn supply(
    mut task: Task,
    handler: &dyn Handler,
    Supplies { secrets, callbacks }: Supplies,
) -> Result<(Task, Scrubber), Failure> {
    if task.placeholders.is_empty() {
        return Ok((task, Scrubber::default()));
    }
    let links = callback_values(&task, callbacks.as_ref())?;
    let has_secrets = task.placeholders.iter().any(|place| !place.is_callback());
    if has_secrets && !handler.checks_secrets() {
        return Err(refused(format!("the handler of {:?} is given no secrets", task.handler)));
    }
    let names = named(&task.placeholders)?;
    let grants = read(secrets, names, Arc::clone(&task.workflow)).await?;
    let places = std::mem::take(&mut task.placeholders);
    task.config = fill(&task.config, &places, |place| {
        let granted = || grants.get(&place.name).map(|grant| grant.value.reveal().to_owned());
        links.get(&place.name).cloned().or_else(granted)
    })?;
    let granted = grants.values().map(|grant| grant.value.reveal());
    let scrubber = Scrubber::new(granted.chain(links.values().map(String::as_str)));
    task.secrets = grants.into_values().collect();
    Ok((task, scrubber))
}

/// The names of the secrets that belong in these places.
fn named(places: &[Placeholder]) -> Result<BTreeSet<Arc<str>>, Failure> {
    let secrets = places.iter().filter(|place| !place.is_callback());
    let names: BTreeSet<Arc<str>> = secrets.map(|place| Arc::clone(&place.name)).collect();
    if names.len() > SECRETS_MAX {
        let message = format!("a node may use {SECRETS_MAX} secrets, not {}", names.len());
        return Err(refused(message));
    }
    Ok(names)
}

async fn read(
    secrets: Arc<dyn Secrets>,
    names: BTreeSet<Arc<str>>,
    workflow: Arc<str>,
) -> Result<Grants, NotRead> {
    // Off the runtime: a file may be on a disk that is slow to answer.
    let reading = tokio::task::spawn_blocking(move || {
        let granted = |name: Arc<str>| Ok((Arc::clone(&name), secrets.resolve(&name, &workflow)?));
        names.into_iter().map(granted).collect::<Result<Grants, SecretRefused>>()
    });
    match tokio::time::timeout(READ_MAX, reading).await {
        Ok(Ok(grants)) => grants.map_err(NotRead::Refused),
        Ok(Err(_)) => Err(NotRead::Panicked),
        Err(_) => Err(NotRead::Slow),
    }
}

/// The links of the task's callback that its config names.
fn callback_values(
    task: &Task,
    callbacks: Option<&CallbackLinks>,
) -> Result<BTreeMap<Arc<str>, String>, Failure> {
    let places = task.placeholders.iter().filter(|place| place.is_callback());
    let value = |place: &Placeholder| {
        let (execution, operation) = (&task.execution, task.operation.as_ref());
        let value = callbacks.and_then(|links| links.value(&place.name, execution, operation));
        let unknown = || {
            let message = format!("`{}` is not available here", place.name);
            Err(Failure::permanent(kind::INVALID_CONFIG, message))
        };
        Ok((Arc::clone(&place.name), value.unwrap_or_else(unknown)?))
    };
    places.map(value).collect()
}

/// Inserts each value in its place, as part of a JSON string.
pub(super) fn fill(
    config: &Json,
    places: &[Placeholder],
    value: impl Fn(&Placeholder) -> Option<String>,
) -> Result<Json, Failure> {
    let mut text = String::with_capacity(config.bytes());
    let mut done = 0;
    for place in places {
        let before = config.text().get(done..place.at);
        let (Some(before), Some(value)) = (before, value(place)) else {
            return Err(refused(format!("the place of secret `{}` is gone", place.name)));
        };
        text.push_str(before);
        let quoted = serde_json::Value::from(value).to_string();
        text.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
        done = place.at;
        if text.len() > PAYLOAD_BYTES_MAX {
            let message = format!(
                "the config is larger than {PAYLOAD_BYTES_MAX} bytes with its secrets in place"
            );
            return Err(Failure { unsent: true, ..Failure::permanent(kind::TOO_LARGE, message) });
        }
    }
    text.push_str(config.text().get(done..).unwrap_or_default());
    // A parser's message could quote the secret.
    Json::parse_own(&text)
        .map_err(|_| refused("the config is not JSON with its secrets".to_owned()))
}

fn refused(message: String) -> Failure {
    Failure { unsent: true, ..Failure::permanent(kind::SECRET, message) }
}

#[cfg(test)]
mod tests;
