//! From a fire to the execution that it starts, and what a deploy registers.

use std::sync::Arc;

use serde_json::{Value, json};
use waypost_core::expr::{Expression, Template};
use waypost_core::json::Json;
use waypost_core::schedule::{Schedule, ScheduleSpec};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{
    EventTrigger, Fired, Overlap, Payload, PollTrigger, Prepared, ScheduleTrigger, Trigger,
    TriggerCursor, TriggerKind, Window, WindowMode, WorkflowEndedTrigger,
};

/// What a row of a table changes of a trigger without conditions and templates.
#[derive(Default)]
struct Written {
    condition: Option<&'static str>,
    input: Option<Value>,
    id: Option<&'static str>,
    labels: Vec<(&'static str, Value)>,
}

fn json(value: &Value) -> Json {
    Json::from_value(value)
}

fn event_trigger(types: &[&str]) -> TriggerKind {
    let types = types.iter().map(|text| Arc::from(*text)).collect();
    TriggerKind::Event(Box::new(EventTrigger { types, source: None, window: None }))
}

fn collecting(mode: WindowMode) -> TriggerKind {
    let window = Some(Window { key: None, mode });
    TriggerKind::Event(Box::new(EventTrigger { types: vec!["a".into()], source: None, window }))
}

fn trigger(written: &Written, kind: TriggerKind) -> Trigger {
    let template = |value: &Value| Template::compile(value).expect("of a table");
    Trigger {
        name: "paid".into(),
        description: None,
        node: None,
        enabled: true,
        condition: written.condition.map(|source| Expression::compile(source).expect("of a table")),
        input: written.input.as_ref().map(template),
        id: written.id.map(|id| template(&id.into())),
        labels: written
            .labels
            .iter()
            .map(|(name, value)| ((*name).into(), template(value)))
            .collect(),
        kind,
    }
}

fn fired(kind: &str) -> Fired {
    Fired {
        name: "paid".into(),
        kind: kind.into(),
        node: None,
        at: Timestamp(1_000),
        fired_at: Timestamp(2_500),
        key: "k-1".into(),
        previous_at: None,
        last_success_at: None,
        depth: 1,
        details: Some(json(&json!({ "headers": { "x-shop": "a" }, "name": "of the details" }))),
    }
}

/// `start {input} id labels`, `filtered`, or `failed kind: message`.
fn outcome(prepared: &Prepared) -> String {
    match prepared {
        Prepared::Filtered => "filtered".to_owned(),
        Prepared::Failed(failure) => format!("failed {}: {}", failure.kind, failure.message),
        Prepared::Start(start) => {
            let id = start.id.as_ref().map_or("-", |id| id.as_str());
            let labels: Vec<String> =
                start.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("start {} {id} [{}]", start.input.text(), labels.join(","))
        }
    }
}

#[test]
fn fire_prepared_gives_start_or_reason() {
    let rows: Vec<(Written, &str)> = vec![
        (Written::default(), r#"start {"n":1} - []"#),
        (
            Written { condition: Some("event.data.n == 1"), ..Written::default() },
            r#"start {"n":1} - []"#,
        ),
        (Written { condition: Some("event.data.n > 1"), ..Written::default() }, "filtered"),
        (
            Written { condition: Some("event.data.n"), ..Written::default() },
            "failed expression: expression `event.data.n`: gave number where true or false is needed",
        ),
        (
            Written { condition: Some("event.data.gone == 1"), ..Written::default() },
            "failed expression: expression `event.data.gone == 1`: a value is undefined; use default() if it may be missing",
        ),
        (
            Written {
                input: Some(json!({
                    "n": "${{ event.data.n }}",
                    "from": "${{ trigger.name }} ${{ trigger.kind }} ${{ trigger.at }} ${{ trigger.firedAt }}",
                    "key": "${{ trigger.key }}",
                    "depth": "${{ trigger.depth }}",
                    "shop": "${{ trigger.headers['x-shop'] }}",
                })),
                ..Written::default()
            },
            r#"start {"depth":1,"from":"paid event 1970-01-01T00:00:01.000Z 1970-01-01T00:00:02.500Z","key":"k-1","n":1,"shop":"a"} - []"#,
        ),
        (
            Written {
                id: Some("order-${{ event.data.n }}"),
                labels: vec![("n", json!("${{ event.data.n }}")), ("team", json!("pay"))],
                ..Written::default()
            },
            r#"start {"n":1} order-1 [n=1,team=pay]"#,
        ),
        (
            Written { id: Some("a b"), ..Written::default() },
            "failed invalid_config: the field `id` gave `a b`, which is not the id of an execution: up to 128 \
             letters, digits, `_`, `-`, `.` and `:`, not starting with `.`",
        ),
        (
            Written { id: Some("${{ event.data }}"), ..Written::default() },
            "failed invalid_config: the field `id` must be a text, a number or a boolean",
        ),
        (
            Written { labels: vec![("a", json!("${{ 'x\\ny' }}"))], ..Written::default() },
            "failed invalid_config: the label `a` must have at most 256 characters and no control characters",
        ),
    ];
    let event = json(&json!({ "id": "1", "type": "paid", "data": { "n": 1 } }));
    for (written, expected) in rows {
        let trigger = trigger(&written, event_trigger(&["paid"]));
        let prepared = trigger.prepare(&fired("event"), &Payload::event(&event));
        assert_eq!(outcome(&prepared), expected);
    }
}

#[test]
fn payload_of_each_kind_gives_names_and_input() {
    let object = |value: Value| json(&value);
    let event = object(json!({ "id": "1", "data": [1] }));
    let without_data = object(json!({ "id": "1" }));
    let [null, one] = [object(json!(null)), object(json!({ "a": 1 }))];
    let rows = [
        (Payload::nothing(), "trigger.name", "{}"),
        (
            Payload::request(&one, &object(json!({ "h": "v" })), &object(json!({ "q": "1" }))),
            "headers.h ~ query.q ~ body.a",
            r#"{"a":1}"#,
        ),
        (Payload::request(&null, &one, &one), "body is none", "null"),
        (Payload::event(&event), "event.id", "[1]"),
        (Payload::event(&without_data), "event.id", "{}"),
        (
            Payload::events(&[event.clone(), without_data]).unwrap(),
            "events | length",
            r#"{"events":[{"data":[1],"id":"1"},{"id":"1"}]}"#,
        ),
        (Payload::item(&one, &null), "item.a ~ (cursor is none)", r#"{"a":1}"#),
        (Payload::ended(&one), "execution.a", r#"{"a":1}"#),
    ];
    for (payload, names, input) in rows {
        Expression::compile(names).unwrap().eval(&payload.scope(Some(&fired("event")))).unwrap();
        let plain = trigger(&Written::default(), event_trigger(&["paid"]));
        let kept = Payload::kept(payload.keep().unwrap().text()).unwrap();
        for payload in [payload, kept] {
            let prepared = plain.prepare(&fired("event"), &payload);
            assert_eq!(outcome(&prepared), format!("start {input} - []"), "{names}");
        }
    }
    assert!(Payload::kept("{\"other\":1}").is_none());
}

#[test]
fn expressions_of_one_fire_share_one_budget() {
    let list = "range(1000) | map('string') | join | length > 0";
    let all = format!("({list}) and ({list})");
    let one = Written { condition: Some(Box::leak(all.into_boxed_str())), ..Written::default() };
    let event = json(&json!({ "id": "1" }));
    let payload = Payload::event(&event);
    let scope = payload.scope(Some(&fired("event")));
    let trigger = trigger(&one, event_trigger(&["paid"]));
    trigger.condition.as_ref().unwrap().eval(&scope).unwrap();
    assert!(scope.work() > 0);
    assert!(matches!(trigger.prepare(&fired("event"), &payload), Prepared::Start(_)));
    let much = json!(vec!["${{ range(100000) | map('string') | join | length }}"; 60]);
    let greedy =
        self::trigger(&Written { input: Some(much), ..Written::default() }, event_trigger(&["a"]));
    let Prepared::Failed(failure) = greedy.prepare(&fired("event"), &payload) else {
        panic!("sixty large evaluations fit into one budget")
    };
    assert_eq!(failure.kind, "expression_limit");
}

#[test]
fn fired_schedule_shows_both_times_before() {
    let mut schedule = fired("schedule");
    schedule.details = None;
    schedule.previous_at = Some(Timestamp(0));
    let expected = json!({
        "name": "paid", "kind": "schedule", "key": "k-1", "depth": 1,
        "at": "1970-01-01T00:00:01.000Z", "firedAt": "1970-01-01T00:00:02.500Z",
        "previousAt": "1970-01-01T00:00:00.000Z", "lastSuccessAt": null,
    });
    assert_eq!(schedule.to_json().to_value().unwrap(), expected);
    assert_eq!(Fired::seen_as(None).text(), r#"{"kind":"manual"}"#);
}

fn schedule(spec: &Value) -> TriggerKind {
    let spec: ScheduleSpec = serde_json::from_value(spec.clone()).expect("of a table");
    let schedule = Schedule::compile(&spec).expect("of a table");
    TriggerKind::Schedule(Box::new(ScheduleTrigger { spec, schedule, overlap: Overlap::Allow }))
}

fn poll(every: u64, start: Option<&Value>) -> TriggerKind {
    TriggerKind::Poll(Box::new(PollTrigger {
        every: Millis(every),
        request: Template::compile(&json!({ "url": "https://desk.example/tickets" }))
            .expect("of a table"),
        items: Expression::compile("body").expect("of a table"),
        key: None,
        next: None,
        more: None,
        lookback: None,
        start: start.map(json),
    }))
}

#[test]
fn registration_begins_now_with_jitter_of_workflow_and_name() {
    let now = Timestamp::parse("2026-03-01T10:07:00Z").unwrap();
    let register = |workflow, kind| trigger(&Written::default(), kind).registration(workflow, now);

    let exact = register("a", schedule(&json!({ "cron": "0 * * * *" })));
    assert_eq!(exact.next_due, Timestamp::parse("2026-03-01T11:00:00Z"));
    let TriggerCursor::Schedule(cursor) = exact.cursor else { panic!("not a schedule's cursor") };
    assert_eq!((cursor.after, cursor.previous), (now, None));

    let jittered = || schedule(&json!({ "cron": "0 * * * *", "jitter": "30m" }));
    let dues: Vec<_> = ["a", "b"].map(|of| register(of, jittered()).next_due.unwrap()).into();
    assert_ne!(dues[0], dues[1], "equal names of two workflows fire together");
    assert!(dues.iter().all(|due| *due >= exact.next_due.unwrap()));
    assert_eq!(register("a", jittered()).next_due, Some(dues[0]));

    let over = register("a", schedule(&json!({ "at": "2026-01-01T00:00:00Z" })));
    assert_eq!(over.next_due, None);

    let polled = register("a", poll(1_000, Some(&json!({ "since": "0" }))));
    assert_eq!(polled.next_due, Some(now));
    let TriggerCursor::Poll(cursor) = polled.cursor else { panic!("not a poll's cursor") };
    assert_eq!(cursor.cursor.text(), r#"{"since":"0"}"#);

    let events = register("a", event_trigger(&["order.*", "paid"]));
    assert_eq!((events.next_due, &events.cursor), (None, &TriggerCursor::None));
    assert_eq!(events.topics, ["order.*".into(), "paid".into()]);
    let ended = WorkflowEndedTrigger { workflow: "import".into(), statuses: Vec::new() };
    let ended = register("a", TriggerKind::WorkflowEnded(Box::new(ended)));
    assert_eq!(ended.topics, ["import".into()]);
}

#[test]
fn timing_changes_with_the_times_and_with_nothing_else() {
    let timing = |kind| trigger(&Written::default(), kind).registration("a", Timestamp(0)).timing;
    let base = || json!({ "cron": "0 2 * * *" });
    let with = |field: &str, value: Value| {
        let mut spec = base();
        spec[field] = value;
        timing(schedule(&spec))
    };
    let plain = timing(schedule(&base()));
    for (field, value) in [("jitter", json!("5m")), ("catchUp", json!({ "missed": "all" }))] {
        assert_eq!(with(field, value), plain, "{field}");
    }
    for (field, value) in [
        ("cron", json!("0 3 * * *")),
        ("zone", json!("Europe/Berlin")),
        ("from", json!("2026-01-01T00:00:00Z")),
        ("until", json!("2027-01-01T00:00:00Z")),
    ] {
        assert_ne!(with(field, value), plain, "{field}");
    }
    assert_eq!(timing(poll(1_000, None)), timing(poll(2_000, None)));
    assert_ne!(timing(poll(1_000, None)), timing(poll(1_000, Some(&json!({ "since": 1 })))));
    assert_ne!(timing(poll(1_000, None)), timing(event_trigger(&["a"])));
    assert_eq!(timing(event_trigger(&["a"])), timing(event_trigger(&["b"])));
    let batch = |size| timing(collecting(WindowMode::Batch { size, wait: Millis(9) }));
    let debounce = WindowMode::Debounce { period: Millis(5), max: Millis(9) };
    assert_eq!(batch(1), batch(2));
    assert_ne!(batch(1), timing(collecting(debounce)));
    assert_ne!(batch(1), timing(event_trigger(&["a"])));
}
