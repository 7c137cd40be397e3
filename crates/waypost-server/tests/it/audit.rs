//! The audit log: one entry for everything that changes something, and for what was refused.

use std::sync::Arc;

use hyper::Method;
use serde_json::json;
use waypost_core::time::Timestamp;
use waypost_ports::access::{Access as _, AuditEntry, AuditRequest, Role};
use waypost_ports::query::Query as _;
use waypost_server::http::route::{Access, Effect};
use waypost_server::table::routes;

use crate::support::{Ask, House, house, samples};

/// All that was written, oldest first.
fn written(house: &House) -> Vec<AuditEntry> {
    house.server.audit.close();
    let request = AuditRequest { actor: None, before: None, limit: 100_000 };
    let page = house.store.audit(&request).unwrap();
    page.rows.into_iter().rev().map(|(_, entry)| entry).collect()
}

#[tokio::test]
async fn audit_log_has_one_entry_per_change() {
    let house = House::locked().await;
    let key = house.key(Role::Admin);
    let actor = format!("key:{}", key.split('_').nth(1).unwrap());
    let mut expected = Vec::new();
    for route in routes() {
        let status = house.ask(&samples::ask(route).key(&key)).await.status;
        // Starts, and what workers say, stand in the logs of their executions. An upload changes nothing
        // before one of them names it.
        let by_link = matches!(route.access, Access::Link(_) | Access::Signed);
        let logged = by_link
            || ["startExecution", "publishEvents"].contains(&route.name)
            || ["workers", "blobs"].contains(&route.tag);
        let reads = route.method == Method::GET;
        assert!(by_link || (route.effect == Effect::Reads) == reads, "{}", route.name);
        if !reads && !logged {
            expected.push((actor.clone(), route.name.to_owned(), status));
        }
    }
    let written = written(&house);
    let fields =
        |entry: &AuditEntry| (entry.actor.to_string(), entry.action.to_string(), entry.status);
    assert_eq!(written.iter().map(fields).collect::<Vec<_>>(), expected);
    for entry in &written {
        assert_eq!(&*entry.address, "127.0.0.1");
        let route = routes().iter().find(|route| *route.name == *entry.action).unwrap();
        assert_eq!(entry.subject.is_some(), route.path.contains('{'), "{entry:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_of_disconnected_client_is_audited() {
    let house = House::open().await;
    for version in 0..20 {
        let node = json!({ "id": format!("n{version}"), "type": "noop" });
        let definition = json!({ "name": "evolving", "nodes": [node] });
        let mut client = house.connect().await;
        let ask = Ask::post("/v1/definitions", &definition);
        client.send(&ask.bytes(house.address)).await.unwrap();
    }
    // Some requests were gone before they were read; all others are done and audited.
    house.server.drain();
    house.server.closing.cancel();
    house.server.tasks.close();
    house.server.tasks.wait().await;
    let versions = house.store.current("evolving").unwrap().map_or(0, |row| row.version);
    let done = written(&house).iter().filter(|entry| entry.status == 201).count();
    assert_eq!(done, usize::try_from(versions).unwrap());
}

#[tokio::test]
async fn an_entry_names_what_was_acted_upon() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    house.post("/v1/executions/e/signals", &json!({ "name": "go" })).await.expect(200);
    let made = house.post("/v1/keys", &json!({ "name": "x", "role": "viewer" })).await.json();
    let id = made["id"].as_str().unwrap().to_owned();
    house.ask(&Ask::new("DELETE", &format!("/v1/keys/{id}"))).await.expect(204);
    let definition = json!({ "name": "new", "nodes": [{ "id": "a", "type": "noop" }] });
    house.post("/v1/definitions", &definition).await.expect(201);
    let fields: Vec<_> = written(&house)
        .iter()
        .map(|entry| {
            assert_eq!(&*entry.actor, "local");
            let subject = entry.subject.as_deref().unwrap().to_owned();
            (entry.action.to_string(), subject, entry.status)
        })
        .collect();
    let entry =
        |action: &str, subject: &str, status| (action.to_owned(), subject.to_owned(), status);
    let expected = [
        entry("signalExecution", "e", 200),
        entry("createKey", &id, 201),
        entry("revokeKey", &id, 204),
        entry("deployDefinition", "new v1", 201),
    ];
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn refused_request_is_audited() {
    let house = House::locked().await;
    let viewer = house.key(Role::Viewer);
    let actor = format!("key:{}", viewer.split('_').nth(1).unwrap());
    house.get("/nowhere").await.expect(401);
    house.ask(&Ask::get("/v1/keys").key(&viewer)).await.expect(403);
    house.ask(&Ask::post("/v1/executions", &json!({})).key(&viewer)).await.expect(403);
    let written = written(&house);
    let fields: Vec<_> =
        written.iter().map(|entry| (&*entry.actor, &*entry.action, entry.status)).collect();
    let expected =
        [("anonymous", "none", 401), (&*actor, "listKeys", 403), (&*actor, "startExecution", 403)];
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn a_flood_of_refusals_neither_fills_the_audit_log_nor_hides_what_was_done() {
    const FLOOD: usize = 100_000;
    let house = House::locked().await;
    let refusal = AuditEntry {
        at: Timestamp(0),
        actor: "anonymous".into(),
        address: "10.0.0.1".into(),
        action: "none".into(),
        subject: None,
        status: 401,
    };
    for at in 0..FLOOD {
        house.server.audit.add(refusal.clone());
        if at == FLOOD / 2 {
            house.server.audit.add(AuditEntry {
                status: 204,
                actor: Arc::from("me"),
                ..refusal.clone()
            });
        }
    }
    let written = written(&house);
    let dropped = usize::try_from(house.server.audit.dropped()).unwrap();
    assert_eq!(written.len() + dropped, FLOOD + 1, "what is not there is counted");
    assert!(written.len() < FLOOD / 10, "{} were written", written.len());
    assert_eq!(written.iter().filter(|entry| &*entry.actor == "me").count(), 1);
}

#[test]
fn every_route_that_changes_something_needs_a_key() {
    for route in routes().iter().filter(|route| route.method != Method::GET) {
        assert_ne!(route.access, Access::Public, "{}", route.name);
    }
}
