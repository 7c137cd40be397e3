//! A private PostgreSQL: its data in a temporary folder, on a free port of loopback, gone when it is
//! dropped, and also when the process that started it is killed.
//!
//! One server is enough for a process of tests ([`Postgres::shared`]); each test gets a database of its
//! own ([`Postgres::database`]).

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::{free_port, make_certificate, wait_until};

/// The superuser of every server that is started here. There is no password.
const USER: &str = "waypost";

/// How long a server may take to begin; machines that run tests are busy.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that belongs to this process.
pub struct Postgres {
    /// One for each start. Closing its standard input, also by dying, ends the server: see
    /// [`WATCHED`].
    watchers: Vec<Child>,
    folder: tempfile::TempDir,
    port: u16,
    durability: Durability,
    databases: AtomicU64,
}

/// The durability that a server is configured for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Nothing: it is fast, and its data is lost with the machine. For most tests.
    #[default]
    None,
    /// Every commit is synced.
    Full,
}

/// The data folder, and whose it is: a server refuses to run as root.
#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

/// Runs a server until its own standard input ends, then removes the folder. If the starting
/// process was killed, there is no other cleanup.
const WATCHED: &str = r#"folder=$1; shift; "$@" & server=$!
read -r _; kill -QUIT "$server"; wait "$server"; rm -rf "$folder""#;

impl Postgres {
    /// The server that the tests of this process share. It ends with the process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Durability::None))
    }

    /// Starts a server and waits until it takes connections.
    pub fn start(durability: Durability) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let user = server_user();
        copy_template(&folder.path().join("data"), user);
        give_to(folder.path(), user);
        let port = free_port();
        let watchers = vec![spawn(folder.path(), port, durability)];
        Self { watchers, folder, port, durability, databases: AtomicU64::new(0) }
    }

    /// Stops it as if it had crashed (`pg_ctl stop -m immediate`): every connection breaks, nothing
    /// is flushed, and the next start has to recover.
    pub fn stop_immediately(&mut self) {
        let file = self.signal(Signal::QUIT);
        // A stopping server removes this file last. Its process stays in the table until the
        // watching shell reaps it.
        wait_until("the server has stopped", START_TIMEOUT, || !file.exists());
    }

    /// Sends it a signal; returns the file that exists for as long as it runs.
    fn signal(&self, signal: Signal) -> PathBuf {
        let file = self.folder.path().join("data/postmaster.pid");
        let pid =
            std::fs::read_to_string(&file).expect("a server that runs says which process it is");
        let pid = pid.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw);
        let pid = pid.expect("its first line is a number");
        rustix::process::kill_process(pid, signal).expect("the server runs");
        file
    }

    /// Starts it after a stop, on the same port and folder.
    pub fn start_again(&mut self) {
        self.watchers.push(spawn(self.folder.path(), self.port, self.durability));
    }

    /// Enables TLS as well, with a self-signed certificate; returns the certificate's file.
    pub fn speak_tls(&self) -> PathBuf {
        let data = self.folder.path().join("data");
        make_certificate(&data);
        let key = data.join("key.pem");
        give_to(&key, server_user());
        // The server takes no key that others may read.
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, own).expect("it is ours");
        for setting in ["ssl_cert_file = 'cert.pem'", "ssl_key_file = 'key.pem'", "ssl = on"] {
            self.sql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        self.signal(Signal::HUP);
        wait_until("it speaks TLS", START_TIMEOUT, || self.sql("postgres", "SHOW ssl") == "on");
        data.join("cert.pem")
    }

    /// Creates a database and returns its URL.
    pub fn database(&self) -> String {
        let name = format!("db{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// A copy of a database, by its URL. Nothing may be connected to it. Returns the URL of the copy.
    pub fn copy(&self, url: &str) -> String {
        let template = database_of(url);
        let name = format!("db{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        self.url(&name)
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder, whose `data` is the server's.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs SQL in a database through `psql`; returns its output, unaligned and without headers.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(binary("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .arg(self.url(database))
            .output()
            .expect("psql can be run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

/// The database that a URL names.
pub fn database_of(url: &str) -> &str {
    let path = url.rsplit('/').next().unwrap_or_default();
    path.split('?').next().unwrap_or_default()
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Waiting closes the standard input first.
        for watcher in &mut self.watchers {
            drop(watcher.wait());
        }
    }
}

fn spawn(folder: &Path, port: u16, durability: Durability) -> Child {
    let mut command = as_user(Command::new("sh"), server_user());
    command.args(["-c", WATCHED, "sh"]).arg(folder);
    command.arg(binary("postgres")).arg("-D").arg(folder.join("data"));
    command.args(["-p", &port.to_string()]);
    for setting in settings(durability) {
        command.args(["-c", setting]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut watcher = command.current_dir("/").spawn().expect("the server can be started");
    wait_until_ready(&mut watcher);
    watcher
}

fn settings(durability: Durability) -> Vec<&'static str> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=200",
        "shared_buffers=32MB",
        "wal_level=minimal",
        "max_wal_senders=0",
        "log_checkpoints=off",
    ];
    if durability == Durability::None {
        settings.extend(["fsync=off", "synchronous_commit=off", "full_page_writes=off"]);
    }
    settings
}

/// Creating a data folder takes a second, copying one a fifth of that: the first process that needs
/// one creates a template, which the others copy.
fn copy_template(data: &Path, user: User) {
    let template = std::env::temp_dir().join(format!("waypost-testbed-postgres-{}", user.uid));
    if !template.exists() {
        let fresh = tempfile::tempdir().expect("a temporary folder can be made");
        give_to(fresh.path(), user);
        let made = fresh.path().join("data");
        let mut command = as_user(Command::new(binary("initdb")), user);
        command.args(["--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D"]);
        run(command.arg(&made).current_dir("/"));
        // Another process may have created it first; either template will do.
        drop(std::fs::rename(&made, &template));
    }
    let mut command = Command::new("cp");
    run(command.args(["-a", "--reflink=auto"]).arg(&template).arg(data));
}

fn wait_until_ready(watcher: &mut Child) {
    let stderr = watcher.stderr.take().expect("it was piped");
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if line.contains("database system is ready to accept connections") {
                drop(ready.send(Ok(())));
            }
            // Bounded: only the first lines can help a caller that waits for the start.
            if lines.len() < 100 {
                lines.push(line);
            }
        }
        drop(ready.send(Err(lines.join("\n"))));
    });
    match is_ready.recv_timeout(START_TIMEOUT) {
        Ok(Ok(())) => {}
        Ok(Err(lines)) => panic!("the server did not start:\n{lines}"),
        Err(_) => panic!("the server did not start in time"),
    }
}

/// The newest server that is installed, or the one in the path.
fn binary(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .max()
        .map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin/{name}")));
    newest.filter(|path| path.exists()).unwrap_or_else(|| name.into())
}

/// The user that the server runs as: the current one, or an unprivileged one if that is root.
fn server_user() -> User {
    let us =
        User { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    if us.uid != 0 {
        return us;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    };
    find("postgres").or_else(|| find("nobody")).expect("there is a user who is not root")
}

fn as_user(mut command: Command, user: User) -> Command {
    if rustix::process::geteuid().is_root() {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

fn give_to(path: &Path, user: User) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).expect("root may do that");
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}
