//! An HTTP server whose responses the test sends itself, one by one and in any order: for clients
//! that must get a wrong response, or a right one at the wrong time.

use std::collections::VecDeque;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::sink::{Received, read_request};

/// A server on a free port of loopback. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Stub {
    port: u16,
    asked: Receiver<PendingRequest>,
    /// Requests that came and that no call of `next` or `look` has matched yet.
    kept: VecDeque<PendingRequest>,
    /// `None` when it is over.
    connections: Arc<Mutex<Option<Vec<TcpStream>>>>,
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
    ///
    /// # Panics
    ///
    /// When there is no free port.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("a listener has an address").port();
        let connections = Arc::new(Mutex::new(Some(Vec::new())));
        let (sender, asked) = channel();
        let open = Arc::clone(&connections);
        std::thread::spawn(move || serve(&listener, &open, &sender));
        Self { port, asked, kept: VecDeque::new(), connections }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits for a request that `which` matches. All others are kept.
    ///
    /// # Panics
    ///
    /// When it does not come in time; `what` names it.
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

impl Drop for Stub {
    fn drop(&mut self) {
        for connection in self.connections.lock().take().into_iter().flatten() {
            connection.shutdown(Shutdown::Both).ok();
        }
        // Wakes the thread that waits for the next connection.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

fn serve(
    listener: &TcpListener,
    open: &Mutex<Option<Vec<TcpStream>>>,
    asked: &Sender<PendingRequest>,
) {
    for stream in listener.incoming().flatten() {
        match &mut *open.lock() {
            Some(open) => open.extend(stream.try_clone()),
            None => return,
        }
        let asked = asked.clone();
        std::thread::spawn(move || {
            // An error is the client's connection ending.
            converse(&stream, &asked).ok();
            stream.shutdown(Shutdown::Both).ok();
        });
    }
}

/// Passes on the requests of one connection, and sends the responses that the test chooses.
fn converse(stream: &TcpStream, asked: &Sender<PendingRequest>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let (sender, answered) = channel();
        asked.send(PendingRequest { request, answer: sender }).ok();
        let Ok((status, body)) = answered.recv() else { return Ok(()) };
        let head = format!(
            "HTTP/1.1 {status} Stub\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        (&*stream).write_all((head + &body).as_bytes())?;
    }
    Ok(())
}
