//! Shared by handlers: the names of their failures, reading a rendered config and assembling an
//! output.

use serde::Serialize;
use serde::de::DeserializeOwned;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::OUTPUT_BYTES_MAX;
use waypost_core::time::Millis;
use waypost_ports::handler::Task;

/// The other side's answer cannot be made sense of.
pub(crate) const INVALID_RESPONSE: &str = "invalid_response";
/// A language model's reply is not the JSON that was asked for.
pub(crate) const LLM_OUTPUT: &str = "llm_output";
/// A call was redirected more often than it may.
pub(crate) const TOO_MANY_REDIRECTS: &str = "too_many_redirects";
/// A command ended with another code than 0.
pub(crate) const EXIT_CODE: &str = "exit_code";
/// A command could not be started.
pub(crate) const SPAWN: &str = "spawn";
/// Commands are switched off here.
pub(crate) const SHELL_DISABLED: &str = "shell_disabled";
pub(crate) const CANCELLED: &str = "cancelled";

/// The failure kinds of handlers, besides those of the engine.
pub(crate) const HANDLER_KINDS: &[&str] = &[
    INVALID_RESPONSE,
    LLM_OUTPUT,
    TOO_MANY_REDIRECTS,
    EXIT_CODE,
    SPAWN,
    SHELL_DISABLED,
    CANCELLED,
];

pub(crate) fn cancelled() -> Failure {
    Failure::permanent(CANCELLED, "the attempt was cancelled")
}

/// The failure of a task that took too long.
pub(crate) fn timed_out(limit: Millis) -> Failure {
    Failure::transient(kind::TIMEOUT, format!("the attempt took longer than {limit}"))
}

/// A fault in the config that appears only once its expressions are evaluated.
pub(crate) fn invalid_config(message: impl Into<String>) -> Failure {
    Failure::permanent(kind::INVALID_CONFIG, message)
}

pub(crate) fn read_config<T: DeserializeOwned>(task: &Task) -> Result<T, Failure> {
    serde_json::from_str(task.config.text())
        .map_err(|error| invalid_config(format!("the config is not valid: {error}")))
}

/// A scalar or tree as text: strings as they are, all else as JSON, numbers to the letter.
pub(crate) fn text_of(json: &Json) -> String {
    serde_json::from_str::<String>(json.text()).unwrap_or_else(|_| json.text().to_owned())
}

/// Assembles an output. Refuses what no log could keep: values nested too deep or too large.
pub(crate) fn output(value: &impl Serialize) -> Result<Json, Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::permanent(INVALID_RESPONSE, error.to_string()))?;
    if text.len() > OUTPUT_BYTES_MAX {
        let message =
            format!("the output has {} bytes as JSON; the limit is {OUTPUT_BYTES_MAX}", text.len());
        return Err(Failure::permanent(kind::TOO_LARGE, message));
    }
    // Its parts were checked one by one.
    Json::parse_own(&text).map_err(|error| {
        Failure::permanent(INVALID_RESPONSE, format!("the output cannot be stored: {error}"))
    })
}
