//! The trace: what happened, in order. Two runs of one seed must have equal traces.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What happened so far: always as a hash, and as text on request.
pub struct Trace {
    lines: Option<Vec<String>>,
    hash: DefaultHasher,
}

impl Trace {
    /// An empty trace, with text or without.
    pub fn new(text: bool) -> Self {
        // The hasher without random keys: equal in every process.
        Self { lines: text.then(Vec::new), hash: DefaultHasher::new() }
    }

    /// Records an event: its time, a word, some numbers; and its text for people.
    pub fn note(
        &mut self,
        ms: u64,
        what: &'static str,
        numbers: &[u64],
        tell: impl FnOnce() -> String,
    ) {
        (ms, what, numbers).hash(&mut self.hash);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9}.{:03} s  {what:<10} {}", ms / 1000, ms % 1000, tell()));
        }
    }

    /// Equal for two runs of one seed.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The text.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
