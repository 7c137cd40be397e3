//! The outside world: an HTTP server that plays the scripts of tasks, counts calls and effects by
//! idempotency key, and now and then takes a call and says nothing.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};

use waypost_sim::model::Calls;
use waypost_sim::program::{OutsideReply, Script};
use waypost_sim::random::Random;

use super::process::News;

/// A running sink; it serves until the process ends.
pub(super) struct Sink {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

/// What the sink saw under one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) calls: Calls,
    /// Did it leave a call without its reply?
    pub(super) silent: bool,
}

struct Shared {
    seen: BTreeMap<String, Seen>,
    calls: u64,
    /// How many calls in a hundred get no reply.
    silence_percent: u32,
    random: Random,
    news: Option<Sender<News>>,
}

/// What becomes of a call.
enum Fate {
    Answer(OutsideReply),
    /// The connection is held until the caller goes away.
    Hang,
    /// The connection is closed.
    Close,
}

impl Sink {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            seen: BTreeMap::new(),
            calls: 0,
            silence_percent: 0,
            random: Random::new(0),
            news: None,
        }));
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&all);
                // A caller that was killed leaves a broken connection behind: nothing to do.
                std::thread::spawn(move || serve(stream?, &shared));
            }
        });
        Self { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Forgets what it saw, and tells of calls from now on.
    pub(super) fn begin(&self, mut random: Random, news: Sender<News>) {
        let mut shared = self.lock();
        shared.seen.clear();
        shared.silence_percent = if random.percent(50) { 5 } else { 0 };
        shared.random = random;
        shared.news = Some(news);
    }

    /// What it saw, by idempotency key.
    pub(super) fn seen(&self) -> BTreeMap<String, Seen> {
        self.lock().seen.clone()
    }

    /// Calls in all, ever.
    pub(super) fn calls(&self) -> u64 {
        self.lock().calls
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }
}

impl Shared {
    fn take(&mut self, path: &str, key: &str) -> Fate {
        self.calls += 1;
        let silent = self.random.percent(self.silence_percent);
        let received = self.random.percent(50);
        let seen = self.seen.entry(key.to_owned()).or_default();
        seen.calls.calls += 1;
        seen.silent |= silent;
        let script = Script::parse(path);
        let reply = script.and_then(|script| script.reply(seen.calls.calls, key));
        // With or without the effect: the caller cannot tell.
        let done = !silent || received;
        seen.calls.effects += u32::from(done && reply.as_ref().is_some_and(|reply| reply.effect));
        if let Some(news) = &self.news {
            // Nobody listens between two rounds.
            news.send(News::Called).unwrap_or_default();
        }
        match reply {
            _ if silent => Fate::Close,
            Some(reply) => Fate::Answer(reply),
            None => Fate::Hang,
        }
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<Shared>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut key, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(()); // the caller died before it had said what it wanted
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => value.trim().clone_into(&mut key),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let fate = shared.lock().unwrap().take(&path, &key);
    match fate {
        Fate::Close => Ok(()),
        Fate::Hang => reader.read(&mut [0]).map(drop),
        Fate::Answer(reply) => {
            let (status, body) = (reply.status, reply.body.to_string());
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} scripted\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
        }
    }
}
