//! A process group that never outlives its attempt.
//!
//! ```text
//!   spawn ─▶ leader exits ───────────▶ wait a little for its output ─▶ KILL whatever is left
//!        ├─▶ cancelled, timed out ──▶ TERM ─▶ wait a little ────────▶ KILL
//!        └─▶ future dropped ─────────────────────────────────────────▶ KILL
//! ```
//!
//! Every way ends in the drop of [`Group`], which kills: a command cannot leave anything running,
//! unless it makes a session of its own on purpose.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::time::{DURATION_MAX, Millis};
use waypost_ports::handler::Marks;

use super::capture::Capture;
use crate::outcome::{SPAWN, invalid_config};

/// What to run, and how long for.
pub(super) struct Invocation {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
    pub(super) stdin: String,
    pub(super) output_bytes_max: usize,
    pub(super) timeout: Option<Millis>,
    pub(super) grace: Millis,
    pub(super) marks: Marks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandEnd {
    Exited(i32),
    Signalled(i32),
    TimedOut(Millis),
    Cancelled,
}

/// All processes that a command started. Killed when dropped.
struct Group(Pid);

impl Group {
    /// Sends a signal to every process of the group; that there is none left is as good.
    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.0, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, group = self.0.as_raw_nonzero().get(), "cannot signal a command");
        }
    }
}

impl Drop for Group {
    /// The leader may have exited by now. Its id still names this group while any member lives, and
    /// no process after that.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Runs a command to its end, or ends it.
pub(super) async fn run(
    invocation: Invocation,
    cancel: &CancellationToken,
    stdout: &mut Capture,
    stderr: &mut Capture,
) -> Result<CommandEnd, Failure> {
    let (mut child, group) = spawn(&invocation)?;
    let grace = invocation.grace.to_std();
    let limit = invocation.timeout.unwrap_or(DURATION_MAX);
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let pipes = async {
        tokio::join!(
            feed(input, invocation.stdin.as_bytes()),
            stdout.drain(output, &invocation.marks),
            stderr.drain(errors, &invocation.marks),
        );
    };
    tokio::pin!(pipes);
    let mut drained = false;
    // Cancel-safe: the child and the timer keep their own state, and `pipes` is only borrowed.
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => CommandEnd::Cancelled,
        () = tokio::time::sleep(limit.to_std()) => CommandEnd::TimedOut(limit),
        status = wait_and_drain(&mut child, pipes.as_mut(), &mut drained) => ended(
            status.map_err(|error| Failure::transient(SPAWN, format!("wait failed: {error}")))?,
        ),
    };
    match ended {
        CommandEnd::Exited(_) | CommandEnd::Signalled(_) => {
            // A background process may hold the pipes open for ever; what it writes from now on is
            // not the command's output.
            if !drained && timeout(grace, pipes).await.is_err() {
                tracing::debug!("a command left processes behind that hold its output open");
            }
        }
        CommandEnd::TimedOut(_) | CommandEnd::Cancelled => {
            group.signal(Signal::TERM);
            // The leader may exit at once while its children still clean up, so the end of the
            // pipes is awaited as well.
            let everything = async {
                let status = wait_and_drain(&mut child, pipes.as_mut(), &mut drained).await;
                if !drained {
                    pipes.await;
                }
                status
            };
            if let Ok(Err(error)) = timeout(grace, everything).await {
                tracing::warn!(%error, "cannot wait for a command");
            }
        }
    }
    Ok(ended)
}

/// Waits for the leader while its pipes are served.
async fn wait_and_drain(
    child: &mut Child,
    mut pipes: std::pin::Pin<&mut impl Future<Output = ()>>,
    drained: &mut bool,
) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            () = pipes.as_mut(), if !*drained => *drained = true,
        }
    }
}

fn spawn(invocation: &Invocation) -> Result<(Child, Group), Failure> {
    let Some((program, args)) = invocation.argv.split_first() else {
        return Err(invalid_config("`args` needs at least the program"));
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&invocation.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        // The group is killed anyway; this has the runtime reap the leader.
        .kill_on_drop(true);
    if let Some(cwd) = &invocation.cwd {
        command.current_dir(cwd);
    }
    let child = command.spawn().map_err(|error| spawn_failure(invocation, program, &error))?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let leader = leader.expect("a process that was not waited for has an id");
    Ok((child, Group(leader)))
}

fn spawn_failure(invocation: &Invocation, program: &str, error: &io::Error) -> Failure {
    let place = invocation.cwd.as_ref().map(|cwd| format!(" in {cwd:?}")).unwrap_or_default();
    let message = format!("cannot start {program:?}{place}: {error}");
    match error.kind() {
        // Out of processes or memory: may pass.
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            Failure::transient(SPAWN, message)
        }
        io::ErrorKind::InvalidInput => invalid_config(message),
        _ => Failure::permanent(SPAWN, message),
    }
}

/// Writes the input and closes the pipe. A command need not read all of it.
async fn feed(pipe: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut pipe) = pipe
        && let Err(error) = pipe.write_all(input).await
    {
        tracing::debug!(%error, "a command did not read all of its input");
    }
}

fn ended(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exited(code),
        (None, signal) => CommandEnd::Signalled(signal.unwrap_or(0)),
    }
}
