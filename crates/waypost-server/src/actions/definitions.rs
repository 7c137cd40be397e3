//! Definitions: deploy, list, get.

use std::sync::Arc;

use hyper::{StatusCode, header};
use waypost_ports::query::DefinitionsRequest;
use waypost_ports::triggers::TriggersRequest;

use super::page_size;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::server::Server;
use crate::workflows::{Deploy, DeployTriggers};

pub(crate) async fn deploy(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let how = match (call.values.flag("dryRun"), call.values.flag("keepCurrent")) {
        (true, _) => Deploy::DryRun,
        (false, true) => Deploy::KeepCurrent,
        (false, false) => Deploy::MakeCurrent,
    };
    let source = call.body.clone();
    let paused = call.values.flag("paused");
    let deployed = server
        .blocking(move |server| {
            // The engine's estimate may be a little behind: a schedule would fire a time before its deploy.
            let one = TriggersRequest { limit: 1, ..TriggersRequest::default() };
            let now = server.reader.backend().triggers(&one)?.at;
            let triggers = DeployTriggers { now, paused };
            server.workflows.deploy(&source, how, triggers, Some(&*server.secrets))
        })
        .await?;
    if let (Deploy::MakeCurrent, Some(triggers)) = (how, &server.triggers) {
        triggers.deployed().await.map_err(|error| Problem::internal(&error))?;
        // It learns of the endpoint of a new trigger of ends: without one, no commit wakes it.
        server.wakeups.wake();
    }
    let kept = how != Deploy::DryRun && deployed.created;
    let status = if kept { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, &deployed)?.about(deployed.subject());
    Ok(match deployed.version {
        Some(version) if kept => {
            let place = format!("/v1/definitions/{}/versions/{version}", deployed.workflow);
            reply.with(header::LOCATION, &place)
        }
        _ => reply,
    })
}

pub(crate) async fn list(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let after = call.values.get("cursor").map(|name| (name.to_owned(), 0));
    let request = DefinitionsRequest { workflow: None, after, limit: page_size(&call) };
    Reply::ok(&server.blocking(move |server| server.reader.definitions(&request)).await?)
}

pub(crate) async fn versions(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let name = call.values.text("name").to_owned();
    let cursor = call.values.number("cursor").and_then(|version| u32::try_from(version).ok());
    let after = cursor.map(|version| (name.clone(), version));
    let request = DefinitionsRequest { workflow: Some(name), after, limit: page_size(&call) };
    let page = server
        .blocking(move |server| {
            let page = server.reader.definitions(&request)?;
            let name = request.workflow.as_deref().unwrap_or_default();
            match page.definitions.is_empty() && request.after.is_none() {
                true => Err(crate::reader::unknown_definition(name, None)),
                false => Ok(page),
            }
        })
        .await?;
    Reply::ok(&page)
}

pub(crate) async fn get(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let name = call.values.text("name").to_owned();
    let version = match call.values.get("version") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Problem::new(Code::UnknownDefinition, "versions are whole numbers from 1")
        })?),
    };
    Reply::ok(&server.blocking(move |server| server.reader.definition(&name, version)).await?)
}
