//! The behaviours of the flow language.

use serde_json::{Value, json};

use super::{call, expression, split, template};
use crate::budget::{Budget, Meter, Money, OnExhausted, Prices, SpendingLimits};
use crate::kind::{
    ApprovalSpec, Behaviour, Case, Collect, Delay, DurationTemplate, EmitSpec, Escalation, Fail,
    Loop, LoopTest, MapSpec, NotifySpec, OperationSpec, SignalName, SignalSpec, SignalsSpec,
    Tolerate, WorkflowCall,
};
use crate::plan::PlanNode;
use crate::slot::SlotClass;
use crate::time::Millis;
use crate::trigger::{EventTrigger, Trigger, TriggerKind};

/// `1000 money 0.5 pause`
pub(super) fn budget(text: &str) -> Budget {
    let words: Vec<&str> = text.split(' ').collect();
    let money = words.iter().position(|word| *word == "money").and_then(|at| words.get(at + 1));
    let limits = SpendingLimits {
        tokens: words[0].parse().ok(),
        money: money.map(|text| Money::parse(text).expect("money")),
    };
    let pause = words.contains(&"pause");
    Budget { limits, on_exhausted: if pause { OnExhausted::Pause } else { OnExhausted::Fail } }
}

/// `100 50`
pub(super) fn meter(words: &[&str]) -> Meter {
    let number = |at: usize| words.get(at).map(|word| word.parse().expect("a number of tokens"));
    let prices = Prices { input: Money(1_000_000), output: Money(2_000_000) };
    Meter { max_input: number(0), max_output: number(1), prices: Some(prices) }
}

/// `task(json)`, `call(json)`, `worker(json)`, `pass`, `input`, `manual`, `trigger`, `gather`, `value(json)`, `output(json)`, `if(expression)`, `fail(text)`,
/// `switch(expression -> branch, else -> branch)`, `delay(5s)`, `delay(${{ … }})`, `until(time)`,
/// `signal(name, where expression, within 5s, else branch)`,
/// `signals(name, name where expression, need 2, within 5s, else branch)`,
/// `approval(title, by ann+bob, within 5s, remind 1s, escalate 2s eve)`, `notify(text, within 5s)`, `group`, `polled(branch)`,
/// `operation(within 5s, else branch)`,
/// `loop(until expression, max 5, delay 1s, all)`, `map(items, at 5, tolerate 2, percent 5, stop, none)`,
/// `workflow(name, input json, detached, leave)`, `emit(execution, signal, optional)`.
pub(super) fn behaviour(id: &str, text: &str) -> Behaviour {
    let (word, inside) = call(text);
    let value = || serde_json::from_str(inside).unwrap_or_else(|_| json!(inside));
    let config = || template(&if inside.is_empty() { json!({ "node": id }) } else { value() });
    let handler = |name: &str, slot: Option<SlotClass>| Behaviour::Task {
        handler: name.into(),
        slot,
        config: config(),
    };
    match word {
        "task" => handler("work", Some(SlotClass::Work)),
        "call" => handler("work", Some(SlotClass::Io)),
        "worker" => handler("far", None),
        "pass" => Behaviour::Pass,
        "input" => Behaviour::Input,
        "manual" => Behaviour::Trigger { manual: true },
        "trigger" => Behaviour::Trigger { manual: false },
        "gather" => Behaviour::Gather,
        "value" => Behaviour::Value { template: template(&value()), result: false },
        "output" => Behaviour::Value { template: template(&value()), result: true },
        "fail" => Behaviour::Fail(Fail {
            kind: "refused".into(),
            message: template(&json!(inside)),
            details: None,
        }),
        "if" => Behaviour::Condition(expression(inside)),
        "switch" => switch(inside),
        "delay" => Behaviour::Delay(Delay::For(duration(inside))),
        "until" => Behaviour::Delay(Delay::Until(template(&value()))),
        "signal" => signal(inside),
        "signals" => signals(inside),
        "approval" => approval(inside),
        "notify" => notify(inside),
        "group" => Behaviour::Group,
        "polled" => Behaviour::Polled(inside.into()),
        "operation" => operation(inside),
        "loop" => repeat(inside),
        "map" => each(inside),
        "workflow" => workflow(inside),
        "emit" => emit(inside),
        other => panic!("{other:?} is not a behaviour"),
    }
}

/// The trigger that a node is: one of events whose type is its id.
pub(super) fn trigger(node: &PlanNode) -> Option<Trigger> {
    let is_trigger = node.behaviour == Behaviour::Trigger { manual: false };
    is_trigger.then(|| Trigger {
        name: node.id.clone(),
        description: None,
        node: Some(node.id.clone()),
        enabled: true,
        condition: None,
        input: None,
        id: None,
        labels: Vec::new(),
        kind: TriggerKind::Event(Box::new(EventTrigger {
            types: vec![node.id.clone()],
            source: None,
            window: None,
        })),
    })
}

fn duration(text: &str) -> DurationTemplate {
    match Millis::parse(text) {
        Ok(span) => DurationTemplate::Fixed(span),
        Err(_) => DurationTemplate::Computed { template: template(&json!(text)), unit_ms: 1000 },
    }
}

fn switch(text: &str) -> Behaviour {
    let (mut cases, mut default) = (Vec::new(), None);
    for case in split(text, &[',']) {
        let (when, branch) = case.split_once("->").expect("a case is `expression -> branch`");
        match (when.trim(), branch.trim().to_owned()) {
            ("else", branch) => default = Some(branch),
            (when, branch) => cases.push(Case { when: expression(when), branch }),
        }
    }
    Behaviour::Switch { cases, default }
}

fn repeat(text: &str) -> Behaviour {
    let (mut test, mut iterations_max) = (LoopTest::While(expression("true")), 1_000);
    let (mut delay, mut collect) = (None, Collect::Last);
    for part in split(text, &[',']) {
        match part.split_once(' ') {
            Some(("while", source)) => test = LoopTest::While(expression(source)),
            Some(("until", source)) => test = LoopTest::Until(expression(source)),
            Some(("max", number)) => iterations_max = number.parse().expect("a number"),
            Some(("delay", span)) => delay = Some(duration(span)),
            None if part == "all" => collect = Collect::All,
            _ => panic!("{part:?} is no part of a loop"),
        }
    }
    Behaviour::Loop(Loop { test, iterations_max, delay, collect })
}

fn workflow(text: &str) -> Behaviour {
    let parts = split(text, &[',']);
    let name = parts.first().expect("a workflow has a name");
    let (mut input, mut detached, mut leave) = (Value::Null, false, false);
    for part in parts.get(1..).unwrap_or_default() {
        match part.split_once(' ') {
            Some(("input", text)) => {
                input = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
            }
            None if *part == "detached" => detached = true,
            None if *part == "leave" => leave = true,
            _ => panic!("{part:?} is no part of a call"),
        }
    }
    let config = template(&json!({ "workflow": name, "input": input }));
    Behaviour::Workflow(WorkflowCall { config, detached, leave })
}

fn emit(text: &str) -> Behaviour {
    let parts = split(text, &[',']);
    let [to, signal, rest @ ..] = &*parts else { panic!("{text:?} names no receiver and signal") };
    let (field, published) = match to.strip_prefix("key ") {
        Some(_) => ("key", true),
        None => ("to", false),
    };
    let to = to.strip_prefix("key ").unwrap_or(to);
    let config = template(&json!({ field: to, "signal": signal, "body": { "from": "emit" } }));
    Behaviour::Emit(EmitSpec { config, published, optional: rest == ["optional"] })
}

fn each(text: &str) -> Behaviour {
    let parts = split(text, &[',']);
    let items = parts.first().expect("a map has items");
    let items = serde_json::from_str(items).unwrap_or_else(|_| json!(items));
    let mut map = MapSpec {
        items: template(&items),
        concurrency: 100,
        tolerate: Tolerate::Count(0),
        stop_on_failure: false,
        collect: true,
    };
    for part in parts.get(1..).unwrap_or_default() {
        match part.split_once(' ') {
            Some(("at", number)) => map.concurrency = number.parse().expect("a number"),
            Some(("tolerate", n)) => map.tolerate = Tolerate::Count(n.parse().expect("a number")),
            Some(("percent", n)) => map.tolerate = Tolerate::Percent(n.parse().expect("a share")),
            None if *part == "stop" => map.stop_on_failure = true,
            None if *part == "none" => map.collect = false,
            _ => panic!("{part:?} is no part of a map"),
        }
    }
    Behaviour::Map(map)
}

fn signal(text: &str) -> Behaviour {
    let (mut name, mut filter, mut timeout, mut on_timeout) = (Value::Null, None, None, None);
    let (mut key, mut event) = (None, None);
    for part in split(text, &[',']) {
        match part.split_once(' ') {
            Some(("event", wanted)) => event = Some(template(&json_of(wanted))),
            Some(("where", source)) => filter = Some(expression(source)),
            Some(("by", text)) => key = Some(template(&json!(text))),
            Some(("within", span)) => timeout = Some(duration(span)),
            Some(("else", branch)) => on_timeout = Some(branch.into()),
            _ => name = json!(part),
        }
    }
    let name = SignalName { name: template(&name), key, event };
    Behaviour::Signal { name, filter, timeout, on_timeout }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn notify(text: &str) -> Behaviour {
    let mut spec = NotifySpec { message: template(&Value::Null), timeout: None };
    for part in split(text, &[',']) {
        match part.split_once(' ') {
            Some(("within", span)) => spec.timeout = Some(duration(span)),
            _ => spec.message = template(&json!(part)),
        }
    }
    Behaviour::Notify(Box::new(spec))
}

fn approval(text: &str) -> Behaviour {
    let names = |text: &str| template(&json!(text.split('+').collect::<Vec<_>>()));
    let mut spec = ApprovalSpec {
        title: template(&Value::Null),
        description: None,
        form: None,
        approvers: None,
        timeout: None,
        reminder: None,
        escalate: None,
    };
    for part in split(text, &[',']) {
        match part.split_once(' ') {
            Some(("by", people)) => spec.approvers = Some(names(people)),
            Some(("within", span)) => spec.timeout = Some(duration(span)),
            Some(("remind", span)) => spec.reminder = Some(duration(span)),
            Some(("escalate", rest)) => {
                let (span, people) = rest.split_once(' ').expect("a span and people");
                spec.escalate = Some(Escalation { after: duration(span), to: names(people) });
            }
            _ => spec.title = template(&json!(part)),
        }
    }
    Behaviour::Approval(Box::new(spec))
}

fn operation(text: &str) -> Behaviour {
    let mut spec = OperationSpec { timeout: None, on_timeout: None };
    for part in split(text, &[',']).into_iter().filter(|part| !part.is_empty()) {
        match part.split_once(' ') {
            Some(("within", span)) => spec.timeout = Some(duration(span)),
            Some(("else", branch)) => spec.on_timeout = Some(branch.into()),
            _ => panic!("{part:?} is no part of an operation"),
        }
    }
    Behaviour::Operation(spec)
}

fn signals(text: &str) -> Behaviour {
    let mut spec = SignalsSpec { signals: Vec::new(), need: 0, timeout: None, on_timeout: None };
    for part in split(text, &[',']) {
        match part.split_once(' ') {
            Some(("need", number)) => spec.need = number.parse().expect("a number"),
            Some(("within", span)) => spec.timeout = Some(duration(span)),
            Some(("else", branch)) => spec.on_timeout = Some(branch.into()),
            Some((name, rest)) => {
                let key = rest.strip_prefix("by ").map(|key| template(&json!(key)));
                let filter = rest.strip_prefix("where ").map(expression);
                let is_known = key.is_some() || filter.is_some() || rest.starts_with("event ");
                assert!(is_known, "{rest:?} is no key, no event and no filter");
                let event = rest.strip_prefix("event ").map(|wanted| template(&json_of(wanted)));
                let name = SignalName { name: template(&json!(name)), key, event };
                spec.signals.push(SignalSpec { name, filter });
            }
            None => {
                let name = template(&json!(part)).into();
                spec.signals.push(SignalSpec { name, filter: None });
            }
        }
    }
    if spec.need == 0 {
        spec.need = u32::try_from(spec.signals.len()).expect("a few");
    }
    Behaviour::Signals(spec)
}
