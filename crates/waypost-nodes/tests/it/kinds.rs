//! How configs compile, kind by kind, and that every kind is described as it should be.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use waypost_core::expr::{Expression, Template};
use waypost_core::kind::{
    Behaviour, Case, Collect, ConfigFault, Delay, DurationTemplate, Fail, Loop, LoopTest,
    SignalName, SignalSpec, SignalsSpec,
};
use waypost_core::slot::SlotClass;
use waypost_core::time::Millis;
use waypost_nodes::{Settings, catalog, handlers};

fn compile(kind: &str, config: &Value) -> Result<Behaviour, Vec<ConfigFault>> {
    let config: Map<String, Value> = config.as_object().unwrap().clone();
    catalog().find(kind).unwrap().compile(&config)
}

#[track_caller]
pub(crate) fn good(kind: &str, config: &Value, expected: &Behaviour) {
    let found = compile(kind, config);
    assert_eq!(found.as_ref(), Ok(expected), "{kind} {config}");
}

/// Checks that a config is refused with exactly these faults: `path: part of the message`.
#[track_caller]
pub(crate) fn bad(kind: &str, config: &Value, expected: &[&str]) {
    let faults = compile(kind, config).expect_err(&format!("{kind} {config}"));
    let shown: Vec<String> =
        faults.iter().map(|fault| format!("{}: {}", fault.path.join("."), fault.message)).collect();
    assert_eq!(shown.len(), expected.len(), "{kind} {config}: {shown:?}");
    for (fault, expected) in shown.iter().zip(expected) {
        let (path, word) = expected.split_once(": ").unwrap();
        let (found_path, message) = fault.split_once(": ").unwrap();
        assert!(found_path == path && message.contains(word), "{kind} {config}: {shown:?}");
    }
}

fn expression(source: &str) -> Expression {
    Expression::compile(source).unwrap()
}

pub(crate) fn template(value: &Value) -> Template {
    Template::compile(value).unwrap()
}

fn computed(text: &str, unit_ms: u32) -> DurationTemplate {
    DurationTemplate::Computed { template: template(&json!(text)), unit_ms }
}

#[test]
fn kinds_without_fields() {
    for (kind, behaviour) in [
        ("manual", Behaviour::Trigger { manual: true }),
        ("input", Behaviour::Input),
        ("noop", Behaviour::Pass),
        ("join", Behaviour::Gather),
        ("group", Behaviour::Group),
    ] {
        good(kind, &json!({}), &behaviour);
    }
}

#[test]
fn output_and_transform() {
    for (kind, result) in [("output", true), ("transform", false)] {
        for value in [json!(null), json!({"a": ["${{ input.n }}", 1]}), json!("x ${{ input }}")] {
            let behaviour = Behaviour::Value { template: template(&value), result };
            good(kind, &json!({"value": value}), &behaviour);
        }
        bad(kind, &json!({}), &["value: required"]);
        bad(kind, &json!({"value": {"a": ["${{ 1 + }}"]}}), &["value.a.0: "]);
        bad(kind, &json!({"value": "${{ input"}), &["value: not closed"]);
    }
}

#[test]
fn condition() {
    let behaviour = Behaviour::Condition(expression("input.n > 3"));
    good("condition", &json!({"expression": "input.n > 3"}), &behaviour);
    good("condition", &json!({"expression": true}), &Behaviour::Condition(expression("true")));
    bad("condition", &json!({}), &["expression: required"]);
    bad("condition", &json!({"expression": "a >"}), &["expression: "]);
    bad("condition", &json!({"expression": ""}), &["expression: empty"]);
    bad("condition", &json!({"expression": 3}), &["expression: expression"]);
}

#[test]
fn loops() {
    let spec =
        |test: LoopTest| Loop { test, iterations_max: 1_000, delay: None, collect: Collect::Last };
    let until = || LoopTest::Until(expression("previous.done"));
    good("loop", &json!({"until": "previous.done"}), &Behaviour::Loop(spec(until())));
    let test = LoopTest::While(expression("iteration < 3"));
    good("loop", &json!({"while": "iteration < 3"}), &Behaviour::Loop(spec(test)));
    let delay = Some(DurationTemplate::Fixed(Millis(10_000)));
    let all = Loop { iterations_max: 7, delay, collect: Collect::All, ..spec(until()) };
    good(
        "loop",
        &json!({"until": "previous.done", "maxIterations": 7, "delay": "10s", "collect": "all"}),
        &Behaviour::Loop(all),
    );
    let delay = Some(computed("${{ iteration * 100 }}", 1));
    good(
        "loop",
        &json!({"until": "previous.done", "delay": "${{ iteration * 100 }}", "collect": "last",
                "maxIterations": 1_000_000_000}),
        &Behaviour::Loop(Loop { iterations_max: 1_000_000_000, delay, ..spec(until()) }),
    );
    bad("loop", &json!({}), &["while: either `while` or `until`"]);
    bad("loop", &json!({"while": "true", "until": "true"}), &["until: exclude each other"]);
    bad("loop", &json!({"until": "a +"}), &["until: "]);
    bad("loop", &json!({"until": "a", "delay": "soon"}), &["delay: "]);
    bad("loop", &json!({"until": "a", "collect": "some"}), &["collect: `last` or `all`"]);
    for count in [json!(0), json!(-1), json!(1.5), json!(1_000_000_001), json!("7")] {
        let config = json!({"until": "a", "maxIterations": count});
        bad("loop", &config, &["maxIterations: from 1 to 1000000000"]);
    }
}

#[test]
fn switch() {
    let case = |when: &str, branch: &str| Case { when: expression(when), branch: branch.into() };
    good(
        "switch",
        &json!({"cases": [{"when": "input > 9", "branch": "big"}, {"when": "input > 5", "branch": 5}],
                "default": "small"}),
        &Behaviour::Switch {
            cases: vec![case("input > 9", "big"), case("input > 5", "5")],
            default: Some("small".into()),
        },
    );
    good(
        "switch",
        &json!({"cases": [{"when": "true", "branch": "a"}]}),
        &Behaviour::Switch { cases: vec![case("true", "a")], default: None },
    );
    bad("switch", &json!({}), &["cases: required"]);
    bad("switch", &json!({"cases": []}), &["cases: at least one"]);
    bad("switch", &json!({"cases": {"when": "true"}}), &["cases: list"]);
    bad("switch", &json!({"cases": ["x"]}), &["cases.0: {when, branch}"]);
    bad(
        "switch",
        &json!({"cases": [{"when": "a +", "branch": ""}, {}, {"when": "a", "branch": "b", "then": 1}],
                "default": ["x"]}),
        &[
            "cases.0.when: ",
            "cases.0.branch: not empty",
            "cases.1: when",
            "cases.1: branch",
            "cases.2.then: no field",
            "default: must be text",
        ],
    );
    let computed = json!({"cases": [{"when": "true", "branch": "${{ input }}"}]});
    bad("switch", &computed, &["cases.0.branch: computed"]);
}

#[test]
fn fail() {
    let made = |kind: &str, details: Option<Template>| {
        let message = template(&json!("no ${{ input.item }} left"));
        Behaviour::Fail(Fail { kind: kind.into(), message, details })
    };
    let message = "no ${{ input.item }} left";
    good("fail", &json!({"message": message}), &made("failed", None));
    let details = json!({"item": "${{ input.item }}"});
    good(
        "fail",
        &json!({"message": message, "kind": "out_of_stock", "details": details}),
        &made("out_of_stock", Some(template(&details))),
    );
    bad("fail", &json!({}), &["message: required"]);
    bad("fail", &json!({"message": " "}), &["message: not empty"]);
    bad("fail", &json!({"message": "${{ 1 + }}"}), &["message: "]);
    for kind in ["", "Out Of Stock", "ünlucky", "9lives", "-a", &"a".repeat(65)] {
        bad("fail", &json!({"message": "x", "kind": kind}), &["kind: cannot be the kind"]);
    }
    for kind in ["timeout", "expression", "secret", "http", "retry_when", "exit_code", "cancelled"]
    {
        bad("fail", &json!({"message": "x", "kind": kind}), &["kind: engine"]);
    }
}

#[test]
fn delay() {
    let fixed = |ms: u64| Behaviour::Delay(Delay::For(DurationTemplate::Fixed(Millis(ms))));
    for (config, ms) in [
        (json!({"duration": 36000, "unit": "seconds", "persistState": true}), 36_000_000),
        (json!({"duration": 1500}), 1500),
        (json!({"duration": 0}), 0),
        (json!({"duration": 1.5, "unit": "hours"}), 5_400_000),
        (json!({"duration": "5", "unit": "m"}), 300_000),
        (json!({"duration": "1h 30m"}), 5_400_000),
        (json!({"duration": "PT30S"}), 30_000),
        (json!({"duration": "P3D"}), 259_200_000),
        (json!({"duration": 400, "unit": "DAYS"}), 34_560_000_000),
    ] {
        good("delay", &config, &fixed(ms));
    }
    let hole = "${{ input.wait }}";
    let expected = Behaviour::Delay(Delay::For(computed(hole, 60_000)));
    good("delay", &json!({"duration": hole, "unit": "minutes"}), &expected);
    good("delay", &json!({"duration": hole}), &Behaviour::Delay(Delay::For(computed(hole, 1))));
    for until in ["2026-01-31T09:00:00Z", "2026-01-31T09:00:00+02:00", "${{ input.at }}"] {
        let expected = Behaviour::Delay(Delay::Until(template(&json!(until))));
        good("delay", &json!({"until": until}), &expected);
    }

    bad("delay", &json!({}), &["duration: either"]);
    bad("delay", &json!({"duration": 1, "until": "x"}), &["until: exclude"]);
    bad("delay", &json!({"duration": -1}), &["duration: negative"]);
    bad("delay", &json!({"duration": "-5s"}), &["duration: negative"]);
    bad("delay", &json!({"duration": 1e300}), &["duration: hundred years"]);
    bad("delay", &json!({"duration": 40_000, "unit": "days"}), &["duration: hundred years"]);
    bad("delay", &json!({"duration": "P200Y"}), &["duration: hundred years"]);
    bad("delay", &json!({"duration": "soon"}), &["duration: not a duration"]);
    bad("delay", &json!({"duration": [1]}), &["duration: not a duration"]);
    bad("delay", &json!({"duration": 1, "unit": "weeks"}), &["unit: not a unit"]);
    bad("delay", &json!({"duration": "30s", "unit": "minutes"}), &["unit: already has a unit"]);
    bad("delay", &json!({"until": "tomorrow"}), &["until: not a time"]);
    bad("delay", &json!({"until": "2026-01-31T09:00:00"}), &["until: not a time"]);
    bad("delay", &json!({"until": 5}), &["until: not a time"]);
    bad(
        "delay",
        &json!({"until": "2026-01-31T09:00:00Z", "unit": "s"}),
        &["unit: is only allowed with"],
    );
    bad("delay", &json!({"duration": "${{ input. }}"}), &["duration: "]);
}

#[test]
fn wait_for_events() {
    for field in ["name", "event"] {
        let behaviour = Behaviour::Signal {
            name: template(&json!("paid-${{ input.id }}")).into(),
            filter: Some(expression("signal.amount > 3")),
            timeout: Some(DurationTemplate::Fixed(Millis::from_secs(3600))),
            on_timeout: None,
        };
        let mut config = json!({"filter": "signal.amount > 3", "timeout": "1h"});
        config[field] = json!("paid-${{ input.id }}");
        for kind in ["wait-for-events", "wait", "wait_for_events"] {
            good(kind, &config, &behaviour);
        }
    }
    let name = template(&json!("paid")).into();
    let behaviour = Behaviour::Signal { name, filter: None, timeout: None, on_timeout: None };
    good("wait", &json!({"name": "paid"}), &behaviour);
    bad("wait", &json!({}), &["name: either"]);
    bad("wait", &json!({"name": "a", "event": "b"}), &["event: exclude"]);
    bad("wait", &json!({"event": " "}), &["event: not empty"]);
    bad("wait", &json!({"name": "waypost.delivery.7"}), &["name: reserved"]);
    bad("wait", &json!({"events": ["waypost/callback:p/1"]}), &["events.0.name: reserved"]);
    let config = json!({"name": 5, "filter": "a +", "timeout": -1});
    bad("wait", &config, &["name: text", "filter: ", "timeout: negative"]);
}

#[test]
fn approval_refuses_bad_texts() {
    bad("approval", &json!({}), &["title: "]);
    bad("approval", &json!({"title": " "}), &["title: must not be empty"]);
    bad(
        "approval",
        &json!({"title": "Pay?", "approvers": []}),
        &["approvers: must be a list of 1"],
    );
    let escalate = json!({"title": "Pay?", "escalate": {"after": "1h", "to": [""]}});
    bad("approval", &escalate, &["escalate.to: must be a list of 1"]);
}

#[test]
fn emit_refuses_reserved_names() {
    for to in ["to", "key"] {
        for name in ["waypost.delivery.7", "waypost/callback:p/1", "waypost.${{ input.name }}"] {
            bad("emit", &json!({to: "x", "signal": name}), &["signal: reserved"]);
        }
    }
}

#[test]
fn emit_needs_an_addressee() {
    bad("emit", &json!({"signal": "paid"}), &["to: either `to` or `key` is required"]);
    bad("emit", &json!({"signal": "paid", "to": " "}), &["to: not empty"]);
    for key in [json!("a"), json!(7), json!(true)] {
        compile("emit", &json!({"signal": "paid", "key": key})).unwrap();
    }
}

#[test]
fn workflow_takes_a_number_or_current_as_its_version() {
    for version in [json!(1), json!("current"), json!("${{ input.version }}")] {
        compile("workflow", &json!({"workflow": "other", "version": version})).unwrap();
    }
    for version in [json!(0), json!(1.5), json!("latest"), json!("1"), json!(null)] {
        let config = json!({"workflow": "other", "version": version});
        bad("workflow", &config, &["version: a whole number from 1, or `current`"]);
    }
}

#[test]
fn wait_for_events_by_key() {
    let named = |key: serde_json::Value| SignalName {
        name: template(&json!("paid")),
        key: Some(template(&key)),
        event: None,
    };
    for key in [json!("${{ input.order }}"), json!("order-7"), json!(7)] {
        let (name, filter, timeout, on_timeout) = (named(key.clone()), None, None, None);
        let behaviour = Behaviour::Signal { name, filter, timeout, on_timeout };
        good("wait", &json!({"name": "paid", "key": key}), &behaviour);
    }
    let signals = vec![
        SignalSpec { name: named(json!("a")), filter: None },
        SignalSpec { name: template(&json!("paid")).into(), filter: None },
    ];
    let spec = SignalsSpec { signals, need: 2, timeout: None, on_timeout: None };
    let config = json!({"events": [{"name": "paid", "key": "a"}, "paid"]});
    good("wait", &config, &Behaviour::Signals(spec));
    let config = json!({"name": "paid", "key": null});
    bad("wait", &config, &["key: a number or a boolean, not null"]);
    bad("wait", &json!({"name": "paid", "key": "k".repeat(257)}), &["key: 1 to 256"]);
    let config = json!({"events": [{"name": "a", "key": []}]});
    bad("wait", &config, &["events.0.key: not []"]);
    bad("wait", &json!({"events": ["a"], "key": "b"}), &["key: exclude"]);
}

#[test]
fn wait_for_several_events() {
    let signal = |name: &str, filter: Option<&str>| SignalSpec {
        name: template(&json!(name)).into(),
        filter: filter.map(expression),
    };
    let behaviour = |need| {
        Behaviour::Signals(SignalsSpec {
            signals: vec![
                signal("paid-${{ input.id }}", Some("signal.ok")),
                signal("packed", None),
            ],
            need,
            timeout: Some(DurationTemplate::Fixed(Millis::from_secs(3600))),
            on_timeout: Some("late".into()),
        })
    };
    let events = json!([{"name": "paid-${{ input.id }}", "filter": "signal.ok"}, "packed"]);
    let config = json!({"events": events, "timeout": "1h", "onTimeout": "late"});
    good("wait", &config, &behaviour(2));
    for (need, count) in [(json!("all"), 2), (json!("any"), 1), (json!(2), 2)] {
        let mut config = config.clone();
        config["need"] = need;
        good("wait", &config, &behaviour(count));
    }
    for need in [json!(0), json!(3), json!(-1), json!(1.5), json!("some"), json!(null), json!([1])]
    {
        bad("wait", &json!({"events": ["a", "b"], "need": need}), &["need: from 1 to 2"]);
    }
    bad("wait", &json!({"events": []}), &["events: 1 to 64"]);
    bad("wait", &json!({"events": vec!["a"; 65]}), &["events: 1 to 64"]);
    bad("wait", &json!({"events": "a"}), &["events: a list"]);
    bad(
        "wait",
        &json!({"events": ["a"], "name": "b", "filter": "true"}),
        &["name: exclude", "filter: exclude"],
    );
    bad(
        "wait",
        &json!({"events": [{"filter": "a +"}]}),
        &["events.0: needs `name`", "events.0.filter: "],
    );
    bad("wait", &json!({"events": [{"name": "a", "kee": 1}]}), &["events.0.kee: no field"]);
    bad("wait", &json!({"events": [5, ""]}), &["events.0: must be", "events.1.name: not empty"]);
    bad("wait", &json!({"name": "a", "need": 1}), &["need: about `events`"]);
    bad("wait", &json!({"name": "a", "onTimeout": "late"}), &["onTimeout: needs a `timeout`"]);
    bad(
        "wait",
        &json!({"events": ["a"], "timeout": "1s", "onTimeout": " "}),
        &["onTimeout: must be"],
    );
    let fails = Behaviour::Signal {
        name: template(&json!("a")).into(),
        filter: None,
        timeout: Some(DurationTemplate::Fixed(Millis::from_secs(1))),
        on_timeout: None,
    };
    good("wait", &json!({"name": "a", "timeout": "1s", "onTimeout": "fail"}), &fails);
}

#[test]
fn api_call() {
    for config in [
        json!({"url": "https://api.example.com/users/${{ input.id }}"}),
        json!({"url": "${{ input.url }}"}),
        json!({
            "url": "http://api.example.com", "method": "POST", "body": {"a": "${{ input }}"},
            "headers": {"authorization": "Bearer ${{ secrets.token }}"}, "query": {"q": [1, 2]},
            "acceptStatus": [404, "410", "5xx"], "followRedirects": false,
            "responseBytesMax": 1000, "connectTimeout": "2s",
        }),
    ] {
        let expected = Behaviour::Task {
            handler: "api-call".into(),
            slot: Some(SlotClass::Io),
            config: template(&config),
        };
        good("api-call", &config, &expected);
        good("call_external_service", &config, &expected);
    }
    let with = |field: &str, value: Value| {
        let mut config = json!({"url": "https://api.example.com"});
        config[field] = value;
        config
    };
    bad("api-call", &json!({}), &["url: required"]);
    bad("api-call", &with("url", json!("api.example.com")), &["url: not a URL"]);
    bad("api-call", &with("url", json!("ftp://example.com")), &["url: http and https"]);
    bad("api-call", &with("url", json!(5)), &["url: text"]);
    bad("api-call", &with("url", json!("https://x/${{ 1 + }}")), &["url: "]);
    bad("api-call", &with("headers", json!({"x y": "1"})), &["headers.x y: header's name"]);
    bad("api-call", &with("headers", json!({"Host": "x"})), &["headers.Host: engine"]);
    bad("api-call", &with("acceptStatus", json!(404)), &["acceptStatus: list"]);
    bad("api-call", &with("acceptStatus", json!([200, 99])), &["acceptStatus.1: not a status"]);
    bad("api-call", &with("acceptStatus", json!(["timeout"])), &["acceptStatus.0: not a status"]);
    bad("api-call", &with("responseBytesMax", json!(0)), &["responseBytesMax: from 1 to"]);
    bad(
        "api-call",
        &with("responseBytesMax", json!(6_000_000_000_u64)),
        &["responseBytesMax: 5368709120"],
    );
    bad("api-call", &with("connectTimeout", json!("-1s")), &["connectTimeout: negative"]);
    let auth = json!({"username": "ada", "password": "${{ secrets.password }}"});
    let config = with("basicAuth", auth.clone());
    let expected = Behaviour::Task {
        handler: "api-call".into(),
        slot: Some(SlotClass::Io),
        config: template(&config),
    };
    good("api-call", &config, &expected);
    bad("api-call", &with("basicAuth", json!("ada")), &["basicAuth: object"]);
    bad("api-call", &with("basicAuth", json!({"username": "ada"})), &["basicAuth: `password`"]);
    let odd = json!({"username": "a", "password": "b", "realm": "c"});
    bad("api-call", &with("basicAuth", odd), &["basicAuth: no field `realm`"]);
    let number = json!({"username": "a", "password": 5});
    bad("api-call", &with("basicAuth", number), &["basicAuth.password: text"]);
    let mut twice = with("basicAuth", auth);
    twice["headers"] = json!({"Authorization": "x"});
    bad("api-call", &twice, &["headers.Authorization: exclude"]);
    let both = json!({"body": {}, "text": "", "acceptStatus": 1});
    bad("api-call", &both, &["url: required", "text: exclude", "acceptStatus: list"]);
}

#[test]
fn shell() {
    for config in [
        json!({"command": "echo ${{ input }}", "env": {"A": "${{ input.a }}"}, "cwd": "/tmp"}),
        json!({"args": ["echo", "${{ input }}"], "stdin": "x", "outputBytesMax": 10}),
    ] {
        let expected = Behaviour::Task {
            handler: "shell".into(),
            slot: Some(SlotClass::Work),
            config: template(&config),
        };
        good("shell", &config, &expected);
    }
    let config = json!({"command": "curl", "env": {"TOKEN": "x ${{ secrets.token }}"}});
    let expected = Behaviour::Task {
        handler: "shell".into(),
        slot: Some(SlotClass::Work),
        config: template(&config),
    };
    good("shell", &config, &expected);
    let secret = "${{ secrets.token }}";
    bad("shell", &json!({"command": secret}), &["command: only allowed in `env`"]);
    bad("shell", &json!({"args": ["a", secret]}), &["args: only allowed in `env`"]);
    bad("shell", &json!({"command": "a", "stdin": secret}), &["stdin: only allowed in `env`"]);
    bad("shell", &json!({"command": "a", "cwd": secret}), &["cwd: only allowed in `env`"]);
    bad("shell", &json!({}), &["command: either"]);
    bad("shell", &json!({"command": "a", "args": ["a"]}), &["args: exclude"]);
    bad("shell", &json!({"command": "  "}), &["command: empty"]);
    bad("shell", &json!({"args": []}), &["args: at least"]);
    bad("shell", &json!({"command": "a", "env": {"A=B": 1}}), &["env.A=B: variable"]);
    bad("shell", &json!({"command": "a", "outputBytesMax": 0}), &["outputBytesMax: from 1"]);
}

#[test]
fn worker() {
    let handler = |name: &str, input: &Value| Behaviour::Task {
        handler: name.into(),
        slot: None,
        config: template(input),
    };
    let input = json!({"to": "${{ input.to }}", "all": ["${{ input }}"]});
    good(
        "worker",
        &json!({"handler": "mail.send-2_b", "input": input}),
        &handler("mail.send-2_b", &input),
    );
    good("worker", &json!({"handler": "9"}), &handler("9", &Value::Null));
    let long = "a".repeat(64);
    good("worker", &json!({"handler": long}), &handler(&long, &Value::Null));
    bad("worker", &json!({}), &["handler: required"]);
    for name in ["", ".a", "-a", "Mail", "a b", "a/b", "zoë", &"a".repeat(65), "${{ input.h }}"] {
        bad("worker", &json!({"handler": name}), &["handler: not a handler's name"]);
    }
    let secret = json!({"handler": "mail", "input": {"key": ["x ${{ secrets.key }}"]}});
    bad("worker", &secret, &["input: a secret for a worker is only allowed in `secrets`"]);
    let secrets = json!({"KEY": "${{ secrets.key }}", "_b": "${{secrets.b}}"});
    good(
        "worker",
        &json!({"handler": "mail", "input": input, "secrets": secrets}),
        &handler("mail", &json!({"input": input, "secrets": secrets})),
    );
    let given = json!({"input": null, "secrets": secrets});
    good("worker", &json!({"handler": "mail", "secrets": secrets}), &handler("mail", &given));
    good("worker", &json!({"handler": "mail", "secrets": {}}), &handler("mail", &Value::Null));
    let with = |secrets: Value| json!({"handler": "mail", "secrets": secrets});
    for name in ["", "1a", "a-b", "a.b", "ä", &"a".repeat(65)] {
        bad(
            "worker",
            &with(json!({name: "${{ secrets.key }}"})),
            &[&format!("secrets.{name}: not a name")],
        );
    }
    let secret = "${{ secrets.a }}";
    for value in ["plain", "${{ input.a }}", "Bearer ${{ secrets.a }}"].map(Value::from) {
        bad("worker", &with(json!({"A": value})), &["secrets.A: must be one secret"]);
    }
    bad("worker", &with(json!({"A": [secret]})), &["secrets.A: must be one secret"]);
    bad("worker", &with(json!({"A": 1})), &["secrets.A: must be one secret"]);
    let many: Map<String, Value> =
        (0..17).map(|n| (format!("S{n}"), json!("${{ secrets.key }}"))).collect();
    bad("worker", &with(Value::Object(many)), &["secrets: may use 16 secrets"]);
    let both = json!({"handler": "", "input": "${{ secrets.key }}"});
    bad("worker", &both, &["handler: not a handler's name", "input: a secret"]);
    bad("worker", &json!({"handler": "a", "input": "${{ 1 + }}"}), &["input: "]);
}

#[test]
fn every_kind_is_described() {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let is_sentence = |text: &str| text.len() > 10 && text.ends_with('.') && !text.contains("  ");
    let mut names = BTreeSet::new();
    for name in catalog().names() {
        assert!(is_name(name), "{name}");
        assert!(names.insert(name), "{name} is used twice");
    }
    for kind in catalog().0 {
        let spec = kind.spec();
        assert!(is_sentence(spec.summary), "{}: {}", spec.name, spec.summary);
        let mut fields = BTreeSet::new();
        for field in spec.fields {
            assert!(is_name(field.name), "{}.{}", spec.name, field.name);
            assert!(is_sentence(field.summary), "{}.{}: {}", spec.name, field.name, field.summary);
            assert!(fields.insert(field.name), "{}.{} twice", spec.name, field.name);
        }
        // What a spec calls required, `compile` insists on by itself.
        let compiled = kind.compile(&Map::new());
        for field in spec.fields.iter().filter(|field| field.required) {
            let faults = compiled.as_ref().expect_err(spec.name);
            assert!(faults.iter().any(|fault| fault.path == [field.name]), "{}", spec.name);
        }
    }
}

#[test]
fn every_file_is_listed_and_every_task_has_a_handler() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/kinds")).unwrap();
    let stems: BTreeSet<String> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().replace('_', "-"))
        .collect();
    let listed: BTreeSet<String> =
        catalog().0.iter().map(|kind| kind.spec().name.to_owned()).collect();
    assert_eq!(stems, listed);
    let handlers: Vec<&str> = handlers(&Settings::default(), None).into_keys().collect();
    assert_eq!(handlers, ["api-call", "llm", "shell"]);
}

#[test]
fn wait_for_published_events() {
    let event = |kind: &str, wanted: serde_json::Value| SignalName {
        name: template(&json!(kind)),
        key: None,
        event: Some(template(&wanted)),
    };
    let by_order = json!({"data.order": "${{ input.order }}"});
    let (filter, timeout, on_timeout) = (Some(expression("event.data.n > 5")), None, None);
    let name = event("order.*", by_order.clone());
    let config = json!({"type": "order.*", "match": by_order, "filter": "event.data.n > 5"});
    good("wait", &config, &Behaviour::Signal { name, filter, timeout, on_timeout });
    let signals = vec![SignalSpec { name: event("paid", json!({})), filter: None }];
    let spec = SignalsSpec { signals, need: 1, timeout: None, on_timeout: None };
    good("wait", &json!({"events": [{"type": "paid"}]}), &Behaviour::Signals(spec));
    for (config, fault) in [
        (json!({"type": "paid", "name": "a"}), "name: exclude"),
        (json!({"type": "paid", "key": 7}), "key: exclude"),
        (json!({"match": {"data.n": 1}}), "type: not there"),
        (json!({"type": 5}), "type: text"),
        (json!({"type": "a b"}), "type: without blanks"),
        (json!({"type": "${{ input.type }}"}), "type: without blanks"),
        (json!({"type": "user-*"}), "type: `user.*`"),
        (json!({"type": "a", "match": {"data": {"n": 1}}}), "match: compares with"),
        (json!({"events": [{"type": "a", "match": 5}]}), "events.0.match: must be a map"),
        (json!({"events": [{"key": 5}]}), "events.0: `name` or `type`"),
    ] {
        bad("wait", &config, &[fault]);
    }
}
