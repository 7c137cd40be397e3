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
use self::report::{Crowded, HttpReport, Phase};
use self::serving::{Committed, Serving};
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
    /// Then once more with so many readers of streams on which nothing happens
    #[arg(long, default_value_t = 0)]
    idle_streams: usize,
    /// Then once more with so many connections whose requests never end
    #[arg(long, default_value_t = 0)]
    slow_connections: usize,
    /// Then once more with so many clients that ask for a log of 1 MB events and do not read it
    #[arg(long, default_value_t = 0)]
    slow_readers: usize,
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
    let report = measured.await.context("the clients ended badly")??;
    let failure = match report.errors() {
        (0, _) => None,
        (errors, None) => Some(anyhow!("{errors} errors")),
        (errors, Some(first)) => Some(anyhow!("{errors} errors, one of them: {first}")),
    };
    Ok(Printout { failure, ..report.printout()? })
}

async fn measure(options: &HttpOptions, named: Option<&NamedServer>) -> Result<HttpReport> {
    let serving = Serving::open(named, &options.place)?;
    let clients = options.clients.max(1);
    let load = Load::prepare(&serving.target, options.nodes, clients, options.executions).await?;
    let (alone, committed) = run_phase(&load, &serving, options).await?;
    let rss = serving.peak_rss();
    let mut crowded = None;
    let bystanders = Crowd {
        idle_streams: options.idle_streams,
        slow_connections: options.slow_connections,
        slow_readers: options.slow_readers,
    };
    if bystanders.is_any() {
        let bystanders = Bystanders::gather(&serving.target, bystanders).await?;
        serving.forget_peak_rss();
        let (phase, _) = run_phase(&load, &serving, options).await?;
        let peak_rss = serving.peak_rss();
        let seen = bystanders.leave().await;
        crowded = Some(Crowded::new(options, &seen, phase, peak_rss, &alone));
    }
    let disk = serving.close(&committed)?;
    Ok(HttpReport::new(options, alone, crowded, rss, disk))
}

async fn run_phase(
    load: &Load,
    serving: &Serving,
    options: &HttpOptions,
) -> Result<(Phase, Committed)> {
    let before = serving.committed().await?;
    let tally = load.run().await?;
    let committed = serving.committed().await?.since(&before);
    Ok((Phase::new(tally, &committed, options.nodes), committed))
}
