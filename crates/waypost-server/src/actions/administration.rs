//! Keys and the audit log.

use std::sync::Arc;

use hyper::{StatusCode, header};
use waypost_ports::access::{AuditRequest, KeyRow};

use super::page_size;
use crate::access::keys;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::server::Server;
use crate::wire;

pub(crate) async fn create_key(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::NewApiKey = call.json()?;
    let (new, text) = keys::make(&asked.name.0, asked.role.into());
    let id = Arc::clone(&new.id);
    server
        .blocking(move |server| {
            server.reader.backend().add_key(&new)?;
            Ok(server.keys.refresh(server.reader.backend())?)
        })
        .await?;
    let made =
        wire::MadeKey { id: id.to_string(), name: asked.name.0, role: asked.role, key: text };
    let reply = Reply::json(StatusCode::CREATED, &made)?.about(id);
    Ok(reply.with(header::CACHE_CONTROL, "no-store"))
}

pub(crate) async fn list_keys(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    Reply::ok(&server.blocking(|server| server.reader.keys()).await?)
}

pub(crate) async fn revoke_key(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let id = call.values.text("id").to_owned();
    let revoked = id.clone();
    server
        .blocking(move |server| {
            let backend = server.reader.backend();
            // A revoked key is gone, except from the list; the first revocation counts.
            let known = |row: &KeyRow| *row.key.id == *id && row.revoked_at.is_none();
            if !backend.keys()?.iter().any(known) || !backend.revoke_key(&id)? {
                let detail = format!("no key that is worth something has the id {id:?}");
                return Err(Problem::new(Code::UnknownKey, detail));
            }
            Ok(server.keys.refresh(backend)?)
        })
        .await?;
    Ok(Reply::empty().about(revoked))
}

pub(crate) async fn audit(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let request = AuditRequest {
        actor: call.values.get("actor").map(str::to_owned),
        before: call.values.number("cursor"),
        limit: page_size(&call),
    };
    Reply::ok(&server.blocking(move |server| server.reader.audit(&request)).await?)
}
