//! Published events, to the executions that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::event_wait::{WantedEvents, comparable, names_of};
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_engine::Receipt;
use waypost_ports::store::{Mail, MailBody, MailDelivery};

use super::{Found, Reader};
use crate::cloud_events::CloudEvent;
use crate::problem::Problem;

/// Mail that one call delivers, and bytes of it.
const MAIL_MAX: usize = 256;
const MAIL_BYTES_MAX: usize = 8 << 20;

/// How the ids of messages begin that are events.
const EVENT_MESSAGE: &str = "event-";

/// Who got events.
#[derive(Debug, Default)]
pub(crate) struct WokenByEvents {
    /// How often an event went to an execution.
    pub(crate) woken: u64,
    /// How often one had it already.
    pub(crate) duplicates: u64,
    pub(crate) owners: BTreeSet<Option<InstanceId>>,
}

impl Reader {
    /// Sends events to those who wait for them now. Durable when it returns.
    pub(crate) fn wake(
        &self,
        events: &[Arc<CloudEvent>],
        actor: Option<&Arc<str>>,
    ) -> Result<WokenByEvents, Problem> {
        let mut woken = WokenByEvents::default();
        let kinds: BTreeSet<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        let between: Vec<Range<String>> = kinds.into_iter().flat_map(names_of).collect();
        let mut waits: BTreeMap<Arc<str>, Vec<ExecutionNo>> = BTreeMap::new();
        for (execution, name) in self.backend.subscribed(&between)? {
            waits.entry(name).or_default().push(execution);
        }
        if waits.is_empty() {
            return Ok(woken);
        }
        let waits = waits
            .into_iter()
            .filter_map(|(name, executions)| Some((WantedEvents::of(&name)?, name, executions)));
        let waits: Vec<_> = waits.collect();
        let (mut mail, mut bytes) = (Vec::new(), 0);
        for event in events {
            let value = comparable(&event.json);
            let wanted = waits.iter().filter(|(wanted, ..)| wanted.has(&value));
            for (name, execution) in
                wanted.flat_map(|(_, name, of)| of.iter().map(move |to| (name, to)))
            {
                mail.push(mail_of(event, *execution, name, actor));
                bytes += event.json.bytes();
                if mail.len() >= MAIL_MAX || bytes >= MAIL_BYTES_MAX {
                    self.send(&std::mem::take(&mut mail), &mut woken)?;
                    bytes = 0;
                }
            }
        }
        self.send(&mail, &mut woken)?;
        Ok(woken)
    }

    fn send(&self, mail: &[Mail], woken: &mut WokenByEvents) -> Result<(), Problem> {
        if mail.is_empty() {
            return Ok(());
        }
        for (delivery, mail) in self.backend.deliver(mail)?.into_iter().zip(mail) {
            match delivery {
                MailDelivery::Accepted { owner } => {
                    woken.woken += 1;
                    woken.owners.insert(owner);
                }
                MailDelivery::Duplicate => woken.duplicates += 1,
                // It may have ended with this very event, before the store was asked for its owner.
                MailDelivery::Ended => {
                    let took = |found: Found| found.receipt(&mail.message) == Receipt::Taken;
                    woken.woken += u64::from(self.load(mail.execution).is_ok_and(took));
                }
                MailDelivery::Unknown => {}
            }
        }
        Ok(())
    }
}

/// An event goes once to each name of waits of an execution: of two different waits, each gets it.
fn mail_of(
    event: &CloudEvent,
    execution: ExecutionNo,
    name: &Arc<str>,
    actor: Option<&Arc<str>>,
) -> Mail {
    let mut id = blake3::Hasher::new();
    id.update(event.key().as_bytes()).update(b"\n").update(name.as_bytes());
    let id = id.finalize().to_hex();
    let message = format!("{EVENT_MESSAGE}{}", id.get(..32).unwrap_or_default()).into();
    let request = Request::Signal { name: Arc::clone(name), body: event.json.clone() };
    let body = MailBody::Request(request);
    let blobs = body.blobs();
    Mail { execution, message, actor: actor.cloned(), body, blobs }
}
