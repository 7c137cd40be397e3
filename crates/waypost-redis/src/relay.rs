//! Mail through streams: `results:{instance}`, one per instance, read by it alone.
//!
//! ```text
//!   send: XADD results:{to}, ring bell:{to} ──▶ read, hand to the engine ── COMMIT
//!   wait ◀── publish acks:{from} ◀── XACK, XDEL ◀──────────────────────────────┘
//! ```
//!
//! The bell is a published message; the instance also reads the stream without one. No read blocks in
//! Redis, so that one script can take entries and reject those that are too large. The sender keeps its
//! mail until it is answered, so no stream holds the only copy of anything. A stream is deleted a minute
//! after its last entry, when the sender has long used the inbox.
//!
//! An instance that did not answer in time receives nothing for a while, unless it shows a sign of life:
//! a frozen instance would delay every sender.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use uuid::Uuid;
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::relay::{OnMail, Relay, RelayAnswer, Relayed};
use waypost_ports::store::{Mail, MailBody, StoreError};

use crate::ask::{
    ABANDON, Ask, POST, ScriptResult, TAKE, bytes, exactly, first_list, number, text,
};
use crate::hub::Received;
use crate::seal::Purpose;
use crate::wire::{Redis, Wire};

const GROUP: &str = "engine";
/// Mail that may wait for one instance. More than this, and the inbox is the better place.
const WAITING_MAX: u64 = 10_000;
/// For how long a stream is kept after its last entry.
const KEPT_MS: u64 = 60_000;
/// Mail that is read together.
const READ_MAX: u64 = 64;
/// Bytes after which no more is read together.
const READ_BYTES_MAX: u64 = 1 << 20;
/// How often a stream is looked into when no bell rings.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a sender checks whether the connection that it waits on is gone.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// After how long mail that was handed over and not answered is dropped: its sender has given up long
/// before.
const ABANDON_AFTER: Duration = Duration::from_secs(60);
/// For how long nothing is sent to an instance that did not answer in time.
const AVOIDED_FOR: Duration = Duration::from_secs(5);

/// A [`Relay`] through Redis.
pub struct RedisRelay {
    redis: Redis,
    instance: InstanceId,
    pending: Arc<Pending>,
}

#[derive(Default)]
struct Pending {
    /// Callers that wait for an answer, by the name of the sending.
    waiting: Mutex<HashMap<Uuid, mpsc::SyncSender<Relayed>>>,
    /// Instances that did not answer in time, and until when nothing is sent to them.
    silent: Mutex<HashMap<InstanceId, Instant>>,
}

impl Pending {
    fn answered(&self, reply: RelayReply) {
        self.silent.lock().remove(&reply.by);
        if let Some(sender) = self.waiting.lock().remove(&reply.name) {
            let relayed = reply.refused.map_or(Relayed::Committed, Relayed::Refused);
            // The sender may have stopped waiting just now.
            drop(sender.send(relayed));
        }
    }

    fn is_silent(&self, instance: InstanceId) -> bool {
        let mut silent = self.silent.lock();
        silent.retain(|_, until| *until > Instant::now());
        silent.contains_key(&instance)
    }
}

/// Mail as an entry of a stream, under a name of this one sending.
#[derive(Serialize, Deserialize)]
struct Letter {
    from: InstanceId,
    execution: ExecutionNo,
    message: MessageId,
    actor: Option<Arc<str>>,
    body: MailBody,
}

/// An answer as it is published.
#[derive(Serialize, Deserialize)]
struct RelayReply {
    name: Uuid,
    /// The answering instance.
    by: InstanceId,
    /// Why it was refused, if it was.
    refused: Option<String>,
}

impl RedisRelay {
    /// For this instance as the sender.
    pub fn new(redis: &Redis, instance: InstanceId) -> Self {
        let pending = Arc::<Pending>::default();
        let wire = redis.wire();
        let channel = wire.keys.answers(instance);
        let (place, known, answered) =
            (channel.clone(), Arc::clone(&pending), Arc::downgrade(wire));
        wire.listen(
            channel,
            Arc::new(move |received| {
                let (Received::Message(sealed), Some(wire)) = (received, answered.upgrade()) else {
                    return;
                };
                let plain = wire.sealer.open(Purpose::Answer, place.as_bytes(), sealed);
                let reply =
                    plain.and_then(|plain| serde_json::from_slice::<RelayReply>(&plain).ok());
                let Some(reply) = reply else {
                    wire.counters.repaired.add(1);
                    return;
                };
                known.answered(reply);
            }),
        );
        Self { redis: redis.clone(), instance, pending }
    }

    /// Waits for the answer, for as long as the connection that it must come by is there.
    fn wait(&self, to: InstanceId, answered: &mpsc::Receiver<Relayed>, era: u64) -> Relayed {
        let wire = self.redis.wire();
        let end = Instant::now() + wire.limits.answer;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if let Ok(relayed) = answered.recv_timeout(left.min(CHECK_EVERY)) {
                return relayed;
            }
            if wire.era() != Some(era) {
                return Relayed::Unknown;
            }
            if left.is_zero() {
                self.pending.silent.lock().insert(to, Instant::now() + AVOIDED_FOR);
                return Relayed::Unknown;
            }
        }
    }
}

impl Relay for RedisRelay {
    fn send(&self, to: InstanceId, mail: Mail) -> Result<Relayed, StoreError> {
        let wire = self.redis.wire();
        let Some(era) = wire.era() else { return Ok(Relayed::Unknown) };
        if self.pending.is_silent(to) {
            wire.counters.fallbacks.add(1);
            return Ok(Relayed::Unknown);
        }
        let name = Uuid::new_v4();
        let stream = wire.keys.results(to);
        let letter = Letter {
            from: self.instance,
            execution: mail.execution,
            message: mail.message,
            actor: mail.actor,
            body: mail.body,
        };
        let plain = serde_json::to_vec(&letter)
            .map_err(|error| StoreError::Refused(format!("mail cannot be written: {error}")))?;
        let sealed = wire.sealer.seal(Purpose::Mail, &place(&stream, name), &plain);
        if sealed.len() > wire.limits.entry_bytes_max {
            return Ok(Relayed::Unknown);
        }
        let (sender, answered) = mpsc::sync_channel(1);
        self.pending.waiting.lock().insert(name, sender);
        let ask = Ask::script(&POST).key(&stream).arg(name.simple().to_string()).arg(sealed);
        let ask = ask.number(WAITING_MAX).number(KEPT_MS).arg(wire.keys.bell(to));
        let said = wire.ask_scripts(vec![ask]).ok().and_then(|mut said| said.pop()?);
        let posted = said.as_ref().and_then(|said| number(said.first()?)) == Some(1);
        let receivers = said.as_ref().and_then(|said| number(said.get(1)?));
        // A single server counts the bell's subscribers: with none, no answer will come.
        let is_missed = receivers == Some(0) && wire.dialer().counts_subscribers();
        let relayed = match posted && !is_missed {
            true => self.wait(to, &answered, era),
            false => Relayed::Unknown,
        };
        self.pending.waiting.lock().remove(&name);
        if relayed == Relayed::Unknown {
            wire.counters.fallbacks.add(1);
        }
        Ok(relayed)
    }

    fn listen(&self, instance: InstanceId, on_mail: OnMail) {
        let wire = self.redis.wire();
        let bell = Arc::new(Notify::new());
        let rung = Arc::clone(&bell);
        wire.listen(wire.keys.bell(instance), Arc::new(move |_| rung.notify_one()));
        wire.spawn(read_all(Arc::clone(wire), instance, bell, on_mail));
    }
}

/// Mail is sealed for its stream and its name.
fn place(stream: &str, name: Uuid) -> Vec<u8> {
    format!("{stream} {}", name.simple()).into_bytes()
}

struct Opened {
    name: Uuid,
    from: InstanceId,
    mail: Mail,
}

/// An entry: its id, its name, and its sealed body.
type StreamEntry = (String, String, Vec<u8>);

fn entries(said: ScriptResult) -> Vec<StreamEntry> {
    let entry = |value| {
        let [entry, name, sealed] = exactly(value)?;
        Some((text(entry)?, text(name).unwrap_or_default(), bytes(sealed)?))
    };
    first_list(said).into_iter().filter_map(entry).collect()
}

fn open(wire: &Wire, stream: &str, (_, name, sealed): &StreamEntry) -> Option<Opened> {
    let opened = Uuid::try_parse(name).ok().and_then(|name| {
        let plain = wire.sealer.open(Purpose::Mail, &place(stream, name), sealed)?;
        let Letter { from, execution, message, actor, body } =
            serde_json::from_slice(&plain).ok()?;
        Some(Opened {
            name,
            from,
            mail: Mail { execution, message, actor, body, blobs: Vec::new() },
        })
    });
    if opened.is_none() {
        wire.counters.repaired.add(1);
    }
    opened
}

/// Reads an instance's mail for as long as there is a handle.
async fn read_all(wire: Arc<Wire>, instance: InstanceId, bell: Arc<Notify>, on_mail: OnMail) {
    let stream = wire.keys.results(instance);
    let mut abandon = Instant::now() + ABANDON_AFTER;
    loop {
        let ask = Ask::script(&TAKE).key(&stream).arg(GROUP).arg(instance.to_string());
        let ask = ask.number(READ_MAX).number(wire.limits.entry_bytes_max as u64);
        let ask = ask.number(READ_BYTES_MAX);
        let said = wire.run_scripts(vec![ask]).await;
        let read = entries(said.ok().and_then(|mut said| said.pop()?));
        let idle = read.is_empty();
        for entry in read {
            match open(&wire, &stream, &entry) {
                Some(letter) => {
                    let answer = answer_to(&wire, instance, entry.0, &letter);
                    on_mail(letter.mail, answer);
                }
                None => drop(wire.run(settled(&stream, &entry.0)).await),
            }
        }
        if Instant::now() >= abandon {
            abandon = Instant::now() + ABANDON_AFTER;
            let ask = Ask::script(&ABANDON).key(&stream).arg(GROUP).arg(instance.to_string());
            let ask = ask.number(u64::try_from(ABANDON_AFTER.as_millis()).unwrap_or(u64::MAX));
            drop(wire.run_scripts(vec![ask.number(WAITING_MAX)]).await);
        }
        if idle {
            // Both only wait.
            tokio::select! {
                () = bell.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}

/// The commands after which an entry is gone.
fn settled(stream: &str, entry: &str) -> Vec<Ask> {
    vec![
        Ask::command("XACK").key(stream).arg(GROUP).arg(entry),
        Ask::command("XDEL").key(stream).arg(entry),
    ]
}

/// The answer to a letter: deletes its entry and notifies the sender.
fn answer_to(wire: &Arc<Wire>, by: InstanceId, entry: String, letter: &Opened) -> RelayAnswer {
    let (wire, stream) = (Arc::downgrade(wire), wire.keys.results(by));
    let (name, from) = (letter.name, letter.from);
    RelayAnswer::new(move |relayed| {
        let Some(wire) = wire.upgrade() else { return };
        let refused = match relayed {
            Relayed::Committed => None,
            Relayed::Refused(reason) => Some(reason),
            Relayed::Unknown => return,
        };
        let channel = wire.keys.answers(from);
        let plain = serde_json::to_vec(&RelayReply { name, by, refused }).expect("text is JSON");
        let sealed = wire.sealer.seal(Purpose::Answer, channel.as_bytes(), &plain);
        let mut asks = settled(&stream, &entry);
        asks.push(Ask::command("PUBLISH").key(&channel).arg(sealed));
        let on = Arc::clone(&wire);
        wire.spawn(async move {
            // Not answered: the sender takes the inbox, and this mail is a duplicate.
            drop(on.run(asks).await);
        });
    })
}
