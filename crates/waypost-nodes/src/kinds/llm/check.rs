//! The rules of a config that its fields' shapes do not express. A value with a hole passes: it is
//! checked again when it is rendered, by the same functions.

use serde_json::Value;
use waypost_core::budget::Money;
use waypost_core::kind::ConfigFault;

use super::Provider;
use crate::config::{ConfigMap, at_most_one, fault_at, missing};
use crate::http::{check_header_is_free, check_header_names, check_url};

/// Fields of the body that cannot be `options`, and why.
const NOT_OPTIONS: &[(&str, &str)] = &[
    ("messages", "`messages` is a field of the config"),
    ("model", "`model` is a field of the config"),
    ("stream", "replies are not streamed"),
];

/// Options with which a reply may have more tokens than `maxTokens`.
const RAISING_OPTIONS: &[(&str, &str)] = &[
    ("max_tokens", "`maxTokens` limits the reply, and `maxInputTokens` asks for a limit"),
    (
        "max_completion_tokens",
        "`maxTokens` limits the reply, and `maxInputTokens` asks for a limit",
    ),
    ("n", "with `maxInputTokens`, a call has one reply"),
];

pub(super) fn all(config: &ConfigMap) -> Vec<Result<(), ConfigFault>> {
    let Some(provider) = Provider::parse(config.get("provider").and_then(Value::as_str)) else {
        let message = "`provider` must be `openai` or `anthropic`";
        return vec![Err(ConfigFault::at("provider", message))];
    };
    let mut checks = vec![
        check_url(config, "baseUrl", "https://models.example.com/v1"),
        check_model(config),
        config.get("messages").map_or(Err(missing("messages")), |value| messages(value, provider)),
        max_tokens(config.get("maxTokens"), provider),
        max_input_tokens(config.get("maxInputTokens")),
        check_list(config, "tools"),
        check_schema(config),
        check_header_names(config),
        check_header_is_free(config, "key", provider.key_header()),
        config
            .get("options")
            .map_or(Ok(()), |value| options(value, config.contains_key("maxInputTokens"))),
        config.get("prices").map_or(Ok(()), prices),
    ];
    if provider == Provider::Anthropic {
        // A schema is a tool that the model is forced to call, so that it could call no other.
        checks.extend(["tools", "toolChoice"].map(|field| at_most_one(config, "schema", field)));
    }
    checks
}

fn has_hole(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("${{"))
}

fn check_model(config: &ConfigMap) -> Result<(), ConfigFault> {
    match config.get("model") {
        None => Err(missing("model")),
        Some(Value::String(name)) if !name.trim().is_empty() => Ok(()),
        Some(_) => Err(ConfigFault::at("model", "`model` must be text and not empty")),
    }
}

/// The fault of messages that the provider would not understand.
pub(super) fn messages(value: &Value, provider: Provider) -> Result<(), ConfigFault> {
    let hint = "write - { role: user, content: … }";
    match value {
        Value::Array(messages) if !messages.is_empty() => {
            let at = |(at, message)| check_message(at, message, provider);
            messages.iter().enumerate().try_for_each(at)
        }
        value if has_hole(value) => Ok(()),
        Value::Array(_) => {
            Err(ConfigFault::at("messages", "at least one message is required").hint(hint))
        }
        _ => Err(ConfigFault::at("messages", "`messages` must be a list").hint(hint)),
    }
}

fn check_message(at: usize, message: &Value, provider: Provider) -> Result<(), ConfigFault> {
    let at = at.to_string();
    let refuse = |message: String| Err(fault_at(&["messages", &at], message));
    let message = match message {
        Value::Object(message) => message,
        value if has_hole(value) => return Ok(()),
        _ => return refuse("a message must be an object `{role, content}`".into()),
    };
    let roles: &[&str] = match provider {
        Provider::OpenAi => &["system", "developer", "user", "assistant", "tool"],
        Provider::Anthropic => &["user", "assistant"],
    };
    match message.get("role") {
        None => return refuse("the message has no `role`".into()),
        Some(role) if has_hole(role) => {}
        Some(Value::String(role)) if roles.contains(&role.as_str()) => {}
        Some(role) => {
            let message = format!("{role} is not a role; use {}", roles.join(", "));
            let fault = fault_at(&["messages", &at, "role"], message);
            return Err(match role.as_str() {
                Some("system") => fault.hint("put the instructions into the field `system`"),
                _ => fault,
            });
        }
    }
    // A message with nothing but calls of tools has no content.
    if !message.contains_key("content") && !message.contains_key("tool_calls") {
        return refuse("the message has no `content`".into());
    }
    Ok(())
}

/// The fault of a maximum that is no number of tokens, or that the provider needs.
pub(super) fn max_tokens(value: Option<&Value>, provider: Provider) -> Result<(), ConfigFault> {
    match value {
        None if provider == Provider::Anthropic => {
            let message = "`maxTokens` is required by the provider anthropic";
            Err(ConfigFault::at("maxTokens", message))
        }
        None => Ok(()),
        Some(value) if has_hole(value) || value.as_u64().is_some_and(|count| count > 0) => Ok(()),
        Some(_) => Err(ConfigFault::at("maxTokens", "`maxTokens` must be a whole number from 1")),
    }
}

/// The fault of a maximum that is no number of tokens.
pub(super) fn max_input_tokens(value: Option<&Value>) -> Result<(), ConfigFault> {
    match value {
        Some(value) if !has_hole(value) && value.as_u64().is_none_or(|count| count == 0) => {
            let message = "`maxInputTokens` must be a whole number from 1";
            Err(ConfigFault::at("maxInputTokens", message))
        }
        _ => Ok(()),
    }
}

fn check_list(config: &ConfigMap, field: &str) -> Result<(), ConfigFault> {
    match config.get(field) {
        Some(value) if !value.is_array() && !has_hole(value) => {
            Err(ConfigFault::at(field, format!("`{field}` must be a list")))
        }
        _ => Ok(()),
    }
}

fn check_schema(config: &ConfigMap) -> Result<(), ConfigFault> {
    match config.get("schema") {
        Some(value) if !value.is_object() && !has_hole(value) => {
            let message = "`schema` must be a JSON Schema";
            let hint = "write { type: object, properties: … }";
            Err(ConfigFault::at("schema", message).hint(hint))
        }
        _ => Ok(()),
    }
}

/// The fault of options that other fields set, or that change the form of the reply. If what a call
/// may use is limited, they cannot raise the limit.
pub(super) fn options(value: &Value, limited: bool) -> Result<(), ConfigFault> {
    let Value::Object(options) = value else {
        return Err(ConfigFault::at("options", "`options` must be an object"));
    };
    let raising = if limited { RAISING_OPTIONS } else { &[] };
    match NOT_OPTIONS.iter().chain(raising).find(|(name, _)| options.contains_key(*name)) {
        Some((name, reason)) => {
            Err(fault_at(&["options", name], format!("`{name}` cannot be an option: {reason}")))
        }
        None => Ok(()),
    }
}

fn prices(value: &Value) -> Result<(), ConfigFault> {
    let hint = "write { input: 2.5, output: 10 }, per million tokens";
    let refuse = |message: String| Err(ConfigFault::at("prices", message).hint(hint));
    let Value::Object(prices) = value else { return refuse("`prices` must be an object".into()) };
    for name in ["input", "output"] {
        match prices.get(name) {
            None => return refuse(format!("`prices` needs `{name}`")),
            Some(price) if has_hole(price) || Money::from_value(price).is_some() => {}
            Some(_) => {
                let message =
                    format!("`{name}` must be a number, zero or more, with six decimals at most");
                return Err(fault_at(&["prices", name], message));
            }
        }
    }
    match prices.keys().find(|name| !["input", "output"].contains(&name.as_str())) {
        Some(name) => Err(fault_at(&["prices", name], format!("`prices` has no field `{name}`"))),
        None => Ok(()),
    }
}
