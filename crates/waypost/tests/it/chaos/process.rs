//! Processes as the parent sees them: what they say, and what is done to them.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Something that the parent learns.
pub(super) enum News {
    /// A line on the standard output of the process that runs the engine.
    Line(String),
    /// A line of its log.
    Log(String),
    /// That process has closed its standard output: nothing more will come.
    Closed,
    /// The sink was called.
    Called,
}

/// A process that runs the engine.
pub(super) struct Engine {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Engine {
    pub(super) fn start(mut command: Command, news: &Sender<News>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        read(child.stdout.take().unwrap(), news, News::Line, Some(News::Closed));
        read(child.stderr.take().unwrap(), news, News::Log, None);
        let orders = child.stdin.take();
        Self { child, orders }
    }

    /// Gives an order. One that is dead does not hear it, which is no different from dying just
    /// after.
    pub(super) fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}").unwrap_or_default();
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// `kill -9`. What it has said until then is still to be read.
    pub(super) fn kill(self) {
        drop(self);
    }

    /// The status of a process that has closed its output, or is about to.
    pub(super) fn wait(mut self) -> Result<ExitStatus> {
        drop(self.orders.take());
        wait(&mut self.child, "the engine's process")
    }
}

/// Nothing is left running when a round ends with a finding.
impl Drop for Engine {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

fn read(
    from: impl Read + Send + 'static,
    news: &Sender<News>,
    wrap: fn(String) -> News,
    end: Option<News>,
) {
    let news = news.clone();
    std::thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        // The receiver is gone when the round is over.
        lines.map(wrap).chain(end).for_each(|one| news.send(one).unwrap_or_default());
    });
}

/// Longest that anything is awaited; a healthy process needs a small part of it.
pub(super) const GUARD: Duration = Duration::from_secs(40);

/// Waits for a process, but not for ever.
pub(super) fn wait(child: &mut Child, what: &str) -> Result<ExitStatus> {
    let deadline = Instant::now() + GUARD;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("{what} did not end within {GUARD:?}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
