//! `waypost bench`: the real engine, on a fresh data folder, with full durability.
//!
//! The crate names no store and no settings: the program that hosts it opens stores and engines
//! ([`Host`], [`SystemUnderTest`]) and prints the result ([`Printout`]).
//!
//! ```text
//!   scenario ──▶ load (executions, concurrency) ──▶ engine on a new folder ──▶ Printout
//!                                                        │
//!                              disk probe: append + fdatasync at the run's mean commit size
//! ```
//!
//! Figures are meant to be compared within one run: every report carries the disk's own time, so
//! that "how far from the limit" can be read on any machine.
//!
//! | file | owns |
//! | --- | --- |
//! | `host` | what the benchmark needs from the program that runs it |
//! | `backend` | a fresh data folder or schema with an engine over it |
//! | `beside` | small executions beside a load |
//! | `bodies` | what the bodies of a map call |
//! | `committed` | commits and their bytes, of an engine here or of a server |
//! | `flows` | the definitions that are executed |
//! | `load` | chains, fans, maps, loops and payloads: executions from start to durable end |
//! | `timers` | sleeping executions, and how late they wake up |
//! | `recover` | a process killed with -9, and its restart |
//! | `http` | clients over HTTP, against a server in a process of its own |
//! | `disk` | the disk's own time, bytes of a folder, peak memory |
//! | `report` | the result, as a table and as JSON |

mod backend;
mod beside;
mod bodies;
mod committed;
mod disk;
mod flows;
mod host;
mod http;
mod load;
mod recover;
mod report;
mod timers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use bodies::{Immediate, SlowServer};
use flows::MapBody;
use load::Load;

pub use host::{DatabaseUsage, EngineSetup, Host, NamedServer, SystemUnderTest};
pub use recover::child as recover_child;
pub use report::Printout;

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum Scenario {
    /// Chains of noop nodes: one durable commit a node, its successor only after it
    Chain {
        /// How many executions
        #[arg(long, default_value_t = 20_000)]
        executions: u64,
        /// Nodes in each
        #[arg(long, default_value_t = 10)]
        nodes: u64,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// One node that opens many, and a join that waits for all of them
    Fan {
        /// Branches
        #[arg(long, default_value_t = 1_000)]
        width: u64,
        /// How many executions
        #[arg(long, default_value_t = 200)]
        executions: u64,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// One map over many items
    Map {
        /// Items of each map
        #[arg(long, default_value_t = 1_000_000)]
        items: u64,
        /// Items that are open at once
        #[arg(long, default_value_t = 1_000)]
        width: u32,
        /// The body of the map
        #[arg(long, value_enum, default_value_t = MapBody::Noop)]
        body: MapBody,
        /// Also run small executions at a steady rate, before the map and beside it
        #[arg(long)]
        beside: bool,
        /// How many executions
        #[arg(long, default_value_t = 1)]
        executions: u64,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// One loop with a noop as its body
    Loop {
        /// Iterations of each loop
        #[arg(long, default_value_t = 100_000)]
        iterations: u64,
        /// How many executions
        #[arg(long, default_value_t = 1)]
        executions: u64,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// Executions that all sleep, and wake up spread over some seconds
    Timers {
        /// How many executions
        #[arg(long, default_value_t = 100_000)]
        executions: u64,
        /// Over how many seconds their dues are spread (default: so that 1,000 are due a second)
        #[arg(long)]
        seconds: Option<u64>,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// A process killed with -9 with executions in flight, and its restart
    Recover {
        /// How many executions are in flight
        #[arg(long, default_value_t = 50_000)]
        executions: u64,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// Chains whose nodes carry a payload
    Payload {
        /// Size of the payload
        #[arg(long, default_value_t = 16_384)]
        bytes: u64,
        /// How many executions
        #[arg(long, default_value_t = 2_000)]
        executions: u64,
        /// Nodes in each
        #[arg(long, default_value_t = 5)]
        nodes: u64,
        /// Flags that all scenarios share
        #[command(flatten)]
        common: Common,
    },
    /// Chains of noop nodes, started and awaited over HTTP; against --server, where one is named
    Http(http::HttpOptions),
    /// The same chains, started by signed requests to a webhook trigger that answers with the output
    Hooks(http::HookOptions),
}

/// Flags that the scenarios share which run inside of this process.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Executions under way at once
    #[arg(long, default_value_t = 256)]
    concurrency: usize,
    /// Where the data goes
    #[command(flatten)]
    place: DataLocation,
}

/// Where the data goes.
#[derive(Args, Clone, Debug)]
pub struct DataLocation {
    /// Where to put the fresh data folder (default: the system's temporary folder)
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Keep the data folder afterwards
    #[arg(long)]
    keep: bool,
}

impl DataLocation {
    /// A folder that was not there before.
    fn fresh_folder(&self) -> Result<PathBuf> {
        let parent = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = parent.join(format!("waypost-bench-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }
}

/// Runs a scenario.
pub async fn run(scenario: &Scenario, host: &dyn Host) -> Result<Printout> {
    match scenario {
        Scenario::Chain { executions, nodes, common } => {
            let (flow, size) = (flows::chain(*nodes), (*executions, *nodes));
            load::run(Load::new("chain", flow, size, common), host).await
        }
        Scenario::Fan { width, executions, common } => {
            let (flow, size) = (flows::fan(*width), (*executions, *width + 2));
            load::run(Load::new("fan", flow, size, common), host).await
        }
        Scenario::Map { items, width, body, beside, executions, common } => {
            let size = (*executions, *items);
            let load = |flow| Load { beside: *beside, ..Load::new("map", flow, size, common) };
            run_map(*body, |address| load(flows::map(*items, *width, *body, address)), host).await
        }
        Scenario::Loop { iterations, executions, common } => {
            let (flow, size) = (flows::repeat(*iterations), (*executions, *iterations));
            load::run(Load::new("loop", flow, size, common), host).await
        }
        Scenario::Payload { bytes, executions, nodes, common } => {
            let (flow, size) = (flows::payload(*nodes), (*executions, *nodes));
            let input = flows::payload_input(*bytes)?;
            load::run(Load { input, ..Load::new("payload", flow, size, common) }, host).await
        }
        Scenario::Timers { executions, seconds, common } => {
            timers::run(*executions, *seconds, common, host).await
        }
        Scenario::Recover { executions, common } => recover::run(*executions, common, host).await,
        Scenario::Http(options) => http::run(options, host.named_server()).await,
        Scenario::Hooks(options) => http::run_hooks(options, host.named_server()).await,
    }
}

/// Runs a map with what its body calls.
async fn run_map<'a>(
    body: MapBody,
    load: impl Fn(&str) -> Load<'a>,
    host: &dyn Host,
) -> Result<Printout> {
    match body {
        MapBody::Noop | MapBody::Two => load::run(load(""), host).await,
        MapBody::Child => load::run(Load { child: Some(flows::CHILD), ..load("") }, host).await,
        MapBody::Task => {
            let handlers = BTreeMap::from([("api-call", Immediate::handler())]);
            let setup = EngineSetup { handlers, ..EngineSetup::default() };
            load::run(Load { setup, ..load("localhost") }, host).await
        }
        MapBody::Http => {
            let server = SlowServer::start().await?;
            let callable = Some(server.address.clone());
            let setup = EngineSetup { callable, ..EngineSetup::default() };
            load::run(Load { setup, ..load(&server.address) }, host).await
        }
    }
}
