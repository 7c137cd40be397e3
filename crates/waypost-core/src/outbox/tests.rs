//! Which frames cause which messages.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::event::{ApprovalWait, EndCause, NodeEvent, Origin, PauseReason, RunCreated, Wait};
use crate::failure::Failure;
use crate::id::{DefinitionHash, ExecutionId, ExecutionNo, InstanceId, WorkerId};
use crate::json::Json;
use crate::plan::ConcurrencyPolicy;
use crate::time::Timestamp;

fn created() -> RunCreated {
    RunCreated {
        key: ExecutionId("order-1".into()),
        workflow: "order".into(),
        version: 3,
        definition: DefinitionHash::of(b"order"),
        input: Json::null(),
        labels: [("team".to_owned(), "pay".to_owned())].into(),
        deadline: None,
        origin: Origin::default(),
        parent: None,
        trigger: None,
    }
}

/// The state after events, as far as messages read it.
fn state(seq: u64, generation: u32) -> State {
    let plan = crate::flow::plan("a");
    let mut state = State::new(&plan, ExecutionNo(1), Arc::new(created()), Timestamp(0));
    (state.seq, state.generation) = (seq, generation);
    state
}

fn owned() -> Event {
    Event::Run(RunEvent::Owned { instance: InstanceId(Uuid::from_u128(1)), epoch: 1 })
}

fn run(event: RunEvent) -> Event {
    Event::Run(event)
}

fn scheduled() -> Event {
    let (node, cause, deadline) = ("a".into(), Vec::new(), None);
    Event::Node(NodeEvent::Scheduled { node, attempt: 1, cause, deadline })
}

fn paused(reason: PauseReason) -> Event {
    run(RunEvent::Paused { reason })
}

fn resumed() -> Event {
    run(RunEvent::Resumed { reason: None, origin: Origin::default() })
}

fn queued() -> Event {
    let policy = ConcurrencyPolicy::Queue;
    run(RunEvent::Queued { key: "k".into(), limit: 1, policy })
}

fn ending() -> Event {
    let cause = EndCause::Cancel { reason: None, origin: Origin::default() };
    run(RunEvent::Ending { cause, grace: None })
}

fn asked_to_pause() -> Event {
    run(RunEvent::PauseRequested { now: false, reason: None, origin: Origin::default() })
}

fn reopened() -> Event {
    run(RunEvent::Reopened {
        generation: 2,
        nodes: Vec::new(),
        deadline: None,
        reason: None,
        origin: Origin::default(),
    })
}

fn completed() -> Event {
    run(RunEvent::Completed { output: Json::null() })
}

fn failed(message: &str) -> Event {
    // Not cut: a handler or an older version may have made it.
    let failure = Failure { message: message.to_owned(), ..Failure::permanent("http", "") };
    run(RunEvent::Failed { failure, nodes: Vec::new(), output: None })
}

#[test]
fn changes_that_users_see_cause_messages_and_steps_between_cause_none() {
    use RunPhase as P;
    let first = || run(RunEvent::Created(Box::new(created())));
    let exhausted =
        || run(RunEvent::BudgetExhausted { node: "a".into(), reason: "it is".to_owned() });
    let table: [(Option<P>, Vec<Event>, &[&str]); 17] = [
        (None, vec![first(), owned()], &["created 1", "scheduled 2"]),
        // It is queued for a permit first.
        (None, vec![first(), owned(), queued()], &["created 1"]),
        (None, vec![first()], &["created 1"]),
        (Some(P::Requested), vec![owned()], &["scheduled 1"]),
        (Some(P::Scheduling), vec![owned(), run(RunEvent::Admitted {})], &["scheduled 2"]),
        (Some(P::Running), vec![completed()], &["completed 1"]),
        (
            Some(P::Running),
            vec![ending(), run(RunEvent::Cancelled { reason: None })],
            &["cancelled 2"],
        ),
        (Some(P::Ending), vec![run(RunEvent::TimedOut {})], &["timed_out 1"]),
        (Some(P::Running), vec![paused(PauseReason::Waits)], &[]),
        (Some(P::Waiting), vec![owned(), resumed()], &[]),
        (Some(P::Waiting), vec![asked_to_pause()], &["paused 1"]),
        (Some(P::Running), vec![asked_to_pause(), paused(PauseReason::User)], &["paused 2"]),
        // It runs with the first attempt, and has no budget for it.
        (
            Some(P::Waiting),
            vec![owned(), scheduled(), exhausted(), paused(PauseReason::User)],
            &["paused 4"],
        ),
        (
            Some(P::Requested),
            vec![owned(), scheduled(), exhausted(), paused(PauseReason::User)],
            &["scheduled 1", "paused 4"],
        ),
        // Loaded for a signal, and released again.
        (Some(P::Paused), vec![owned(), paused(PauseReason::User)], &[]),
        (Some(P::Paused), vec![owned(), resumed()], &["resumed 2"]),
        (Some(P::Failed), vec![reopened()], &["reopened 1"]),
    ];
    for (before, events, expected) in table {
        let after = state(events.len() as u64, 1);
        let shown: Vec<String> = announce(before, &events, &after)
            .iter()
            .map(|message| {
                let name = message.kind.name().strip_prefix("execution.").unwrap_or_default();
                format!("{name} {}", message.seq)
            })
            .collect();
        assert_eq!(shown, expected, "{before:?} {events:?}");
    }
}

#[test]
fn births_are_announced_as_other_first_frames_are() {
    let first = run(RunEvent::Created(Box::new(created())));
    let messages = announce(None, &[first], &state(1, 1));
    assert_eq!(messages, [announce_birth(&created())]);
}

#[test]
fn data_is_of_the_event_and_not_of_the_frame() {
    let events = [failed("HTTP 500"), reopened(), completed()];
    let messages = announce(Some(RunPhase::Running), &events, &state(12, 2));
    let data: Vec<Value> = messages
        .iter()
        .map(|message| serde_json::from_slice(&message.data.render()).unwrap())
        .collect();
    let with = |status: &str, seq: u64, generation: u64| {
        json!({
            "execution": "order-1", "workflow": "order", "version": 3, "status": status,
            "seq": seq, "generation": generation, "labels": {"team": "pay"},
        })
    };
    let mut first = with("FAILED", 10, 1);
    first["failure"] = json!({"kind": "http", "message": "HTTP 500"});
    assert_eq!(data[..2], [first, with("RUNNING", 11, 2)]);
}

#[test]
fn completed_notify_nodes_cause_messages_wherever_they_are() {
    let node = |id: &str, kind: &'static str| {
        let mut node = crate::flow::node(id, crate::kind::Behaviour::Pass, Vec::new());
        node.kind = kind;
        node
    };
    let nodes = vec![node("a", "noop"), node("tell", NOTIFY)];
    let draft = crate::flow::draft(nodes, crate::plan::FailurePolicy::default());
    let plan = crate::plan::Plan::build(draft).unwrap();
    let completed = |node: &str, output: Option<Json>| {
        let (node, variables) = (node.into(), Default::default());
        Event::Node(NodeEvent::Completed { node, attempt: 1, output, branch: None, variables })
    };
    let large = Json::from_value(&"x".repeat(NOTE_BYTES_MAX).into());
    let events = [
        completed("a", Some(Json::null())),
        completed("tell", Some(Json::parse("[1, 2]").unwrap())),
        completed("unknown/tell", None),
        completed("tell", Some(large)),
    ];
    let messages = announce_nodes(&plan, &events, &state(14, 1), false);
    let seqs: Vec<u64> = messages.iter().map(|message| message.seq).collect();
    assert_eq!(seqs, [12, 14]);
    assert!(messages.iter().all(|message| message.kind == MessageKind::Notified));
    let data: Vec<Value> = messages
        .iter()
        .map(|message| serde_json::from_slice(&message.data.render()).unwrap())
        .collect();
    assert_eq!((&data[0]["node"], &data[0]["message"]), (&json!("tell"), &json!([1, 2])));
    assert_eq!((&data[1]["message"], &data[1]["messageOmitted"]), (&Value::Null, &json!(true)));
}

#[test]
fn message_that_a_node_waits_for_is_sent_when_the_wait_opens_and_not_when_it_ends() {
    let behaviour = crate::kind::Behaviour::Notify(Box::new(crate::kind::NotifySpec {
        message: crate::expr::Template::compile(&json!("hello")).unwrap(),
        timeout: None,
    }));
    let mut node = crate::flow::node("tell", behaviour, Vec::new());
    node.kind = NOTIFY;
    let draft = crate::flow::draft(vec![node], crate::plan::FailurePolicy::default());
    let plan = crate::plan::Plan::build(draft).unwrap();
    assert!(plan.nodes.iter().all(announces));
    let (node, variables) = (Arc::<str>::from("tell"), Default::default());
    let output = Some(Json::parse(r#"{"delivered":1}"#).unwrap());
    let events = [
        Event::Node(NodeEvent::Waiting {
            node: Arc::clone(&node),
            attempt: 1,
            wait: Wait::Signal { name: delivery_signal(7), due: None },
            span: None,
            message: Some(Json::parse("[1]").unwrap()),
        }),
        Event::Node(NodeEvent::Completed { node, attempt: 1, output, branch: None, variables }),
    ];
    let messages = announce_nodes(&plan, &events, &state(8, 1), false);
    let [message] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((message.seq, message.awaited), (7, true));
    let data: Value = serde_json::from_slice(&message.data.render()).unwrap();
    assert_eq!((&data["node"], &data["message"]), (&json!("tell"), &json!([1])));
    assert!(events[0].requires() >= crate::event::DELIVERY_LOG_FORMAT);
    assert_eq!(events[1].requires(), 1);
}

#[test]
fn attempts_that_remote_workers_take_cause_messages_only_where_they_are_asked_for() {
    let plan = crate::flow::plan("a");
    let started = |remote: Option<WorkerId>| {
        let (node, worker) = ("a".into(), None);
        Event::Node(NodeEvent::Started { node, attempt: 2, worker, remote, token: None, due: None })
    };
    let events = [started(None), started(Some(WorkerId(Uuid::from_u128(7))))];
    assert_eq!(announce_nodes(&plan, &events, &state(4, 1), false), []);
    let messages = announce_nodes(&plan, &events, &state(4, 1), true);
    let [message] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((message.seq, message.kind), (4, MessageKind::Handoff));
    let data: Value = serde_json::from_slice(&message.data.render()).unwrap();
    let worker = Uuid::from_u128(7).simple().to_string();
    let shown = json!([data["node"], data["attempt"], data["worker"]]);
    assert_eq!(shown, json!(["a", 2, worker]));
}

/// An approval by ann that bob may decide, too, after an escalation.
fn approval() -> ApprovalWait {
    ApprovalWait {
        title: "Ship it?".into(),
        description: Some("é".repeat(FAILURE_TEXT_BYTES_MAX).into()),
        approvers: vec!["ann".into()],
        due: Some(Timestamp(9_000)),
        remind: Some(Timestamp(1_000)),
        escalate: Some(Timestamp(2_000)),
        escalate_to: vec!["bob".into()],
    }
}

#[test]
fn approvals_cause_messages_when_they_open_and_when_people_are_reminded() {
    let plan = crate::flow::plan("a");
    let mut after = state(13, 1);
    let at = after.find(&plan, "a").unwrap();
    let mut wait = approval();
    wait.reminded(false);
    wait.reminded(true);
    let details = after.node_mut(at).details_mut();
    (details.wait, details.wait_seq) = (Some(Wait::Approval(Box::new(wait))), 11);
    let (node, attempt, span): (Arc<str>, _, _) = ("a".into(), 1, None);
    let wait = Wait::Approval(Box::new(approval()));
    let asked = NodeEvent::Waiting { node: Arc::clone(&node), attempt, wait, span, message: None };
    let reminded =
        |escalated| NodeEvent::Reminded { node: Arc::clone(&node), attempt, escalated }.into();
    let events = [asked.into(), reminded(false), reminded(true)];
    let messages = announce_nodes(&plan, &events, &after, false);
    let shown: Vec<Value> = messages
        .iter()
        .map(|message| {
            let data: Value = serde_json::from_slice(&message.data.render()).unwrap();
            assert_eq!((&data["wait"], &data["seq"]), (&json!("order-1~11"), &json!(message.seq)));
            assert_eq!(data["description"].as_str().unwrap().len(), FAILURE_TEXT_BYTES_MAX);
            let names = (&data["title"], &data["approvers"], &data["escalatedTo"], &data["due"]);
            json!([message.kind.name(), names])
        })
        .collect();
    let due = "1970-01-01T00:00:09.000Z";
    let expected = [
        json!(["approval.requested", ["Ship it?", ["ann"], null, due]]),
        json!(["approval.reminded", ["Ship it?", ["ann", "bob"], null, due]]),
        json!(["approval.escalated", ["Ship it?", ["ann", "bob"], ["bob"], due]]),
    ];
    assert_eq!(shown, expected);
    // The same frame decided it.
    after.node_mut(at).details_mut().wait = None;
    assert_eq!(announce_nodes(&plan, &events, &after, false).len(), 1);
}

#[test]
fn long_failures_are_cut_between_characters() {
    let events = [failed(&"é".repeat(FAILURE_TEXT_BYTES_MAX))];
    let messages = announce(Some(RunPhase::Running), &events, &state(1, 1));
    let data: Value = serde_json::from_slice(&messages[0].data.render()).unwrap();
    let text = data["failure"]["message"].as_str().unwrap();
    assert_eq!(text.len(), FAILURE_TEXT_BYTES_MAX);
}

#[test]
fn kinds_have_names_and_codes_of_their_own() {
    for (code, kind) in (0..).zip(MessageKind::ALL) {
        assert_eq!(MessageKind::from_code(code), Some(kind));
        assert_eq!(kind.code(), code);
        assert_eq!(MessageKind::parse(kind.name()), Some(kind));
        let only = MessageKinds::parse(kind.name()).unwrap();
        assert_eq!(only.iter().collect::<Vec<_>>(), [kind]);
    }
    let status = MessageKinds::parse(STATUS_CHANGED).unwrap();
    for kind in MessageKind::ALL {
        assert_eq!(status.contains(kind), kind.is_status(), "{kind:?}");
    }
    assert_eq!(MessageKinds::parse("execution.unknown"), None);
    assert_eq!(MessageKinds::from_bits(u32::MAX), MessageKinds::ALL);
}
