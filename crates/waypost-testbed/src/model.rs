//! A language model with chat completions that counts what it charges.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::http::HttpListener;

/// How long a test waits for requests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a free port of loopback. It charges for every request that it reads, whether its reply is
/// still wanted or not, as real ones do.
#[derive(Debug)]
pub struct Model {
    listener: HttpListener,
    shared: Arc<ModelShared>,
}

#[derive(Debug, Default)]
struct ModelShared {
    inner: Mutex<ModelState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ModelState {
    charged: Charged,
    /// How many more requests are answered; the others are held. Absent for all.
    answers_left: Option<u64>,
    held: Charged,
    /// Counts the times that held requests were dropped.
    drops: u64,
}

/// Requests, and their tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charged {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
}

impl Charged {
    fn add(&mut self, input: u64, output: u64) {
        self.requests += 1;
        self.input += input;
        self.output += output;
    }
}

impl Model {
    /// Starts one that answers everything.
    pub fn start() -> Self {
        let shared = Arc::new(ModelShared::default());
        let server = Arc::clone(&shared);
        let listener = HttpListener::start(move |request| server.answer(request.body.len() as u64));
        Self { listener, shared }
    }

    /// The base address of its API.
    pub fn url(&self) -> String {
        self.listener.url("/v1")
    }

    /// Answers so many more requests and holds those that come then.
    pub fn hold_after(&self, answers: u64) {
        self.shared.inner.lock().answers_left = Some(answers);
    }

    /// Waits until it holds so many requests; what they are charged.
    pub fn wait_held(&self, requests: u64) -> Charged {
        let mut inner = self.shared.inner.lock();
        while inner.held.requests < requests {
            let late = self.shared.changed.wait_for(&mut inner, PATIENCE).timed_out();
            assert!(!late, "{} of {requests} requests came", inner.held.requests);
        }
        inner.held
    }

    /// Ends the connections of the requests that it holds, which were charged. From now on it answers.
    pub fn drop_held(&self) {
        let mut inner = self.shared.inner.lock();
        (inner.answers_left, inner.held) = (None, Charged::default());
        inner.drops += 1;
        self.shared.changed.notify_all();
    }

    /// What all requests so far were charged.
    pub fn charged(&self) -> Charged {
        self.shared.inner.lock().charged
    }
}

impl ModelShared {
    fn answer(&self, bytes: u64) -> Option<(u16, String)> {
        let mut inner = self.inner.lock();
        let (input, output) = (bytes / 4, 10 + inner.charged.requests % 7);
        inner.charged.add(input, output);
        match &mut inner.answers_left {
            None => {}
            Some(0) => {
                inner.held.add(input, output);
                self.changed.notify_all();
                let drops = inner.drops;
                while inner.drops == drops {
                    self.changed.wait(&mut inner);
                }
                return None;
            }
            Some(left) => *left -= 1,
        }
        let total = input + output;
        let body = format!(
            r#"{{"model":"stub","choices":[{{"finish_reason":"stop","message":{{"role":"assistant","content":"ok"}}}}],"usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}}}}}"#
        );
        Some((200, body))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.drop_held();
    }
}
