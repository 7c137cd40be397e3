//! Replies of the messages API.

use serde::Deserialize;
use serde_json::json;
use waypost_core::json::Json;

use super::super::request::SCHEMA_NAME;
use super::{CUT_OFF, LlmReply, TokenUsage, ToolCall, Unreadable};

#[derive(Deserialize)]
struct Messaged {
    model: Option<String>,
    content: Json,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Block {
    r#type: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
}

#[derive(Deserialize)]
struct Counted {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Written to the cache, and read from it: not among the input's.
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let cached = [usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
        let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
        let input_tokens = usage.input_tokens.map(|input| input.saturating_add(cached));
        let total_tokens =
            input_tokens.zip(usage.output_tokens).map(|(a, b): (u64, u64)| a.saturating_add(b));
        Self { input_tokens, output_tokens: usage.output_tokens, total_tokens }
    }
}

pub(super) fn read(body: &Json, has_schema: bool) -> Result<LlmReply, Unreadable> {
    // By itself, so that tokens are counted where the rest cannot be read.
    let usage = serde_json::from_str::<Counted>(body.text()).ok().and_then(|counted| counted.usage);
    let usage = usage.map(TokenUsage::from).unwrap_or_default();
    read_blocks(body, usage, has_schema).map_err(|error| Unreadable { usage, ..error })
}

fn read_blocks(body: &Json, usage: TokenUsage, has_schema: bool) -> Result<LlmReply, Unreadable> {
    let Messaged { model, content, stop_reason } = serde_json::from_str(body.text())?;
    let blocks: Vec<Block> = serde_json::from_str(content.text())?;
    let (mut texts, mut tool_calls, mut given) = (Vec::new(), Vec::new(), None);
    for block in blocks {
        match (block.r#type.as_str(), block.text, block.name) {
            ("text", Some(text), _) => texts.push(text),
            ("tool_use", _, Some(name)) => {
                let arguments = block.input.unwrap_or_else(Json::null);
                if has_schema && name == SCHEMA_NAME {
                    given = Some(arguments);
                } else {
                    tool_calls.push(ToolCall { id: block.id, name, arguments });
                }
            }
            _ => {}
        }
    }
    let text = (!texts.is_empty()).then(|| texts.concat());
    let mut finish_reason = stop_reason.map(common_reason);
    let structured = match (given, finish_reason.as_deref()) {
        _ if !has_schema => Ok(None),
        (_, Some("content-filter")) => Err("the model refused to reply".to_owned()),
        (_, Some("length")) => Err(CUT_OFF.to_owned()),
        (Some(given), _) => Ok(Some(given)),
        (None, _) => Err("the reply has no JSON, and `schema` asks for it".to_owned()),
    };
    // The call that carries the JSON is the end of the reply, and its text.
    let text = match &structured {
        Ok(Some(given)) => {
            finish_reason = Some("stop".to_owned());
            Some(given.text().to_owned())
        }
        _ => text,
    };
    let role = Json::from_value(&json!("assistant"));
    let message = Json::object([("role", role), ("content", content)].into_iter())
        .map_err(|error| Unreadable { reason: error.to_string(), usage })?;
    Ok(LlmReply { text, message, tool_calls, finish_reason, model, usage, structured })
}

/// The name that both forms share.
fn common_reason(reason: String) -> String {
    let common = match reason.as_str() {
        "end_turn" | "stop_sequence" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool-calls",
        "refusal" => "content-filter",
        _ => return reason,
    };
    common.to_owned()
}
