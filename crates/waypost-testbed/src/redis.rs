//! A private Redis: one process, one port, one folder.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::port::free_port;
use crate::process::Process;

/// How long the server may take to start, stop or answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running (or stopped) `redis-server` on loopback.
#[derive(Debug)]
pub struct Redis {
    // Before the folder: dropped in this order, and the server writes into the folder.
    process: Option<Process>,
    folder: TempDir,
    port: u16,
    password: Option<String>,
}

/// An answer of Redis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedisReply {
    /// A status, such as `OK`.
    Status(String),
    /// A refusal.
    Error(String),
    Number(i64),
    /// Bytes, or nothing.
    Bytes(Option<Vec<u8>>),
    /// Several answers.
    Many(Vec<Self>),
}

impl Redis {
    /// Starts one without a password.
    pub fn start() -> Self {
        Self::new(None)
    }

    /// Starts one with a password.
    pub fn start_with_password(password: &str) -> Self {
        Self::new(Some(password.to_owned()))
    }

    fn new(password: Option<String>) -> Self {
        let folder =
            TempDir::with_prefix("waypost-redis-").expect("a temporary folder can be made");
        let mut redis = Self { process: None, folder, port: free_port(), password };
        redis.start_again();
        redis
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients find it, with the password if there is one.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its URL through a proxy on another port.
    pub fn url_through(&self, port: u16) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{port}/"),
            None => format!("redis://127.0.0.1:{port}/"),
        }
    }

    /// Starts it after a stop, with the same port and folder.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "redis runs already");
        let mut command = Command::new(program());
        command.current_dir(self.folder.path()).args(["--bind", "127.0.0.1", "--port"]);
        command.arg(self.port.to_string());
        command.args(["--save", "", "--appendonly", "no", "--dbfilename", "dump.rdb"]);
        command.args(["--enable-debug-command", "yes"]);
        if let Some(password) = &self.password {
            command.args(["--requirepass", password]);
        }
        let mut process = Process::start(&command, &self.folder.path().join("redis.log"));
        process.wait_for("an answer to PING", PATIENCE, |_| {
            self.try_command(&["PING"])
                .is_ok_and(|reply| reply == RedisReply::Status("PONG".into()))
        });
        self.process = Some(process);
    }

    /// Stops it in order: it saves its data, and has it again after the next start.
    pub fn stop(&mut self) {
        // The connection ends instead of an answer.
        self.try_command(&["SHUTDOWN", "SAVE"]).ok();
        let mut process = self.process.take().expect("redis runs");
        process.wait(PATIENCE);
    }

    /// Kills it: unsaved data is lost.
    pub fn kill(&mut self) {
        self.process.take().expect("redis runs").kill();
    }

    /// The server's process, to be frozen for instance.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("redis runs")
    }

    /// Removes everything it holds.
    pub fn flush_all(&self) {
        assert_eq!(self.command(&["FLUSHALL"]), RedisReply::Status("OK".into()));
    }

    /// A copy of all it holds now, as the bytes of its file.
    pub fn backup(&self) -> Vec<u8> {
        assert_eq!(self.command(&["SAVE"]), RedisReply::Status("OK".into()));
        std::fs::read(self.file()).expect("the file that was saved can be read")
    }

    /// Puts an earlier copy in the place of all it holds: the server is killed and started with it.
    pub fn restore(&mut self, backup: &[u8]) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        std::fs::write(self.file(), backup).expect("the file in its folder can be written");
        self.start_again();
    }

    /// Runs one command. A refusal is an answer.
    pub fn command(&self, words: &[&str]) -> RedisReply {
        self.try_command(words).unwrap_or_else(|error| panic!("redis does not answer: {error}"))
    }

    fn try_command(&self, words: &[&str]) -> std::io::Result<RedisReply> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        if let Some(password) = &self.password {
            send(stream.get_mut(), &["AUTH", password])?;
            receive(&mut stream)?;
        }
        send(stream.get_mut(), words)?;
        receive(&mut stream)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("dump.rdb")
    }
}

/// Where the server's program is.
fn program() -> &'static str {
    let found = Command::new("redis-server").arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "redis-server is not installed; on Debian: apt-get install redis-server (scripts/setup does it)"
    );
    "redis-server"
}

fn send(to: &mut impl Write, words: &[&str]) -> std::io::Result<()> {
    let mut message = format!("*{}\r\n", words.len());
    for word in words {
        message.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    to.write_all(message.as_bytes())
}

fn receive(from: &mut impl BufRead) -> std::io::Result<RedisReply> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let wrong = || std::io::Error::other(format!("not an answer of redis: {line:?}"));
    let rest = line.trim_end().get(1..).unwrap_or_default();
    let number = || rest.parse::<i64>().map_err(|_| wrong());
    match line.as_bytes().first() {
        Some(b'+') => Ok(RedisReply::Status(rest.to_owned())),
        Some(b'-') => Ok(RedisReply::Error(rest.to_owned())),
        Some(b':') => number().map(RedisReply::Number),
        Some(b'$') => {
            let Ok(length) = usize::try_from(number()?) else {
                return Ok(RedisReply::Bytes(None));
            };
            let mut bytes = vec![0; length + 2];
            from.read_exact(&mut bytes)?;
            bytes.truncate(length);
            Ok(RedisReply::Bytes(Some(bytes)))
        }
        Some(b'*') => {
            let count = number()?.max(0);
            Ok(RedisReply::Many((0..count).map(|_| receive(from)).collect::<Result<_, _>>()?))
        }
        _ => Err(wrong()),
    }
}
