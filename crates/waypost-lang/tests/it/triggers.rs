//! Triggers: what they compile to, their canonical form, their schema.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use waypost_core::event::TRIGGERS_LOG_FORMAT;
use waypost_core::kind::Behaviour;
use waypost_core::plan::Plan;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{
    Encoding, HashAlgorithm, Over, Overlap, Respond, RowMark, StreamSource, TableSafety, Throttle,
    Trigger, TriggerKind, VerifyScheme, WindowMode,
};
use waypost_lang::{
    Code, Compiled, Severity, SourceFault, compile_canonical, parse, parse_for, schema,
};

use crate::kinds::catalog;

/// One trigger of each kind, with every field.
const EVERYTHING: &str = r#"
name: x
on:
  - schedule: nightly
    description: At night.
    cron: ["0 2 * * 1-5", "0 4 * * 0,6"]
    zone: Europe/Berlin
    from: 2026-01-01T00:00:00Z
    until: 2030-01-01T00:00:00Z
    jitter: 5m
    overlap: skip
    catchUp: { missed: all, window: 2h, max: 10 }
    if: trigger.depth < 3
    input: { day: "${{ trigger.at }}" }
    labels: { day: "${{ trigger.at }}", team: 7 }
    id: "night-${{ trigger.at | replace(':', '-') }}"
    enabled: false
  - schedule: often
    every: 15m
    offset: 2m
  - schedule: once
    at: 2026-12-24T18:00:00Z
  - webhook: hook
    verify: { scheme: hmac, secret: [new_key, old_key], header: X-Sig, algorithm: sha512, encoding: base64, prefix: "v1=", timestamp: X-Time, signed: "{timestamp}.{body}" }
    dedupe: body.id
    respond: output
    headers: [X-Shop]
    challenge: { if: "body.type == 'ping'", value: body.challenge }
    maxBodyBytes: 2000
    if: headers['x-shop'] == 'a' and query.q == '1'
  - webhook: by-token
    verify: { scheme: token, secret: link_token }
    allowGet: true
  - event: paid
    type: [order.paid, "refund.*"]
    source: shop
    debounce: { key: event.data.id, period: 30s, max: 5m }
    if: event.data.amount > 0
  - event: many
    type: order.paid
    batch: { key: event.source, size: 100, wait: 1m }
    input: { orders: "${{ events }}" }
  - event: paced
    type: order.sent
    throttle: { key: event.data.shop, limit: 10, per: 1m, over: latest }
  - poll: tickets
    every: 1m
    request: { url: "https://desk.example/tickets?since=${{ cursor.since }}", weight: 1 }
    items: body.tickets
    key: item.id
    next: { since: "${{ body.now }}" }
    more: body.next
    lookback: 5m
    start: { since: "0" }
  - poll: by-cursor
    every: 5s
    request: { url: /rows }
    items: body
    cursorOnly: true
    next: "${{ item.id }}"
  - stream: orders
    source: { redis: shop, stream: "shop:orders" }
    from: 1700000000000-0
    every: 250ms
    key: item.fields.order
    if: item.fields.total > 0
    input: { order: "${{ item.fields.order }}", of: "${{ trigger.source }}" }
  - stream: outbox
    source: { postgres: erp, table: sales.outbox, key: id, done: fired_at, order: created_at }
  - stream: changes
    source: { postgres: erp, table: Changes, key: id, safe: xid, xid: written_by }
    from: beginning
  - workflow-ended: after
    workflow: import
    status: [FAILED, TIMED_OUT]
    if: execution.failure.kind == 'http'
  - workflow-ended: again
    workflow: x
    self: true
nodes:
  - { id: a, type: noop }
"#;

fn compiled(source: &str) -> Compiled {
    match parse(source.as_bytes(), &catalog()) {
        Ok(compiled) => compiled,
        Err(faults) => panic!("{}", faults.render(source.as_bytes(), "test", false)),
    }
}

fn trigger<'p>(plan: &'p Plan, name: &str) -> &'p Trigger {
    plan.triggers.iter().find(|trigger| &*trigger.name == name).expect("declared above")
}

/// All that a plan says about its triggers.
fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for trigger in &plan.triggers {
        writeln!(text, "{trigger:?}").expect("a text takes everything");
    }
    text
}

/// An older build has no `trigger` for them, whether or not the definition has triggers.
#[test]
fn definition_that_mentions_trigger_requires_the_log_format_that_has_it() {
    let requires =
        |node: &str| compiled(&format!("{{ name: x, nodes: [{node}] }}")).plan.requires();
    for (node, expected) in [
        ("{ id: a, type: output, config: { value: '${{ trigger.kind }}' } }", TRIGGERS_LOG_FORMAT),
        (
            "{ id: a, type: condition, config: { expression: trigger.depth > 0 } }",
            TRIGGERS_LOG_FORMAT,
        ),
        ("{ id: a, type: noop, variables: { by: '${{ trigger.name }}' } }", TRIGGERS_LOG_FORMAT),
        ("{ id: a, type: output, config: { value: '${{ input.trigger }} trigger' } }", 1),
    ] {
        assert_eq!(requires(node), expected, "{node}");
    }
    let keyed = "{ name: x, concurrency: { key: '${{ trigger.name }}', limit: 1 }, nodes: [{ id: a, type: noop }] }";
    assert_eq!(compiled(keyed).plan.requires(), TRIGGERS_LOG_FORMAT);
}

#[test]
fn condition_of_a_window_sees_one_event() {
    let entry = |condition: &str| {
        format!(
            "{{ name: x, on: [{{ event: e, type: t, batch: {{ size: 2, wait: 1m }}, if: \"{condition}\" }}], \
             nodes: [{{ id: a, type: noop }}] }}"
        )
    };
    compiled(&entry("event.data.n > 1"));
    let faults =
        parse(entry("events | length > 1").as_bytes(), &catalog()).expect_err("it sees one");
    let text = faults.render(b"", "test", false);
    assert!(text.contains("events"), "{text}");
}

#[test]
fn fields_of_triggers_are_in_the_plan() {
    let plan = compiled(EVERYTHING).plan;
    assert_eq!(plan.requires(), TRIGGERS_LOG_FORMAT);
    assert_eq!(plan.triggers.len(), 15);

    let nightly = trigger(&plan, "nightly");
    let TriggerKind::Schedule(schedule) = &nightly.kind else { panic!("{nightly:?}") };
    let next = schedule.schedule.next_after(Timestamp::parse("2026-06-01T12:00:00Z").expect("RFC"));
    assert_eq!(next.map(|next| next.at), Timestamp::parse("2026-06-02T00:00:00Z"));
    assert_eq!(schedule.overlap, Overlap::Skip);
    assert_eq!((nightly.enabled, nightly.description.as_deref()), (false, Some("At night.")));
    let labels: Vec<&str> = nightly.labels.iter().map(|(name, _)| &**name).collect();
    assert_eq!(labels, ["day", "team"]);
    assert!(nightly.condition.is_some() && nightly.input.is_some() && nightly.id.is_some());
    assert_eq!(nightly.node, None);

    let TriggerKind::Webhook(hook) = &trigger(&plan, "hook").kind else { panic!("a webhook") };
    let VerifyScheme::Hmac(hmac) = &hook.verify.scheme else { panic!("{:?}", hook.verify) };
    assert_eq!((hmac.algorithm, hmac.encoding), (HashAlgorithm::Sha512, Encoding::Base64));
    assert_eq!((&*hmac.header, hmac.timestamp.as_deref()), ("x-sig", Some("x-time")));
    assert_eq!(hook.verify.secrets, ["new_key".into(), "old_key".into()]);
    assert_eq!((hook.respond, hook.body_max), (Respond::Output, 2_000));
    assert_eq!(hook.headers, ["x-shop".into()]);
    let TriggerKind::Webhook(token) = &trigger(&plan, "by-token").kind else { panic!("a webhook") };
    assert_eq!((token.allow_get, token.body_max), (true, 1 << 20));

    let TriggerKind::Event(paid) = &trigger(&plan, "paid").kind else { panic!("an event") };
    assert!(paid.matches("refund.done", "shop") && !paid.matches("order.paid", "other"));
    let window = paid.window.as_ref().expect("a debounce");
    let minutes = |count: u64| Millis::from_secs(count * 60);
    let debounce = WindowMode::Debounce { period: Millis::from_secs(30), max: minutes(5) };
    assert_eq!(window.mode, debounce);
    let TriggerKind::Event(many) = &trigger(&plan, "many").kind else { panic!("an event") };
    let window = many.window.as_ref().expect("a batch");
    assert_eq!(window.mode, WindowMode::Batch { size: 100, wait: minutes(1) });
    let TriggerKind::Event(paced) = &trigger(&plan, "paced").kind else { panic!("an event") };
    let window = paced.window.as_ref().expect("a throttle");
    let throttle = Throttle { limit: 10, per: minutes(1), over: Over::Latest };
    assert_eq!(window.mode, WindowMode::Throttle(throttle));

    let TriggerKind::Poll(poll) = &trigger(&plan, "tickets").kind else { panic!("a poll") };
    assert_eq!((poll.every, poll.lookback), (minutes(1), Some(minutes(5))));
    assert_eq!(poll.start.as_ref().expect("written").text(), r#"{"since":"0"}"#);
    let TriggerKind::Stream(orders) = &trigger(&plan, "orders").kind else { panic!("a stream") };
    assert_eq!((orders.every, orders.from.name()), (Millis(250), "1700000000000-0"));
    let TriggerKind::Stream(outbox) = &trigger(&plan, "outbox").kind else { panic!("a stream") };
    let StreamSource::Postgres { table, key, safety, .. } = &outbox.source else {
        panic!("a table")
    };
    assert_eq!((&*table.schema, &*table.table, &**key), ("sales", "outbox", "id"));
    let mark = RowMark::Column("fired_at".into());
    assert_eq!(*safety, TableSafety::Mark { mark, order: Some("created_at".into()) });
    let TriggerKind::WorkflowEnded(ended) = &trigger(&plan, "after").kind else { panic!("an end") };
    assert_eq!((&*ended.workflow, ended.statuses.len()), ("import", 2));
}

#[test]
fn canonical_form_compiles_to_the_same_triggers() {
    let compiled = compiled(EVERYTHING);
    let again = compile_canonical(compiled.canonical.as_bytes(), &catalog()).expect("canonical");
    assert_eq!(shown(&again), shown(&compiled.plan));
    assert_eq!(self::compiled(&compiled.canonical).canonical, compiled.canonical);
}

#[test]
fn defaults_and_spellings_of_triggers_give_one_text() {
    let canonical = |entry: &str| {
        let source = format!("name: x\non: [{entry}]\nnodes: [{{ id: a, type: noop }}]");
        let text = compiled(&source).canonical;
        let value: Value = serde_json::from_str(&text).expect("JSON");
        value["on"][0].clone()
    };
    for (one, other) in [
        (
            "{ schedule: s, every: 60s }",
            "{ schedule: s, every: PT1M, zone: UTC, overlap: allow, enabled: true, catchUp: { missed: last, window: 1d, max: 100 }, if: }",
        ),
        ("{ schedule: s, cron: '* * * * *' }", "{ cron: ['* * * * *'], schedule: s }"),
        (
            "{ webhook: s, verify: none }",
            "{ webhook: s, verify: { scheme: none }, respond: accepted, allowGet: false }",
        ),
        (
            "{ webhook: s, verify: { scheme: hmac, secret: k, header: H } }",
            "{ webhook: s, verify: { scheme: hmac, secret: [k], header: H, algorithm: sha256, encoding: hex } }",
        ),
        (
            "{ stream: s, source: { redis: r, stream: a } }",
            "{ stream: s, every: 1s, from: now, source: { stream: a, redis: r } }",
        ),
        (
            "{ stream: s, source: { postgres: r, table: a, key: id, done: delete } }",
            "{ stream: s, source: { postgres: r, table: a, key: id, done: delete, safe: mark } }",
        ),
    ] {
        assert_eq!(canonical(one), canonical(other), "{one}");
    }
    let short = canonical("{ schedule: s, every: 60s }");
    assert_eq!(short, json!({ "schedule": "s", "every": 60_000 }));
}

#[test]
fn source_that_cannot_be_read_is_reported_where_it_is_deployed() {
    let source = "name: x\non:\n  - stream: s\n    source: { redis: shop, stream: a }\nnodes:\n  - { id: a, type: noop }\n";
    let judged = |severity| {
        parse_for(source.as_bytes(), &catalog(), &|workflow, stream| {
            assert_eq!((workflow, &**stream.name()), ("x", "shop"));
            Some(SourceFault { severity, message: "no".to_owned(), hint: "yes".to_owned() })
        })
    };
    let faults = judged(Severity::Error).expect_err("an error").faults;
    let fault = faults.first().expect("it was reported");
    assert_eq!((fault.code, fault.line, fault.column), (Code::UnknownSource, 3, 13));
    let warned = judged(Severity::Warning).expect("a warning");
    assert_eq!(warned.warnings.faults.len(), 1);
    assert_eq!(warned.canonical, compiled(source).canonical);
}

#[test]
fn node_that_is_a_trigger_is_the_same_as_an_entry() {
    let entry = compiled(
        "name: x\non: [{ schedule: n, cron: '0 2 * * *', if: trigger.depth == 0 }]\nnodes: [{ id: a, type: noop }]",
    );
    for node in [
        "{ id: n, type: schedule, config: { cron: '0 2 * * *', if: trigger.depth == 0 } }",
        "{ nodeId: n, type: trigger, subType: schedule, config: { cron: '0 2 * * *', if: trigger.depth == 0 } }",
    ] {
        let node =
            compiled(&format!("name: x\nnodes: [{node}, {{ id: a, type: noop, needs: n }}]"));
        let at = node.plan.find("n").expect("written above");
        assert_eq!(node.plan.node(at).behaviour, Behaviour::Trigger { manual: false });
        assert_eq!(trigger(&node.plan, "n").node.as_deref(), Some("n"));
        let of_node = shown(&node.plan).replace("node: Some(\"n\")", "node: None");
        assert_eq!(of_node, shown(&entry.plan));
        let again = compile_canonical(node.canonical.as_bytes(), &catalog()).expect("canonical");
        assert_eq!(shown(&again), shown(&node.plan));
    }
}

fn as_json(source: &str) -> Value {
    serde_json::from_str(&compiled(source).canonical).expect("JSON")
}

#[test]
fn schema_accepts_triggers_and_refuses_faults_in_them() {
    let validator = jsonschema::validator_for(&schema(&catalog())).expect("a schema");
    let whole = as_json(EVERYTHING);
    assert!(validator.is_valid(&whole), "{:?}", validator.iter_errors(&whole).next());
    // A field that is left empty is absent for both.
    let entries = whole["on"].as_array().expect("a list").clone();
    for (at, entry) in entries.iter().enumerate() {
        for field in entry.as_object().expect("an object").keys() {
            let mut definition = whole.clone();
            definition["on"][at][field] = Value::Null;
            let text = definition.to_string();
            if parse(text.as_bytes(), &catalog()).is_ok() {
                assert!(validator.is_valid(&definition), "{at} without {field}");
            }
        }
    }
    for (at, field, value) in [
        (0, "cron", json!(1)),
        (0, "crn", json!("* * * * *")),
        (0, "overlap", json!("sometimes")),
        (3, "verify", json!("github")),
        (3, "maxBodyBytes", json!(0)),
        (5, "debounce", json!({ "size": 1 })),
        (7, "throttle", json!({ "limit": 1, "per": "1s", "over": "keep" })),
        (8, "request", json!("https://desk.example")),
        (10, "workflow", json!(7)),
    ] {
        let mut definition = whole.clone();
        definition["on"][at][field] = value;
        assert!(!validator.is_valid(&definition), "{at}: {field}");
        assert!(parse(definition.to_string().as_bytes(), &catalog()).is_err(), "{at}: {field}");
    }
}

/// An entry of `on`, of a random kind with random fields.
fn entry() -> impl Strategy<Value = Value> {
    let expression = prop_oneof![
        Just(json!(null)),
        Just(json!("trigger.depth == 0")),
        Just(json!("trigger.at != 'x'")),
    ];
    let input = prop_oneof![
        Just(json!(null)),
        Just(json!({ "a": "${{ trigger.at }}", "b": [1, { "c": "x" }] })),
    ];
    let span = prop_oneof![(1_000u64..100_000).prop_map(|ms| json!(ms)), Just(json!("5m"))];
    let kind = prop_oneof![
        (span.clone(), any::<bool>()).prop_map(|(every, list)| {
            let cron = if list { json!(["0 2 * * *", "5 2 * * *"]) } else { json!("0 2 * * *") };
            json!({ "schedule": "t", "cron": cron, "jitter": "1s", "catchUp": { "window": every } })
        }),
        (span.clone(), 0u64..1_000).prop_map(|(every, offset)| {
            json!({ "schedule": "t", "every": every, "offset": offset.min(900) })
        }),
        any::<bool>().prop_map(|output| {
            let respond = if output { "output" } else { "accepted" };
            json!({ "webhook": "t", "verify": { "scheme": "stripe", "secret": "k" }, "respond": respond })
        }),
        (span.clone(), 1u32..1_000).prop_map(|(wait, size)| {
            json!({ "event": "t", "type": "a.*", "batch": { "size": size, "wait": wait } })
        }),
        span.clone().prop_map(|period| {
            json!({ "event": "t", "type": ["a", "b"], "debounce": { "period": period } })
        }),
        (span.clone(), 1u32..1_000, 0..4usize).prop_map(|(per, limit, over)| {
            let over = ["queue", "drop", "latest"].get(over);
            json!({ "event": "t", "type": "a", "throttle": { "limit": limit, "per": per, "over": over } })
        }),
        span.prop_map(|every| {
            json!({
                "poll": "t", "every": every, "request": { "url": "/${{ cursor.a }}" },
                "items": "body", "key": "item", "start": { "a": 1 },
            })
        }),
        (100u64..3_600_000).prop_map(|every| {
            json!({
                "stream": "t", "every": every, "key": "item.id", "from": "beginning",
                "source": { "redis": "r", "stream": "s" },
            })
        }),
        Just(json!({ "workflow-ended": "t", "workflow": "*", "status": "FAILED" })),
    ];
    (kind, expression, input, any::<bool>()).prop_map(|(mut entry, condition, input, enabled)| {
        entry["if"] = condition;
        entry["input"] = input;
        entry["enabled"] = json!(enabled);
        entry["labels"] = json!({ "b": enabled, "a": "${{ trigger.name }}" });
        entry
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn canonical_triggers_compile_to_the_same(entries in prop::collection::vec(entry(), 1..4)) {
        let mut entries = entries;
        for (number, entry) in entries.iter_mut().enumerate() {
            let fields = entry.as_object_mut().expect("an object");
            for kind in ["schedule", "webhook", "event", "poll", "stream", "workflow-ended"] {
                if let Some(name) = fields.get_mut(kind) {
                    *name = json!(format!("t{number}"));
                }
            }
        }
        let source = json!({ "name": "x", "on": entries, "nodes": [{ "id": "a", "type": "noop" }] });
        let first = compiled(&source.to_string());
        let again = compile_canonical(first.canonical.as_bytes(), &catalog()).expect("canonical");
        prop_assert_eq!(shown(&again), shown(&first.plan));
        prop_assert_eq!(compiled(&first.canonical).canonical, first.canonical);
    }
}
