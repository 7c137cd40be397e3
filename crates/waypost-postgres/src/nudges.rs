//! Notifications by LISTEN and NOTIFY, on one connection that is opened at the first use.
//!
//! A NOTIFY takes a lock that all commits of the database share, so there must be few: notifications
//! within a moment are merged into one message. Nothing that matters waits for them. A notification that
//! cannot be sent is dropped, and an instance that misses one polls anyway.

use std::collections::HashSet;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tokio_postgres::AsyncMessage;
use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_ports::nudge::{Nudge, Nudges, OnNudge};

use crate::connection::{Connection, Home, Role};
use crate::error::Result;
use crate::queries::sql;
use crate::store::PostgresStore;

/// Nudges that wait to be sent; more are dropped.
const WAITING_MAX: usize = 4_096;

/// How long nudges are gathered.
const GATHER: Duration = Duration::from_millis(20);

/// Bytes of one NOTIFY; the server takes at most 7,999.
const PAYLOAD_BYTES_MAX: usize = 7_900;

/// How long to wait before connecting again.
const BACKOFF: std::ops::Range<Duration> = Duration::from_millis(100)..Duration::from_secs(5);

/// How long [`Nudges::listen`] waits until the subscription is active.
const LISTEN_WAIT: Duration = Duration::from_secs(5);

/// Nudges through the database. Clones share a connection, which ends with the last of them.
#[derive(Clone)]
pub struct PostgresNudges {
    commands: mpsc::Sender<ListenerCommand>,
}

enum ListenerCommand {
    Send(Nudge),
    Listen(NudgeListener, blocking::Sender<()>),
}

#[derive(Clone)]
struct NudgeListener {
    instance: InstanceId,
    on_nudge: OnNudge,
}

impl PostgresStore {
    /// A way to nudge other instances of this store.
    pub fn nudges(&self) -> PostgresNudges {
        let (commands, receiver) = mpsc::channel(WAITING_MAX);
        let carrier = Carrier {
            home: Arc::clone(&self.home),
            commands: receiver,
            sender: Uuid::new_v4(),
            listener: Arc::default(),
            line: None,
            backoff: BACKOFF.start,
        };
        // Ends when the last sender of commands is gone, or with the store.
        drop(self.threads.handle().spawn(carrier.run()));
        PostgresNudges { commands }
    }
}

impl Nudges for PostgresNudges {
    fn send(&self, nudge: Nudge) {
        if self.commands.try_send(ListenerCommand::Send(nudge)).is_err() {
            tracing::debug!("a nudge was dropped");
        }
    }

    fn listen(&self, instance: InstanceId, on_nudge: OnNudge) {
        let (listening, is_listening) = blocking::channel();
        let command = ListenerCommand::Listen(NudgeListener { instance, on_nudge }, listening);
        if self.commands.try_send(command).is_err() {
            tracing::warn!("dropping nudges: the listener is too slow");
            return;
        }
        if is_listening.recv_timeout(LISTEN_WAIT).is_err() {
            tracing::warn!("not listening for nudges yet: the database does not answer");
        }
    }
}

/// A connection, and a notification of its end.
struct ListenConnection {
    connection: Connection,
    ended: oneshot::Receiver<()>,
}

struct Carrier {
    home: Arc<Home>,
    commands: mpsc::Receiver<ListenerCommand>,
    /// By which its own nudges are known when they come back.
    sender: Uuid,
    listener: Arc<Mutex<Option<NudgeListener>>>,
    line: Option<ListenConnection>,
    backoff: Duration,
}

impl Carrier {
    async fn run(mut self) {
        loop {
            if self.line.is_none() && self.listener.lock().is_some() && !self.connect().await {
                // Both are safe to drop: a command that was not received stays in the channel.
                tokio::select! {
                    () = sleep(self.backoff) => {}
                    command = self.commands.recv() => {
                        let Some(command) = command else { return };
                        // Nudges are lost, listeners are remembered.
                        if let ListenerCommand::Listen(listener, _) = command {
                            *self.listener.lock() = Some(listener);
                        }
                    }
                }
                continue;
            }
            let ended = async {
                match &mut self.line {
                    Some(line) => drop((&mut line.ended).await),
                    None => std::future::pending().await,
                }
            };
            // Both are safe to drop: the one keeps its place, the other its messages.
            tokio::select! {
                () = ended => self.line = None,
                command = self.commands.recv() => match command {
                    None => return,
                    Some(command) => self.obey(command).await,
                },
            }
        }
    }

    async fn obey(&mut self, command: ListenerCommand) {
        match command {
            ListenerCommand::Listen(listener, listening) => {
                *self.listener.lock() = Some(listener);
                let connected = self.line.is_some() || self.connect().await;
                if connected && listening.send(()).is_err() {
                    tracing::debug!("the listener connected later than a caller waited for it");
                }
            }
            ListenerCommand::Send(nudge) => {
                sleep(GATHER).await;
                let mut seen = HashSet::from([nudge.clone()]);
                let mut nudges = vec![nudge];
                let mut listen = None;
                while let Ok(command) = self.commands.try_recv() {
                    match command {
                        ListenerCommand::Send(nudge) if seen.insert(nudge.clone()) => {
                            nudges.push(nudge)
                        }
                        ListenerCommand::Send(_) => {}
                        ListenerCommand::Listen(..) => listen = Some(command),
                    }
                }
                self.send(&nudges).await;
                if let Some(command) = listen {
                    Box::pin(self.obey(command)).await;
                }
            }
        }
    }

    async fn send(&mut self, nudges: &[Nudge]) {
        if self.line.is_none() && !self.connect().await {
            return;
        }
        let Some(line) = &mut self.line else { return };
        for payload in payloads(self.sender, nudges) {
            let sent = line.connection.query(sql!("notify"), &[&self.home.schema, &payload]).await;
            if let Err(error) = sent {
                tracing::debug!(%error, "nudges were lost");
                self.line = None;
                return;
            }
        }
    }

    async fn connect(&mut self) -> bool {
        match self.open().await {
            Ok(line) => {
                self.line = Some(line);
                self.backoff = BACKOFF.start;
                // Whatever was missed meanwhile.
                if let Some(listener) = self.listener.lock().clone() {
                    (listener.on_nudge)(Nudge::Mail(listener.instance));
                    (listener.on_nudge)(Nudge::Cancelled(listener.instance));
                    (listener.on_nudge)(Nudge::Claimable);
                }
                true
            }
            Err(error) => {
                tracing::debug!(%error, "nudges cannot be carried");
                self.backoff = (self.backoff * 2).min(BACKOFF.end);
                false
            }
        }
    }

    async fn open(&self) -> Result<ListenConnection> {
        let (listener, sender) = (Arc::clone(&self.listener), self.sender);
        let (ends, ended) = oneshot::channel::<()>();
        let on_nudge = move |message| {
            // Goes with this closure, which goes with the connection.
            let _ends = &ends;
            if let AsyncMessage::Notification(note) = message {
                let listener = listener.lock().clone();
                listener.into_iter().for_each(|listener| tell(&listener, sender, note.payload()));
            }
        };
        let home = &self.home;
        let mut connection = Connection::open_listening(home, Role::Listener, on_nudge).await?;
        let listen = sql!("listen").replace("{channel}", &home.schema);
        connection.run_all(&listen).await?;
        Ok(ListenConnection { connection, ended })
    }
}

/// Nudges in as few payloads as they fit into, each with who sent it.
fn payloads(sender: Uuid, nudges: &[Nudge]) -> Vec<String> {
    let mut payloads = Vec::new();
    let mut words = vec![sender.to_string()];
    let mut bytes = 0;
    for nudge in nudges {
        let word = match nudge {
            Nudge::Mail(owner) => format!("m{}", owner.0),
            Nudge::Claimable => "c".to_owned(),
            Nudge::Offered(handler) => format!("o{handler}"),
            Nudge::Cancelled(instance) => format!("x{}", instance.0),
        };
        // As text in JSON, where a character takes at most six bytes.
        let more = serde_json::to_string(&word).map_or(usize::MAX, |text| text.len() + 1);
        if more > PAYLOAD_BYTES_MAX - 64 {
            continue;
        }
        if bytes + more > PAYLOAD_BYTES_MAX - 64 {
            payloads.extend(serde_json::to_string(&words));
            words.truncate(1);
            bytes = 0;
        }
        bytes += more;
        words.push(word);
    }
    if words.len() > 1 {
        payloads.extend(serde_json::to_string(&words));
    }
    payloads
}

/// Passes a notification to a listener if it is addressed to it and comes from another process.
fn tell(listener: &NudgeListener, sender: Uuid, payload: &str) {
    let Ok(words) = serde_json::from_str::<Vec<String>>(payload) else { return };
    let mut words = words.iter();
    if words.next().is_none_or(|from| *from == sender.to_string()) {
        return;
    }
    let mine = |id: &str| id.parse::<Uuid>() == Ok(listener.instance.0);
    for word in words {
        let nudge = match word.split_at_checked(1) {
            Some(("m", owner)) if mine(owner) => Nudge::Mail(listener.instance),
            Some(("x", instance)) if mine(instance) => Nudge::Cancelled(listener.instance),
            Some(("c", "")) => Nudge::Claimable,
            Some(("o", handler)) => Nudge::Offered(handler.into()),
            _ => continue,
        };
        (listener.on_nudge)(nudge);
    }
}

#[cfg(test)]
mod tests;
