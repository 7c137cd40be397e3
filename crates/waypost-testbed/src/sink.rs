//! An HTTP server that accepts and records every request: what the outside world saw of a test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::http::{HttpListener, Received};

/// A server on a free port of loopback. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Sink {
    listener: HttpListener,
    shared: Arc<SinkShared>,
}

#[derive(Debug)]
struct SinkShared {
    state: Mutex<SinkState>,
    changed: Condvar,
}

#[derive(Debug)]
struct SinkState {
    received: Vec<Received>,
    /// Status and JSON body.
    answer: (u16, String),
    holding: bool,
}

/// Chooses the response to a request; none ends the connection without one.
type Choose = dyn Fn(&Received) -> Option<(u16, String)> + Send + Sync;

impl Sink {
    /// Starts one that answers every request with 200 and `{}` at once.
    pub fn start() -> Self {
        let answer = (200, "{}".to_owned());
        let state = SinkState { received: Vec::new(), answer, holding: false };
        let shared = Arc::new(SinkShared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = Arc::clone(&shared);
        let listener = HttpListener::start(move |request| Some(serving.take(request)));
        Self { listener, shared }
    }

    /// Starts one that answers as `choose` says.
    pub fn start_with(
        choose: impl Fn(&Received) -> Option<(u16, String)> + Send + Sync + 'static,
    ) -> Self {
        let choose: Arc<Choose> = Arc::new(choose);
        let answer = (200, "{}".to_owned());
        let state = SinkState { received: Vec::new(), answer, holding: false };
        let shared = Arc::new(SinkShared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = Arc::clone(&shared);
        let listener = HttpListener::start(move |request| {
            let chosen = choose(&request);
            serving.take(request);
            chosen
        });
        Self { listener, shared }
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.listener.port
    }

    /// The address of a path on it.
    pub fn url(&self, path: &str) -> String {
        self.listener.url(path)
    }

    /// Answers from now on with this status and JSON body.
    pub fn answer(&self, status: u16, body: &str) {
        self.shared.state.lock().answer = (status, body.to_owned());
    }

    /// Takes requests from now on, but answers none before [`Sink::release`].
    pub fn hold(&self) {
        self.shared.state.lock().holding = true;
    }

    /// Answers the held requests, and later ones at once.
    pub fn release(&self) {
        self.shared.state.lock().holding = false;
        self.shared.changed.notify_all();
    }

    /// The requests so far, in the order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.shared.state.lock().received.clone()
    }

    /// How often each `Idempotency-Key` came.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for key in self.shared.state.lock().received.iter().filter_map(Received::key) {
            *counts.entry(key.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Waits until this many requests have come in all.
    pub fn wait_for(&self, count: usize, within: Duration) {
        let until = Instant::now() + within;
        let mut state = self.shared.state.lock();
        while state.received.len() < count {
            let late = self.shared.changed.wait_until(&mut state, until).timed_out();
            let came = state.received.len();
            assert!(!late || came >= count, "{came} of {count} requests came within {within:?}");
        }
    }
}

impl SinkShared {
    /// Records a request; returns the answer as soon as it may be sent.
    fn take(&self, request: Received) -> (u16, String) {
        let mut state = self.state.lock();
        state.received.push(request);
        self.changed.notify_all();
        while state.holding {
            self.changed.wait(&mut state);
        }
        state.answer.clone()
    }
}

impl Drop for Sink {
    /// Held requests get no answer: their connections end first.
    fn drop(&mut self) {
        self.listener.close();
        self.release();
    }
}
