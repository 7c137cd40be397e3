//! `waypost worker`: workers alone, for a server or a cluster of them; and `waypost workers`.

use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use waypost_ports::secret::Secrets;
use waypost_server::wire;

use super::interrupts::Interrupts;
use super::{Context, Exit, Usage};
use crate::output::{Format, mention, mention_json, print_columns, print_line};
use crate::settings::Source;
use crate::target;
use crate::worker::{Worker, WorkerOptions};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Serve these handlers alone (may be repeated; default: all built-in ones)
    #[arg(long = "handler", value_name = "NAME")]
    handlers: Vec<String>,
    /// The worker's display name (default: the host's name and the process)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let mut settings = context.settings.clone();
    // As on a server: everyone who may deploy there could run anything here.
    settings.nodes.shell_enabled &= settings.source("enable_shell") != Some(&Source::Default);
    let settings = &settings;
    let clients = target::servers("worker", settings)?;
    let mut handlers = waypost_nodes::handlers(&settings.nodes, None);
    if !settings.nodes.shell_enabled {
        // A worker that served it anyway would take tasks that others may run, only to reject them.
        handlers.remove("shell");
        if args.handlers.iter().any(|name| name == "shell") {
            return Err(Usage(
                "the handler shell is off here: --enable-shell allows it".to_owned(),
            )
            .into());
        }
    }
    if !args.handlers.is_empty() {
        if let Some(unknown) =
            args.handlers.iter().find(|name| !handlers.contains_key(name.as_str()))
        {
            let known: Vec<_> = handlers.keys().copied().collect();
            let message =
                format!("no handler is called {unknown:?}; built in are {}", known.join(", "));
            return Err(Usage(message).into());
        }
        handlers.retain(|name, _| args.handlers.iter().any(|wanted| wanted == name));
    }
    if handlers.is_empty() {
        bail!("there is no handler to serve");
    }
    let names: Vec<_> = handlers.keys().map(ToString::to_string).collect();
    let addresses: Vec<_> = clients.iter().map(|client| client.address().to_string()).collect();
    let mut interrupts = Interrupts::listen()?;
    let worker = Worker::new(WorkerOptions {
        name: args.name.clone().unwrap_or_else(own_name),
        capacity: settings.engine.slots,
        handlers,
        secrets: Arc::clone(&settings.secrets) as Arc<dyn Secrets>,
        clients,
    });
    announce(&worker, &names, &addresses, context)?;
    let stop = CancellationToken::new();
    let taking = worker.take(stop.clone());
    tokio::pin!(taking);
    tokio::select! { // a signal that came is kept
        () = &mut taking => {}
        () = interrupts.next() => {}
    }
    stop.cancel();
    if context.format == Format::Text {
        mention("draining: waiting for running tasks (Ctrl-C again to stop now)");
    }
    tokio::select! { // what is given up is given to others
        () = worker.drain(settings.server.drain_timeout) => {}
        () = interrupts.next() => {}
    }
    worker.warn_of_losses();
    Ok(Exit::Done)
}

fn announce(
    worker: &Worker,
    handlers: &[String],
    addresses: &[String],
    context: &Context,
) -> Result<()> {
    let id = worker.id().simple().to_string();
    if context.format == Format::Json {
        return mention_json(&json!({ "worker": id, "handlers": handlers, "servers": addresses }));
    }
    mention(&format!("worker {id} takes tasks from {}", addresses.join(", ")));
    mention(&format!("handlers: {}; Ctrl-C stops", handlers.join(", ")));
    Ok(())
}

/// The host's name and the process: unique enough for people.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "worker" } else { host };
    format!("{host}/{}", std::process::id())
}

/// `waypost workers`.
pub(crate) async fn list(context: &Context) -> Result<Exit> {
    let server = target::server_only("workers", &context.settings)?;
    let list: wire::WorkerList = server.get(&["workers"]).await?;
    context.show(&list, || {
        let headings = ["WORKER", "NAME", "STATE", "SEEN", "BUSY", "HANDLERS"];
        match list.workers.as_slice() {
            [] => print_line("no worker polled in the last hour"),
            workers => print_columns(&headings, workers, columns),
        }
        for waiting in &list.waiting {
            let seconds = waiting.oldest_ms / 1_000;
            let (tasks, handler) = (waiting.tasks, &waiting.handler);
            print_line(&format!("{tasks} tasks of {handler} wait, the oldest for {seconds} s"));
        }
    })
}

fn columns(worker: &wire::Worker) -> Vec<String> {
    vec![
        worker.id.clone(),
        worker.name.clone(),
        if worker.alive { "alive" } else { "dead" }.to_owned(),
        worker.seen_at.0.to_string(),
        format!("{}/{}", worker.running, worker.capacity),
        worker.handlers.join(","),
    ]
}
