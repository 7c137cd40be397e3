//! Links of approvals: opening one shows, posting decides, each for one person and one wait.

use serde_json::{Value, json};
use waypost_core::id::WaitId;
use waypost_core::time::Timestamp;
use waypost_engine::links::ApprovalLink;
use waypost_ports::access::{Access as _, AuditRequest, Role};

use crate::approvals::asked;
use crate::support::house::PUBLIC_URL;
use crate::support::{Answer, Ask, House};

const FORM: &str = "application/x-www-form-urlencoded";
const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

/// The links of a wait, by approver, as paths.
async fn links(house: &House, wait: &str, body: &Value) -> Vec<(String, String)> {
    let made = house.post(&format!("/v1/waits/{wait}/links"), body).await.expect(201);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let made = made.json();
    assert_eq!(made["wait"], wait);
    let path = |link: &Value| {
        let url = link["url"].as_str().unwrap();
        let path = url.strip_prefix(PUBLIC_URL).expect("it begins with the public URL");
        (link["approver"].as_str().unwrap().to_owned(), path.to_owned())
    };
    made["links"].as_array().unwrap().iter().map(path).collect()
}

async fn post_form(house: &House, link: &str, body: &str) -> Answer {
    let ask = Ask::new("POST", link).header("content-type", FORM).header("accept", BROWSER);
    // As a browser does that follows a link in a mail on a page without a referrer.
    house.ask(&ask.header("origin", "null").body(body)).await
}

async fn view(house: &House, link: &str) -> Answer {
    let ask = Ask::get(link).header("accept", BROWSER).header("sec-fetch-site", "cross-site");
    house.ask(&ask).await
}

async fn output(house: &House, id: &str) -> Value {
    house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200);
    let nodes = house.get(&format!("/v1/executions/{id}/nodes")).await.expect(200).json();
    let nodes = nodes["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["id"] == "ask").expect("the node")["output"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_opened_shows_the_approval_and_only_a_post_decides() {
    let house = House::open().await;
    let config = json!({ "title": "Ship it?", "approvers": ["bob", "ann"], "timeout": "1h" });
    let wait = asked(&house, "l1", &config).await;
    let made = links(&house, &wait, &json!({})).await;
    let [(first, ann), (second, bob)] = &made[..] else { panic!("{made:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("ann", "bob"));
    for _ in 0..3 {
        let page = view(&house, ann).await.expect(200);
        assert!(page.text().contains("<h1>Ship it?</h1>"), "{}", page.text());
        house.ask(&Ask::new("HEAD", ann)).await.expect(200);
    }
    let shown = house.ask(&Ask::get(ann).header("accept", "application/json")).await;
    let shown = shown.expect(200).json();
    assert_eq!((&shown["title"], &shown["approver"]), (&json!("Ship it?"), &json!("ann")));
    assert_eq!((&shown["execution"], &shown["due"]), (&json!("l1"), &shown["expiresAt"]));
    // Nothing was decided by all this.
    let page = post_form(&house, bob, "decision=rejected&comment=not+yet").await.expect(200);
    assert!(page.text().contains("Rejected"), "{}", page.text());
    let output = output(&house, "l1").await;
    let expected = (&json!("rejected"), &json!("link for bob"), &json!("not yet"));
    assert_eq!((&output["decision"], &output["by"], &output["comment"]), expected);
    // The second answer is refused and names the first, in both forms.
    let late = house.post(ann, &json!({ "decision": "approved" })).await;
    let late = late.refused(409, "already_decided").json();
    assert!(late["detail"].as_str().unwrap().contains("rejected by link for bob"), "{late}");
    let late = post_form(&house, ann, "decision=approved").await.expect(409);
    assert!(late.text().contains("rejected by link for bob"), "{}", late.text());
    view(&house, bob).await.expect(409);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_of_a_link_escapes_what_is_hostile_and_loads_nothing() {
    let house = House::open().await;
    let config = json!({
        "title": "Ship it?",
        "description": "</p><script src=//evil.example/x.js></script><img src=x onerror=alert(1)>",
        "form": { "type": "object", "properties": {
            "\"><b>": { "type": "string", "title": "<i>account</i>", "description": "'\"<u>" },
        } },
        "approvers": ["<b>ann</b>"],
    });
    let wait = asked(&house, "h1", &config).await;
    let [(_, link)] = &links(&house, &wait, &json!({})).await[..] else { panic!() };
    let page = view(&house, link).await.expect(200);
    let text = page.text();
    for hostile in ["<script", "<img", "<b>", "<i>", "<u>", "src=\"", "href="] {
        assert!(!text.contains(hostile), "{hostile} is in {text}");
    }
    assert!(text.contains("&lt;script src=//evil.example/x.js&gt;"), "{text}");
    let policy = page.header("content-security-policy").unwrap().to_owned();
    let nonce = text.split("<style nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    let expected = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    assert_eq!(policy, expected);
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let again = view(&house, link).await;
    assert_ne!(again.header("content-security-policy"), Some(&*policy), "a nonce is used once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn form_of_the_page_is_checked_and_shown_again_with_what_is_wrong() {
    let house = House::open().await;
    let form = json!({
        "type": "object", "required": ["amount"],
        "properties": { "amount": { "type": "integer", "maximum": 100 }, "note": { "type": "string" } },
    });
    let config = json!({ "title": "Ship it?", "form": form, "approvers": ["ann"] });
    let wait = asked(&house, "f1", &config).await;
    let [(_, link)] = &links(&house, &wait, &json!({})).await[..] else { panic!() };
    for (body, status) in [
        ("decision=approved&form.amount=&form.note=n%3C1", 422),
        ("decision=approved&form.amount=101&form.note=n%3C1", 422),
        ("decision=perhaps&form.amount=1&form.note=n%3C1", 400),
        ("decision=approved&form.amount=1&form.note=n%3C1&comment=a%07b", 400),
    ] {
        let page = post_form(&house, link, body).await.expect(status).text();
        assert!(page.contains("role=\"alert\"") && page.contains("value=\"n&lt;1\""), "{page}");
    }
    for bad in [
        json!({ "decision": "approved" }),
        json!({ "decision": "approved", "form": { "amount": 101 } }),
    ] {
        house.post(link, &bad).await.refused(422, "invalid_input");
    }
    let by = json!({ "decision": "approved", "form": { "amount": 1 }, "by": "eve" });
    house.post(link, &by).await.refused(400, "bad_body");
    let blob = json!({ "$blob": "0".repeat(64) });
    let blob = json!({ "decision": "approved", "form": { "amount": 1, "note": blob } });
    assert!((400..500).contains(&house.post(link, &blob).await.status));
    post_form(&house, link, "decision=approved&form.amount=7&form.note=&comment=")
        .await
        .expect(200);
    let output = output(&house, "f1").await;
    assert_eq!((&output["form"], &output["comment"]), (&json!({ "amount": 7 }), &Value::Null));
    assert_eq!(output["by"], "link for ann");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_forged_expired_or_of_another_person_is_refused() {
    let house = House::open().await;
    let config = json!({
        "title": "Ship it?", "approvers": ["ann"], "escalate": { "after": "1h", "to": ["eve"] },
    });
    let wait = asked(&house, "x1", &config).await;
    let path = format!("/v1/waits/{wait}/links");
    // One who may decide only after the escalation has no link before it.
    house.post(&path, &json!({ "approver": "eve" })).await.refused(403, "not_an_approver");
    house.post(&path, &json!({ "approver": "" })).await.refused(400, "bad_body");
    let past = json!({ "expiresAt": "2001-01-01T00:00:00Z" });
    house.post(&path, &past).await.refused(400, "bad_body");
    house.post("/v1/waits/x1~999/links", &json!({})).await.refused(404, "unknown_wait");
    let [(_, link)] = &links(&house, &wait, &json!({ "approver": "ann" })).await[..] else {
        panic!()
    };
    let decide = json!({ "decision": "approved" });
    let mut forged = link.clone().into_bytes();
    let at = forged.len() - 20;
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    house.post(&forged, &decide).await.refused(404, "not_found");
    let page = view(&house, &forged).await.expect(404);
    assert!(page.text().contains("<h1>") && page.header("referrer-policy").is_some());
    // Its time is over.
    let parsed: WaitId = wait.parse().unwrap();
    let expired =
        ApprovalLink { wait: parsed.clone(), approver: "ann".into(), expires_at: Timestamp(1) };
    let path_of = |link: &ApprovalLink| link.url(house.server.engine.links(), "").unwrap();
    house.post(&path_of(&expired), &decide).await.refused(410, "link_expired");
    // A genuine token for a person who is not an approver.
    let later = Timestamp(i64::MAX / 2);
    let stranger = ApprovalLink { approver: "eve".into(), expires_at: later, ..expired.clone() };
    house.post(&path_of(&stranger), &decide).await.refused(403, "not_an_approver");
    let other = WaitId { seq: parsed.seq + 1, ..parsed };
    let other = ApprovalLink { wait: other, expires_at: later, ..expired };
    house.post(&path_of(&other), &decide).await.refused(410, "link_expired");
    // While the execution is paused, nothing is decided.
    house.post("/v1/executions/x1/pause", &json!({})).await.expect(200);
    house.post(link, &decide).await.refused(409, "illegal_transition");
    house.post("/v1/executions/x1/resume", &json!({})).await.expect(200);
    // The execution ends without a decision.
    house.post("/v1/executions/x1/cancel", &json!({})).await;
    house.get("/v1/executions/x1?wait=60s").await.expect(200);
    house.post(link, &decide).await.refused(410, "link_expired");
    view(&house, link).await.expect(410);
}

/// Starts an execution that waits for an approval, with a key; gives the wait's id.
async fn asked_as(house: &House, key: &str, id: &str, config: &Value) -> String {
    let nodes = json!([{ "id": "ask", "type": "approval", "config": config }]);
    let definition = json!({ "name": "asks", "nodes": nodes });
    let deployed = house.ask(&Ask::post("/v1/definitions", &definition).key(key)).await;
    assert!(matches!(deployed.status, 200 | 201));
    let start = json!({ "workflow": "asks", "id": id });
    house.ask(&Ask::post("/v1/executions", &start).key(key)).await.expect(201);
    for _ in 0..10_000 {
        let list = Ask::get("/v1/waits?consistent=true&kind=approval").key(key);
        let list = house.ask(&list).await.expect(200).json();
        let mut waits = list["waits"].as_array().unwrap().iter();
        if let Some(wait) = waits.find(|wait| wait["execution"] == id) {
            return wait["id"].as_str().unwrap().to_owned();
        }
    }
    panic!("{id} does not wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_is_no_approver_gets_no_link_of_another_person() {
    let house = House::locked().await;
    // Its name is `test`.
    let (admin, operator) = (house.key(Role::Admin), house.key(Role::Operator));
    let config = json!({ "title": "Ship it?", "approvers": ["ann", "bob"] });
    let wait = asked_as(&house, &admin, "o1", &config).await;
    let path = format!("/v1/waits/{wait}/links");
    for body in [json!({}), json!({ "approver": "ann" }), json!({ "approver": "test" })] {
        let made = house.ask(&Ask::post(&path, &body).key(&operator)).await;
        made.refused(403, "not_an_approver");
    }
    let all = house.ask(&Ask::post(&path, &json!({})).key(&admin)).await.expect(201).json();
    assert_eq!(all["links"].as_array().unwrap().len(), 2, "{all}");
    // Where it is an approver, or everyone may decide, it gets the link of its own name alone.
    let of_two = json!({ "title": "Ship it?", "approvers": ["ann", "test"] });
    for (id, config) in [("o2", of_two), ("o3", json!({ "title": "Ship it?" }))] {
        let wait = asked_as(&house, &admin, id, &config).await;
        let path = format!("/v1/waits/{wait}/links");
        let other = Ask::post(&path, &json!({ "approver": "ann" })).key(&operator);
        house.ask(&other).await.refused(403, "not_an_approver");
        let made = house.ask(&Ask::post(&path, &json!({})).key(&operator)).await;
        let made = made.expect(201).json();
        let names: Vec<_> = made["links"].as_array().unwrap().iter().collect();
        assert!(matches!(&names[..], [link] if link["approver"] == "test"), "{made}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_needs_no_key_and_is_made_by_those_who_may_decide() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    let post = |path: &str, body: &Value| Ask::post(path, body).key(&admin);
    let wait = asked_as(&house, &admin, "k1", &json!({ "title": "Ship it?" })).await;
    let path = format!("/v1/waits/{wait}/links");
    let viewer = house.key(Role::Viewer);
    house.ask(&Ask::post(&path, &json!({})).key(&viewer)).await.refused(403, "forbidden");
    // Anyone may decide it, so the link must say in whose name.
    house.ask(&post(&path, &json!({}))).await.refused(400, "bad_body");
    let made = house.ask(&post(&path, &json!({ "approver": "ann" }))).await.expect(201).json();
    let url = made["links"][0]["url"].as_str().unwrap();
    let link = url.strip_prefix(PUBLIC_URL).unwrap();
    view(&house, link).await.expect(200);
    post_form(&house, link, "decision=approved").await.expect(200);
    house.server.audit.close();
    let request = AuditRequest { actor: None, before: None, limit: 1_000 };
    let token = link.rsplit('/').next().unwrap();
    let audited = format!("{:?}", house.store.audit(&request).unwrap().rows);
    assert!(audited.contains("createApprovalLinks") && !audited.contains(token), "{audited}");
    let events = house.ask(&Ask::get("/v1/executions/k1/events").key(&admin)).await.expect(200);
    assert!(!events.text().contains(token) && events.text().contains("link for ann"));
    // The audit log says which key made the link that the decision came by.
    let sender = format!("approval:{}", waypost_engine::links::digest(token));
    assert!(events.text().contains(&sender), "{}", events.text());
    let until = made["links"][0]["expiresAt"].as_str().unwrap();
    assert!(audited.contains(&format!("{wait}: {sender} for ann; until {until}")), "{audited}");
}
