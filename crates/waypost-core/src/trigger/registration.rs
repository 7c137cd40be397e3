//! A trigger as a deploy registers it: where it begins, and when it is due.

use serde_json::json;

use super::{
    PollCursor, ScheduleCursor, StreamCursor, Throttle, Trigger, TriggerCursor, TriggerKind,
    WindowMode,
};
use crate::json::Json;
use crate::time::Timestamp;
use std::sync::Arc;

/// What a trigger's row begins with.
#[derive(Clone, PartialEq, Debug)]
pub struct Registration {
    /// A digest of what its cursor depends on: a trigger whose digest has changed begins anew.
    pub timing: [u8; 32],
    pub cursor: TriggerCursor,
    /// Jitter included.
    pub next_due: Option<Timestamp>,
    /// See [`Trigger::topics`].
    pub topics: Vec<Arc<str>>,
    /// What holds its events back, for those that wait already.
    pub throttle: Option<Throttle>,
}

impl Trigger {
    /// Its identity in a text, from which jitter is made: names such as `nightly` are frequent, and equal
    /// ones must not fire at the same moment.
    pub fn jitter_key(&self, workflow: &str) -> String {
        format!("{workflow}/{}", self.name)
    }

    /// What a deploy at `now` registers.
    pub fn registration(&self, workflow: &str, now: Timestamp) -> Registration {
        let (cursor, next_due) = match &self.kind {
            TriggerKind::Schedule(schedule) => {
                let cursor = ScheduleCursor {
                    after: now,
                    waiting: Vec::new(),
                    previous: None,
                    reached: None,
                    backfilled: None,
                    backfills: Vec::new(),
                };
                let next = schedule.schedule.next_after(now);
                let key = self.jitter_key(workflow);
                let due = next.map(|next| schedule.schedule.jittered(&key, next.at));
                (TriggerCursor::Schedule(cursor), due)
            }
            TriggerKind::Poll(poll) => {
                let cursor = poll.start.clone().unwrap_or_else(|| Json::from_value(&json!({})));
                let cursor = PollCursor { cursor, etag: None, dead_in_a_row: 0 };
                (TriggerCursor::Poll(cursor), Some(now))
            }
            TriggerKind::Stream(_) => (TriggerCursor::Stream(StreamCursor::default()), Some(now)),
            TriggerKind::Webhook(_) | TriggerKind::Event(_) | TriggerKind::WorkflowEnded(_) => {
                (TriggerCursor::None, None)
            }
        };
        let (timing, topics) = (self.timing(), self.topics());
        Registration { timing, cursor, next_due, topics, throttle: self.throttle() }
    }

    fn throttle(&self) -> Option<Throttle> {
        let TriggerKind::Event(event) = &self.kind else { return None };
        match event.window.as_ref()?.mode {
            WindowMode::Throttle(throttle) => Some(throttle),
            WindowMode::Debounce { .. } | WindowMode::Batch { .. } => None,
        }
    }

    /// How it is found: types of events, the workflow whose ends it fires with; empty for other kinds.
    pub fn topics(&self) -> Vec<Arc<str>> {
        match &self.kind {
            TriggerKind::Event(event) => event.types.clone(),
            TriggerKind::WorkflowEnded(ended) => vec![Arc::clone(&ended.workflow)],
            TriggerKind::Schedule(_)
            | TriggerKind::Webhook(_)
            | TriggerKind::Poll(_)
            | TriggerKind::Stream(_) => Vec::new(),
        }
    }

    /// Not in it: what changes how a time or an item fires, and not which ones there are. The cursor of a
    /// poll stays valid when its request changes; another `start` is a wish to begin there, and so is another
    /// `from` of a stream. Events that a window of one kind holds cannot fire as those of another kind.
    fn timing(&self) -> [u8; 32] {
        let timing = match &self.kind {
            TriggerKind::Schedule(schedule) => {
                let spec = &schedule.spec;
                json!([
                    spec.cron,
                    spec.every,
                    spec.offset,
                    spec.at,
                    spec.zone,
                    spec.from,
                    spec.until
                ])
            }
            TriggerKind::Poll(poll) => json!(poll.start),
            TriggerKind::Stream(stream) => json!([stream.source.identity(), stream.from.name()]),
            TriggerKind::Event(event) => match event.window.as_ref().map(|window| window.mode) {
                // What a throttle holds back fires as it would without one.
                None | Some(WindowMode::Throttle(_)) => json!([]),
                Some(mode) => json!([mode.name()]),
            },
            TriggerKind::Webhook(_) | TriggerKind::WorkflowEnded(_) => json!([]),
        };
        *blake3::hash(json!([self.kind_name().name(), timing]).to_string().as_bytes()).as_bytes()
    }
}
