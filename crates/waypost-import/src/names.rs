//! ScriptNames: ids of nodes, handlers, kinds of failures and variables, made from names of the source.

use std::collections::HashSet;

use waypost_core::failure::kind::RESERVED;

/// Characters of an id, a handler's name and a failure's kind.
const CHARS_MAX: usize = 64;
/// Characters of a workflow's name.
const WORKFLOW_CHARS_MAX: usize = 128;
/// Kinds of failures that handlers use themselves, besides those of the engine.
const HANDLER_KINDS: &[&str] = &[
    "connection",
    "http",
    "fail_when",
    "retry_when",
    "egress_denied",
    "secret_host",
    "invalid_response",
    "too_many_redirects",
    "llm_output",
    "secret",
    "exit_code",
    "spawn",
    "shell_disabled",
];

/// The ids of one definition, none of them used twice.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    taken: HashSet<String>,
}

impl Ids {
    /// An id like this name that is still free.
    pub(crate) fn fresh(&mut self, name: &str) -> String {
        let base = identifier(name);
        if self.taken.insert(base.clone()) {
            return base;
        }
        for number in 2_u32.. {
            let suffix = format!("_{number}");
            let kept: String = base.chars().take(CHARS_MAX - suffix.len()).collect();
            let id = format!("{kept}{suffix}");
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
        base
    }

    /// An id for something that belongs to a node.
    pub(crate) fn beside(&mut self, id: &str, what: &str) -> String {
        let kept: String = id.chars().take(CHARS_MAX - what.len() - 1).collect();
        self.fresh(&format!("{kept}_{what}"))
    }
}

/// Letters, digits and `_`, beginning with a letter or `_`.
pub(crate) fn identifier(name: &str) -> String {
    let word: String =
        name.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let word = word.trim_matches('_');
    let word = if word.is_empty() { "node" } else { word };
    let prefix = if word.starts_with(|c: char| c.is_ascii_digit()) { "n" } else { "" };
    format!("{prefix}{word}").chars().take(CHARS_MAX).collect()
}

/// The name of a handler: lower case, and `.` between words that were apart.
pub(crate) fn handler(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let word: String =
        name.chars().map(|c| if kept(c) { c.to_ascii_lowercase() } else { '-' }).collect();
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let word = if word.is_empty() { "task" } else { word };
    word.chars().take(CHARS_MAX).collect()
}

/// The kind of a failure: `OutOfStock` becomes `out_of_stock`.
pub(crate) fn failure_kind(name: &str) -> String {
    let mut kind = String::new();
    let mut before_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && before_lower {
            kind.push('_');
        }
        before_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        kind.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    }
    let kind = kind.trim_matches('_');
    let begins = kind.starts_with(|c: char| c.is_ascii_lowercase());
    let taken = RESERVED.contains(&kind) || HANDLER_KINDS.contains(&kind);
    let prefix = if begins && !taken { "" } else { "error_" };
    format!("{prefix}{kind}").chars().take(CHARS_MAX).collect()
}

/// The name of a workflow.
pub(crate) fn workflow(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let word: String = name.trim().chars().map(|c| if kept(c) { c } else { '-' }).collect();
    let word = word.trim_start_matches(['-', '.']);
    let word = if word.is_empty() { "workflow" } else { word };
    word.chars().take(WORKFLOW_CHARS_MAX).collect()
}

/// The name of a secret: letters, digits and `_`.
pub(crate) fn secret(name: &str) -> String {
    identifier(name).to_ascii_lowercase()
}
