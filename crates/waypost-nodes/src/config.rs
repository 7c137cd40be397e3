//! Shared by the kinds' `compile` functions: reading fields, and faults that point at them.
//!
//! Shapes are checked before `compile` is called; the checks here are the last line, so that a kind
//! never has to assume anything about its config.

use std::sync::Arc;

use serde_json::{Map, Value};
use waypost_core::expr::{Expression, Template};
use waypost_core::kind::{Behaviour, ConfigFault, DurationTemplate, Field, KindSpec, Shape};
use waypost_core::published::{key_of, keyed_name};
use waypost_core::slot::SlotClass;
use waypost_core::time::{BadDuration, Millis};

/// A node's config as written.
pub(crate) type ConfigMap = Map<String, Value>;

pub(crate) const fn required(name: &'static str, shape: Shape, summary: &'static str) -> Field {
    Field { name, shape, required: true, summary }
}

pub(crate) const fn optional(name: &'static str, shape: Shape, summary: &'static str) -> Field {
    Field { name, shape, required: false, summary }
}

/// The fault of a field that is missing.
pub(crate) fn missing(field: &str) -> ConfigFault {
    ConfigFault::at(field, format!("`{field}` is required"))
}

/// A trigger as a node. The language has read its fields.
pub(crate) fn trigger(config: &ConfigMap, spec: &KindSpec) -> Result<Behaviour, Vec<ConfigFault>> {
    let needed = spec.fields.iter().filter(|field| field.required).map(|field| field.name);
    let absent: Vec<_> = needed.filter(|name| !config.contains_key(*name)).map(missing).collect();
    if absent.is_empty() { Ok(Behaviour::Trigger { manual: false }) } else { Err(absent) }
}

/// A fault below a field: `cases`, `0`, `when`.
pub(crate) fn fault_at(path: &[&str], message: impl Into<String>) -> ConfigFault {
    let path = path.iter().map(|&key| key.to_owned()).collect();
    ConfigFault { path, message: message.into(), hint: None }
}

/// The field with its holes compiled.
pub(crate) fn template(config: &ConfigMap, field: &str) -> Result<Option<Template>, ConfigFault> {
    let Some(value) = config.get(field) else { return Ok(None) };
    let compiled = Template::compile(value).map_err(|fault| {
        let path = std::iter::once(field.to_owned()).chain(fault.path).collect();
        ConfigFault { path, message: fault.message, hint: None }
    })?;
    Ok(Some(compiled))
}

/// An object of these fields, where they are there, with its holes compiled.
pub(crate) fn fields_template(
    config: &ConfigMap,
    fields: &[&str],
) -> Result<Template, ConfigFault> {
    let some =
        fields.iter().filter_map(|name| Some(((*name).to_owned(), config.get(*name)?.clone())));
    Template::compile(&Value::Object(some.collect())).map_err(|fault| ConfigFault {
        path: fault.path,
        message: fault.message,
        hint: None,
    })
}

/// The field with its holes compiled; it must be there.
pub(crate) fn required_template(config: &ConfigMap, field: &str) -> Result<Template, ConfigFault> {
    template(config, field)?.ok_or_else(|| missing(field))
}

/// May this be the correlation key of a signal? Absent, it may.
pub(crate) fn is_key(key: Option<&Value>, path: &[&str]) -> Result<(), ConfigFault> {
    let Some(key) = key else { return Ok(()) };
    if key.as_str().is_some_and(|text| text.contains("${{")) {
        return Ok(());
    }
    let judged = key_of(key).and_then(|key| keyed_name("signal", &key));
    judged.map(drop).map_err(|fault| fault_at(path, fault))
}

/// The field as a bare expression.
pub(crate) fn expression(
    config: &ConfigMap,
    field: &str,
) -> Result<Option<Expression>, ConfigFault> {
    config.get(field).map(|value| bare_expression(value, &[field])).transpose()
}

/// A bare expression found at `path`.
pub(crate) fn bare_expression(value: &Value, path: &[&str]) -> Result<Expression, ConfigFault> {
    match value {
        // A literal `true` is what YAML makes of an unquoted one; it means itself.
        Value::Bool(_) => Expression::compile(&value.to_string()),
        Value::String(source) => Expression::compile(source),
        _ => return Err(fault_at(path, "must be an expression, written as text")),
    }
    .map_err(|fault| fault_at(path, fault.message))
}

/// The field as a duration: a number of `unit_ms` (of milliseconds if there is none), a text such
/// as `30s`, or a text with an expression that results in either.
pub(crate) fn duration(
    config: &ConfigMap,
    field: &str,
    unit_ms: Option<u32>,
) -> Result<Option<DurationTemplate>, ConfigFault> {
    let Some(value) = config.get(field) else { return Ok(None) };
    let refuse = |error: BadDuration| {
        ConfigFault::at(field, format!("`{field}`: {error}"))
            .hint("write a number of milliseconds, `30s`, `1h 30m` or `PT30S`")
    };
    let of_number = |number: f64| Millis::from_f64(number, f64::from(unit_ms.unwrap_or(1)));
    let fixed = match value {
        Value::Number(number) => of_number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) if text.contains("${{") => {
            let template = required_template(config, field)?;
            return Ok(Some(DurationTemplate::Computed {
                template,
                unit_ms: unit_ms.unwrap_or(1),
            }));
        }
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) => of_number(number),
            Err(_) => match (Millis::parse(text), unit_ms) {
                (Ok(_), Some(_)) => {
                    let message = format!("{text:?} already has a unit: remove `unit`");
                    return Err(ConfigFault::at("unit", message));
                }
                (parsed, _) => parsed,
            },
        },
        _ => Err(BadDuration::Syntax),
    };
    fixed.map(|fixed| Some(DurationTemplate::Fixed(fixed))).map_err(refuse)
}

/// The branch of a timeout; none where it is a failure.
pub(crate) fn on_timeout(config: &ConfigMap) -> Result<Option<Arc<str>>, ConfigFault> {
    let Some(value) = config.get("onTimeout") else { return Ok(None) };
    let branch = value.as_str().map(str::trim).filter(|name| !name.is_empty());
    let branch = branch.ok_or_else(|| {
        ConfigFault::at("onTimeout", "`onTimeout` must be `fail` or the name of a branch")
    })?;
    if branch == "fail" {
        return Ok(None);
    }
    if !config.contains_key("timeout") {
        let message = "`onTimeout` needs a `timeout`";
        return Err(ConfigFault::at("onTimeout", message));
    }
    Ok(Some(branch.into()))
}

/// The faults of fields that exclude each other: exactly one of them must be there.
pub(crate) fn exactly_one(config: &ConfigMap, a: &str, b: &str) -> Result<(), ConfigFault> {
    match (config.contains_key(a), config.contains_key(b)) {
        (false, false) => Err(ConfigFault::at(a, format!("either `{a}` or `{b}` is required"))),
        _ => at_most_one(config, a, b),
    }
}

/// The fault of fields that exclude each other.
pub(crate) fn at_most_one(config: &ConfigMap, a: &str, b: &str) -> Result<(), ConfigFault> {
    if config.contains_key(a) && config.contains_key(b) {
        return Err(ConfigFault::at(b, format!("`{a}` and `{b}` exclude each other")));
    }
    Ok(())
}

/// The fault of a secret in any field but `except`.
pub(crate) fn no_secrets(
    config: &ConfigMap,
    except: Option<&str>,
    message: &str,
    hint: &str,
) -> Result<(), ConfigFault> {
    let mut others = config.iter().filter(|(field, _)| Some(field.as_str()) != except);
    match others.find(|(_, value)| has_secret(value)) {
        Some((field, _)) => Err(ConfigFault::at(field, message).hint(hint)),
        None => Ok(()),
    }
}

fn has_secret(value: &Value) -> bool {
    let mut has_secret = false;
    // A template that does not compile is reported as a fault of its own.
    if let Ok(template) = Template::compile(value) {
        template.visit(&mut |hole| has_secret |= hole.references().mentions("secrets"));
    }
    has_secret
}

/// The fault of a whole number that is not from 1 to `max`.
pub(crate) fn bytes_max(config: &ConfigMap, field: &str, max: u64) -> Result<(), ConfigFault> {
    let Some(value) = config.get(field) else { return Ok(()) };
    match value.as_u64() {
        Some(bytes) if (1..=max).contains(&bytes) => Ok(()),
        _ => Err(ConfigFault::at(field, format!("`{field}` must be a number from 1 to {max}"))),
    }
}

/// The behaviour of an action: its config is rendered whole and handed to the handler.
pub(crate) fn task(
    handler: &str,
    slot: SlotClass,
    config: &ConfigMap,
    checks: impl IntoIterator<Item = Result<(), ConfigFault>>,
) -> Result<Behaviour, Vec<ConfigFault>> {
    let mut faults: Vec<ConfigFault> = checks.into_iter().filter_map(Result::err).collect();
    match Template::compile(&Value::Object(config.clone())) {
        Ok(config) if faults.is_empty() => {
            return Ok(Behaviour::Task { handler: handler.into(), slot: Some(slot), config });
        }
        Ok(_) => {}
        Err(fault) => {
            faults.push(ConfigFault { path: fault.path, message: fault.message, hint: None });
        }
    }
    Err(faults)
}
