//! The folder as a target, when no server runs on it: answers the questions that a server answers,
//! with the same reader.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use waypost_core::id::ExecutionNo;
use waypost_ports::query::{DefinitionsRequest, EventsRequest};
use waypost_ports::triggers::TriggersRequest;
use waypost_server::reader::{PAGE_BYTES_MAX, Reader, unknown_definition};
use waypost_server::workflows::{Deploy, DeployTriggers, Workflows};
use waypost_server::{server, wire};

use super::{ChildrenPage, EventsOf, admin, answered};
use crate::backend::{self, Backend};
use crate::client::Refused;
use crate::settings::Settings;
use crate::wiring;

pub(crate) struct Folder {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) reader: Reader,
    pub(super) settings: Settings,
}

impl Folder {
    /// Opens an existing folder for reading, also while another process runs an engine on it.
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        Ok(Self::over(backend::open(settings)?, settings))
    }

    pub(crate) fn over(store: Arc<dyn Backend>, settings: &Settings) -> Self {
        let reader = reader(&store);
        Self { store, reader, settings: settings.clone() }
    }

    /// The id of the newest execution, or of the one at the top of its tree: what it started is newer, and
    /// not what a person means. Read from its first event: a log that is damaged later on still has an id.
    pub(super) fn newest(&self) -> Result<Option<String>> {
        let Some(execution) = self.store.find(None)? else { return Ok(None) };
        let request = EventsRequest { limit: 1, ..EventsRequest::all(execution) };
        let first = self.store.events(&request)?.into_iter().next();
        let first = first.context("the newest execution has no log")?;
        #[derive(Deserialize)]
        struct Parent {
            root: String,
        }
        #[derive(Deserialize)]
        struct Created {
            key: String,
            parent: Option<Parent>,
        }
        let created: Created = serde_json::from_str(first.fields.text())?;
        Ok(Some(created.parent.map_or(created.key, |parent| parent.root)))
    }

    pub(crate) fn find(&self, id: &str) -> Result<ExecutionNo> {
        answered(self.reader.find(id))
    }

    pub(super) fn events(&self, id: &str, wanted: &EventsOf) -> Result<wire::EventList> {
        let EventsOf { node, kind, after, limit } = wanted.clone();
        let execution = self.find(id)?;
        let bytes = PAGE_BYTES_MAX;
        answered(self.reader.events(&EventsRequest { execution, node, kind, after, limit, bytes }))
    }

    pub(super) fn children(
        &self,
        id: &str,
        ChildrenPage { after, limit, .. }: ChildrenPage,
    ) -> Result<wire::ChildList> {
        let execution = self.find(id)?;
        let bytes = PAGE_BYTES_MAX;
        let request = EventsRequest { after, limit, bytes, ..EventsRequest::all(execution) };
        answered(self.reader.children(&request))
    }

    pub(super) fn definitions(&self, request: &DefinitionsRequest) -> Result<wire::DefinitionList> {
        let page = answered(self.reader.definitions(request))?;
        match &request.workflow {
            Some(name) if page.definitions.is_empty() && request.after.is_none() => {
                Err(Refused::from(unknown_definition(name, None)).into())
            }
            _ => Ok(page),
        }
    }

    pub(super) fn deploy(
        &self,
        source: &[u8],
        how: Deploy,
        paused: bool,
    ) -> Result<wire::Deployed> {
        let backend = Arc::clone(&self.store) as Arc<dyn server::Backend>;
        let compiler = wiring::deploying(&self.settings);
        let workflows = Workflows::new(backend, Arc::new(wiring::plans()), compiler);
        // The store's time, which is not that of this machine if the store is a database.
        let now = self.store.triggers(&TriggersRequest { limit: 1, ..Default::default() })?.at;
        let triggers = DeployTriggers { now, paused };
        let deployed = answered(workflows.deploy(source, how, triggers, None))?;
        if how != Deploy::DryRun {
            let status = if deployed.created { 201 } else { 200 };
            admin::record(&self.store, "deployDefinition", &deployed.subject(), status)?;
        }
        Ok(deployed)
    }
}

pub(super) fn reader(store: &Arc<dyn Backend>) -> Reader {
    Reader::new(Arc::clone(store) as Arc<dyn server::Backend>, Arc::new(wiring::plans()))
}
