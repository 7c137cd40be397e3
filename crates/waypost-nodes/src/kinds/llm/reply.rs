//! The reply: a response read in the form of its provider, and the node's output or failure.

mod anthropic;
mod openai;

use reqwest::Response;
use serde::Serialize;
use waypost_core::budget::{Prices, TokensUsed};
use waypost_core::failure::Failure;
use waypost_core::json::Json;

use super::Provider;
use super::request::LlmCall;
use crate::http::{EXCERPT_BYTES_MAX, Refusal, read_body};
use crate::outcome::{self, INVALID_RESPONSE, LLM_OUTPUT};

/// Tokens of a request and its reply, as far as the provider counts them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

impl TokenUsage {
    fn is_known(self) -> bool {
        self != Self::default()
    }

    /// The cost as a number of JSON: the shortest one that means these millionths.
    fn cost(self, prices: Prices) -> Option<Json> {
        let (input, output) = (self.input_tokens?, self.output_tokens?);
        Json::parse(&prices.cost(TokensUsed { input, output }).to_string()).ok()
    }
}

/// A reply in the common form.
struct LlmReply {
    text: Option<String>,
    message: Json,
    tool_calls: Vec<ToolCall>,
    finish_reason: Option<String>,
    model: Option<String>,
    usage: TokenUsage,
    /// The text of the JSON that a schema asked for, or why there is none.
    structured: Result<Option<Json>, String>,
}

#[derive(Serialize)]
struct ToolCall {
    id: Option<String>,
    name: String,
    arguments: Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LlmOutput<'a> {
    text: Option<&'a str>,
    message: &'a Json,
    tool_calls: &'a [ToolCall],
    finish_reason: Option<&'a str>,
    model: Option<&'a str>,
    usage: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Json>,
}

/// What a failure keeps of a reply that was paid for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplyExcerpt<'a> {
    text: Option<&'a str>,
    finish_reason: Option<&'a str>,
    model: Option<&'a str>,
    usage: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Json>,
}

/// Why a body is no reply.
struct Unreadable {
    reason: String,
    usage: TokenUsage,
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self { reason: error.to_string(), usage: TokenUsage::default() }
    }
}

/// The provider's own words about an error. Both forms have them at `error.message`, some servers at
/// `error`.
fn error_message(body: &Json) -> Option<String> {
    let body = body.to_value().ok()?;
    let error = body.get("error")?;
    error.get("message").unwrap_or(error).as_str().map(str::to_owned)
}

/// Reads a response to the end and judges it.
pub(super) async fn read(llm: &LlmCall, mut response: Response) -> Result<Json, Failure> {
    let call = &llm.call;
    if !response.status().is_success() {
        let refusal = Refusal::read(response).await;
        let failure = refusal.failure(call);
        return Err(match error_message(&refusal.details.body) {
            Some(reason) => {
                Failure { message: format!("{}: {reason}", failure.message), ..failure }
            }
            None => failure,
        });
    }
    let (bytes, _) = read_body(call, &mut response, usize::MAX).await?;
    let unreadable = |reason: &str| {
        let message = format!("{}: the reply cannot be read: {reason}", call.describe());
        Failure::permanent(INVALID_RESPONSE, message)
    };
    let body = Json::parse_bytes(&bytes).map_err(|error| unreadable(&error.to_string()))?;
    let reply = match llm.provider {
        Provider::OpenAi => openai::read(&body, llm.has_schema),
        Provider::Anthropic => anthropic::read(&body, llm.has_schema),
    };
    let reply = reply.map_err(|Unreadable { reason, usage }| {
        let failure = unreadable(&error_message(&body).unwrap_or(reason));
        let excerpt = ReplyExcerpt {
            text: None,
            finish_reason: None,
            model: None,
            usage,
            cost: llm.prices.and_then(|prices| usage.cost(prices)),
        };
        let details = usage.is_known().then(|| outcome::output(&excerpt).ok()).flatten();
        Failure { details, ..failure }
    })?;
    output(llm, &reply)
}

fn output(llm: &LlmCall, reply: &LlmReply) -> Result<Json, Failure> {
    let LlmReply { text, message, tool_calls, finish_reason, model, usage, structured } = reply;
    let (text, finish_reason, model) =
        (text.as_deref(), finish_reason.as_deref(), model.as_deref());
    let cost = llm.prices.and_then(|prices| usage.cost(prices));
    let value = structured.as_ref().map_err(|reason| {
        let text = text.and_then(|text| text.get(..text.floor_char_boundary(EXCERPT_BYTES_MAX)));
        let excerpt =
            ReplyExcerpt { text, finish_reason, model, usage: *usage, cost: cost.clone() };
        let message = format!("{}: {reason}", llm.call.describe());
        Failure {
            details: outcome::output(&excerpt).ok(),
            ..Failure::transient(LLM_OUTPUT, message)
        }
    })?;
    outcome::output(&LlmOutput {
        text,
        message,
        tool_calls,
        finish_reason,
        model,
        usage: *usage,
        cost,
        value: value.as_ref(),
    })
}

const CUT_OFF: &str = "the reply was cut off before the end of its JSON; raise `maxTokens`";

/// The JSON that a schema asked for, from a text.
fn parse_structured(text: Option<&str>) -> Result<Option<Json>, String> {
    let text = text.ok_or("the reply has no text, and `schema` asks for JSON")?;
    let parsed = Json::parse(text.trim());
    parsed.map(Some).map_err(|error| format!("the reply is not JSON: {error}"))
}
