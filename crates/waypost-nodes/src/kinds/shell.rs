//! `shell`: a command on the engine's machine as a node.
//!
//! Off unless the operator switches it on. The command and all it starts are one process group, which
//! never outlives the attempt (`process.rs`); it sees a small environment, not the engine's, whose
//! variables hold secrets.

mod capture;
mod process;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::slot::SlotClass;
use waypost_core::time::Millis;
use waypost_ports::handler::{Handler, Task};

use self::capture::Capture;
use self::process::{CommandEnd, Invocation};
use crate::NodeKind;
use crate::config::{self, ConfigMap, bytes_max, exactly_one, no_secrets, optional};
use crate::outcome::{
    self, EXIT_CODE, SHELL_DISABLED, cancelled, invalid_config, read_config, text_of, timed_out,
};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile,
    handler: Some(|settings, _| {
        Arc::new(Runner { enabled: settings.shell_enabled, grace: settings.shell_grace })
    }),
};

/// How many bytes of each output stream are stored by default.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Command lines can be read by every process of the machine, and shells log and quote them.
const SECRETS_HINT: &str =
    "set a variable in `env` to it, and read that in the command: \"$TOKEN\"";

/// The variables that a command inherits from the engine: locations and language.
const INHERITED: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];

static SPEC: KindSpec = KindSpec {
    name: "shell",
    aliases: &[],
    family: Family::Action,
    body: None,
    summary: "Runs a command; its output is `{exitCode, stdout, stderr, truncated}`, and `json` \
              where stdout is JSON.",
    fields: &[
        optional("command", Shape::Text, "Run by `/bin/sh -c`."),
        optional("args", Shape::List, "A program and its arguments, run without a shell."),
        optional("env", Shape::Object, "Environment variables; a null value removes one."),
        optional("cwd", Shape::Text, "The directory to run in."),
        optional("stdin", Shape::Text, "What the command reads; nothing if absent."),
        optional(
            "outputBytesMax",
            Shape::Integer,
            "How much of stdout and of stderr is kept; 256 KiB if absent.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let checks = [
        exactly_one(config, "command", "args"),
        check_not_empty(config),
        check_variable_names(config),
        no_secrets(config, Some("env"), "a secret is only allowed in `env`", SECRETS_HINT),
        bytes_max(config, "outputBytesMax", PAYLOAD_BYTES_MAX as u64),
    ];
    config::task(SPEC.name, SlotClass::Work, config, checks)
}

fn check_not_empty(config: &ConfigMap) -> Result<(), ConfigFault> {
    match (config.get("command"), config.get("args")) {
        (Some(Value::String(command)), _) if command.trim().is_empty() => {
            Err(ConfigFault::at("command", "the command is empty"))
        }
        (_, Some(Value::Array(args))) if args.is_empty() => {
            Err(ConfigFault::at("args", "`args` needs at least the program"))
        }
        _ => Ok(()),
    }
}

fn check_variable_names(config: &ConfigMap) -> Result<(), ConfigFault> {
    let Some(Value::Object(env)) = config.get("env") else { return Ok(()) };
    match env.keys().find(|name| !is_variable_name(name)) {
        Some(name) => {
            let message = format!("{name:?} is not a valid variable name");
            Err(config::fault_at(&["env", name], message))
        }
        None => Ok(()),
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

struct Runner {
    enabled: bool,
    grace: Millis,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rendered {
    command: Option<String>,
    args: Option<Vec<Json>>,
    #[serde(default)]
    env: BTreeMap<String, Json>,
    cwd: Option<String>,
    stdin: Option<Json>,
    output_bytes_max: Option<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    exit_code: i32,
    stdout: String,
    stderr: String,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Json>,
}

/// Details of a command that did not do its work.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Handler for Runner {
    fn checks_secrets(&self) -> bool {
        true
    }

    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        if !self.enabled {
            let message = "commands are switched off here; an operator can switch them on with \
                           --enable-shell or WAYPOST_ENABLE_SHELL=true";
            let failure = Failure::permanent(SHELL_DISABLED, message);
            return Box::pin(async { Err(failure) });
        }
        if let Some(secret) = task.secrets.iter().find(|secret| !secret.shell) {
            let message = format!("secret `{}` is not granted to commands", secret.name);
            let failure = Failure { unsent: true, ..Failure::permanent(kind::SECRET, message) };
            return Box::pin(async { Err(failure) });
        }
        let grace = self.grace;
        Box::pin(async move {
            let invocation = invocation(&task, grace)?;
            let mut stdout = Capture::new(invocation.output_bytes_max);
            let mut stderr = Capture::new(invocation.output_bytes_max);
            let ended = process::run(invocation, &cancel, &mut stdout, &mut stderr).await?;
            conclude(ended, &stdout, &stderr)
        })
    }
}

fn invocation(task: &Task, grace: Millis) -> Result<Invocation, Failure> {
    let rendered: Rendered = read_config(task)?;
    let argv = match (rendered.command, rendered.args) {
        (Some(command), None) => vec!["/bin/sh".to_owned(), "-c".to_owned(), command],
        (None, Some(args)) => args.iter().map(text_of).collect(),
        _ => return Err(invalid_config("exactly one of `command` and `args` is needed")),
    };
    let mut env: BTreeMap<String, String> = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .chain([
            ("WAYPOST_EXECUTION".to_owned(), task.execution.to_string()),
            ("WAYPOST_NODE".to_owned(), task.path.to_string()),
            ("WAYPOST_ATTEMPT".to_owned(), task.attempt.to_string()),
            ("WAYPOST_IDEMPOTENCY_KEY".to_owned(), task.idempotency_key.clone()),
        ])
        .collect();
    for (name, value) in rendered.env {
        if !is_variable_name(&name) {
            return Err(invalid_config(format!("{name:?} is not a valid variable name")));
        }
        if value.is_null() {
            env.remove(&name);
        } else {
            env.insert(name, text_of(&value));
        }
    }
    Ok(Invocation {
        argv,
        env,
        cwd: rendered.cwd,
        stdin: rendered.stdin.map(|stdin| text_of(&stdin)).unwrap_or_default(),
        output_bytes_max: rendered.output_bytes_max.unwrap_or(OUTPUT_BYTES_MAX),
        timeout: task.timeout,
        grace,
        marks: task.marks.clone(),
    })
}

fn conclude(ended: CommandEnd, stdout: &Capture, stderr: &Capture) -> Result<Json, Failure> {
    let mut exit_code = None;
    let failure = match ended {
        CommandEnd::Exited(0) => return succeed(stdout, stderr),
        CommandEnd::Exited(code) => {
            exit_code = Some(code);
            Failure::transient(EXIT_CODE, format!("the command exited with {code}"))
        }
        CommandEnd::Signalled(signal) => {
            Failure::transient(EXIT_CODE, format!("the command was ended by signal {signal}"))
        }
        CommandEnd::TimedOut(limit) => timed_out(limit),
        CommandEnd::Cancelled => cancelled(),
    };
    let details = Details { exit_code, stdout: stdout.tail(), stderr: stderr.tail() };
    Err(Failure { details: outcome::output(&details).ok(), ..failure })
}

fn succeed(stdout: &Capture, stderr: &Capture) -> Result<Json, Failure> {
    let text = stdout.head();
    let json = if stdout.is_truncated() { None } else { Json::parse(text.trim()).ok() };
    let mut output = Output {
        exit_code: 0,
        stdout: text,
        stderr: stderr.head(),
        truncated: stdout.is_truncated() || stderr.is_truncated(),
        json,
    };
    outcome::output(&output).or_else(|_| {
        // `json` is a convenience: where it makes the output too large or too deep, it goes.
        output.json = None;
        outcome::output(&output)
    })
}
