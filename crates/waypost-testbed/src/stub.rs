//! An HTTP server whose responses the test sends itself, one by one and in any order: for clients
//! that must get a wrong response, or a right one at the wrong time.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::http::{HttpListener, Received};

/// A server on a free port of loopback. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Stub {
    listener: HttpListener,
    asked: Receiver<PendingRequest>,
    /// Requests that came and that no call of `next` or `look` has matched yet.
    kept: VecDeque<PendingRequest>,
}

/// A request that waits for its answer. Where it is dropped without one, its connection ends.
#[derive(Debug)]
pub struct PendingRequest {
    pub request: Received,
    answer: Sender<(u16, String)>,
}

impl PendingRequest {
    /// Answers with this status and JSON body.
    pub fn answer(self, status: u16, body: &str) {
        // The client may have closed the connection.
        self.answer.send((status, body.to_owned())).ok();
    }
}

impl Stub {
    /// Starts one.
    pub fn start() -> Self {
        let (sender, asked) = channel();
        let listener = HttpListener::start(move |request| {
            let (answer, answered) = channel();
            sender.send(PendingRequest { request, answer }).ok();
            answered.recv().ok()
        });
        Self { listener, asked, kept: VecDeque::new() }
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.listener.url("")
    }

    /// Waits for a request that `which` matches. All others are kept.
    pub fn next(
        &mut self,
        what: &str,
        within: Duration,
        which: impl Fn(&Received) -> bool,
    ) -> PendingRequest {
        let until = Instant::now() + within;
        loop {
            if let Some(asked) = self.look(&which) {
                return asked;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.asked.recv_timeout(left) {
                Ok(asked) => self.kept.push_back(asked),
                Err(_) => panic!("{what}: not within {within:?}; else came {:?}", self.paths()),
            }
        }
    }

    /// The paths of the requests that were kept.
    fn paths(&self) -> Vec<&str> {
        self.kept.iter().map(|asked| asked.request.path.as_str()).collect()
    }

    /// A request that has come and that `which` matches.
    pub fn look(&mut self, which: impl Fn(&Received) -> bool) -> Option<PendingRequest> {
        self.kept.extend(self.asked.try_iter());
        let at = self.kept.iter().position(|asked| which(&asked.request))?;
        self.kept.remove(at)
    }
}
