//! The whole way: clients over HTTP, a server in a process of its own, the engine, the disk.
//!
//! ```text
//!   clients ── POST /v1/executions?wait=30s ──▶ waypost serve (a child process, a fresh folder)
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

use anyhow::{Context, Result, anyhow};

use self::bystanders::{Bystanders, Crowd};
use self::load::Load;
use self::report::Phase;
use self::serving::Serving;
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

/// Measures on a thread of its own with a runtime of its own: one thread is enough for the clients,
/// and leaves the rest of the machine to the server.
pub(super) async fn run(options: &HttpOptions, named: Option<NamedServer>) -> Result<Printout> {
    let options = options.clone();
    let measured = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(measure(&options, named.as_ref()))
    });
    measured.await.context("the clients ended badly")?
}

async fn measure(options: &HttpOptions, named: Option<&NamedServer>) -> Result<Printout> {
    let serving = Serving::open(named, &options.place)?;
    let clients = options.clients.max(1);
    let load = Load::prepare(&serving.target, options.nodes, clients, options.executions).await?;
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
    let mut report = report::alone(options, alone, rss, disk);
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
