//! What a definition compiles to.

use waypost_core::breaker::BreakerPolicy;
use waypost_core::event::{BREAKERS_LOG_FORMAT, HEARTBEAT_LOG_FORMAT};
use waypost_core::id::NodeIx;
use waypost_core::json::Json;
use waypost_core::plan::{ConcurrencyPolicy, Delivery, FailurePolicy, Join, OnError, Plan};
use waypost_core::retry::{Matcher, RetryPolicy};
use waypost_core::time::Millis;
use waypost_lang::{compile_canonical, parse};

use crate::kinds::catalog;

const EVERYTHING: &str = r#"
name: orders.v2
description: everything that can be said
labels: { team: shop, tier: 1 }
input: { type: object, required: [userId] }
timeout: 2d
failurePolicy: partial
concurrency: { key: "${{ input.userId }}", limit: 2, policy: reject }
nodes:
  - id: adult
    type: condition
    config: { expression: "input.age >= 18" }
  - id: call
    label: Call it
    registryId: r-1
    type: api-call
    needs: [{ node: adult, branch: true }]
    config: { url: "https://example.com/${{ input.userId }}", method: POST, body: { n: 9007199254740993 } }
    retry: { maxAttempts: 5, waitDuration: 2s, multiplier: 3, maxWait: 1m, jitter: 0, retryOn: [5xx, 429, IOException], ignoreExceptions: [timeout] }
    timeout: 30s
    heartbeat: 5s
    deadline: PT1H
    delivery: at-most-once
    variables: { who: "${{ output.body.who }}", fixed: 3 }
  - id: sorry
    type: noop
    needs: [{ node: call, branch: error }, { node: adult, branch: "false" }]
    join: { count: any, cancelRest: true }
  - id: slow
    type: delay
    onError: continue
    needs: call
    config: { duration: 36000, unit: seconds }
"#;

fn plan(source: &str) -> Plan {
    match parse(source.as_bytes(), &catalog()) {
        Ok(compiled) => compiled.plan,
        Err(faults) => panic!("{}", faults.render(source.as_bytes(), "test", false)),
    }
}

#[test]
fn every_field_reaches_the_plan() {
    let plan = plan(EVERYTHING);
    assert_eq!(&*plan.workflow, "orders.v2");
    assert_eq!(plan.timeout, Some(Millis::from_secs(2 * 86_400)));
    assert_eq!(plan.failure_policy, FailurePolicy::Partial);
    let block = plan.concurrency.as_ref().expect("a block");
    assert_eq!((block.limit, block.policy), (2, ConcurrencyPolicy::Reject));
    assert!(!block.key.is_literal());
    assert_eq!(
        plan.input_schema.as_ref().map(Json::text),
        Some(r#"{"required":["userId"],"type":"object"}"#)
    );
    let call = plan.node(NodeIx(1));
    assert_eq!(
        (call.label.as_deref(), call.registry_id.as_deref()),
        (Some("Call it"), Some("r-1"))
    );
    assert_eq!(call.kind, "api-call");
    assert_eq!(&*call.needs[0].branches[0], "true");
    assert_eq!(
        call.retry,
        Some(RetryPolicy {
            max_attempts: 5,
            wait: Millis(2000),
            exponential: true,
            multiplier: 3.0,
            wait_max: Millis(60_000),
            jitter: 0.0,
            retry_on: vec![
                Matcher::StatusClass(5),
                Matcher::Status(429),
                Matcher::Kind("connection".into())
            ],
            ignore: vec![Matcher::Kind("timeout".into())],
        })
    );
    assert_eq!((call.timeout, call.deadline), (Some(Millis(30_000)), Some(Millis(3_600_000))));
    assert_eq!(call.heartbeat, Some(Millis(5_000)));
    assert_eq!(plan.requires(), HEARTBEAT_LOG_FORMAT);
    assert_eq!(call.delivery, Delivery::AtMostOnce);
    assert_eq!(call.on_error, OnError::Branch("error".into()));
    let names: Vec<&str> = call.variables.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["fixed", "who"]);
    assert_eq!(plan.node(NodeIx(2)).join, Join::Count { count: 1, cancel_rest: true });
    assert_eq!(plan.node(NodeIx(3)).on_error, OnError::Continue);
}

#[test]
fn breaker_reaches_the_plan() {
    let source = r#"
name: x
nodes:
  - { id: first, type: noop }
  - id: call
    type: api-call
    needs: first
    config: { url: https://example.com/ }
    breaker: { key: "${{ nodes.first.status }}-${{ input.region }}", failures: 3, period: 10s, cooldown: 2s }
"#;
    let plan = plan(source);
    let call = plan.node(NodeIx(1));
    let breaker = call.breaker.as_ref().expect("a breaker");
    let (period, cooldown) = (Millis(10_000), Millis(2_000));
    assert_eq!(breaker.policy, BreakerPolicy { failures: 3, period, cooldown });
    assert!(!breaker.key.is_literal());
    assert_eq!(call.mentions, [NodeIx(0)], "the key sees what the config sees");
    assert_eq!(plan.requires(), BREAKERS_LOG_FORMAT);
}

#[test]
fn the_long_form_is_the_short_form() {
    let long = r#"{"name": "long", "nodes": [{
        "nodeId": "api-call-node-123", "type": "action", "subType": "call_external_service",
        "config": {"url": "https://api.example.com/users", "method": "POST", "retry": {
            "enabled": true, "maxAttempts": 3, "waitDuration": 1000, "exponentialBackoff": true,
            "multiplier": 2.0, "retryOn": ["IOException", "TimeoutException", "5xx"],
            "ignoreExceptions": ["IllegalArgumentException"]}}}]}"#;
    let short = "name: long\nnodes:\n  - id: api-call-node-123\n    type: api-call\n    config: \
                 { method: POST, url: https://api.example.com/users }\n    retry: { retryOn: \
                 [connection, timeout, 5xx], ignoreExceptions: [invalid_config] }\n";
    let [long, short] = [long, short].map(|source| parse(source.as_bytes(), &catalog()).unwrap());
    assert_eq!(long.canonical, short.canonical);
    assert_eq!(long.hash, short.hash);
}

#[test]
fn the_canonical_form_gives_the_same_plan() {
    let compiled = parse(EVERYTHING.as_bytes(), &catalog()).unwrap();
    let rebuilt = compile_canonical(compiled.canonical.as_bytes(), &catalog()).unwrap();
    assert_eq!(rebuilt.hash, compiled.hash);
    assert_eq!(format!("{rebuilt:?}"), format!("{:?}", compiled.plan));
    assert!(compiled.canonical.contains("9007199254740993"), "{}", compiled.canonical);
}

const BODIES: &str = r#"
name: bodies
nodes:
  - { id: list, type: noop }
  - id: checks
    type: group
    needs: [list]
    retry: { maxAttempts: 3 }
    deadline: 1h
    onError: continue
    variables: { checked: "${{ output }}" }
    nodes:
      - { id: lint, type: noop }
      - id: poll
        type: loop
        needs: [lint]
        config: { until: previous.done, delay: "${{ iteration * 100 }}" }
        nodes:
          - { id: get, type: transform, config: { value: "${{ [nodes.list.output, nodes.lint.output, iteration, previous] }}" } }
  - id: other
    type: group
    needs: [{ node: checks }]
    nodes:
      - { id: get, type: transform, config: { value: "${{ nodes.checks.output }}" } }
      - { id: lint, type: noop, needs: [get] }
  - { id: end, type: noop, needs: [other] }
"#;

#[test]
fn bodies_follow_the_nodes_of_the_definition_scope_by_scope() {
    let plan = plan(BODIES);
    let ids: Vec<&str> = plan.nodes.iter().map(|node| &*node.id).collect();
    assert_eq!(ids, ["list", "checks", "other", "end", "lint", "poll", "get", "lint", "get"]);
    let scopes: Vec<_> = plan
        .scopes
        .iter()
        .map(|scope| (scope.container.map(|at| &*plan.node(at).id), scope.nodes.clone()))
        .collect();
    assert_eq!(
        scopes,
        [(None, 0..4), (Some("checks"), 4..6), (Some("other"), 6..8), (Some("poll"), 8..9)]
    );
    let checks = plan.node(NodeIx(1));
    assert_eq!(checks.retry.as_ref().map(|retry| retry.max_attempts), Some(3));
    assert_eq!((checks.deadline, &checks.on_error), (Some(Millis(3_600_000)), &OnError::Continue));
    let get = plan.locate("checks/poll[7]/get").expect("it is there");
    assert_eq!(get, NodeIx(8));
    assert_eq!(plan.node(get).mentions, [NodeIx(0), NodeIx(4)]);
    assert_eq!(plan.node(NodeIx(7)).needs[0].source, NodeIx(6));
}

#[test]
fn canonical_form_with_bodies_gives_the_same_plan() {
    let compiled = parse(BODIES.as_bytes(), &catalog()).unwrap();
    let rebuilt = compile_canonical(compiled.canonical.as_bytes(), &catalog()).unwrap();
    assert_eq!(format!("{rebuilt:?}"), format!("{:?}", compiled.plan));
    let again = parse(compiled.canonical.as_bytes(), &catalog()).unwrap();
    assert_eq!(again.canonical, compiled.canonical);
}
