//! The order of the checks of a request, as ARCHITECTURE.md documents it.

use serde_json::json;
use waypost_ports::access::Role;
use waypost_server::config::Config;

use crate::support::{Answer, Ask, House, house};

/// Each request passes the checks before its own, fails its own, and fails as many of those after it
/// as one request can: the answer names the check that comes first.
#[tokio::test]
async fn checks_of_a_request_run_in_the_documented_order() {
    let config = Config { requests_per_second: 3, require_keys: true, ..Config::default() };
    let house = House::with(config).await;
    let (operator, viewer) = (house.key(Role::Operator), house.key(Role::Viewer));
    // Parameter, Accept header and body are wrong as well.
    let wrong = Ask::new("POST", "/v1/executions?wait=forever")
        .header("Accept", "image/png")
        .header("Content-Type", "text/plain")
        .body("x");
    let nowhere = Ask { target: "/nowhere?x=1".to_owned(), ..wrong.clone() };
    let mut checked = Vec::new();
    let mut check = |name: &'static str, answer: Answer, status: u16, code: &str| {
        answer.refused(status, code);
        checked.push(name);
    };

    let foreign = nowhere.clone().header("Origin", "http://evil.example");
    check("host and origin", house.ask(&foreign).await, 403, "foreign_origin");
    check("key", house.ask(&nowhere).await, 401, "unauthenticated");
    let impatient = house.key(Role::Viewer);
    let mut limited = house.ask(&nowhere.clone().key(&impatient)).await;
    while limited.status != 429 {
        limited = house.ask(&nowhere.clone().key(&impatient)).await;
    }
    check("rate", limited, 429, "rate_limited");
    house.server.drain();
    let answer = house.ask(&nowhere.key(&viewer)).await;
    check("path and method", answer, 404, "not_found");
    check("role", house.ask(&wrong.clone().key(&viewer)).await, 403, "forbidden");
    check("draining", house.ask(&wrong.clone().key(&operator)).await, 503, "draining");

    let house = House::open().await;
    check("parameters", house.ask(&wrong).await, 400, "bad_parameter");
    let wrong = Ask { target: "/v1/executions".to_owned(), ..wrong };
    check("accepted content type", house.ask(&wrong).await, 406, "not_acceptable");
    let start = json!({ "workflow": house::QUICK });
    let wrong = Ask::post("/v1/executions", &start).header("Content-Encoding", "gzip");
    check("body", house.ask(&wrong).await, 415, "unsupported_media_type");

    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md"));
    let documented = format!("checks, in this order: {}.", checked.join(", "));
    assert!(page.unwrap().contains(&documented), "ARCHITECTURE.md does not say: {documented}");
}
