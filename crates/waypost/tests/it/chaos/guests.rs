//! Guests: the real program, started by people next to the engine or where none runs.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::ledger::Ledger;
use super::process::wait;
use crate::program::Program;

/// Most guests at a time: enough to meet each other, few enough to leave the engine its share.
pub(super) const GUESTS_MAX: usize = 3;

/// Guests that have not ended yet.
#[derive(Default)]
pub(super) struct Guests {
    running: Vec<Guest>,
}

struct Guest {
    /// The request that it makes.
    id: u64,
    arguments: Vec<String>,
    child: Child,
}

impl Guests {
    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    /// Starts one that makes a request.
    pub(super) fn start(&mut self, program: &Program, id: u64, arguments: Vec<String>) {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let child =
            command(program, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.running.push(Guest { id, arguments, child });
    }

    /// Notes what became of those that have ended.
    pub(super) fn look(&mut self, ledger: &mut Ledger) -> Result<()> {
        let mut running = Vec::new();
        for mut guest in self.running.drain(..) {
            match guest.child.try_wait()? {
                // A request is durable when the program says so. What it did otherwise is unknown:
                // the execution may have ended, the engine may have been slow.
                Some(status) => ledger.answered(guest.id, status.success()),
                None => running.push(guest),
            }
        }
        self.running = running;
        Ok(())
    }

    /// Waits for all of them, while no engine runs. One that resumes is an engine itself now, for as
    /// long as the execution takes, and is killed.
    pub(super) fn wait(&mut self, ledger: &mut Ledger) -> Result<()> {
        for mut guest in self.running.drain(..) {
            if guest.arguments.first().is_some_and(|verb| verb == "resume") {
                guest.child.kill()?;
            }
            let status = wait(&mut guest.child, &format!("waypost {}", guest.arguments.join(" ")))?;
            ledger.answered(guest.id, status.success());
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

/// The program; where it has to be the engine, it may call the sink.
pub(super) fn command(program: &Program, arguments: &[&str]) -> Command {
    let mut command = program.command(arguments);
    command.env("WAYPOST_ALLOW_EGRESS", "127.0.0.0/8");
    command
}

/// `waypost check`: everything must be well, with an engine or without.
pub(super) fn check(program: &Program) -> Result<u64> {
    let ran = program.run(&["check", "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.out)
        .with_context(|| format!("waypost check exited {}: {}{}", ran.code, ran.out, ran.err))?;
    if ran.code != 0 {
        bail!("waypost check exited {}: {:#}", ran.code, report["findings"]);
    }
    report["executions"].as_u64().context("the report has no count")
}
