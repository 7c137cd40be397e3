//! The real program, on a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// A data folder and the program that works on it.
pub struct Program {
    folder: tempfile::TempDir,
}

/// What a finished command left.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Program {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A file in the folder, outside of the data.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
        command
            .args(args)
            .env("WAYPOST_DATA", self.data())
            .env("HOME", self.folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("WAYPOST_CONFIG")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed and gives its JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["-o", "json"]].concat());
        assert!(ran.code <= 1, "{args:?} exited {}: {}{}", ran.code, ran.out, ran.err);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
    }

    /// Starts `waypost run` and reads until a line contains `mark`.
    pub fn start(&self, args: &[&str], mark: &str) -> Running {
        let mut child = self.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut seen = String::new();
        loop {
            let before = seen.len();
            let read = lines.read_line(&mut seen).unwrap();
            assert!(read > 0, "the program ended before {mark:?}: {seen}");
            if seen[before..].contains(mark) {
                return Running { child, lines, seen };
            }
        }
    }
}

/// A program that runs.
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub seen: String,
}

impl Running {
    /// The execution's id, from the first line.
    pub fn execution(&self) -> String {
        self.seen.split_whitespace().nth(1).unwrap().to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// Waits for the end; gives the exit code and all that was printed.
    pub fn wait(mut self) -> (i32, String) {
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
