//! The whole way: clients over HTTP, a server in a process of its own, the engine, the disk.
//!
//! ```text
//!   clients ── POST /v1/executions?wait=30s ──▶ waypost serve (a child process, a fresh folder)
//!           or POST /v1/hooks/…, signed
//!   bystanders ── idle streams, requests that never end, replies that are never read ──▶ the same
//! ```
//!
//! With bystanders the load is run twice, without them and with them, and the two are compared:
//! their cost is measured on one machine within one minute.

mod bystanders;
mod client;
mod load;
mod report;
mod serving;
mod traffic;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;
use waypost_ports::outbox::SigningSecret;

use self::bystanders::{Bystanders, Crowd};
use self::load::Load;
use self::report::Phase;
use self::serving::Serving;
use self::traffic::Traffic;
use crate::{DataLocation, NamedServer, Printout};

/// What to measure, and against whom.
#[derive(clap::Args, Clone, Debug)]
pub struct HttpOptions {
    /// Clients, each with a connection of its own and one request at a time
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// How many executions
    #[arg(long, default_value_t = 20_000)]
    executions: u64,
    /// Nodes in each
    #[arg(long, default_value_t = 10)]
    nodes: u64,
    /// Bystanders of a second run
    #[command(flatten)]
    crowd: Crowd,
    /// Where the data goes
    #[command(flatten)]
    place: DataLocation,
}

/// The same with signed requests to a webhook trigger.
#[derive(clap::Args, Clone, Debug)]
pub struct HookOptions {
    /// The secret `bench_hook` of the server that --server names, in Base64, as that server knows it
    #[arg(long, value_name = "BASE64")]
    secret: Option<String>,
    /// Flags that are shared with `http`
    #[command(flatten)]
    http: HttpOptions,
}

/// The prefix of the secrets of Standard Webhooks.
const SECRET_PREFIX: &str = "whsec_";

impl HookOptions {
    /// The secret of the server to measure: a new one for a server of our own.
    fn secret(&self, is_named: bool) -> Result<SigningSecret> {
        let Some(text) = &self.secret else {
            if is_named {
                bail!("--server needs --secret: the value of the server's secret `bench_hook`");
            }
            let random = [*Uuid::new_v4().as_bytes(), *Uuid::new_v4().as_bytes()].concat();
            return Ok(SigningSecret(random));
        };
        let bytes = STANDARD.decode(text.strip_prefix(SECRET_PREFIX).unwrap_or(text));
        Ok(SigningSecret(bytes.context("--secret is not written in Base64")?))
    }
}

/// Starts over the API.
pub(super) async fn run(options: &HttpOptions, named: Option<NamedServer>) -> Result<Printout> {
    run_with(options, None, named).await
}

/// Starts with signed requests to a webhook trigger.
pub(super) async fn run_hooks(
    options: &HookOptions,
    named: Option<NamedServer>,
) -> Result<Printout> {
    let secret = options.secret(named.is_some())?;
    run_with(&options.http, Some(secret), named).await
}

/// Measures on a thread of its own with a runtime of its own: one thread is enough for the clients,
/// and leaves the rest of the machine to the server.
async fn run_with(
    options: &HttpOptions,
    secret: Option<SigningSecret>,
    named: Option<NamedServer>,
) -> Result<Printout> {
    let options = options.clone();
    let measured = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(measure(&options, secret, named.as_ref()))
    });
    measured.await.context("the clients ended badly")?
}

async fn measure(
    options: &HttpOptions,
    secret: Option<SigningSecret>,
    named: Option<&NamedServer>,
) -> Result<Printout> {
    let scenario = if secret.is_some() { "hooks" } else { "http" };
    let text = secret.as_ref().map(|secret| STANDARD.encode(&secret.0));
    let serving = Serving::open(named, text.as_deref(), &options.place)?;
    let (target, nodes) = (serving.target.clone(), options.nodes);
    let traffic = match secret {
        None => Traffic::starts(&target, nodes).await?,
        Some(secret) => Traffic::deliveries(&target, nodes, secret).await?,
    };
    let (traffic, clients) = (Arc::new(traffic), options.clients.max(1));
    let load = Load { target, traffic, clients, executions: options.executions };
    let mut alone = run_phase(&load, &serving, options).await?;
    let rss = serving.peak_rss();
    let (mut errors, mut first_error) = (alone.errors, alone.first_error.take());
    let mut crowded = None;
    if options.crowd.is_any() {
        let bystanders = Bystanders::gather(&serving.target, options.crowd).await?;
        serving.forget_peak_rss();
        let mut phase = run_phase(&load, &serving, options).await?;
        let peak_rss = serving.peak_rss();
        let seen = bystanders.leave().await;
        errors += phase.errors + seen.streams_lost();
        first_error = first_error.or(phase.first_error.take());
        crowded = Some(report::crowded(options, &seen, phase, peak_rss, &alone));
    }
    let disk = serving.close(&alone.committed)?;
    let mut report = report::alone(scenario, options, alone, rss, disk);
    if let Some(crowded) = crowded {
        report.nest("with_bystanders", crowded);
    }
    report.failure = match (errors, first_error) {
        (0, _) => None,
        (errors, None) => Some(anyhow!("{errors} errors")),
        (errors, Some(first)) => Some(anyhow!("{errors} errors, one of them: {first}")),
    };
    Ok(report)
}

async fn run_phase(load: &Load, serving: &Serving, options: &HttpOptions) -> Result<Phase> {
    let before = serving.committed().await?;
    let tally = load.run().await?;
    let committed = serving.committed().await?.since(&before);
    Ok(Phase::new(tally, committed, options.nodes))
}
