//! Budgets: how many tokens the tasks of a program that ask a language model may use.

use serde_json::{Value as Json, json};

/// The most tokens that one request may have.
pub const INPUT_TOKENS: u64 = 60;
/// The most that its reply may have.
pub const OUTPUT_TOKENS: u64 = 40;

/// The budget of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BudgetRule {
    pub tokens: u64,
    /// Is the execution paused when nothing is left, or does the node fail?
    pub pause: bool,
}

impl BudgetRule {
    pub(super) fn json(self) -> Json {
        let on_exhausted = if self.pause { "pause" } else { "fail" };
        json!({ "tokens": self.tokens, "onExhausted": on_exhausted })
    }

    /// In a few words, for people.
    pub(super) fn text(self) -> String {
        let or = if self.pause { "pause" } else { "fail" };
        format!("{} tokens or {or}", self.tokens)
    }
}

/// The config of a task that asks a language model.
pub(super) fn model_config(url: &str) -> Json {
    json!({
        "baseUrl": url,
        "model": "small",
        "messages": [{ "role": "user", "content": "n is ${{ input.n }}" }],
        "maxTokens": OUTPUT_TOKENS,
        "maxInputTokens": INPUT_TOKENS,
    })
}
