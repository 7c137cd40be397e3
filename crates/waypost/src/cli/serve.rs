//! `waypost serve`: the HTTP API, and an engine that drives everything in the folder.
//!
//! The first signal drains: `/readyz` fails at once, nothing new is accepted, running attempts may
//! end, then everything is handed over. The second one ends at once; nothing is lost by it, since
//! every acknowledged request is durable.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use waypost_server::access::keys::KeyRing;
use waypost_server::config::Config;
use waypost_server::http::listen::{Listener, serve};
use waypost_server::server::Server;

use super::interrupts::{Interrupts, stop_at_once};
use super::{Context, Exit, Usage};
use crate::backend::{self, Backend};
use crate::open_files;
use crate::output::{Format, mention, mention_json};
use crate::settings::{ServerFlags, Settings, Source};
use crate::wiring;

/// How long blocking work may run after everything else has ended.
const LEFTOVERS_MAX: Duration = Duration::from_secs(2);

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) flags: ServerFlags,
}

pub(crate) async fn run(context: &Context) -> Result<Exit> {
    let mut settings = context.settings.clone();
    if settings.source("enable_shell") == Some(&Source::Default) {
        // Everyone who may deploy could run anything here.
        settings.nodes.shell_enabled = false;
    }
    open_files::raise_limit();
    let mut interrupts = Interrupts::listen()?;
    let address = settings.server.address;
    let listener = Listener::bind(&settings.server).await.with_context(|| {
        format!("cannot listen on {address}; --listen names another address, :0 any free port")
    })?;
    // With port 0 the port is known only now.
    settings.server.address = listener.address()?;
    let url = advertised(&settings, &listener)?;
    settings.engine.public_url.get_or_insert_with(|| url.clone());
    let backend = open_backend(&settings, &listener)?;
    refuse_open_server(&settings.server, &*backend)?;
    let server = Arc::new(wiring::open_server(Arc::clone(&backend), &url, &settings)?);
    let stop_triggers = CancellationToken::new();
    let runner = wiring::trigger_runner(&server, &settings);
    let firing = runner.map(|runner| server.tasks.spawn(runner.run(stop_triggers.clone())));
    let stop_dispatcher = CancellationToken::new();
    let dispatcher = wiring::dispatcher(&server, &backend).run(stop_dispatcher.clone());
    let dispatching = server.tasks.spawn(dispatcher);
    let sweeper = wiring::sweep_blobs(&server, backend)?;
    announce(&settings, &url, context)?;

    let mut serving = server.tasks.spawn(serve(Arc::clone(&server), listener));
    tokio::select! { // a signal that came is kept
        () = interrupts.next() => {}
        ended = &mut serving => {
            ended.context("the server ended badly")?;
            bail!("the server ended by itself");
        }
        () = server.engine.over() => return give_up(&server, serving).await,
    }
    drop(sweeper);
    // Before the engine takes no more executions.
    stop_triggers.cancel();
    if let Some(firing) = firing {
        firing.await.context("the trigger runner ended badly")?;
    }
    server.drain();
    tell("draining: waiting for running attempts (Ctrl-C again to stop now)", context);
    let grace = settings.server.drain_timeout;
    let patient = tokio::select! { // both arms may be dropped: the log holds everything
        () = server.engine.stop(grace) => true,
        () = interrupts.next() => false,
    };
    // The last messages of this instance; what it does not send, others do, or the next start.
    stop_dispatcher.cancel();
    if patient {
        dispatching.await.context("the dispatcher ended badly")?;
    }
    stop_at_once(&server.engine, Exit::Done).await;
    server.closing.cancel();
    if patient {
        tokio::select! { // open responses are sent, unless a second signal comes
            ended = serving => ended.context("the server ended badly")?,
            () = interrupts.next() => {}
        }
        server.tasks.close();
        // Elapsed: a connection that does not end; the process does.
        drop(tokio::time::timeout(LEFTOVERS_MAX, server.tasks.wait()).await);
    }
    server.audit.close();
    tell("stopped; every execution goes on with the next start", context);
    Ok(Exit::Done)
}

/// The store that this instance drives the executions of.
fn open_backend(settings: &Settings, listener: &Listener) -> Result<Arc<dyn Backend>> {
    Ok(match &settings.cluster.database {
        Some(database) => Arc::new(backend::open_database(database)?),
        None => {
            let local = listener.local_url()?;
            Arc::new(wiring::open_engine_store_at(&settings.data, Some(local))?)
        }
    })
}

/// The address that this instance advertises.
fn advertised(settings: &Settings, listener: &Listener) -> Result<String> {
    if let Some(url) = &settings.server.advertise_url {
        return Ok(url.clone());
    }
    let url = listener.url()?;
    if settings.server.address.ip().is_unspecified() && settings.cluster.database.is_some() {
        warn!(address = url, "other instances cannot reach this address; set advertise_url");
    }
    Ok(url)
}

/// The engine has ended without being stopped. A server without an engine would keep the folder's
/// lock from one that works.
async fn give_up(server: &Server, serving: JoinHandle<()>) -> Result<Exit> {
    server.drain();
    stop_at_once(&server.engine, Exit::Failed).await;
    server.closing.cancel();
    // Elapsed: a connection that does not end; the process does.
    drop(tokio::time::timeout(LEFTOVERS_MAX, serving).await);
    server.audit.close();
    bail!(
        "the engine has ended by itself, and the log says why; every execution goes on with the \
         next start"
    );
}

/// Off loopback no server runs without keys: everyone who reaches the port could run anything.
fn refuse_open_server(config: &Config, store: &dyn Backend) -> Result<()> {
    if !config.needs_keys() || !KeyRing::load(store)?.is_empty() {
        return Ok(());
    }
    let reason = match config.is_loopback() {
        true => "keys are required",
        false => "the server would be open to others",
    };
    let message = format!(
        "{reason}, and there are no API keys yet; make one with: waypost keys create --role admin"
    );
    Err(Usage(message).into())
}

fn announce(settings: &Settings, url: &str, context: &Context) -> Result<()> {
    let place = backend::name(settings);
    if context.format == Format::Json {
        return mention_json(&match &settings.cluster.database {
            Some(_) => json!({ "listening": url, "database": place }),
            None => json!({ "listening": url, "data": settings.data }),
        });
    }
    mention(&format!("waypost {} serves {url}", env!("CARGO_PKG_VERSION")));
    mention(&format!("{place}; API at {url}/openapi.json; Ctrl-C stops"));
    if !settings.server.is_loopback() && settings.server.tls.is_none() {
        mention("keys and data travel in clear text: --tls-certificate and --tls-key encrypt them");
    }
    if !settings.server.needs_keys() {
        mention("no API keys are required: every process on this machine may do everything");
    }
    Ok(())
}

fn tell(text: &str, context: &Context) {
    if context.format == Format::Text {
        mention(text);
    }
}
