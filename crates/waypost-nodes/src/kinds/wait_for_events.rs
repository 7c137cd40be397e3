//! `wait-for-events`: waits for a signal from outside, or for some of several.

use std::sync::Arc;

use serde_json::{Map, Value};
use waypost_core::event_wait::{check_type, event_name};
use waypost_core::expr::Template;
use waypost_core::kind::{
    Behaviour, ConfigFault, DurationTemplate, Family, KindSpec, Shape, SignalName, SignalSpec,
    SignalsSpec,
};
use waypost_core::limits::SIGNALS_OF_WAIT_MAX;
use waypost_core::reserved::refuse_reserved;

use crate::NodeKind;
use crate::config::{
    ConfigMap, bare_expression, duration, exactly_one, expression, fault_at, is_key, on_timeout,
    optional, required_template,
};

pub(crate) static KIND: NodeKind = NodeKind { spec: &SPEC, compile, handler: None };

static SPEC: KindSpec = KindSpec {
    name: "wait-for-events",
    aliases: &["wait-for-signal", "wait", "wait_for_events"],
    family: Family::Logic,
    body: None,
    summary: "Waits for a signal, and outputs its body; or for some of several, and outputs a list.",
    fields: &[
        optional(
            "name",
            Shape::Text,
            "The signal's name. Required, here, as `event` or in `events`, unless there is a `type`.",
        ),
        optional("event", Shape::Text, "Another word for `name`."),
        optional(
            "key",
            Shape::Scalar,
            "A correlation key: the signal comes by `emit` with this key, from any execution, or by \
             `waypost publish`. A text, a number or a boolean.",
        ),
        optional(
            "type",
            Shape::Custom,
            "Instead of a name: the type of events that are published, such as `order.paid` or `order.*`.",
        ),
        optional(
            "match",
            Shape::Object,
            "With `type`: what an event must have, such as `{data.order: 7}`.",
        ),
        optional(
            "filter",
            Shape::ExpressionWith("signal"),
            "Must give true for a signal to count; sees its body as `signal`, and an event also as `event`.",
        ),
        optional(
            "events",
            Shape::Custom,
            "Several signals instead: a list of `{name, key, filter}` and `{type, match, filter}`.",
        ),
        optional(
            "need",
            Shape::Custom,
            "How many of `events` end the wait: `all` (default), `any`, or a number.",
        ),
        optional(
            "timeout",
            Shape::Duration,
            "Fails with kind `timeout` after this long, or goes on as `onTimeout` says.",
        ),
        optional(
            "onTimeout",
            Shape::Name,
            "What follows a timeout: `fail` (default), or a branch to take.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let timeout = duration(config, "timeout", None);
    let on_timeout = on_timeout(config);
    if config.contains_key("events") {
        return several(config, timeout, on_timeout);
    }
    let name = match config.contains_key("type") || config.contains_key("match") {
        true => published_event(config, &[]),
        false => signal_name(config).and_then(|name| {
            let key = key(config, &[])?;
            Ok(SignalName { name, key, event: None })
        }),
    };
    let filter = expression(config, "filter");
    let need = match config.contains_key("need") {
        true => Err(ConfigFault::at("need", "`need` is about `events`, which is not there")),
        false => Ok(()),
    };
    match (name, filter, timeout, on_timeout, need) {
        (Ok(name), Ok(filter), Ok(timeout), Ok(on_timeout), Ok(())) => {
            Ok(Behaviour::Signal { name, filter, timeout, on_timeout })
        }
        (name, filter, timeout, on_timeout, need) => {
            let faults = [name.err(), filter.err(), timeout.err(), on_timeout.err(), need.err()];
            Err(faults.into_iter().flatten().collect())
        }
    }
}

fn several(
    config: &ConfigMap,
    timeout: Result<Option<DurationTemplate>, ConfigFault>,
    on_timeout: Result<Option<Arc<str>>, ConfigFault>,
) -> Result<Behaviour, Vec<ConfigFault>> {
    let mut faults: Vec<ConfigFault> = ["name", "event", "key", "type", "match", "filter"]
        .into_iter()
        .filter(|field| config.contains_key(*field))
        .map(|field| {
            let message = format!("`{field}` and `events` exclude each other");
            ConfigFault::at(field, message).hint("write it in the entries of `events`")
        })
        .collect();
    let signals = match config.get("events") {
        Some(Value::Array(events)) if (1..=SIGNALS_OF_WAIT_MAX).contains(&events.len()) => {
            let all = events.iter().enumerate().map(|(at, event)| entry(at, event));
            all.filter_map(|entry| entry.map_err(|found| faults.extend(found)).ok()).collect()
        }
        _ => {
            let message = format!(
                "`events` must be a list of 1 to {SIGNALS_OF_WAIT_MAX} `{{name, key, filter}}`"
            );
            faults.push(ConfigFault::at("events", message));
            Vec::new()
        }
    };
    let need = need(config, signals.len());
    match (need, timeout, on_timeout) {
        (Ok(need), Ok(timeout), Ok(on_timeout)) if faults.is_empty() => {
            Ok(Behaviour::Signals(SignalsSpec { signals, need, timeout, on_timeout }))
        }
        (need, timeout, on_timeout) => {
            // The number is judged when the entries are right.
            let need = need.err().filter(|_| faults.is_empty());
            faults.extend([need, timeout.err(), on_timeout.err()].into_iter().flatten());
            Err(faults)
        }
    }
}

fn entry(at: usize, event: &Value) -> Result<SignalSpec, Vec<ConfigFault>> {
    let at = at.to_string();
    let named: Map<String, Value>;
    let fields = match event {
        Value::Object(fields) => fields,
        // A name alone.
        Value::String(_) => {
            named = [("name".to_owned(), event.clone())].into_iter().collect();
            &named
        }
        _ => {
            let message = "an event must be `{name, key, filter}`";
            return Err(vec![fault_at(&["events", &at], message)]);
        }
    };
    let mut faults: Vec<ConfigFault> = fields
        .keys()
        .filter(|key| !matches!(key.as_str(), "name" | "key" | "type" | "match" | "filter"))
        .map(|key| {
            fault_at(&["events", &at, key], format!("an event has no field `{key}`"))
                .hint("it has `name` and `key`, or `type` and `match`; and `filter`")
        })
        .collect();
    let name = match fields.contains_key("type") || fields.contains_key("match") {
        true => published_event(fields, &["events", &at]),
        false => named_signal(fields, &at),
    };
    let filter = fields.get("filter");
    let filter = filter.map(|filter| bare_expression(filter, &["events", &at, "filter"]));
    match (name, filter.transpose()) {
        (Ok(name), Ok(filter)) if faults.is_empty() => Ok(SignalSpec { name, filter }),
        (name, filter) => {
            faults.extend([name.err(), filter.err()].into_iter().flatten());
            Err(faults)
        }
    }
}

/// A signal by its name, in an entry of `events`.
fn named_signal(fields: &Map<String, Value>, at: &str) -> Result<SignalName, ConfigFault> {
    let name = match fields.get("name") {
        Some(Value::String(name)) if !name.trim().is_empty() => {
            let compiled = Template::compile(&Value::String(name.clone()));
            let compiled = compiled.map_err(|fault| fault.message);
            let compiled = refuse_reserved(name).and(compiled);
            compiled.map_err(|fault| fault_at(&["events", at, "name"], fault))?
        }
        Some(_) => {
            let message = "a signal's name must be text and not empty";
            return Err(fault_at(&["events", at, "name"], message));
        }
        None => return Err(fault_at(&["events", at], "an event needs `name` or `type`")),
    };
    Ok(SignalName { name, key: key(fields, &["events", at])?, event: None })
}

/// Events of a type, in a config, or in an entry that is below it.
fn published_event(fields: &Map<String, Value>, above: &[&str]) -> Result<SignalName, ConfigFault> {
    let path = |field: &'static str| above.iter().copied().chain([field]).collect::<Vec<_>>();
    for field in ["name", "event", "key"] {
        if fields.contains_key(field) {
            let message = format!("`{field}` and `type` exclude each other");
            let hint = "`type` is of events that are published, `name` of signals";
            return Err(fault_at(&path(field), message).hint(hint));
        }
    }
    let kind = match fields.get("type") {
        Some(Value::String(kind)) => check_type(kind).map(|()| kind),
        Some(_) => Err("the type of an event must be text".to_owned()),
        None => Err("`match` is about events of a `type`, which is not there".to_owned()),
    };
    let kind = kind.map_err(|fault| fault_at(&path("type"), fault))?;
    let wanted = fields.get("match").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let Value::Object(entries) = &wanted else {
        let message = "`match` must be a map of fields of the event and their values";
        return Err(fault_at(&path("match"), message).hint("such as `match: {data.order: 7}`"));
    };
    // A value with an expression is judged when the wait begins.
    let is_fixed =
        |(_, value): &(&String, &Value)| !value.as_str().is_some_and(|text| text.contains("${{"));
    let fixed = entries.iter().filter(is_fixed).map(|(path, value)| (path.clone(), value.clone()));
    event_name(kind, &fixed.collect()).map_err(|fault| fault_at(&path("match"), fault))?;
    let compile = |value: &Value| Template::compile(value);
    let name = compile(&Value::String(kind.clone()))
        .map_err(|fault| fault_at(&path("type"), fault.message))?;
    let event = compile(&wanted).map_err(|fault| fault_at(&path("match"), fault.message))?;
    Ok(SignalName { name, key: None, event: Some(event) })
}

/// The correlation key in a config, or in an event that is below it.
fn key(fields: &Map<String, Value>, above: &[&str]) -> Result<Option<Template>, ConfigFault> {
    let Some(key) = fields.get("key") else { return Ok(None) };
    let path: Vec<&str> = above.iter().copied().chain(["key"]).collect();
    is_key(Some(key), &path)?;
    Template::compile(key).map(Some).map_err(|fault| fault_at(&path, fault.message))
}

fn need(config: &ConfigMap, count: usize) -> Result<u32, ConfigFault> {
    let all = u32::try_from(count).unwrap_or(u32::MAX);
    let number = match config.get("need") {
        None => return Ok(all),
        Some(Value::String(word)) if word == "all" => return Ok(all),
        Some(Value::String(word)) if word == "any" => return Ok(1),
        Some(Value::Number(number)) => {
            number.as_u64().and_then(|number| u32::try_from(number).ok())
        }
        Some(_) => None,
    };
    match number {
        Some(number) if (1..=all).contains(&number) => Ok(number),
        _ => {
            let message = format!("`need` must be `any`, `all`, or a number from 1 to {count}");
            Err(ConfigFault::at("need", message))
        }
    }
}

fn signal_name(config: &ConfigMap) -> Result<Template, ConfigFault> {
    exactly_one(config, "name", "event")?;
    let field = if config.contains_key("name") { "name" } else { "event" };
    match config.get(field) {
        Some(Value::String(name)) if !name.trim().is_empty() => {
            refuse_reserved(name).map_err(|fault| ConfigFault::at(field, fault))?;
            required_template(config, field)
        }
        _ => Err(ConfigFault::at(field, "a signal's name must be text and not empty")),
    }
}
