//! Events in each mode, and all faults of a request at once.

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;

fn ask(headers: &[(&'static str, &str)], body: &[u8]) -> Result<Vec<CloudEvent>, Problem> {
    let pairs = headers.iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    });
    parse(&pairs.collect(), body)
}

fn ask_json(kind: &str, body: &Value) -> Result<Vec<CloudEvent>, Problem> {
    ask(&[("content-type", kind)], body.to_string().as_bytes())
}

fn sample() -> Value {
    json!({ "specversion": "1.0", "id": "A-1", "source": "/shop?x=1", "type": "order.paid",
            "subject": "7", "time": "2026-01-31T09:00:00Z", "datacontenttype": "application/json",
            "dataschema": "https://shop.example/schema", "partition": 3, "urgent": true,
            "traceparent": "00-4bf92f-00f0-01", "data": { "order": 7 } })
}

fn places(problem: &Problem) -> Vec<String> {
    assert_eq!(problem.code, Code::BadEvent);
    problem.errors.iter().map(|fault| fault.pointer.clone().unwrap()).collect()
}

#[test]
fn structured_event_keeps_every_attribute() {
    for kind in ["application/cloudevents+json; charset=utf-8", "Application/JSON"] {
        let events = ask_json(kind, &sample()).unwrap();
        let [event] = events.as_slice() else { panic!("{} events", events.len()) };
        assert_eq!(event.json.to_value().unwrap(), sample());
        assert_eq!((event.kind.as_str(), event.key().as_str()), ("order.paid", "/shop?x=1 A-1"));
    }
}

#[test]
fn binary_event_is_the_same_event() {
    let mut headers = vec![
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "A-1"),
        ("ce-source", "/shop"),
        ("ce-type", "order.paid"),
        ("ce-customer", "J%C3%B6rg%20%22A%22"),
    ];
    let one = |headers: &[(&'static str, &str)], body: &[u8]| {
        ask(headers, body).unwrap().remove(0).json.to_value().unwrap()
    };
    let expected = json!({ "specversion": "1.0", "id": "A-1", "source": "/shop",
        "type": "order.paid", "customer": "Jörg \"A\"", "datacontenttype": "application/json",
        "data": { "order": 7 } });
    assert_eq!(one(&headers, br#"{"order":7}"#), expected);
    headers[0].1 = "text/plain; charset=utf-8";
    assert_eq!(one(&headers, b"paid")["data"], "paid");
    headers[0].1 = "image/png";
    assert_eq!(one(&headers, b"\x89PNG")["data_base64"], "iVBORw==");
    headers.remove(0);
    let empty = one(&headers, b"");
    assert!(empty.get("data").is_none() && empty.get("datacontenttype").is_none(), "{empty}");
}

#[test]
fn batch_has_up_to_a_hundred_events() {
    let events = |count: usize| Value::Array(vec![sample(); count]);
    for kind in [BATCH, JSON] {
        assert_eq!(ask_json(kind, &events(100)).unwrap().len(), 100);
        assert_eq!(ask_json(kind, &json!([])).unwrap().len(), 0);
        assert_eq!(places(&ask_json(kind, &events(101)).unwrap_err()), [""]);
    }
    assert_eq!(places(&ask_json(BATCH, &sample()).unwrap_err()), [""]);
    assert_eq!(places(&ask_json(STRUCTURED, &events(1)).unwrap_err()), [""]);
}

#[test]
fn all_faults_of_a_request_are_reported_at_once() {
    let other = |name: &str, value: Value| {
        let mut event = sample();
        event[name] = value;
        event
    };
    let events = json!([
        sample(),
        {},
        other("specversion", json!("0.3")),
        other("id", json!(7)),
        other("source", json!("not a uri")),
        other("time", json!("yesterday")),
        other("dataschema", json!("relative")),
        other("subject", json!("")),
        other("Upper", json!("x")),
        other("nested", json!({})),
        other("half", json!(0.5)),
        other("large", json!(1_u64 << 40)),
        other("data_base64", json!("AAAA")),
        other("type", json!("a\u{7}b")),
        "no event",
    ]);
    let problem = ask_json(BATCH, &events).unwrap_err();
    let expected = [
        "/1/id",
        "/1/source",
        "/1/specversion",
        "/1/type",
        "/2/specversion",
        "/3/id",
        "/4/source",
        "/5/time",
        "/6/dataschema",
        "/7/subject",
        "/8/Upper",
        "/9/nested",
        "/10/half",
        "/11/large",
        "/12/data_base64",
        "/13/type",
        "/14",
    ];
    assert_eq!(places(&problem), expected);
    let binary = [("ce-id", "%FF"), ("ce-data", "x"), ("ce-type", "t"), ("ce-specversion", "1.0")];
    let problem = ask(&binary, b"{}").unwrap_err();
    assert_eq!(places(&problem), ["ce-id", "ce-data", "ce-id", "ce-source"]);
}

#[test]
fn null_is_no_attribute_but_may_be_data() {
    let mut event = sample();
    event["subject"] = Value::Null;
    event["data"] = Value::Null;
    let taken = ask_json(STRUCTURED, &event).unwrap().remove(0).json.to_value().unwrap();
    assert!(taken.get("subject").is_none() && taken["data"].is_null());
    event["id"] = Value::Null;
    assert_eq!(places(&ask_json(STRUCTURED, &event).unwrap_err()), ["/id"]);
}

#[test]
fn large_or_foreign_bodies_are_refused() {
    let mut large = sample();
    large["data"] = Value::String("x".repeat(EVENT_BYTES_MAX));
    assert_eq!(places(&ask_json(BATCH, &json!([sample(), large])).unwrap_err()), ["/1"]);
    let code = |kind: &str, body: &[u8]| ask(&[("content-type", kind)], body).unwrap_err().code;
    assert_eq!(code(BATCH, &vec![b' '; EVENTS_BYTES_MAX + 1]), Code::BodyTooLarge);
    assert_eq!(code("text/plain", b"{}"), Code::UnsupportedMediaType);
    assert_eq!(code(STRUCTURED, b"{"), Code::BadBody);
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert_eq!(code(STRUCTURED, deep.as_bytes()), Code::BadBody);
}
