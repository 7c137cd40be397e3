//! Replies of the chat completions API.

use serde::Deserialize;
use serde_json::Value;
use waypost_core::json::Json;

use super::{CUT_OFF, LlmReply, TokenUsage, ToolCall, Unreadable, parse_structured};

#[derive(Deserialize)]
struct Completion {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Json,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Called>>,
}

#[derive(Deserialize)]
struct Called {
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    /// JSON in a string. Some servers give the JSON itself, or nothing where there are none.
    arguments: Option<Json>,
}

#[derive(Deserialize)]
struct Counted {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

pub(super) fn read(body: &Json, has_schema: bool) -> Result<LlmReply, Unreadable> {
    // By itself, so that tokens are counted where the rest cannot be read.
    let usage = serde_json::from_str::<Counted>(body.text()).ok().and_then(|counted| counted.usage);
    let usage = usage.map_or_else(TokenUsage::default, |usage| TokenUsage {
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
        total_tokens: usage.total_tokens,
    });
    read_choice(body, usage, has_schema).map_err(|error| Unreadable { usage, ..error })
}

fn read_choice(body: &Json, usage: TokenUsage, has_schema: bool) -> Result<LlmReply, Unreadable> {
    let Completion { model, choices } = serde_json::from_str(body.text())?;
    let Some(Choice { message, finish_reason }) = choices.into_iter().next() else {
        return Err(Unreadable { reason: "it has no `choices`".to_owned(), usage });
    };
    let Message { content, refusal, tool_calls } = serde_json::from_str(message.text())?;
    let text = content.as_ref().and_then(text_of);
    let tool_calls: Vec<ToolCall> = tool_calls.into_iter().flatten().map(tool_call).collect();
    let finish_reason = finish_reason.map(common_reason);
    let structured = match (&refusal, finish_reason.as_deref()) {
        _ if !has_schema => Ok(None),
        (Some(refusal), _) => Err(format!("the model refused to reply: {refusal}")),
        (None, Some("content-filter")) => {
            Err("the provider's content filter stopped the reply".to_owned())
        }
        // The reply comes after the results of the calls.
        _ if !tool_calls.is_empty() => Ok(None),
        (None, Some("length")) => Err(CUT_OFF.to_owned()),
        _ => parse_structured(text.as_deref()),
    };
    Ok(LlmReply { text, message, tool_calls, finish_reason, model, usage, structured })
}

/// A content's text: some servers give it in parts.
fn text_of(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<&str> =
                parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            (!texts.is_empty()).then(|| texts.concat())
        }
        _ => None,
    }
}

fn tool_call(called: Called) -> ToolCall {
    let Function { name, arguments } = called.function;
    let given = arguments.unwrap_or_else(Json::null);
    let arguments = match given.to_value() {
        // Models make mistakes in them: what is not JSON is given as text.
        Ok(Value::String(text)) => Json::parse(&text).unwrap_or(given),
        _ => given,
    };
    ToolCall { id: called.id, name, arguments }
}

/// The name that both forms share.
fn common_reason(reason: String) -> String {
    match reason.as_str() {
        "tool_calls" | "function_call" => "tool-calls".to_owned(),
        "content_filter" => "content-filter".to_owned(),
        _ => reason,
    }
}
