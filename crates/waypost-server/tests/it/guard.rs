//! Requests that a browser was tricked into: hosts, origins, content types.

use serde_json::json;

use crate::support::{Ask, House, house};

#[tokio::test]
async fn a_request_on_loopback_must_name_this_machine() {
    let house = House::open().await;
    let port = house.address.port();
    for host in ["localhost", "127.0.0.1", "127.0.0.2:1", "[::1]", "LocalHost"] {
        house.ask(&Ask::get("/v1/limits").header("Host", host)).await.expect(200);
    }
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("localhost:{port}@evil.example"),
        "10.0.0.1".to_owned(),
        "0.0.0.0".to_owned(),
        "127.0.0.1, evil.example".to_owned(),
        "[::ffff:10.0.0.1]".to_owned(),
        String::new(),
    ] {
        let said = house.ask(&Ask::get("/v1/limits").header("Host", &host)).await;
        assert!(matches!(said.status, 400 | 403), "{host:?}: {said:?}");
        let said = house.ask(&Ask::get("/livez").header("Host", &host)).await;
        assert!(matches!(said.status, 400 | 403), "{host:?}: {said:?}");
    }
    let twice = Ask::get("/v1/limits").header("Host", "localhost").header("Host", "evil.example");
    house.ask(&twice).await.refused(400, "bad_request");
    let mut client = house.connect().await;
    client.send(b"GET /v1/limits HTTP/1.1\r\n\r\n").await.unwrap();
    client.answer(&Ask::get("/")).await.unwrap().refused(400, "bad_request");
}

#[tokio::test]
async fn a_page_of_another_site_is_refused() {
    let house = House::open().await;
    let start = json!({ "workflow": house::QUICK });
    for origin in
        ["http://evil.example", "null", "", "file://", "http://127.0.0.1:1", "http://localhost"]
    {
        for ask in [Ask::get("/v1/limits"), Ask::post("/v1/executions", &start)] {
            house.ask(&ask.header("Origin", origin)).await.refused(403, "foreign_origin");
        }
    }
    let own = format!("http://{}", house.address);
    house.ask(&Ask::get("/v1/limits").header("Origin", &own)).await.expect(200);
    let both =
        Ask::get("/v1/limits").header("Origin", &own).header("Origin", "http://evil.example");
    house.ask(&both).await.refused(403, "foreign_origin");
    // A preflight is answered without any permission.
    let preflight = Ask::new("OPTIONS", "/v1/executions")
        .header("Origin", "http://evil.example")
        .header("Access-Control-Request-Method", "POST");
    let said = house.ask(&preflight).await.refused(403, "foreign_origin");
    assert!(said.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
}

#[tokio::test]
async fn request_with_type_that_needs_no_preflight_is_refused() {
    let house = House::open().await;
    house.start(house::PATIENT, "waiting").await;
    let start = json!({ "workflow": house::QUICK }).to_string();
    let types = [
        "",
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/json+x",
        "text/json",
        "application/octet-stream",
        "text/plain; application/json",
    ];
    for kind in types {
        for (target, body) in [
            ("/v1/executions", start.as_str()),
            ("/v1/executions/waiting/cancel", "{}"),
            ("/v1/executions/waiting/cancel", "{\"reason\": \"x\"}"),
            ("/v1/executions/waiting/signals", "{\"name\": \"go\"}"),
            ("/v1/definitions", "{}"),
            ("/v1/keys", "{\"name\": \"x\", \"role\": \"admin\"}"),
        ] {
            let ask = Ask::new("POST", target).body(body);
            let ask = if kind.is_empty() { ask } else { ask.header("Content-Type", kind) };
            house.ask(&ask).await.refused(415, "unsupported_media_type");
        }
    }
    // An empty form needs no type of its own; what a browser says of its page gives it away.
    for (name, value) in
        [("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]
    {
        let form = Ask::new("POST", "/v1/executions/waiting/cancel")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header(name, value)
            .body("");
        house.ask(&form).await.refused(403, "foreign_origin");
    }
    let status = house.get("/v1/executions/waiting").await.expect(200).json()["status"].clone();
    assert_eq!(status, "WAITING", "no request was accepted");
    let fine = Ask::new("POST", "/v1/executions")
        .header("Content-Type", "Application/JSON; charset=utf-8")
        .body(start);
    house.ask(&fine).await.expect(201);
}
