//! A TCP proxy that breaks what goes through it, on demand.
//!
//! ```text
//!   client ──▶ pump(ToServer) ──▶ server
//!          ◀── pump(ToClient) ◀──
//! ```
//!
//! Each connection has two pumps. Before a pump forwards what it has read, it checks its
//! direction's mode, and waits for as long as that is [`Mode::Stall`].

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::port::free_port;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// What happens to the bytes of a direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    Pass,
    /// Bytes are held, connections stay open, and all are forwarded when the mode changes.
    Stall,
    /// Bytes are dropped, and connections stay open.
    Swallow,
    /// That many more bytes (of all connections together) are forwarded, the rest is dropped.
    SwallowAfter(usize),
}

/// A proxy in front of one server on loopback. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<ProxyShared>,
}

#[derive(Debug)]
struct ProxyShared {
    server: SocketAddr,
    state: Mutex<ProxyState>,
    changed: Condvar,
}

#[derive(Debug)]
struct ProxyState {
    to_server: ProxyConnection,
    to_client: ProxyConnection,
    accepted: usize,
    /// Both ends of every open connection, by its number.
    open: Vec<(usize, TcpStream, TcpStream)>,
    /// The listener that accepts connections; the thread of any other listener ends.
    listening: Option<usize>,
    listeners: usize,
}

#[derive(Debug)]
struct ProxyConnection {
    mode: Mode,
    bytes: u64,
    swallowed: u64,
}

impl Proxy {
    /// Starts a proxy in front of a port of loopback, which passes everything.
    pub fn start(server_port: u16) -> Self {
        let line = || ProxyConnection { mode: Mode::Pass, bytes: 0, swallowed: 0 };
        let state = ProxyState {
            to_server: line(),
            to_client: line(),
            accepted: 0,
            open: Vec::new(),
            listening: None,
            listeners: 0,
        };
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server_port));
        let shared = ProxyShared { server, state: Mutex::new(state), changed: Condvar::new() };
        let proxy = Self { port: free_port(), shared: Arc::new(shared) };
        proxy.accept();
        proxy
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what happens to the bytes of a direction, on all connections.
    pub fn set(&self, direction: Direction, mode: Mode) {
        self.shared.state.lock().line(direction).mode = mode;
        self.shared.changed.notify_all();
    }

    /// Changes both directions.
    pub fn set_both(&self, mode: &Mode) {
        self.set(Direction::ToServer, mode.clone());
        self.set(Direction::ToClient, mode.clone());
    }

    /// Closes every connection; new ones are still accepted.
    pub fn cut(&self) {
        let mut state = self.shared.state.lock();
        for (_, client, server) in state.open.drain(..) {
            client.shutdown(Shutdown::Both).ok();
            server.shutdown(Shutdown::Both).ok();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Closes every connection and refuses new ones, as if no server were there.
    pub fn refuse(&self) {
        let listened = self.shared.state.lock().listening.take();
        if listened.is_some() {
            // Wakes the thread that waits for the next connection; it closes the listener.
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
            let refused = || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err();
            crate::wait_until("the proxy refuses", Duration::from_secs(10), refused);
        }
        self.cut();
    }

    /// Accepts connections again after [`Proxy::refuse`].
    pub fn accept(&self) {
        let mut state = self.shared.state.lock();
        if state.listening.is_some() {
            return;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
            .expect("no other process takes the proxy's port");
        state.listeners += 1;
        state.listening = Some(state.listeners);
        let (shared, number) = (Arc::clone(&self.shared), state.listeners);
        std::thread::spawn(move || listen(&listener, number, &shared));
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.state.lock().accepted
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.shared.state.lock().open.len()
    }

    /// How many bytes were forwarded in a direction so far.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.state.lock().line(direction).bytes
    }

    /// How many bytes were thrown away in a direction so far.
    pub fn swallowed(&self, direction: Direction) -> u64 {
        self.shared.state.lock().line(direction).swallowed
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
    }
}

impl ProxyState {
    fn line(&mut self, direction: Direction) -> &mut ProxyConnection {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    fn is_open(&self, connection: usize) -> bool {
        self.open.iter().any(|(number, ..)| *number == connection)
    }
}

fn listen(listener: &TcpListener, number: usize, shared: &Arc<ProxyShared>) {
    for client in listener.incoming().flatten() {
        if shared.state.lock().listening != Some(number) {
            return;
        }
        // A missing server looks to the client as it would without a proxy, but for the connection
        // that is opened and closed.
        let Ok(server) = TcpStream::connect(shared.server) else { continue };
        client.set_nodelay(true).ok();
        server.set_nodelay(true).ok();
        if let Err(error) = connect(shared, &client, &server) {
            panic!("a connection through the proxy: {error}");
        }
    }
}

fn connect(
    shared: &Arc<ProxyShared>,
    client: &TcpStream,
    server: &TcpStream,
) -> std::io::Result<()> {
    let mut state = shared.state.lock();
    state.accepted += 1;
    let connection = state.accepted;
    state.open.push((connection, client.try_clone()?, server.try_clone()?));
    drop(state);
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (from, to) = match direction {
            Direction::ToServer => (client.try_clone()?, server.try_clone()?),
            Direction::ToClient => (server.try_clone()?, client.try_clone()?),
        };
        let pump = Pump { shared: Arc::clone(shared), connection, direction };
        std::thread::spawn(move || pump.run(from, to));
    }
    Ok(())
}

/// Carries the bytes of one direction of one connection.
struct Pump {
    shared: Arc<ProxyShared>,
    connection: usize,
    direction: Direction,
}

impl Pump {
    fn run(self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let Some(allowed) = self.admit(&buffer[..length]) else { break };
            if to.write_all(&buffer[..allowed]).is_err() {
                break;
            }
        }
        // Either end closing closes the connection: nothing that is tested here half-closes.
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
        self.shared.state.lock().open.retain(|(number, ..)| *number != self.connection);
    }

    /// How many of these bytes may be forwarded, as soon as any may; `None` if the connection was
    /// cut.
    fn admit(&self, bytes: &[u8]) -> Option<usize> {
        let mut state = self.shared.state.lock();
        while state.line(self.direction).mode == Mode::Stall && state.is_open(self.connection) {
            self.shared.changed.wait(&mut state);
        }
        if !state.is_open(self.connection) {
            return None;
        }
        let line = state.line(self.direction);
        let allowed = match &mut line.mode {
            Mode::Pass | Mode::Stall => bytes.len(),
            Mode::Swallow => 0,
            Mode::SwallowAfter(left) => {
                let allowed = bytes.len().min(*left);
                *left -= allowed;
                allowed
            }
        };
        line.bytes += allowed as u64;
        line.swallowed += (bytes.len() - allowed) as u64;
        Some(allowed)
    }
}
