//! A handful of node kinds, small enough to see through, that stand in for the real ones.

use serde_json::{Map, Value};
use waypost_core::expr::{Expression, Template};
use waypost_core::kind::{
    Behaviour, BodyKind, Case, Catalog, Collect, ConfigFault, Delay, DurationTemplate, Fail,
    Family, Field, Kind, KindSpec, Loop, LoopTest, MapSpec, Shape, Tolerate,
};
use waypost_core::slot::SlotClass;
use waypost_core::time::Millis;
use waypost_core::trigger::TriggerKindName::{
    self, Event, Poll, Schedule, Stream, Webhook, WorkflowEnded,
};

/// All kinds below.
pub(crate) fn catalog() -> Catalog<'static> {
    Catalog(&[
        &Noop,
        &Condition,
        &Switch,
        &DelayKind,
        &Transform,
        &Wait,
        &ApiCall,
        &Output,
        &FailKind,
        &Group,
        &LoopKind,
        &MapKind,
        &Entry(None),
        &Entry(Some(Schedule)),
        &Entry(Some(Webhook)),
        &Entry(Some(Event)),
        &Entry(Some(Poll)),
        &Entry(Some(Stream)),
        &Entry(Some(WorkflowEnded)),
    ])
}

const fn field(name: &'static str, shape: Shape, required: bool) -> Field {
    Field { name, shape, required, summary: "what it is for" }
}

fn template(config: &Map<String, Value>, key: &str) -> Template {
    let value = config.get(key).cloned().unwrap_or(Value::Null);
    Template::compile(&value).expect("checked before")
}

fn expression(config: &Map<String, Value>, key: &str) -> Option<Expression> {
    let source = config.get(key)?.as_str().expect("checked before");
    Some(Expression::compile(source).expect("checked before"))
}

macro_rules! kinds {
    ($($kind:ident: $name:literal $aliases:expr, $family:ident $($body:ident)?, [$($field:expr),* $(,)?], $compile:expr;)+) => {
        $(
            struct $kind;

            impl Kind for $kind {
                fn spec(&self) -> &'static KindSpec {
                    const SPEC: KindSpec = KindSpec {
                        name: $name,
                        aliases: &$aliases,
                        family: Family::$family,
                        body: [$(Some(BodyKind::$body),)? None][0],
                        summary: "a kind for tests",
                        fields: &[$($field),*],
                    };
                    &SPEC
                }

                fn compile(
                    &self,
                    config: &Map<String, Value>,
                ) -> Result<Behaviour, Vec<ConfigFault>> {
                    let compile: fn(&Map<String, Value>) -> Result<Behaviour, Vec<ConfigFault>> =
                        $compile;
                    compile(config)
                }
            }
        )+
    };
}

kinds! {
    Noop: "noop" [], Logic, [], |_| Ok(Behaviour::Pass);

    Condition: "condition" [], Logic, [field("expression", Shape::Expression, true)], |config| {
        Ok(Behaviour::Condition(expression(config, "expression").expect("required")))
    };

    Switch: "switch" [], Logic,
        [field("cases", Shape::Custom, true), field("default", Shape::Name, false)],
        compile_switch;

    DelayKind: "delay" [], Logic,
        [
            field("duration", Shape::Duration, true),
            field("unit", Shape::OneOf(&["ms", "seconds", "hours"]), false),
            field("persistState", Shape::Boolean, false),
        ],
        |config| {
            let span = match config.get("duration") {
                Some(Value::String(text)) if text.contains("${{") => {
                    DurationTemplate::Computed { template: template(config, "duration"), unit_ms: 1 }
                }
                _ => DurationTemplate::Fixed(Millis(1)),
            };
            Ok(Behaviour::Delay(Delay::For(span)))
        };

    Transform: "transform" [], Logic, [field("value", Shape::Any, true)], |config| {
        Ok(Behaviour::Value { template: template(config, "value"), result: false })
    };

    Wait: "wait-for-events" ["wait"], Logic,
        [field("name", Shape::Text, true), field("filter", Shape::ExpressionWith("signal"), false)],
        |config| Ok(Behaviour::Signal {
            name: template(config, "name").into(),
            filter: expression(config, "filter"),
            timeout: None,
            on_timeout: None,
        });

    ApiCall: "api-call" ["call_external_service"], Action,
        [
            field("url", Shape::Text, true),
            field("method", Shape::OneOf(&["GET", "POST"]), false),
            field("headers", Shape::Object, false),
            field("tags", Shape::List, false),
            field("body", Shape::Any, false),
            field("redirects", Shape::Integer, false),
            field("weight", Shape::Number, false),
            field("connection", Shape::Name, false),
            field("retryWhen", Shape::ExpressionWith("response"), false),
        ],
        |config| {
            if config.get("method") != Some(&"POST".into()) && config.contains_key("body") {
                let fault = ConfigFault::at("body", "only a POST has a body");
                return Err(vec![fault.hint("write `method: POST`")]);
            }
            let config = Template::compile(&Value::Object(config.clone())).expect("checked before");
            Ok(Behaviour::Task { handler: "api-call".into(), slot: Some(SlotClass::Io), config })
        };

    Output: "output" [], Action, [field("value", Shape::Any, true)], |config| {
        Ok(Behaviour::Value { template: template(config, "value"), result: true })
    };

    FailKind: "fail" [], Logic, [field("message", Shape::Text, true)], |config| {
        let message = template(config, "message");
        Ok(Behaviour::Fail(Fail { kind: "failed".into(), message, details: None }))
    };

    Group: "group" [], Logic Once, [], |_| Ok(Behaviour::Group);

    LoopKind: "loop" [], Logic Repeated,
        [
            field("while", Shape::Expression, false),
            field("until", Shape::Expression, false),
            field("delay", Shape::Duration, false),
        ],
        compile_loop;

    MapKind: "map" [], Logic Each, [field("items", Shape::Any, true)], |config| {
        Ok(Behaviour::Map(MapSpec {
            items: template(config, "items"),
            concurrency: 9,
            tolerate: Tolerate::Count(0),
            stop_on_failure: false,
            collect: true,
        }))
    };
}

/// `while` or `until`, and the rest of a loop's config.
fn compile_loop(config: &Map<String, Value>) -> Result<Behaviour, Vec<ConfigFault>> {
    let test = match (expression(config, "while"), expression(config, "until")) {
        (Some(test), None) => LoopTest::While(test),
        (None, Some(test)) => LoopTest::Until(test),
        _ => return Err(vec![ConfigFault::at("until", "one of `while` and `until`")]),
    };
    let delay = config
        .contains_key("delay")
        .then(|| DurationTemplate::Computed { template: template(config, "delay"), unit_ms: 1 });
    Ok(Behaviour::Loop(Loop { test, iterations_max: 9, delay, collect: Collect::Last }))
}

/// `cases: [{ when: expression, branch: name }]`, which no shape describes.
fn compile_switch(config: &Map<String, Value>) -> Result<Behaviour, Vec<ConfigFault>> {
    let list = config.get("cases").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut cases = Vec::new();
    for (position, case) in list.iter().enumerate() {
        let when = case.get("when").and_then(Value::as_str).unwrap_or_default();
        let branch = case.get("branch").and_then(Value::as_str).unwrap_or_default().to_owned();
        let when = Expression::compile(when).map_err(|fault| {
            let path = ["cases", &position.to_string(), "when"].map(ToOwned::to_owned).to_vec();
            vec![ConfigFault { path, message: fault.message, hint: None }]
        })?;
        cases.push(Case { when, branch });
    }
    let default = config.get("default").and_then(Value::as_str).map(ToOwned::to_owned);
    Ok(Behaviour::Switch { cases, default })
}

/// A trigger of this kind, or without one the kind for starts by hand.
struct Entry(Option<TriggerKindName>);

impl Kind for Entry {
    fn spec(&self) -> &'static KindSpec {
        const fn spec(name: &'static str, fields: &'static [Field]) -> KindSpec {
            let (aliases, family, summary) = (&[], Family::Trigger, "a kind for tests");
            KindSpec { name, aliases, family, body: None, summary, fields }
        }
        static MANUAL: KindSpec = spec("manual", &[]);
        static SCHEDULE: KindSpec = spec("schedule", Schedule.fields());
        static WEBHOOK: KindSpec = spec("webhook", Webhook.fields());
        static EVENT: KindSpec = spec("event", Event.fields());
        static POLL: KindSpec = spec("poll", Poll.fields());
        static STREAM: KindSpec = spec("stream", Stream.fields());
        static ENDED: KindSpec = spec("workflow-ended", WorkflowEnded.fields());
        match self.0 {
            Some(Schedule) => &SCHEDULE,
            Some(Webhook) => &WEBHOOK,
            Some(Event) => &EVENT,
            Some(Poll) => &POLL,
            Some(Stream) => &STREAM,
            Some(WorkflowEnded) => &ENDED,
            _ => &MANUAL,
        }
    }

    fn compile(&self, _: &Map<String, Value>) -> Result<Behaviour, Vec<ConfigFault>> {
        Ok(Behaviour::Trigger { manual: self.0.is_none() })
    }
}
