//! Pages of polls.

use serde_json::json;
use waypost_core::expr::{Expression, Template};

use super::*;

fn poll(fields: &Value) -> PollTrigger {
    let expression = |name: &str| {
        fields.get(name).and_then(Value::as_str).map(|text| Expression::compile(text).unwrap())
    };
    let template =
        |name: &str| fields.get(name).map(|template| Template::compile(template).unwrap());
    PollTrigger {
        every: Millis::from_secs(60),
        request: template("request").unwrap_or(Template::Literal(Json::null())),
        items: expression("items").unwrap(),
        key: expression("key"),
        next: template("next"),
        more: expression("more"),
        lookback: fields.get("lookback").and_then(Value::as_u64).map(Millis),
        start: None,
    }
}

fn cursor(value: &Value) -> PollCursor {
    PollCursor { cursor: Json::from_value(value), etag: None, dead_in_a_row: 3 }
}

fn page(body: &Value) -> SourcePage {
    let headers = Json::from_value(&json!({ "etag": "\"v1\"" }));
    SourcePage { status: 200, headers, body: Json::from_value(body) }
}

fn keys(page: &PageItems) -> Vec<(&str, bool)> {
    page.items.iter().map(|item| (&*item.occurrence.key, item.fault.is_some())).collect()
}

#[test]
fn page_gives_its_items_by_key_and_the_next_cursor() {
    let poll = poll(&json!({
        "items": "body.rows", "key": "item.id", "more": "body.next",
        "next": { "since": "${{ item.id }}" },
    }));
    let body = json!({ "rows": [{ "id": 7 }, { "id": "eight" }], "next": "yes" });
    let read = read_page(&poll, &cursor(&json!({})), &page(&body)).unwrap();
    assert_eq!(keys(&read), [("7", false), ("eight", false)]);
    assert_eq!(read.cursor.cursor.text(), r#"{"since":"eight"}"#);
    assert_eq!((read.more, read.cursor.etag, read.cursor.dead_in_a_row), (true, None, 3));
}

#[test]
fn page_that_leaves_the_cursor_keeps_its_etag() {
    let poll = poll(&json!({ "items": "body", "key": "item", "more": "false" }));
    let read = read_page(&poll, &cursor(&json!({ "a": 1 })), &page(&json!([]))).unwrap();
    assert_eq!((read.cursor.etag.as_deref(), read.more), (Some("\"v1\""), false));
}

#[test]
fn page_that_leaves_the_cursor_has_no_page_to_be_read_at_once() {
    let poll = poll(&json!({
        "items": "body.rows", "key": "item", "more": "true", "next": { "at": "${{ body.at }}" },
    }));
    let read = |at: i32| {
        let body = page(&json!({ "rows": [], "at": at }));
        read_page(&poll, &cursor(&json!({ "at": 1 })), &body).unwrap()
    };
    assert_eq!((read(1).more, read(2).more), (false, true));
}

#[test]
fn item_without_a_key_is_a_fault_of_the_item_alone() {
    let poll = poll(&json!({ "items": "body", "key": "item.id" }));
    let body = json!([{ "id": 1 }, { "name": "x" }, { "id": null }]);
    let read = read_page(&poll, &cursor(&json!({})), &page(&body)).unwrap();
    let faults: Vec<bool> = keys(&read).iter().map(|(_, fault)| *fault).collect();
    assert_eq!(faults, [false, true, true]);
}

#[test]
fn items_without_keys_are_known_by_their_place_after_a_cursor() {
    let poll = poll(&json!({ "items": "body" }));
    let read = |at: &Value| read_page(&poll, &cursor(at), &page(&json!(["x", "x"]))).unwrap();
    let (first, again, next) = (read(&json!(1)), read(&json!(1)), read(&json!(2)));
    assert_eq!(keys(&first), keys(&again));
    assert_ne!(keys(&first), keys(&next));
    assert_ne!(keys(&first)[0], keys(&first)[1]);
}

#[test]
fn page_that_is_wrong_or_too_large_is_a_failure() {
    let poll = poll(&json!({ "items": "body", "key": "item" }));
    let read = |body: &Value| read_page(&poll, &cursor(&json!({})), &page(body));
    assert!(read(&json!({ "a": 1 })).unwrap_err().message.contains("no list"));
    let many: Vec<usize> = (0..=PAGE_ITEMS_MAX).collect();
    assert!(read(&json!(many)).unwrap_err().message.contains("1001 items"));
    assert_eq!(read(&json!(many[1..])).unwrap().items.len(), PAGE_ITEMS_MAX);
}

#[test]
fn lookback_moves_the_times_of_the_cursor_and_nothing_else() {
    let poll = poll(&json!({
        "items": "body", "lookback": 300_000,
        "request": { "url": "https://a/?since=${{ cursor.since }}&id=${{ cursor.id }}" },
    }));
    let at = cursor(&json!({ "since": "2026-01-01T00:05:00Z", "id": "2026" }));
    let request = page_request(&poll, &at).unwrap();
    let expected = r#"{"url":"https://a/?since=2026-01-01T00:00:00Z&id=2026"}"#;
    assert_eq!(request.config.text().replace(".000Z", "Z"), expected);
}
