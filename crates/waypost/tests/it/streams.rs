//! Streams of a real server that is killed and started again: a reader that comes back with the id
//! of the last event it saw sees every event once, in order.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::program::Program;

/// How often the server is killed.
const KILLS: usize = 9;
/// Executions started between two kills.
const STARTS: usize = 3;
/// Events that each reader sees between two kills, at least.
const PROGRESS: usize = 5;

/// The execution that is followed by itself; it outlives all kills.
const LONG: &str = "long";

#[test]
fn streams_continue_from_their_position_after_a_kill() {
    let program = Program::new();
    let mut server = Server::start(&program, "127.0.0.1:0");
    let address = server.address;
    // Steps of the long one are taken by signals, so that it cannot end before it is told to.
    deploy(
        address,
        &chain("short", 4, &json!({ "type": "delay", "config": { "duration": "20ms" } })),
    );
    let waits = KILLS + 1;
    deploy(
        address,
        &chain("patient", waits, &json!({ "type": "wait-for-events", "config": { "name": "go" } })),
    );
    start(address, "patient", LONG);
    let one = Reader::follow(address, &format!("/v1/executions/{LONG}/stream"));
    let all = Reader::follow(address, "/v1/stream?after=0");

    let mut ids = vec![LONG.to_owned()];
    for kill in 0..=KILLS {
        for at in 0..STARTS {
            let id = format!("e{kill}-{at}");
            start(address, "short", &id);
            ids.push(id);
        }
        let signal = json!({ "name": "go", "messageId": format!("m{kill}") });
        post(address, &format!("/v1/executions/{LONG}/signals"), &signal);
        if kill < KILLS {
            // The one moves with its signal, and the other with everything.
            all.wait_for(PROGRESS);
            one.wait_for(1);
            server.kill();
            server = Server::start(&program, &address.to_string());
            one.come_back();
            all.come_back();
        }
    }
    for id in &ids {
        let end = get(address, &format!("/v1/executions/{id}?wait=60s"));
        assert_eq!(end["status"], "COMPLETED", "{id}");
    }

    let (long, seen) = (one.finish_at_end(), all.finish_at(ids.len(), "RunCompleted"));
    server.kill();
    let server = Server::start(&program, &address.to_string());
    let log = log(address, LONG);
    assert_eq!(
        long.iter().map(|event| &event.data).collect::<Vec<_>>(),
        log.iter().collect::<Vec<_>>()
    );
    assert_eq!(seen, everything(address), "the stream of everything is what the store holds");
    for id in &ids {
        let own = seen.iter().filter(|event| event.data["execution"] == **id);
        let seqs: Vec<_> = own.map(|event| event.data["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{id}");
    }
    server.kill();
}

/// A workflow of so many nodes, one after the other.
fn chain(name: &str, length: usize, node: &Value) -> Value {
    let nodes = (0..length).map(|at| {
        let mut node = node.clone();
        node["id"] = json!(format!("n{at}"));
        if at > 0 {
            node["needs"] = json!([format!("n{}", at - 1)]);
        }
        node
    });
    json!({ "name": name, "nodes": nodes.collect::<Vec<_>>() })
}

fn deploy(address: SocketAddr, definition: &Value) {
    post(address, "/v1/definitions", definition);
}

fn start(address: SocketAddr, workflow: &str, id: &str) {
    post(address, "/v1/executions", &json!({ "workflow": workflow, "id": id }));
}

/// The log of an execution, from the list.
fn log(address: SocketAddr, id: &str) -> Vec<Value> {
    let page = get(address, &format!("/v1/executions/{id}/events?limit=1000"));
    assert_eq!(page.get("next"), None);
    page["events"].as_array().unwrap().clone()
}

/// All that there is, from a stream that ends.
fn everything(address: SocketAddr) -> Vec<Event> {
    let mut seen = Vec::new();
    let stream = Stream::open(address, "/v1/stream?after=0&follow=false", None);
    let mut stream = stream.unwrap().unwrap();
    while let Some(event) = stream.next().unwrap() {
        seen.push(event);
    }
    seen
}

/// A `waypost serve` that runs.
struct Server {
    child: Child,
    /// Kept open: what nobody reads is still written.
    _output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Server {
    fn start(program: &Program, listen: &str) -> Self {
        let mut command = program.command(&["serve", "--listen", listen, "-o", "json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = Value::deserialize(&mut serde_json::Deserializer::from_reader(&mut output));
        let said = said.as_mut().expect("the server says where it listens").take();
        let address = said["listening"].as_str().unwrap().strip_prefix("http://").unwrap();
        Self { child, address: address.parse().unwrap(), _output: output }
    }

    /// As `kill -9` does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn get(address: SocketAddr, target: &str) -> Value {
    ask(address, "GET", target, None)
}

fn post(address: SocketAddr, target: &str, body: &Value) -> Value {
    ask(address, "POST", target, Some(body))
}

/// Asks, and fails unless all is well.
fn ask(address: SocketAddr, method: &str, target: &str, body: Option<&Value>) -> Value {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut head =
        format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    if !body.is_empty() {
        let length = body.len();
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"));
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{method} {target}: {reply}");
    serde_json::from_str(body).unwrap()
}

/// An event that was seen.
#[derive(Clone, PartialEq, Debug)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

/// A reader that comes back whenever the server does.
struct Reader {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    events: Vec<Event>,
    /// Events that had been seen at the last look.
    looked: usize,
    /// How often the server was started.
    starts: usize,
    /// Is there nothing more to come, or to be wanted?
    done: bool,
}

impl Reader {
    fn follow(address: SocketAddr, target: &str) -> Self {
        let shared = Arc::new(Shared::default());
        let (theirs, target) = (Arc::clone(&shared), target.to_owned());
        let thread = std::thread::spawn(move || follow(address, &target, &theirs));
        Self { shared, thread }
    }

    /// Waits until so many more events have been seen than at the last look.
    fn wait_for(&self, more: usize) {
        let state = self.shared.state.lock().unwrap();
        let lacks = |seen: &mut Seen| seen.events.len() < seen.looked + more;
        let mut seen = self.shared.changed.wait_while(state, lacks).unwrap();
        seen.looked = seen.events.len();
    }

    /// Says that the server is there again.
    fn come_back(&self) {
        self.shared.state.lock().unwrap().starts += 1;
        self.shared.changed.notify_all();
    }

    /// Everything, once the stream has said that it is over.
    fn finish_at_end(self) -> Vec<Event> {
        self.thread.join().unwrap();
        std::mem::take(&mut self.shared.state.lock().unwrap().events)
    }

    /// Everything, once so many events of a type have been seen. The server must end then.
    fn finish_at(self, count: usize, kind: &str) -> Vec<Event> {
        let state = self.shared.state.lock().unwrap();
        let lacks =
            |seen: &mut Seen| seen.events.iter().filter(|event| event.kind == kind).count() < count;
        let mut seen = self.shared.changed.wait_while(state, lacks).unwrap();
        seen.done = true;
        std::mem::take(&mut seen.events)
    }
}

/// Reads, and after every end of the connection waits for the server and reads on.
fn follow(address: SocketAddr, target: &str, shared: &Shared) {
    let mut starts = 0;
    loop {
        let last = shared.state.lock().unwrap().events.last().map(|event| event.id.clone());
        // Anything that goes wrong is the kill, or comes again.
        if let Ok(opened) = Stream::open(address, target, last.as_deref()) {
            let Some(mut stream) = opened else { return };
            while let Ok(Some(event)) = stream.next() {
                if event.kind == "end" {
                    return;
                }
                assert!(!["dropped", "problem"].contains(&event.kind.as_str()), "{event:?}");
                let mut seen = shared.state.lock().unwrap();
                if seen.done {
                    return;
                }
                seen.events.push(event);
                shared.changed.notify_all();
            }
        }
        let state = shared.state.lock().unwrap();
        let waits = |seen: &mut Seen| seen.starts == starts && !seen.done;
        let seen = shared.changed.wait_while(state, waits).unwrap();
        if seen.done {
            return;
        }
        starts = seen.starts;
    }
}

/// A stream of events on a socket.
struct Stream {
    lines: BufReader<TcpStream>,
    unread: String,
}

impl Stream {
    /// Opens a stream; `None` where it is over.
    fn open(address: SocketAddr, target: &str, last: Option<&str>) -> io::Result<Option<Self>> {
        let mut stream = TcpStream::connect(address)?;
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{last}\r\n");
        stream.write_all(head.as_bytes())?;
        let mut stream = Self { lines: BufReader::new(stream), unread: String::new() };
        let first = stream.line()?;
        while !stream.line()?.is_empty() {}
        match first.as_str() {
            "HTTP/1.1 200 OK" => Ok(Some(stream)),
            "HTTP/1.1 204 No Content" => Ok(None),
            other => panic!("{target}: {other}"),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// The next event that came whole; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some((block, rest)) = self.unread.split_once("\n\n") {
                let event = parse(block);
                self.unread = rest.to_owned();
                match event {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            let size = usize::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
            let mut piece = vec![0; size + 2];
            self.lines.read_exact(&mut piece)?;
            if size == 0 {
                return Ok(None);
            }
            self.unread.push_str(std::str::from_utf8(&piece[..size]).map_err(io::Error::other)?);
        }
    }
}

/// An event; `None` for comments and advice.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned);
        block.lines().find_map(of)
    };
    let kind = field("event")?;
    let data = serde_json::from_str(&field("data")?).unwrap();
    Some(Event { id: field("id").unwrap_or_default(), kind, data })
}
