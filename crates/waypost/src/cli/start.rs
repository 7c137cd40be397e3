//! `waypost start`: start a workflow that was deployed, and leave it to the server.

use std::time::{Duration, Instant};

use anyhow::Result;
use waypost_core::status::Status;
use waypost_core::time::Millis;
use waypost_server::wire;
use waypost_server::wire::payload::{Count, Payload, Short};

use super::show::ShownExecution;
use super::{Context, Exit, Usage, input, watch};
use crate::client::Client;
use crate::output::{Format, print_json, print_line};
use crate::target::{self, Target};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The workflow's name
    workflow: String,
    /// The version to start [default: the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    /// The input: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    input: String,
    /// Choose the execution's id
    #[arg(long)]
    id: Option<String>,
    /// Labels to find it by, `name=value` (may be repeated)
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Start at most one execution under this key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Send it this signal, too; with `--id`, to the execution of that id if there is one already
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
    /// The body of the signal: JSON, `@file`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "null", requires = "signal")]
    signal_body: String,
    /// The id of the signal: a repeat with the same id has no further effect
    #[arg(long, value_name = "ID", requires = "signal")]
    message_id: Option<String>,
    /// Wait for its end for at most this long, for example `30s`
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let input = input::of_execution(&args.input)?;
    let start = wire::Start {
        workflow: Short(args.workflow.clone()),
        version: args.version.map(Count),
        signal: args.signal.as_ref().map(|name| signal(name, args)).transpose()?,
        ..input::start(input, args.id.as_deref(), &args.label)?
    };
    let wait = args.wait.as_deref().map(span).transpose()?;
    let server = target::server_only("start", &context.settings)?;
    let (mut started, replayed) = server.start(&start, args.idempotency_key.as_deref()).await?;
    if let Some(wait) = wait {
        started = until_end(&server, started, wait).await?;
    }
    let status = started.status.0;
    match context.format {
        Format::Json => print_json(&started)?,
        Format::Text => {
            let wire::Started { id, workflow, version, .. } = &started;
            let before = if replayed { ", started before under this key" } else { "" };
            print_line(&format!("execution {id}  workflow {workflow} v{version}{before}"));
            if status.is_end() || wait.is_some() {
                print_line(status.name());
            }
            if status.is_end() {
                let target = Target::Remote(server);
                watch::print_end(&target, &ShownExecution::read(&target, &started.id).await?)
                    .await?;
            }
        }
    }
    let failed = status.is_end() && status != Status::Completed;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn signal(name: &str, args: &Args) -> Result<wire::Signal> {
    Ok(wire::Signal {
        name: Short(name.to_owned()),
        body: Payload(input::payload("the body", &args.signal_body)?),
        message_id: args.message_id.clone().map(Short),
    })
}

fn span(text: &str) -> Result<Duration> {
    match Millis::parse(text) {
        Ok(span) => Ok(span.to_std()),
        Err(error) => Err(Usage(format!("--wait {text:?}: {error}")).into()),
    }
}

/// Waits for an execution's end, for as long as `patience`.
async fn until_end(
    server: &Client,
    started: wire::Started,
    patience: Duration,
) -> Result<wire::Started> {
    let begun = Instant::now();
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let execution = server.execution_after(&started.id, left).await?;
        if execution.status.0.is_end() || left.is_zero() {
            return Ok(wire::Started {
                status: execution.status,
                output: execution.output,
                failure: execution.failure,
                ..started
            });
        }
    }
}
