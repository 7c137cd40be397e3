//! `llm`: a request to a language model as a node.
//!
//! ```text
//!   task ─▶ LlmCall (request.rs) ─▶ crate::http ─▶ reply (reply.rs) ─▶ {text, toolCalls, usage, …}
//!           body in the form of                    read in the form of
//!           the provider                           the provider
//! ```
//!
//! The two forms differ in names, not in meaning: an output looks the same for both. What has no
//! common meaning (contents, tools, options) is passed through unread.

mod check;
mod reply;
mod request;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};
use waypost_core::slot::SlotClass;
use waypost_core::time::Millis;
use waypost_ports::handler::{Handler, Task};

use self::request::LlmCall;
use crate::NodeKind;
use crate::config::{self, ConfigMap, optional, required};
use crate::http::{self, Clients};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile,
    handler: Some(|settings, _| {
        let clients = Arc::new(Clients::new(settings.egress.clone()));
        Arc::new(Prompter { clients, timeout: settings.call_timeout })
    }),
};

/// The largest reply, after decompression. It is parsed in memory; the engine keeps a large output as
/// a blob.
const REPLY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The forms of requests and replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Provider {
    /// Chat completions, as many other servers have them too.
    OpenAi,
    /// Messages.
    Anthropic,
}

impl Provider {
    fn parse(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("openai") => Some(Self::OpenAi),
            Some("anthropic") => Some(Self::Anthropic),
            Some(_) => None,
        }
    }

    /// The header that carries the key.
    fn key_header(self) -> &'static str {
        match self {
            Self::OpenAi => "authorization",
            Self::Anthropic => "x-api-key",
        }
    }
}

static SPEC: KindSpec = KindSpec {
    name: "llm",
    aliases: &[],
    family: Family::Action,
    body: None,
    summary: "Asks a language model; its output is `{text, message, toolCalls, finishReason, model, \
              usage}`.",
    fields: &[
        optional(
            "provider",
            Shape::OneOf(&["openai", "anthropic"]),
            "The form of requests and replies: chat completions as of OpenAI, which many servers \
             have, or messages as of Anthropic; openai if absent.",
        ),
        optional(
            "baseUrl",
            Shape::Text,
            "Where the API is: https://api.openai.com/v1 or https://api.anthropic.com if absent.",
        ),
        optional("key", Shape::Text, "The API's key, usually `${{ secrets.name }}`."),
        required("model", Shape::Text, "The model's name, as the provider has it."),
        required(
            "messages",
            Shape::Any,
            "The conversation: a list of `{role, content}`; contents are passed through.",
        ),
        optional("system", Shape::Text, "Instructions that precede the conversation."),
        optional(
            "maxTokens",
            Shape::Number,
            "The most tokens that the reply may have; required by the provider anthropic.",
        ),
        optional(
            "maxInputTokens",
            Shape::Number,
            "The most tokens that the request may have, counting each byte of its body as one: a larger \
             one is not sent. Required, as `maxTokens`, if the definition has a `budget`, which both are \
             reserved of.",
        ),
        optional("temperature", Shape::Number, "How random the reply is; the model's if absent."),
        optional("tools", Shape::Any, "The tools that the model may call: a list, passed through."),
        optional("toolChoice", Shape::Any, "Which tool the model must call, passed through."),
        optional(
            "schema",
            Shape::Any,
            "A JSON Schema, of an object, for the reply, which is then JSON and is in the output as \
             `value`.",
        ),
        optional("headers", Shape::Object, "Further headers; a null value leaves one out."),
        optional("options", Shape::Object, "Further fields of the request's body."),
        optional(
            "prices",
            Shape::Object,
            "`{input, output}`: money per million tokens; the output then has the `cost`. If absent, those \
             of the model in the definition's `budget` count, which the output does not show.",
        ),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    config::task(SPEC.name, SlotClass::Io, config, check::all(config))
}

struct Prompter {
    clients: Arc<Clients>,
    timeout: Millis,
}

impl Handler for Prompter {
    fn checks_secrets(&self) -> bool {
        true
    }

    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        let clients = Arc::clone(&self.clients);
        let limit = task.timeout.unwrap_or(self.timeout);
        Box::pin(async move {
            let work = async {
                let mut llm = LlmCall::prepare(&task)?;
                let response = http::exchange(&clients, None, &mut llm.call).await?;
                reply::read(&llm, response).await
            };
            http::attempt(limit, &cancel, work).await
        })
    }
}
