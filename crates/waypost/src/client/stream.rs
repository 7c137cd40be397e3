//! The events of one execution as they come, across broken connections and restarts of the server:
//! a reconnecting client sends the last event it has, and continues with the next.

use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::{Response, StatusCode};
use waypost_server::problem::WireProblem;
use waypost_server::wire;

use super::sse::{Message, SseParser};
use super::{Ask, Client, Refused, Unreachable};

/// A stream that is silent for so long is broken: an idle server sends a sign of life every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// How long after a first failure to try again; doubled each time.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest wait between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Tries in a row, about three minutes in all; a server that takes longer to come back was not
/// restarted but stopped.
const TRIES_MAX: u32 = 40;

/// Follows one execution.
pub(crate) struct Stream {
    client: Client,
    execution: String,
    /// The last event that was seen.
    last: u64,
    line: Option<OpenStream>,
    /// Tries since something was last received.
    failures: u32,
    /// Has the server announced the end of the stream?
    over: bool,
}

struct OpenStream {
    response: Response,
    parser: SseParser,
}

/// News of an execution that is followed.
#[derive(Debug)]
pub(crate) enum News {
    /// Events, in order.
    Events(Vec<wire::Event>),
    /// The connection broke; it is tried again.
    Lost,
    /// There is a connection again.
    Back,
    /// No engine drives the execution, so nothing will come.
    Abandoned,
    /// The execution has ended, and all its events were returned.
    Over,
}

impl Stream {
    /// Follows an execution from its first event. The first connection must come about.
    pub(crate) async fn open(client: Client, execution: &str) -> Result<Self> {
        let execution = execution.to_owned();
        let mut stream = Self { client, execution, last: 0, line: None, failures: 0, over: false };
        stream.connect().await?;
        Ok(stream)
    }

    /// What happens next. The stream cannot be used after this future was dropped.
    pub(crate) async fn next(&mut self) -> Result<News> {
        loop {
            if self.over {
                return Ok(News::Over);
            }
            let Some(line) = &mut self.line else {
                if self.reconnect().await? {
                    return Ok(News::Back);
                }
                continue;
            };
            match tokio::time::timeout(SILENCE_MAX, line.response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    self.failures = 0;
                    let messages = line.parser.push(&bytes)?;
                    let events = self.take(messages)?;
                    if !events.is_empty() {
                        return Ok(News::Events(events));
                    }
                }
                // Broken, ended without an end event, or silent: all are handled alike.
                Ok(Ok(None) | Err(_)) | Err(_) => self.line = None,
            }
            if self.line.is_none() && !self.over {
                return Ok(News::Lost);
            }
        }
    }

    /// The events among messages; obeys the others.
    fn take(&mut self, messages: Vec<Message>) -> Result<Vec<wire::Event>> {
        let mut events = Vec::new();
        for message in messages {
            match message.kind.as_str() {
                "end" => self.over = true,
                // We were too slow for the server; it takes us back.
                "dropped" => self.line = None,
                "problem" => {
                    let problem: WireProblem = serde_json::from_str(&message.data)
                        .context("the server's stream cannot be read")?;
                    let refused = Refused::by_server(problem, true);
                    if !is_passing(&refused) {
                        return Err(refused.into());
                    }
                    self.line = None;
                }
                _ => {
                    let event: wire::Event = serde_json::from_str(&message.data)
                        .context("the server's stream cannot be read")?;
                    self.last = event.seq;
                    events.push(event);
                }
            }
        }
        Ok(events)
    }

    async fn connect(&mut self) -> Result<()> {
        let ask = Ask::get(&["executions", &self.execution, "stream"])
            .header("accept", Some("text/event-stream"))
            .header("last-event-id", (self.last > 0).then_some(self.last))
            .endless();
        let response = self.client.send(ask).await?;
        match response.status() {
            // It has ended, and we have seen everything.
            StatusCode::NO_CONTENT => self.over = true,
            _ => self.line = Some(OpenStream { response, parser: SseParser::default() }),
        }
        Ok(())
    }

    /// One more try, after a while. `false` where it came to nothing.
    async fn reconnect(&mut self) -> Result<bool> {
        let wait = BACKOFF_FIRST.saturating_mul(1 << self.failures.min(10)).min(BACKOFF_MAX);
        tokio::time::sleep(wait).await;
        self.client.look_again();
        self.failures += 1;
        match self.connect().await {
            Ok(()) => Ok(true),
            Err(error) => {
                let refused = error.downcast_ref::<Refused>();
                let passing = error.is::<Unreachable>() || refused.is_some_and(is_passing);
                if passing && self.failures < TRIES_MAX { Ok(false) } else { Err(error) }
            }
        }
    }
}

/// May a repeat succeed later: at a server that restarts, or is busy?
fn is_passing(refused: &Refused) -> bool {
    matches!(refused.status(), 429 | 502 | 503 | 504)
}
