//! Answers questions about executions from the log, and lists from the projections. Calls block.
//!
//! The server uses it for requests, and the command line uses it on a folder without a server, so
//! both answer the same.

mod breakers;
mod events;
mod found;
mod signals;
pub(crate) mod trigger_views;
mod views;
mod waits;
pub(crate) mod webhook_views;

pub use found::Found;
pub use signals::PublishedTo;
pub(crate) use signals::without_blobs;
pub use waits::{Decided, WAIT_KINDS};

use std::sync::Arc;

use waypost_core::command::Refusal;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::limits::EARLY_SIGNALS_BYTES_MAX as INBOX_BYTES_MAX;
use waypost_core::state::ItemsRequest;
use waypost_engine::driver::Loaded;
use waypost_engine::{Damage, EngineError, Plans, fold};
use waypost_ports::access::AuditRequest;
use waypost_ports::query::{DefinitionsRequest, EventsRequest, ListRequest, Read};
use waypost_ports::store::DefinitionRef;

use crate::problem::{Code, Problem};
use crate::server::Backend;
use crate::wire;

/// Most rows of a page.
pub const PAGE_MAX: usize = 1_000;
/// The default page size.
pub const PAGE_DEFAULT: usize = 50;

/// Bytes of events after which a page ends.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of an item's output in a list of items: a page of the most items stays below
/// [`PAGE_BYTES_MAX`].
const ITEM_OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// Answers questions.
pub struct Reader {
    backend: Arc<dyn Backend>,
    plans: Arc<Plans>,
}

/// A message that changed nothing, as the log has it.
#[derive(serde::Deserialize)]
struct Ignored {
    message: String,
    reason: String,
    #[serde(default)]
    repeatable: bool,
}

/// Which nodes of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nodes {
    All,
    /// Nodes that are not settled.
    Incomplete,
}

impl Reader {
    /// Over a store.
    pub fn new(backend: Arc<dyn Backend>, plans: Arc<Plans>) -> Self {
        Self { backend, plans }
    }

    /// The store.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// The number of an execution.
    pub fn find(&self, key: &str) -> Result<ExecutionNo, Problem> {
        self.backend.find(Some(key))?.ok_or_else(|| Problem::unknown_execution(key))
    }

    /// The key of the newest execution that no other one started.
    pub fn newest(&self) -> Result<Option<String>, Problem> {
        let Some(newest) = self.backend.find(None)? else { return Ok(None) };
        let found = self.load(newest)?;
        // What it started is newer, and not what a person means.
        let created = &found.state.created;
        let root = created.parent.as_ref().map_or(&created.key, |parent| &parent.root);
        Ok(Some(root.to_string()))
    }

    /// Reads an execution back from its log.
    pub fn load(&self, execution: ExecutionNo) -> Result<Found, Problem> {
        let unknown = || Problem::new(Code::UnknownExecution, "there is no such execution");
        let history = self.backend.look(execution)?.ok_or_else(unknown)?;
        let control = history.control.clone();
        match fold(history, &self.plans, &*self.backend) {
            Ok(Loaded { plan, state, mail, mail_waits, .. }) => {
                let mail = mail.into_iter().map(|mail| mail.message).collect();
                Ok(Found { plan, state, control, mail, mail_waits })
            }
            Err(Damage::Store(error)) => Err(error.into()),
            Err(damage) => {
                let held = control.and_then(|control| control.held);
                let reason = held.unwrap_or_else(|| damage.to_string());
                Err(Problem::new(Code::ExecutionDamaged, reason)
                    .hint("its events can still be read; `waypost check` says what is wrong"))
            }
        }
    }

    /// Rejects a signal of so many bytes to an execution whose inbox is full. A paused execution
    /// consumes nothing before it is resumed, and then reads all of it at once.
    pub fn refuse_full(&self, execution: ExecutionNo, bytes: usize) -> Result<(), Problem> {
        let waiting = self.backend.weigh(Read::Mail(execution))?;
        if waiting.saturating_add(bytes as u64) <= INBOX_BYTES_MAX as u64 {
            return Ok(());
        }
        Err(Refusal::SignalsTooLarge(INBOX_BYTES_MAX).into())
    }

    /// Rejects what an instance that is alive could not read.
    pub fn refuse_unreadable(&self, needs: u16) -> Result<(), Problem> {
        let alive = self.backend.instances()?.into_iter().filter(|row| row.alive);
        match alive.map(|row| row.fold).min() {
            Some(readable) if readable < needs => {
                Err(EngineError::ClusterTooOld { needs, readable }.into())
            }
            _ => Ok(()),
        }
    }

    fn load_key(&self, key: &str) -> Result<Found, Problem> {
        self.load(self.find(key)?)
    }

    /// One execution.
    pub fn execution(&self, key: &str) -> Result<wire::Execution, Problem> {
        Ok(views::execution(&self.load_key(key)?))
    }

    /// Its nodes.
    pub fn nodes(&self, key: &str, which: Nodes) -> Result<wire::NodeList, Problem> {
        Ok(views::nodes(&self.load_key(key)?, which))
    }

    /// A page of the items of a map in it, or of the iterations of a loop. Costs what reading the
    /// execution costs, and the page.
    pub fn items(
        &self,
        key: &str,
        path: &str,
        request: ItemsRequest,
    ) -> Result<wire::NodeList, Problem> {
        let found = self.load_key(key)?;
        let page = found.state.items(&found.plan, &path.into(), request)?;
        Ok(views::item_list(&found, page))
    }

    /// Its output.
    pub fn output(&self, key: &str) -> Result<wire::Payload, Problem> {
        let found = self.load_key(key)?;
        match &found.state.end {
            Some(end) => Ok(end.output.clone().map_or_else(wire::Payload::default, wire::Payload)),
            None => {
                let detail = format!("the execution is {} and has no output yet", found.status());
                Err(Problem::new(Code::ExecutionRuns, detail)
                    .hint("GET /v1/executions/{id}?wait=30s waits for its end"))
            }
        }
    }

    /// Why it waits.
    pub fn why(&self, key: &str) -> Result<wire::Why, Problem> {
        Ok(views::why(&self.load_key(key)?))
    }

    /// Its log, a page of it.
    pub fn events(&self, request: &EventsRequest) -> Result<wire::EventList, Problem> {
        let rows = self.backend.events(request)?;
        let last = rows.last().filter(|_| request.is_full(&rows));
        let next = last.map(|row| row.seq);
        Ok(wire::EventList { events: rows.into_iter().map(views::event).collect(), next })
    }

    /// A page of the executions that an execution started, from its log, with their statuses as the
    /// projections have them.
    pub fn children(&self, request: &EventsRequest) -> Result<wire::ChildList, Problem> {
        #[derive(serde::Deserialize)]
        struct Started {
            execution: i64,
            child: String,
            workflow: String,
            version: u32,
            #[serde(default)]
            detached: bool,
        }
        let kind = Some("ChildStarted".to_owned());
        let request = EventsRequest { kind, ..request.clone() };
        let rows = self.backend.events(&request)?;
        let next = rows.last().filter(|_| request.is_full(&rows)).map(|row| row.seq);
        let mut children = Vec::with_capacity(rows.len());
        for row in rows {
            let damaged = |error| Problem::new(Code::ExecutionDamaged, format!("{error}"));
            let started: Started = serde_json::from_str(row.fields.text()).map_err(damaged)?;
            let number = ExecutionNo(started.execution);
            let before = Some(ExecutionNo(number.0.saturating_add(1)));
            let page =
                self.backend.list(&ListRequest { before, limit: 1, ..ListRequest::default() })?;
            let shown = page.rows.first().filter(|row| row.execution == number);
            children.push(wire::Child {
                id: started.child,
                node: row.node.unwrap_or_default(),
                workflow: started.workflow,
                version: started.version,
                detached: started.detached,
                seq: row.seq,
                status: shown.map(|row| wire::payload::ExecutionStatus(row.view.status)),
            });
        }
        Ok(wire::ChildList { children, next })
    }

    /// Why a message changed nothing, if it did: as one that is received once, or as one that was refused
    /// for now and is repeatable.
    pub fn ignored(
        &self,
        execution: ExecutionNo,
        message: &str,
        repeatable: bool,
    ) -> Result<Option<Problem>, Problem> {
        let kind = Some("MessageIgnored".to_owned());
        let request = EventsRequest { kind, ..EventsRequest::all(execution) };
        let rows = self.backend.events(&request)?;
        let reason = rows.iter().rev().find_map(|row| {
            let ignored: Ignored = serde_json::from_str(row.fields.text()).ok()?;
            let found = ignored.message == message && ignored.repeatable == repeatable;
            found.then_some(ignored.reason)
        });
        Ok(reason.map(|reason| {
            if repeatable {
                return Problem::signals_full(reason);
            }
            Problem::new(Code::IllegalTransition, reason)
                .hint("GET /v1/executions/{id}/why says where it stands")
        }))
    }

    /// A page of executions.
    pub fn list(&self, request: &ListRequest) -> Result<wire::ExecutionList, Problem> {
        let page = self.backend.list(request)?;
        Ok(wire::ExecutionList {
            executions: page.rows.into_iter().map(views::summary).collect(),
            next: page.next.map(|next| next.0.to_string()),
            as_of: wire::AsOf {
                at: page.lag.as_of.map(wire::payload::Time),
                frames_behind: page.lag.frames,
            },
        })
    }

    /// A page of definitions.
    pub fn definitions(
        &self,
        request: &DefinitionsRequest,
    ) -> Result<wire::DefinitionList, Problem> {
        let page = self.backend.definitions(request)?;
        let last = page.rows.last().filter(|_| page.more);
        let next = last.map(|row| match request.workflow {
            Some(_) => row.version.to_string(),
            None => row.workflow.to_string(),
        });
        Ok(wire::DefinitionList {
            definitions: page.rows.iter().map(views::definition_summary).collect(),
            next,
        })
    }

    /// One version of a workflow; the current one where none is named.
    pub fn definition(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> Result<wire::Definition, Problem> {
        let unknown = || unknown_definition(name, version);
        let current = self.backend.current(name)?.ok_or_else(unknown)?.version;
        let which = DefinitionRef::Version(name.into(), version.unwrap_or(current));
        let definition = self.backend.definition(&which)?.ok_or_else(unknown)?;
        views::definition(&definition, current)
    }

    /// Every key.
    pub fn keys(&self) -> Result<wire::ApiKeyList, Problem> {
        Ok(wire::ApiKeyList { keys: self.backend.keys()?.iter().map(views::key).collect() })
    }

    /// A page of the audit log.
    pub fn audit(&self, request: &AuditRequest) -> Result<wire::AuditList, Problem> {
        let page = self.backend.audit(request)?;
        let last = page.rows.last().filter(|_| page.more);
        let next = last.map(|(place, _)| place.to_string());
        let entries = page.rows.into_iter().map(|(place, entry)| views::audit_row(place, &entry));
        Ok(wire::AuditList { entries: entries.collect(), next })
    }

    /// Instances; `me` is the one that handles the request.
    pub fn instances(&self, me: Option<InstanceId>) -> Result<wire::InstanceList, Problem> {
        let rows = self.backend.instances()?;
        let instances = rows.into_iter().map(|row| wire::Instance {
            running: row.about.running,
            version: Some(row.about.version.to_string()).filter(|version| !version.is_empty()),
            address: row.about.address.map(|address| address.to_string()),
            lag_ms: row.silent.map(|silent| silent.0),
            id: row.instance.to_string(),
            alive: row.alive,
            alive_until: row.alive_until.map(wire::payload::Time),
            owned: row.owned,
            me: Some(row.instance) == me,
        });
        Ok(wire::InstanceList { instances: instances.collect() })
    }
}

/// No workflow has this name, or it has no such version.
pub fn unknown_definition(name: &str, version: Option<u32>) -> Problem {
    let detail = match version {
        Some(version) => format!("workflow {name:?} has no version {version}"),
        None => format!("there is no workflow {name:?}"),
    };
    Problem::new(Code::UnknownDefinition, detail)
        .hint("GET /v1/definitions lists those that exist; `waypost deploy` adds one")
}

pub(crate) use views::{event, failure};
