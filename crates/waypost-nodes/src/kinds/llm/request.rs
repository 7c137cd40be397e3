//! The request: a task's config in the form of its provider, ready to be sent.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::json;
use waypost_core::budget::{Money, Prices};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::{BadJson, Json};
use waypost_core::kind::ConfigFault;
use waypost_ports::handler::Task;

use super::{Provider, REPLY_BYTES_MAX, check};
use crate::http::{Call, CallBody, read_headers, unfit_for_header};
use crate::outcome::{invalid_config, read_config, text_of};

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// The host whose models know the maximum of tokens by its newer name only; most other servers with
/// this form know the older one only.
const OPENAI_HOST: &str = "api.openai.com";
/// The name of the schema, and of the tool that an Anthropic model calls with the reply.
pub(super) const SCHEMA_NAME: &str = "reply";

/// A call, and how to read the reply. Not to be printed: it may be full of secrets.
pub(super) struct LlmCall {
    pub(super) call: Call,
    pub(super) provider: Provider,
    pub(super) has_schema: bool,
    pub(super) prices: Option<Prices>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rendered {
    provider: Option<String>,
    base_url: Option<String>,
    /// Not as a String: an error of its type would show it.
    key: Option<Json>,
    model: String,
    messages: Json,
    system: Option<Json>,
    max_tokens: Option<Json>,
    max_input_tokens: Option<Json>,
    temperature: Option<Json>,
    tools: Option<Json>,
    tool_choice: Option<Json>,
    schema: Option<Json>,
    #[serde(default)]
    headers: BTreeMap<String, Json>,
    options: Option<Json>,
    prices: Option<Json>,
}

impl LlmCall {
    pub(super) fn prepare(task: &Task) -> Result<Self, Failure> {
        let rendered: Rendered = read_config(task)?;
        let provider = Provider::parse(rendered.provider.as_deref())
            .ok_or_else(|| invalid_config("`provider` must be `openai` or `anthropic`"))?;
        check_rendered(&rendered, provider)?;
        let url = endpoint(rendered.base_url.as_deref(), provider);
        let mut headers = read_headers(&rendered.headers, &task.secrets)?;
        if let Some(key) = &rendered.key {
            let (name, value) = credentials(&text_of(key), provider, task)?;
            headers.insert(name, value);
        }
        let body = match provider {
            Provider::OpenAi => openai_body(&rendered, &url),
            Provider::Anthropic => {
                default_version(&mut headers);
                anthropic_body(&rendered)
            }
        };
        let body = body.map_err(|error| invalid_config(format!("cannot be sent: {error}")))?;
        check_size(&rendered, body.bytes())?;
        let prices = rendered.prices.as_ref().map(read_prices).transpose()?;
        let body = (CallBody::Text(body.text().to_owned()), "application/json");
        let mut call = Call::new(task, Method::POST, &url, headers, Some(body))?;
        // A prompt goes to the host that the definition names and to no other.
        call.redirects_max = 0;
        call.response_bytes_max = REPLY_BYTES_MAX;
        let has_schema = rendered.schema.is_some();
        Ok(Self { call, provider, has_schema, prices })
    }
}

/// What could not be checked before expressions were evaluated.
fn check_rendered(rendered: &Rendered, provider: Provider) -> Result<(), Failure> {
    let bad_json = |error: BadJson| invalid_config(error.to_string());
    let faulty = |fault: ConfigFault| {
        invalid_config(format!("at `{}`: {}", fault.path.join("."), fault.message))
    };
    if rendered.model.trim().is_empty() {
        return Err(invalid_config("`model` is empty"));
    }
    let messages = rendered.messages.to_value().map_err(bad_json)?;
    check::messages(&messages, provider).map_err(faulty)?;
    if let Some(options) = &rendered.options {
        let limited = rendered.max_input_tokens.is_some();
        check::options(&options.to_value().map_err(bad_json)?, limited).map_err(faulty)?;
    }
    let max_tokens = rendered.max_tokens.as_ref().map(Json::to_value).transpose();
    check::max_tokens(max_tokens.map_err(bad_json)?.as_ref(), provider).map_err(faulty)
}

/// A request may have as many tokens as its body has bytes: no tokenizer makes more. What it will have is
/// known to the provider alone, and a budget must not depend on a guess.
fn check_size(rendered: &Rendered, bytes: usize) -> Result<(), Failure> {
    let Some(most) = &rendered.max_input_tokens else { return Ok(()) };
    let most: u64 = serde_json::from_str(most.text())
        .map_err(|_| invalid_config("`maxInputTokens` must be a whole number from 1"))?;
    if bytes as u64 <= most {
        return Ok(());
    }
    let message = format!(
        "the request has {bytes} bytes, each of which may be a token, and `maxInputTokens` is {most}; it \
         was not sent: raise `maxInputTokens`, or shorten the messages"
    );
    Err(Failure { unsent: true, ..Failure::permanent(kind::TOO_LARGE, message) })
}

fn read_prices(prices: &Json) -> Result<Prices, Failure> {
    let prices = prices.to_value().map_err(|error| invalid_config(error.to_string()))?;
    let price = |name: &str| {
        prices.get(name).and_then(Money::from_value).ok_or_else(|| {
            let message = format!(
                "`{name}` of `prices` must be a number, zero or more, with six decimals at most"
            );
            invalid_config(message)
        })
    };
    Ok(Prices { input: price("input")?, output: price("output")? })
}

/// The URL of the API's one path that is used. A query of the base stays at the end.
fn endpoint(base: Option<&str>, provider: Provider) -> String {
    let (default, path) = match provider {
        Provider::OpenAi => ("https://api.openai.com/v1", "/chat/completions"),
        Provider::Anthropic => ("https://api.anthropic.com", "/v1/messages"),
    };
    let base = base.unwrap_or(default);
    match base.split_once('?') {
        Some((base, query)) => format!("{}{path}?{query}", base.trim_end_matches('/')),
        None => format!("{}{path}", base.trim_end_matches('/')),
    }
}

fn credentials(
    key: &str,
    provider: Provider,
    task: &Task,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let name = HeaderName::from_static(provider.key_header());
    let text = match provider {
        Provider::OpenAi => format!("Bearer {key}"),
        Provider::Anthropic => key.to_owned(),
    };
    let mut value = HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| unfit_for_header(&name, &text, &task.secrets))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn default_version(headers: &mut HeaderMap) {
    headers.entry(ANTHROPIC_VERSION).or_insert(HeaderValue::from_static("2023-06-01"));
}

fn openai_body(rendered: &Rendered, url: &str) -> Result<Json, BadJson> {
    let is_openai = Url::parse(url).is_ok_and(|url| url.host_str() == Some(OPENAI_HOST));
    let max_tokens = if is_openai { "max_completion_tokens" } else { "max_tokens" };
    let messages = match &rendered.system {
        None => rendered.messages.clone(),
        Some(system) => {
            let message = json!({ "role": "system", "content": text_of(system) });
            let mut messages = vec![Json::from_value(&message)];
            messages.extend(items(&rendered.messages)?);
            Json::list(messages.iter())?
        }
    };
    let format = rendered.schema.as_ref().map(|schema| {
        let strict = Json::from_value(&json!(true));
        let name = Json::from_value(&json!(SCHEMA_NAME));
        let fields = [("name", name), ("strict", strict), ("schema", schema.clone())];
        let kind = Json::from_value(&json!("json_schema"));
        Json::object(fields.into_iter())
            .and_then(|inner| Json::object([("type", kind), ("json_schema", inner)].into_iter()))
    });
    let mut body = common_fields(rendered, messages);
    body.extend(present([
        (max_tokens, rendered.max_tokens.clone()),
        ("tool_choice", rendered.tool_choice.clone()),
        ("response_format", format.transpose()?),
    ]));
    with_options(body, rendered)
}

fn anthropic_body(rendered: &Rendered) -> Result<Json, BadJson> {
    let mut body = common_fields(rendered, rendered.messages.clone());
    body.extend(present([
        ("max_tokens", rendered.max_tokens.clone()),
        ("system", rendered.system.clone()),
        ("tool_choice", rendered.tool_choice.clone()),
    ]));
    if let Some(schema) = &rendered.schema {
        let description = Json::from_value(&json!("Gives the reply."));
        let name = Json::from_value(&json!(SCHEMA_NAME));
        let fields =
            [("name", name), ("description", description), ("input_schema", schema.clone())];
        let tool = Json::object(fields.into_iter())?;
        body.insert("tools".to_owned(), Json::list([&tool].into_iter())?);
        let choice = Json::from_value(&json!({ "type": "tool", "name": SCHEMA_NAME }));
        body.insert("tool_choice".to_owned(), choice);
    }
    with_options(body, rendered)
}

type BodyFields = BTreeMap<String, Json>;

fn common_fields(rendered: &Rendered, messages: Json) -> BodyFields {
    present([
        ("model", Some(Json::from_value(&json!(rendered.model)))),
        ("messages", Some(messages)),
        ("temperature", rendered.temperature.clone()),
        ("tools", rendered.tools.clone()),
    ])
    .collect()
}

fn present<const N: usize>(
    fields: [(&'static str, Option<Json>); N],
) -> impl Iterator<Item = (String, Json)> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

/// The body, in which options replace what other fields set.
fn with_options(mut body: BodyFields, rendered: &Rendered) -> Result<Json, BadJson> {
    if let Some(options) = &rendered.options {
        let options: BodyFields = serde_json::from_str(options.text())
            .map_err(|error| BadJson::from(error.to_string().as_str()))?;
        body.extend(options);
    }
    Json::object(body.into_iter())
}

fn items(list: &Json) -> Result<Vec<Json>, BadJson> {
    serde_json::from_str(list.text()).map_err(|error| BadJson::from(error.to_string().as_str()))
}
