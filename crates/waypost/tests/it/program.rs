//! The real program, on a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// A data folder and the program that works on it.
pub(crate) struct Program {
    folder: tempfile::TempDir,
}

/// What a finished command left.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A file in the folder, outside of the data.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
        command
            .args(args)
            .env("WAYPOST_DATA", self.data())
            .env("HOME", self.folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("WAYPOST_CONFIG")
            .env_remove("WAYPOST_SERVER")
            .env_remove("WAYPOST_KEY")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed and gives its JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["-o", "json"]].concat());
        assert!(ran.code <= 1, "{args:?} exited {}: {}{}", ran.code, ran.out, ran.err);
        serde_json::from_str(&ran.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
    }

    /// Starts `waypost run` and reads until a line contains `mark`.
    pub(crate) fn start(&self, args: &[&str], mark: &str) -> Running {
        Running::start(self.command(args), mark)
    }
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub(crate) seen: String,
}

impl Running {
    /// Starts a command and reads until a line contains `mark`.
    pub(crate) fn start(mut command: Command, mark: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, lines, seen: String::new() };
        running.read_until(mark);
        running
    }

    pub(crate) fn read_until(&mut self, mark: &str) {
        loop {
            let before = self.seen.len();
            let read = self.lines.read_line(&mut self.seen).unwrap();
            assert!(read > 0, "the program ended before {mark:?}: {}", self.seen);
            if self.seen[before..].contains(mark) {
                return;
            }
        }
    }

    /// The execution's id, from the first line.
    pub(crate) fn execution(&self) -> String {
        self.seen.split_whitespace().nth(1).unwrap().to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for the end; gives the exit code and all that was printed.
    pub(crate) fn wait(mut self) -> (i32, String) {
        while self.lines.read_line(&mut self.seen).unwrap() > 0 {}
        (self.child.wait().unwrap().code().unwrap_or(-1), self.seen)
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}
