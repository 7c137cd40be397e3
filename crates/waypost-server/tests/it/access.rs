//! Who may use which route, and what odd spellings of a path lead to: for every row of the table.

use hyper::Method;
use waypost_ports::access::{Access as _, Role};
use waypost_server::http::route::{Access, Effect, Route};
use waypost_server::table::routes;

use crate::support::{Ask, House, samples};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_asks_for_a_key_of_the_right_role() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    let revoked = house.key(Role::Admin);
    house.store.revoke_key(revoked.split('_').nth(1).unwrap()).unwrap();
    house.server.keys.refresh(&*house.store).unwrap();
    let last = if admin.ends_with('0') { '1' } else { '0' };
    let unknown = format!("{}{last}", &admin[..admin.len() - 1]);
    let scheme = |value: &str| ("Authorization".to_owned(), value.to_owned());
    let worthless = [
        vec![],
        vec![scheme(&format!("Bearer {unknown}"))],
        vec![scheme(&format!("Bearer {revoked}"))],
        vec![scheme("Bearer")],
        vec![scheme("Bearer ")],
        vec![scheme("Bearer wpk_")],
        vec![scheme("Bearer wpk__")],
        vec![scheme(&format!("Basic {admin}"))],
        vec![scheme(&admin)],
        vec![scheme(&format!("Bearer {admin} {admin}"))],
        vec![scheme(&format!("Bearer {}", admin.to_uppercase()))],
        vec![scheme(&format!("Bearer {admin}")), scheme(&format!("Bearer {admin}"))],
        vec![("X-Api-Key".to_owned(), admin.clone())],
        vec![("Cookie".to_owned(), format!("key={admin}"))],
    ];
    for route in routes() {
        let ask = samples::ask(route);
        for headers in &worthless {
            let answer = house.ask(&Ask { headers: headers.clone(), ..ask.clone() }).await;
            match route.access {
                Access::Public => drop(answer.expect(200)),
                Access::Link(_) => drop(answer.refused(404, "not_found")),
                Access::Signed => drop(answer.refused(404, "unknown_hook")),
                Access::Roles(_) => {
                    let answer = answer.refused(401, "unauthenticated");
                    let asked = answer.header("www-authenticate");
                    assert_eq!(asked, Some("Bearer realm=\"waypost\""));
                }
            }
        }
        for role in Role::ALL {
            let answer = house.ask(&ask.clone().key(&house.key(role))).await;
            match route.access.allows(role) {
                true => assert!(![401, 403].contains(&answer.status), "{}: {answer:?}", route.name),
                false => drop(answer.refused(403, "forbidden")),
            }
        }
    }
}

#[tokio::test]
async fn rights_follow_the_roles() {
    let may = |role: Role| -> Vec<&str> {
        let allowed = routes().iter().filter(|route| route.access.allows(role));
        allowed.map(|route| route.name).collect()
    };
    assert_eq!(may(Role::Admin).len(), routes().len(), "an admin may do everything");
    let by_own_proof = |route: &&Route| matches!(route.access, Access::Link(_) | Access::Signed);
    for route in routes().iter().filter(|route| !by_own_proof(route)) {
        let changes = route.method != Method::GET;
        assert!(!changes || !route.access.allows(Role::Viewer), "{}", route.name);
        let administers = ["/v1/keys", "/v1/audit", "/v1/webhook-endpoints", "/v1/dead-letters"]
            .iter()
            .any(|path| route.path.starts_with(path));
        assert!(!administers || !route.access.allows(Role::Operator), "{}", route.name);
    }
    let public: Vec<_> = routes().iter().filter(|route| route.access == Access::Public).collect();
    assert_eq!(public.iter().map(|route| route.path).collect::<Vec<_>>(), ["/livez", "/readyz"]);
}

/// Paths that resemble a route's, and are not it.
fn odd_spellings(route: &Route) -> Vec<String> {
    let path = samples::path(route);
    let first = path[1..].split('/').next().unwrap();
    let encoded = format!("/%{:02x}{}", path.as_bytes()[1], &path[2..]);
    let mut paths = vec![
        format!("/{path}"),
        format!("//{path}"),
        path.replace("/v1/", "/v1//"),
        format!("{path}/"),
        format!("{path}//"),
        format!("{path}/."),
        format!("{path}/.."),
        format!("{path}/../livez"),
        format!("{path}/..;/livez"),
        format!("{path}%2flivez"),
        format!("/livez%2f..{path}"),
        format!("/livez/..{path}"),
        format!("/livez/%2e%2e{path}"),
        format!("/livez/%2E%2E{path}"),
        format!("/livez;{path}"),
        format!("/x/..{path}"),
        format!("/./{}", &path[1..]),
        format!("/%2e/{}", &path[1..]),
        format!("%2f{}", &path[1..]).replacen("%2f", "/%2f", 1),
        path.to_uppercase(),
        encoded.clone(),
        encoded.replace('%', "%25"),
        path.replacen(first, &first.to_uppercase(), 1),
        format!("{path}%00"),
        format!("{path}%0a"),
        format!("{path}\\"),
        format!("/{first};x/{}", path.strip_prefix(&format!("/{first}/")).unwrap_or_default()),
        format!("{path}/x/index.html"),
    ];
    // What follows a value in the last segment is part of the value, and a value of its own.
    if !route.path.ends_with('}') {
        paths.extend(
            [".", ".json", ";x", ";x=/livez", "%2e", "*", "~", "%3f", "%23", "%20"]
                .map(|end| path.clone() + end),
        );
    }
    paths.retain(|odd| *odd != path);
    paths
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_spelling_of_a_path_opens_nothing() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    let (mut stranger, mut insider) = (house.connect().await, house.connect().await);
    for route in routes() {
        for path in odd_spellings(route) {
            let ask = Ask::new(route.method.as_str(), &path);
            let said = stranger.ask(&ask).await.unwrap();
            // What follows the path of a webhook trigger may be a token.
            let is_hook = route.access == Access::Signed && path.starts_with("/v1/hooks/");
            if !(is_hook && matches!(&*said.code(), "unknown_hook" | "bad_parameter")) {
                assert_eq!(said.status, 401, "{} {path} without a key", route.method);
                assert_eq!(said.code(), "unauthenticated");
            }
            let said = insider.ask(&ask.key(&admin)).await.unwrap();
            let nowhere = matches!(said.status, 404 | 405) || said.code() == "bad_parameter";
            assert!(nowhere, "{} {path} with a key: {said:?}", route.method);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_knows_its_methods_and_no_others() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    for route in routes() {
        let path = samples::target(route);
        let known = routes().iter().filter(|other| other.path == route.path);
        let known: Vec<&str> = known.map(|other| other.method.as_str()).collect();
        let methods =
            ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "X"];
        for method in methods {
            let reads = routes().iter().any(|other| {
                other.path == route.path
                    && other.method == Method::GET
                    && other.effect == Effect::Reads
            });
            let got = method == "HEAD" && reads;
            let exists = known.contains(&method) || got;
            let said = house.ask(&Ask::new(method, &path)).await;
            let expected = match route.access {
                Access::Public if exists => 200,
                Access::Link(_) | Access::Signed if exists => 404,
                _ => 401,
            };
            assert_eq!(said.status, expected, "{method} {path} without a key");
            let said = house.ask(&Ask::new(method, &path).key(&admin)).await;
            assert_eq!(said.status == 405, !exists, "{method} {path}: {said:?}");
            if said.status == 405 {
                let allow = said.header("allow").unwrap();
                assert!(
                    known.iter().all(|known| allow.contains(known)),
                    "{method} {path}: {allow}"
                );
            }
            assert!(method != "HEAD" || said.body.is_empty());
        }
    }
}

#[tokio::test]
async fn tricks_with_queries_and_absolute_targets_change_nothing() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    let address = house.address;
    for target in [
        "/v1/keys?/livez",
        "/v1/keys?path=/livez",
        "/v1/keys?access=public",
        "/v1/keys?key=x&authorization=Bearer",
        "/v1/keys#/livez",
    ] {
        house.get(target).await.refused(401, "unauthenticated");
    }
    house.ask(&Ask::get("/v1/keys?/livez").key(&admin)).await.refused(400, "bad_parameter");
    // A server must take absolute targets, as proxies are sent them: they are judged like others.
    for (target, status) in [("/livez", 200), ("/v1/keys", 401), ("/nowhere", 401)] {
        let absolute = format!("http://{address}{target}");
        house.get(&absolute).await.expect(status);
    }
    let absolute = format!("http://{address}/v1/keys");
    house.ask(&Ask::get(&absolute).key(&admin)).await.expect(200);
    // One that names another host than the `Host` header names nobody.
    for other in ["http://evil.example/v1/keys", "http://localhost/livez"] {
        house.ask(&Ask::get(other).key(&admin)).await.refused(400, "bad_request");
    }
}

#[tokio::test]
async fn request_without_key_reveals_nothing_about_paths() {
    let house = House::locked().await;
    house.server.workflows.find("quick", None).unwrap();
    let mut texts = Vec::new();
    for target in ["/", "/v1", "/nowhere", "/v1/executions/unknown", "/v1/definitions/quick", "*"] {
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            texts.push(
                house.ask(&Ask::new(method, target)).await.refused(401, "unauthenticated").text(),
            );
        }
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "all responses are equal");
}

#[tokio::test]
async fn a_revoked_key_is_worth_nothing() {
    let house = House::locked().await;
    let (admin, viewer) = (house.key(Role::Admin), house.key(Role::Viewer));
    let id = |key: &str| key.split('_').nth(1).unwrap().to_owned();
    let look = Ask::get("/v1/executions").key(&viewer);
    house.ask(&look).await.expect(200);
    // Here: at once.
    let revoke = Ask::new("DELETE", &format!("/v1/keys/{}", id(&viewer))).key(&admin);
    house.ask(&revoke).await.expect(204);
    house.ask(&look).await.refused(401, "unauthenticated");
    house.ask(&revoke).await.refused(404, "unknown_key");
    // By somebody else: when keys are read again.
    let other = house.key(Role::Viewer);
    let look = Ask::get("/v1/executions").key(&other);
    house.store.revoke_key(&id(&other)).unwrap();
    house.ask(&look).await.expect(200);
    house.server.keys.refresh(&*house.store).unwrap();
    house.ask(&look).await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_key_is_made_shown_once_and_listed_without_its_secret() {
    let house = House::locked().await;
    let admin = house.key(Role::Admin);
    let new = serde_json::json!({ "name": "ci", "role": "operator" });
    let made = house.ask(&Ask::post("/v1/keys", &new).key(&admin)).await.expect(201);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let key = made.json()["key"].as_str().unwrap().to_owned();
    house.ask(&Ask::get("/v1/executions").key(&key)).await.expect(200);
    house.ask(&Ask::get("/v1/keys").key(&key)).await.refused(403, "forbidden");
    let list = house.ask(&Ask::get("/v1/keys").key(&admin)).await.expect(200).text();
    let secret = key.rsplit('_').next().unwrap();
    assert!(list.contains("\"ci\"") && !list.contains(secret), "{list}");
}
