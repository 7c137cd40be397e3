//! The subscriptions: one connection for everything that is published to this process.
//!
//! Published messages may be lost. Subscribers learn when that may have happened, and read the state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::Notify;

use crate::outage::jittered;
use crate::wire::Wire;

/// How often a silent connection is tried.
const PING_EVERY: Duration = Duration::from_secs(5);

/// What a listener receives.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    Message(&'a [u8]),
    /// The subscription is active; messages published before may be lost.
    Listening,
}

/// Called for every message of a channel. Must be quick.
pub(crate) type Listener = Arc<dyn Fn(Received<'_>) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Hub {
    listeners: Mutex<Listeners>,
    changed: Notify,
}

#[derive(Default)]
struct Listeners {
    by_channel: BTreeMap<String, Listener>,
    running: bool,
}

impl Hub {
    fn channels(&self) -> Vec<String> {
        self.listeners.lock().by_channel.keys().cloned().collect()
    }

    fn tell(&self, channel: &str, received: Received<'_>) {
        let listener = self.listeners.lock().by_channel.get(channel).cloned();
        if let Some(listener) = listener {
            listener(received);
        }
    }
}

impl Wire {
    /// Listens to a channel from now on, for as long as there is a handle.
    pub(crate) fn listen(self: &Arc<Self>, channel: String, listener: Listener) {
        let mut listeners = self.hub.listeners.lock();
        listeners.by_channel.insert(channel, listener);
        if !std::mem::replace(&mut listeners.running, true) {
            self.spawn(Arc::clone(self).keep_subscribed());
        }
        self.hub.changed.notify_one();
    }

    async fn keep_subscribed(self: Arc<Self>) {
        let mut wait = self.limits.backoff_min;
        for attempt in 0.. {
            match self.dialer().subscriptions(attempt).await {
                Ok(connection) => {
                    let (sink, stream) = connection.split();
                    if self.record_presence(sink, stream).await {
                        wait = self.limits.backoff_min;
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot subscribe at redis"),
            }
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(self.limits.backoff_max);
        }
    }

    /// Reads messages until the connection fails. Returns whether it ever worked.
    async fn record_presence(&self, mut sink: PubSubSink, mut stream: PubSubStream) -> bool {
        let mut known: Vec<String> = Vec::new();
        let mut worked = false;
        loop {
            let channels = self.hub.channels();
            let new: Vec<String> =
                channels.into_iter().filter(|channel| !known.contains(channel)).collect();
            if !new.is_empty() {
                if !self.in_time(sink.subscribe(&new)).await {
                    return worked;
                }
                worked = true;
                for channel in &new {
                    self.hub.tell(channel, Received::Listening);
                }
                known.extend(new);
            }
            // All three only wait: none loses anything when another comes first.
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => {
                        let received = Received::Message(message.get_payload_bytes());
                        self.hub.tell(message.get_channel_name(), received);
                    }
                    None => return worked,
                },
                () = self.hub.changed.notified() => {}
                () = tokio::time::sleep(PING_EVERY) => {
                    if !self.in_time(sink.ping::<redis::Value>()).await {
                        return worked;
                    }
                }
            }
        }
    }

    async fn in_time<T>(&self, asked: impl Future<Output = redis::RedisResult<T>>) -> bool {
        matches!(tokio::time::timeout(self.limits.connect, asked).await, Ok(Ok(_)))
    }
}
