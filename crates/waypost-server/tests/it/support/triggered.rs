//! Workflows with triggers: each gives its input as its output.

use std::sync::Arc;

use serde_json::{Value, json};
use waypost_core::expr::{Expression, Template};
use waypost_core::schedule::{Schedule, ScheduleSpec};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{
    Challenge, EventTrigger, Over, Overlap, Respond, ScheduleTrigger, Throttle, Trigger,
    TriggerKind, Verify, VerifyScheme, WebhookTrigger, Window, WindowMode,
};
use waypost_engine::triggers::registrations;
use waypost_ports::store::{NewDefinition, Store as _};

use super::house::House;

/// The workflow of most triggers here.
pub(crate) const HOOKED: &str = "hooked";
/// The same, but its input must have a number `amount`.
pub(crate) const PICKY: &str = "picky";
/// A workflow whose window takes some events only.
pub(crate) const CHOOSY: &str = "choosy";
/// A workflow with a throttle for each way to go beyond its limit.
pub(crate) const PACED: &str = "paced";
/// A workflow that wants the events of the first throttle, too.
pub(crate) const BESIDE: &str = "beside";
/// A workflow whose executions fail.
pub(crate) const FAILING: &str = "failing";

fn trigger(name: &str, kind: TriggerKind) -> Trigger {
    Trigger {
        name: name.into(),
        description: None,
        node: None,
        enabled: true,
        condition: None,
        input: None,
        id: None,
        labels: Vec::new(),
        kind,
    }
}

fn hook(scheme: VerifyScheme) -> WebhookTrigger {
    let secrets = match scheme {
        VerifyScheme::None => Vec::new(),
        _ => vec!["hook".into(), "hook_old".into()],
    };
    WebhookTrigger {
        verify: Verify { scheme, secrets },
        dedupe: None,
        respond: Respond::Accepted,
        headers: vec!["x-github-event".into()],
        challenge: None,
        allow_get: false,
        body_max: 1_000,
    }
}

fn webhook(name: &str, webhook: WebhookTrigger) -> Trigger {
    trigger(name, TriggerKind::Webhook(Box::new(webhook)))
}

fn event(name: &str, types: &[&str], window: Option<Window>) -> Trigger {
    let types = types.iter().map(|kind| (*kind).into()).collect();
    trigger(name, TriggerKind::Event(Box::new(EventTrigger { types, source: None, window })))
}

fn schedule(name: &str, spec: &Value) -> Trigger {
    let spec: ScheduleSpec = serde_json::from_value(spec.clone()).unwrap();
    let schedule = Schedule::compile(&spec).unwrap();
    let overlap = Overlap::Allow;
    trigger(name, TriggerKind::Schedule(Box::new(ScheduleTrigger { spec, schedule, overlap })))
}

/// The triggers of a workflow.
pub(crate) fn triggers_of(workflow: &str) -> Vec<Trigger> {
    let expression = |text| Expression::compile(text).unwrap();
    let github = || hook(VerifyScheme::Github);
    match workflow {
        HOOKED => vec![
            webhook("github", github()),
            webhook("output", WebhookTrigger { respond: Respond::Output, ..github() }),
            webhook("token", hook(VerifyScheme::Token)),
            webhook("link", WebhookTrigger { allow_get: true, ..hook(VerifyScheme::Token) }),
            webhook("open", hook(VerifyScheme::None)),
            webhook(
                "asked",
                WebhookTrigger {
                    challenge: Some(Challenge {
                        condition: expression("body.type == 'hello'"),
                        value: expression("body.challenge"),
                    }),
                    ..hook(VerifyScheme::None)
                },
            ),
            webhook(
                "keyed",
                WebhookTrigger { dedupe: Some(expression("body.key")), ..hook(VerifyScheme::None) },
            ),
            webhook(
                "no-secret",
                WebhookTrigger {
                    verify: Verify { scheme: VerifyScheme::Github, secrets: vec!["task".into()] },
                    ..github()
                },
            ),
            Trigger {
                condition: Some(expression("headers['x-github-event'] == 'push'")),
                id: Some(Template::compile(&json!("push-${{ body.n }}")).unwrap()),
                input: Some(
                    Template::compile(
                        &json!({ "n": "${{ body.n }}", "by": "${{ trigger.name }}" }),
                    )
                    .unwrap(),
                ),
                ..webhook("pushed", github())
            },
            event("paid", &["order.paid", "order.*"], None),
            event("also", &["order.*"], None),
            event(
                "window",
                &["window"],
                Some(Window {
                    key: Some(expression("event.subject")),
                    mode: WindowMode::Debounce { period: Millis(1_000), max: Millis(5_000) },
                }),
            ),
            schedule("nightly", &json!({ "cron": "30 2 * * *", "zone": "Europe/Berlin" })),
        ],
        PICKY => vec![webhook("any", hook(VerifyScheme::None)), event("event", &["picky"], None)],
        CHOOSY => vec![Trigger {
            condition: Some(expression("event.data.n > 1")),
            ..event(
                "many",
                &["choosy"],
                Some(Window {
                    key: None,
                    mode: WindowMode::Batch { size: 2, wait: Millis(60_000) },
                }),
            )
        }],
        PACED => ["queue", "drop", "latest"]
            .map(|over| {
                let over_limit = Over::parse(over).unwrap();
                let throttle = Throttle { limit: 2, per: Millis(60_000), over: over_limit };
                let key = Some(expression("event.subject"));
                event(over, &[over], Some(Window { key, mode: WindowMode::Throttle(throttle) }))
            })
            .into(),
        BESIDE => vec![event("plain", &["queue"], None)],
        FAILING => vec![webhook(
            "output",
            WebhookTrigger { respond: Respond::Output, ..hook(VerifyScheme::None) },
        )],
        _ => Vec::new(),
    }
}

/// Deploys a workflow with its triggers.
pub(crate) fn deploy(house: &House, workflow: &str) {
    let value = match workflow {
        FAILING => "${{ 1 / 0 }}",
        _ => "${{ input }}",
    };
    let mut definition = json!({ "name": workflow, "nodes": [
        { "id": "done", "type": "output", "config": { "value": value } },
    ] });
    if workflow == PICKY {
        definition["input"] = json!({ "type": "object", "required": ["amount"],
            "properties": { "amount": { "type": "number" } } });
    }
    let source = definition.to_string();
    let compiled = waypost_lang::parse(source.as_bytes(), &waypost_nodes::catalog()).unwrap();
    let mut plan = compiled.plan;
    plan.triggers = triggers_of(workflow).into_iter().map(Arc::new).collect();
    let defined = house.store.define(&NewDefinition {
        name: workflow.into(),
        hash: compiled.hash,
        canonical: compiled.canonical.as_str().into(),
        make_current: true,
        triggers: registrations(&plan, workflow, Timestamp(0)),
        paused: false,
    });
    assert!(defined.unwrap().created);
}
