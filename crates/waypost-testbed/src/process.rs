//! Child processes: started with a log, watched, stopped in every way there is.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a condition outside of the process is polled.
const POLL: Duration = Duration::from_millis(5);
/// How much of a log is shown when something went wrong.
const LOG_SHOWN_BYTES: usize = 8 * 1024;

/// A child in a process group of its own, whose output goes to a file. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command, whose output and errors are added to the file `log`.
    pub fn start(command: &Command, log: &Path) -> Self {
        let name = Path::new(command.get_program()).file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let open = || File::options().create(true).append(true).open(log);
        let (out, err) = match open().and_then(|out| Ok((out.try_clone()?, out))) {
            Ok(files) => files,
            Err(error) => panic!("{}: {error}", log.display()),
        };
        let mut command = tied_to_this_process(command);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = spawn(command).unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { name, child, log: log.to_owned(), ended: None }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far, with that of earlier processes with the same file.
    pub fn output(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits for a line of output that contains a text, and returns that line.
    pub fn wait_for_line(&mut self, part: &str, within: Duration) -> String {
        let mut found = None;
        self.wait_for(&format!("a line with {part:?}"), within, |this| {
            let output = this.output();
            found = output.lines().find(|line| line.contains(part)).map(str::to_owned);
            found.is_some()
        });
        found.unwrap_or_default()
    }

    /// Waits until `GET /readyz` on this port of loopback answers 200.
    pub fn wait_ready(&mut self, port: u16, within: Duration) {
        self.wait_for("an answer 200 of /readyz", within, |_| is_ready(port));
    }

    /// Waits until `done`, as long as the process lives.
    pub fn wait_for(&mut self, what: &str, within: Duration, mut done: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + within;
        loop {
            // Read first: output from before the process ended counts.
            let ended = self.try_wait();
            if done(self) {
                return;
            }
            if let Some(status) = ended {
                panic!("{} ended ({status}) without {what}:\n{}", self.name, self.end_of_output());
            }
            if Instant::now() >= until {
                panic!("{}: no {what} within {within:?}:\n{}", self.name, self.end_of_output());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills it and its children (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }

    /// Freezes it (SIGSTOP): it keeps its connections and does nothing.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Continues it after [`Process::freeze`] (SIGCONT).
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Terminates it (SIGTERM).
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal to it and its children, if it has not ended.
    pub fn signal(&mut self, signal: Signal) {
        // After the process has been reaped, its id may belong to another one.
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (None, Some(id)) = (self.try_wait(), id) {
            kill_process_group(id, signal).ok();
        }
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Waits for its end.
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let until = Instant::now() + within;
        loop {
            if let Some(status) = self.try_wait() {
                return status;
            }
            if Instant::now() >= until {
                panic!("{} has not ended in {within:?}:\n{}", self.name, self.end_of_output());
            }
            std::thread::sleep(POLL);
        }
    }

    fn end_of_output(&self) -> String {
        let output = self.output();
        let mut from = output.len().saturating_sub(LOG_SHOWN_BYTES);
        while !output.is_char_boundary(from) {
            from += 1;
        }
        output[from..].to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A short sleep between two polls of a process that sends no notification.
pub async fn moment() {
    tokio::time::sleep(POLL).await;
}

/// Lets time pass if time itself is tested: an outage of some length, a lease that ends.
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Polls a condition outside of the test's control.
pub fn wait_until(what: &str, within: Duration, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !done() {
        assert!(Instant::now() < until, "{what}: not within {within:?}");
        std::thread::sleep(POLL);
    }
}

/// Does this port of loopback answer `GET /readyz` with 200?
fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(
            stream,
            "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

/// A copy of a command that runs in its own process group and is killed by the kernel when this
/// process is.
///
/// The child has to request the kernel's signal (`PR_SET_PDEATHSIG`) itself: `setpriv` does so and
/// becomes a shell, which becomes the command, all under one process id. The shell checks that its
/// parent is still this process: a parent that was killed before the request is not covered by it.
/// Without `setpriv` a killed test process leaves its servers behind, nothing worse.
fn tied_to_this_process(command: &Command) -> Command {
    use std::os::unix::process::CommandExt;

    /// `$0` is this process, the other arguments are the command.
    const IF_PARENT_LIVES: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let has_setpriv = *SETPRIV.get_or_init(|| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        setpriv.status().is_ok_and(|status| status.success())
    });
    let mut tied = if has_setpriv {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL", "--", "sh", "-c", IF_PARENT_LIVES]);
        setpriv.arg(std::process::id().to_string()).arg(command.get_program());
        setpriv
    } else {
        Command::new(command.get_program())
    };
    tied.args(command.get_args()).process_group(0);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(name, value),
            None => tied.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        tied.current_dir(folder);
    }
    tied
}

/// Starts a child from a thread that lives as long as this process: the kernel's promise is about the
/// thread that started it, and a test's thread may end before a server that tests share.
fn spawn(command: Command) -> std::io::Result<Child> {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static STARTER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();

    let starter = STARTER.get_or_init(|| {
        let (orders, received) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in received {
                answer.send(command.spawn()).ok();
            }
        });
        Mutex::new(orders)
    });
    let (answer, answered) = channel();
    starter.lock().send((command, answer)).expect("the thread that starts children lives on");
    answered.recv().expect("the thread that starts children answers")
}
