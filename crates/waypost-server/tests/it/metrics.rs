//! The page for Prometheus.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::{House, house};

/// What the page must tell, at least.
const PROMISED: &[&str] = &[
    "waypost_queue_depth",
    "waypost_queue_oldest_age_seconds",
    "waypost_schedule_to_start_seconds",
    "waypost_append_seconds",
    "waypost_timer_lateness_seconds",
    "waypost_projection_lag_frames",
    "waypost_executions_due_unclaimed",
    "waypost_executions_due_oldest_lateness_seconds",
    "waypost_takeovers_total",
    "waypost_nodes_queued_too_long",
    "waypost_report_to_commit_seconds",
    "waypost_http_requests_total",
    "waypost_http_request_seconds",
    "waypost_http_streams",
    "waypost_audit_dropped_total",
    "waypost_tokens_used_total",
    "waypost_tokens_cost_millionths_total",
    "waypost_budget_reservations_refused_total",
    "waypost_budget_pauses_total",
];

/// Labels that a metric may have, none of which a user can choose.
const LABELS: &[&str] = &["le", "status", "outcome", "class", "result", "state", "direction"];

#[tokio::test]
async fn the_page_can_be_read_and_says_nothing_about_users() {
    let house = House::open().await;
    let start =
        json!({ "workflow": house::QUICK, "id": "secret-id", "labels": { "secret": "label" } });
    house.post("/v1/executions?wait=60s", &start).await.expect(201);
    house.get("/v1/executions/secret-id/secret-path").await.expect(404);
    let answer = house.get("/metrics").await.expect(200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let page = answer.text();
    assert!(page.ends_with('\n') && !page.contains("secret"), "{page}");
    let (mut helps, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(text.ends_with('.'), "{line}");
            assert_eq!(helps.insert(name.to_owned(), text.to_owned()), None, "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kinds.insert(name.to_owned(), kind.to_owned()), None, "{line}");
        } else {
            check_sample(line, &kinds);
        }
    }
    assert_eq!(helps.keys().collect::<Vec<_>>(), kinds.keys().collect::<Vec<_>>());
    for name in PROMISED {
        assert!(kinds.contains_key(*name), "{name} is missing");
    }
}

/// `name{label="value"} number`, of a metric whose type was said before.
fn check_sample(line: &str, kinds: &BTreeMap<String, String>) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    assert!(value.parse::<f64>().is_ok(), "{line}");
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
        let family = name.strip_suffix(end)?;
        (kinds.get(family).map(String::as_str) == Some("histogram")).then_some(family)
    });
    assert!(kinds.contains_key(family.unwrap_or(name)), "{line} has no type");
    assert!(name.starts_with("waypost_"), "{line}");
    for label in labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once('=').unwrap();
        assert!(LABELS.contains(&name), "{line}");
        assert!(value.starts_with('"') && value.ends_with('"'), "{line}");
    }
}
