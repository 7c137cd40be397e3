//! How long the nodes of a program may take.

use super::containers::GRACE_MS;
use super::{Approval, Kind, N_MAX, Node, Script, Signals};

impl Node {
    /// How long it can take in a prompt world; `None`: without limit.
    pub fn span_ms_max(&self) -> Option<u64> {
        /// How much longer than its timeout a silent attempt is waited for.
        const SILENCE_MS: u64 = 5_000;
        let waits = self.retry.map_or(0, |retry| retry.waits_ms_max());
        let tries = u64::from(self.tries_max());
        let unlimited = match &self.kind {
            Kind::Delay(span) => Some(span.ms(N_MAX)),
            Kind::Wait { timeout_ms, .. }
            | Kind::Signals(Signals { timeout_ms, .. })
            | Kind::Approval(Approval { timeout_ms, .. }) => *timeout_ms,
            Kind::Task(script) => {
                let attempt = match script {
                    Script::Hang => self.timeout_ms.map(|timeout| timeout + SILENCE_MS),
                    _ => Some(0),
                };
                attempt.map(|attempt| attempt * tries + waits)
            }
            Kind::Group(_) | Kind::Loop(_) | Kind::Map(_) | Kind::Operation(_) => {
                self.body_span_ms_max(tries, waits)
            }
            Kind::Child(call) => call.span_ms_max().map(|span| span * tries + waits),
            Kind::Notify(notify) => notify.span_ms_max(),
            _ => Some(0),
        };
        let grace = if self.body().is_some() { GRACE_MS } else { 0 };
        match (unlimited, self.deadline_ms.map(|deadline| deadline + grace)) {
            (Some(span), Some(deadline)) => Some(span.min(deadline)),
            (span, deadline) => span.or(deadline),
        }
    }
}
