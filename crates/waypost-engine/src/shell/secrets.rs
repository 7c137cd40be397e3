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
mod scrub;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use waypost_core::expr::Placeholder;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::{PAYLOAD_BYTES_MAX, SECRETS_MAX};
use waypost_ports::handler::{Handler, Task};
use waypost_ports::secret::{Grant, SecretRefused, Secrets};

pub(crate) use remote::{NotSealed, Recipient, WorkerSecrets};
pub(super) use scrub::Scrubber;

/// How long the secrets of a task may take to be read.
const READ_MAX: Duration = Duration::from_secs(10);

type Grants = BTreeMap<Arc<str>, Grant>;

/// Inserts a task's secrets into its config. Returns the scrubber for its outcome.
pub(super) async fn supply(
    mut task: Task,
    handler: &dyn Handler,
    secrets: Arc<dyn Secrets>,
) -> Result<(Task, Scrubber), Failure> {
    if task.placeholders.is_empty() {
        return Ok((task, Scrubber::default()));
    }
    if !handler.checks_secrets() {
        return Err(refused(format!("the handler of {:?} is given no secrets", task.handler)));
    }
    let names = named(&task.placeholders)?;
    let grants = read(secrets, names, Arc::clone(&task.workflow)).await?;
    let places = std::mem::take(&mut task.placeholders);
    task.config = fill(&task.config, &places, &grants)?;
    let scrubber = Scrubber::new(grants.values().map(|grant| grant.value.reveal()));
    task.secrets = grants.into_values().collect();
    Ok((task, scrubber))
}

/// The names of the secrets that belong in these places.
fn named(places: &[Placeholder]) -> Result<BTreeSet<Arc<str>>, Failure> {
    let names: BTreeSet<Arc<str>> = places.iter().map(|place| Arc::clone(&place.name)).collect();
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
) -> Result<Grants, Failure> {
    // Off the runtime: a file may be on a disk that is slow to answer.
    let reading = tokio::task::spawn_blocking(move || {
        let granted = |name: Arc<str>| Ok((Arc::clone(&name), secrets.resolve(&name, &workflow)?));
        names.into_iter().map(granted).collect::<Result<Grants, SecretRefused>>()
    });
    match tokio::time::timeout(READ_MAX, reading).await {
        Ok(Ok(grants)) => Ok(grants?),
        Ok(Err(_)) => Err(refused("reading the secrets panicked".to_owned())),
        Err(_) => {
            let message = format!("reading the secrets took longer than {} s", READ_MAX.as_secs());
            Err(Failure { retryable: true, ..refused(message) })
        }
    }
}

/// Inserts each value in its place, as part of a JSON string.
fn fill(config: &Json, places: &[Placeholder], grants: &Grants) -> Result<Json, Failure> {
    let mut text = String::with_capacity(config.bytes());
    let mut done = 0;
    for place in places {
        let before = config.text().get(done..place.at);
        let (Some(before), Some(grant)) = (before, grants.get(&place.name)) else {
            return Err(refused(format!("the place of secret `{}` is gone", place.name)));
        };
        text.push_str(before);
        let quoted = serde_json::Value::from(grant.value.reveal()).to_string();
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
