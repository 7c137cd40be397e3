//! The one target through which commands reach executions: a server, or the folder itself.
//!
//! ```text
//!   --server, WAYPOST_SERVER ─▶ Remote ─▶ HTTP ─▶ a server
//!   --data ─▶ its lock names a server ─▶ Remote
//!          └▶ it names none ──────────▶ Folder ─▶ the store, and an engine where one is needed
//!   --database-url ─────────────────────▶ Folder
//! ```
//!
//! Both return the same wire types, so a command prints the same for either.
//!
//! | file | owns |
//! | --- | --- |
//! | `target/remote` | questions to a server |
//! | `target/folder` | questions to a store |
//! | `target/requests` | requests to an execution in a folder: mail, and the engine that takes it |
//! | `target/feed` | the events of an execution as they come |
//! | `target/engine` | an engine of this process, for as long as a command takes |
//! | `target/admin` | keys and the audit log |

mod admin;
pub(crate) mod engine;
mod feed;
mod folder;
mod remote;
mod requests;

use anyhow::{Result, bail};
use waypost_core::budget::SpendingLimits;
use waypost_core::command::Request;
use waypost_core::id::WaitId;
use waypost_core::state::ItemsRequest;
use waypost_ports::query::{DefinitionsRequest, ListRequest, WaitsRequest};
use waypost_server::problem::Problem;
use waypost_server::reader::{Nodes, PAGE_MAX};
use waypost_server::wire;
use waypost_server::workflows::Deploy;

use crate::backend;
use crate::cli::Usage;
use crate::client::{Address, Client, Refused};
use crate::settings::{Remote, Settings, Source};
use crate::wiring;

pub(crate) use admin::AdminTarget;
pub(crate) use folder::Folder;
pub(crate) use requests::{actor, new_message};

/// Where commands go.
pub(crate) enum Target {
    Remote(Client),
    Folder(Box<Folder>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EventsOf {
    pub(crate) node: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) after: u64,
    pub(crate) limit: usize,
}

/// Which of the executions that an execution started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildrenPage {
    pub(crate) after: u64,
    pub(crate) limit: usize,
    /// Wait a little until their statuses include every commit so far?
    pub(crate) consistent: bool,
}

pub(crate) struct RequestOutcome {
    pub(crate) controlled: wire::ControlResult,
    /// A note for the user, if it was not simply done.
    pub(crate) note: Option<String>,
}

/// The server that the settings name, or that the folder names.
pub(crate) fn server(settings: &Settings) -> Result<Option<Client>> {
    let address = match Address::named(settings)? {
        Some(address) => Some(address),
        // A named database takes precedence over a server that happens to run on the folder.
        None if settings.cluster.database.is_some() => None,
        None => Address::found_by(&settings.data)?,
    };
    address.map(|address| Client::new(address, settings.remote.key.as_deref())).transpose()
}

/// The server, for what only a server does.
pub(crate) fn server_only(command: &str, settings: &Settings) -> Result<Client> {
    match server(settings)? {
        Some(client) => Ok(client),
        None => bail!(
            "`waypost {command}` needs a server, and none runs on the {}\n\
             hint: `waypost serve` starts one; `waypost run FILE` works without",
            backend::name(settings)
        ),
    }
}

/// The servers that a worker takes tasks from: several with commas.
pub(crate) fn servers(command: &str, settings: &Settings) -> Result<Vec<Client>> {
    let several = settings.remote.url.as_deref().filter(|url| url.contains(','));
    let Some(several) = several else { return Ok(vec![server_only(command, settings)?]) };
    let urls = several.split(',').map(str::trim).filter(|url| !url.is_empty());
    let one = |url: &str| {
        let remote = Remote { url: Some(url.to_owned()), ..settings.remote.clone() };
        server_only(command, &Settings { remote, ..settings.clone() })
    };
    urls.map(one).collect()
}

/// Every limit: of the server, or what one would be held to here.
pub(crate) async fn limits(settings: &Settings) -> Result<wire::Limits> {
    if let Some(client) = server(settings)? {
        return client.get(&["limits"]).await;
    }
    let all = wiring::limits(settings).into_iter().chain(settings.server.limits());
    Ok(wire::Limits { limits: all.map(|(name, value)| (name.to_owned(), value)).collect() })
}

/// Rejects commands that work on a folder or a database itself if a server was named. A database that
/// is named just as explicitly takes precedence: the server is for the other commands.
pub(crate) fn home_only(command: &str, settings: &Settings) -> Result<()> {
    let by_flag = |name: &str| settings.source(name) == Some(&Source::Flag);
    let by_variable = settings.source("database_url") == Some(&Source::Environment);
    let plainly = by_flag("database_url") || by_variable && !by_flag("server");
    if plainly && settings.cluster.database.is_some() {
        return Ok(());
    }
    let Some(address) = Address::named(settings)? else { return Ok(()) };
    let instead = match settings.cluster.database {
        Some(_) => "name the database with --database-url, or leave the server out",
        None => {
            "leave the server out where the folder is, or name the database of a cluster with \
             --database-url"
        }
    };
    let message = format!(
        "`waypost {command}` works on a folder or a database, not through a server ({address} is \
         {}): {instead}",
        address.origin()
    );
    Err(Usage(message).into())
}

impl Target {
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        match server(settings)? {
            Some(client) => Ok(Self::Remote(client)),
            None => Ok(Self::Folder(Box::new(Folder::open(settings)?))),
        }
    }

    /// As `open`, but the folder may be new.
    pub(crate) fn open_or_create(settings: &Settings) -> Result<Self> {
        if server(settings)?.is_none() {
            backend::create(settings)?;
        }
        Self::open(settings)
    }

    /// The id of an execution; `last` is the newest one.
    pub(crate) async fn resolve(&self, name: &str) -> Result<String> {
        if name != "last" {
            return Ok(name.to_owned());
        }
        let newest = match self {
            Self::Remote(client) => client.newest().await?,
            Self::Folder(folder) => folder.newest()?,
        };
        match newest {
            Some(id) => Ok(id),
            None => bail!("there are no executions yet"),
        }
    }

    pub(crate) async fn execution(&self, id: &str) -> Result<wire::Execution> {
        match self {
            Self::Remote(client) => client.get(&["executions", id]).await,
            Self::Folder(folder) => answered(folder.reader.execution(id)),
        }
    }

    pub(crate) async fn nodes(&self, id: &str) -> Result<wire::NodeList> {
        match self {
            Self::Remote(client) => client.get(&["executions", id, "nodes"]).await,
            Self::Folder(folder) => answered(folder.reader.nodes(id, Nodes::All)),
        }
    }

    /// A page of the items of a map.
    pub(crate) async fn items(
        &self,
        id: &str,
        node: &str,
        request: ItemsRequest,
    ) -> Result<wire::NodeList> {
        match self {
            Self::Remote(client) => client.items(id, node, request).await,
            Self::Folder(folder) => answered(folder.reader.items(id, node, request)),
        }
    }

    /// A page of the executions that an execution started.
    pub(crate) async fn children(&self, id: &str, page: ChildrenPage) -> Result<wire::ChildList> {
        match self {
            Self::Remote(client) => client.children(id, page).await,
            Self::Folder(folder) => folder.children(id, page),
        }
    }

    /// A page of open waits.
    pub(crate) async fn waits(
        &self,
        kind: Option<&str>,
        behind: Option<WaitId>,
        request: WaitsRequest,
    ) -> Result<wire::WaitList> {
        match self {
            Self::Remote(client) => client.waits(kind, behind, &request).await,
            Self::Folder(folder) => answered(folder.reader.waits(kind, behind, request)),
        }
    }

    pub(crate) async fn why(&self, id: &str) -> Result<wire::Why> {
        match self {
            Self::Remote(client) => client.get(&["executions", id, "why"]).await,
            Self::Folder(folder) => answered(folder.reader.why(id)),
        }
    }

    /// Events, page after page until there are as many as wanted.
    pub(crate) async fn events(&self, id: &str, wanted: &EventsOf) -> Result<wire::EventList> {
        let mut page = EventsOf { limit: wanted.limit.min(PAGE_MAX), ..wanted.clone() };
        let mut events = Vec::new();
        loop {
            let found = match self {
                Self::Remote(client) => client.events(id, &page).await?,
                Self::Folder(folder) => folder.events(id, &page)?,
            };
            events.extend(found.events);
            match found.next {
                Some(next) if events.len() < wanted.limit => {
                    page.after = next;
                    page.limit = (wanted.limit - events.len()).min(PAGE_MAX);
                }
                next => return Ok(wire::EventList { events, next }),
            }
        }
    }

    pub(crate) async fn list(&self, request: ListRequest) -> Result<wire::ExecutionList> {
        let limit = request.limit.min(PAGE_MAX);
        let mut request = ListRequest { limit, ..request };
        let mut page = self.list_some(&request).await?;
        // A selective filter returns short pages, even empty ones, long before the end.
        while page.executions.len() < limit
            && let Some(next) = page.next.as_deref().and_then(|next| next.parse().ok())
        {
            request.limit = limit - page.executions.len();
            request.before = Some(waypost_core::id::ExecutionNo(next));
            let more = self.list_some(&request).await?;
            page.executions.extend(more.executions);
            (page.next, page.as_of) = (more.next, more.as_of);
        }
        Ok(page)
    }

    async fn list_some(&self, request: &ListRequest) -> Result<wire::ExecutionList> {
        match self {
            Self::Remote(client) => client.list(request).await,
            Self::Folder(folder) => answered(folder.reader.list(request)),
        }
    }

    pub(crate) async fn definitions(
        &self,
        workflow: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<wire::DefinitionList> {
        let limit = limit.min(PAGE_MAX);
        match self {
            Self::Remote(client) => client.definitions(workflow, cursor, limit).await,
            Self::Folder(folder) => {
                let after = match (workflow, cursor) {
                    (Some(name), Some(version)) => {
                        let version = version.parse().map_err(|_| {
                            Usage(format!("--after {version:?} is not where a page ended"))
                        })?;
                        Some((name.to_owned(), version))
                    }
                    (_, cursor) => cursor.map(|name| (name.to_owned(), 0)),
                };
                let workflow = workflow.map(str::to_owned);
                folder.definitions(&DefinitionsRequest { workflow, after, limit })
            }
        }
    }

    pub(crate) async fn definition(&self, name: &str, version: u32) -> Result<wire::Definition> {
        match self {
            Self::Remote(client) => {
                client.get(&["definitions", name, "versions", &version.to_string()]).await
            }
            Self::Folder(folder) => answered(folder.reader.definition(name, Some(version))),
        }
    }

    /// Stores a definition; `paused` leaves its triggers paused.
    pub(crate) async fn deploy(
        &self,
        source: &[u8],
        how: Deploy,
        paused: bool,
    ) -> Result<wire::Deployed> {
        match self {
            Self::Remote(client) => client.deploy(source, how, paused).await,
            Self::Folder(folder) => folder.deploy(source, how, paused),
        }
    }

    pub(crate) async fn instances(&self) -> Result<wire::InstanceList> {
        match self {
            Self::Remote(client) => client.get(&["instances"]).await,
            Self::Folder(folder) => answered(folder.reader.instances(None)),
        }
    }

    /// Sends a request to an execution. Consumes the target: an engine that has to be opened for it
    /// needs the folder to itself.
    pub(crate) async fn control(
        self,
        id: &str,
        request: Request,
        message: Option<String>,
    ) -> Result<RequestOutcome> {
        match self {
            Self::Remote(client) => client.control(id, request, message).await,
            Self::Folder(folder) => folder.control(id, request, message).await,
        }
    }

    /// Lists the nodes that a retry with these limits of the budget would run again.
    pub(crate) async fn dry_retry(
        &self,
        id: &str,
        budget: Option<SpendingLimits>,
    ) -> Result<RequestOutcome> {
        match self {
            Self::Remote(client) => client.dry_retry(id, budget).await,
            Self::Folder(folder) => folder.dry_retry(id, budget).await,
        }
    }

    /// May several instances drive executions behind this target? A server is treated as if there
    /// were.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Remote(_) => true,
            Self::Folder(folder) => folder.settings.cluster.database.is_some(),
        }
    }

    /// The process that drives executions behind this target, as a sentence; `None` if there is none.
    pub(crate) fn driver(&self) -> Option<String> {
        match self {
            Self::Remote(client) => Some(format!("The server at {} drives it.", client.address())),
            Self::Folder(folder) => {
                let process = folder.store.engine()?;
                Some(format!("It is driven by {process}."))
            }
        }
    }
}

/// A reader's problem as the error of a command.
fn answered<T>(answer: Result<T, Problem>) -> Result<T> {
    answer.map_err(|problem| Refused::from(problem).into())
}
