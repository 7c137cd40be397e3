//! An execution that is queued for a permit of its concurrency key has not begun.
//!
//! Decided here is which key an execution shares with others, and what follows when it is its turn. Whose
//! turn it is, is decided over the rows of the queue: see `permits`.

use serde_json::Value;

use super::Decider;
use super::evaluate::invalid;
use super::scope::outer_scope;
use crate::command::Refusal;
use crate::event::{EndCause, RunEvent};
use crate::expr::Template;
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::limits::CONCURRENCY_KEY_BYTES_MAX;
use crate::status::Status;

impl Decider<'_> {
    /// Begins a generation: at once, or with a place in the queue.
    pub(super) fn begin(&mut self) {
        let Some(concurrency) = &self.plan.concurrency else { return self.open_all() };
        match self.concurrency_key(&concurrency.key) {
            Ok(key) if self.is_held_above(&key) => {
                let message = format!(
                    "an execution above this one holds the permit of concurrency key {key:?}, so that \
                     both would wait for ever"
                );
                let failure = Failure::permanent(kind::CONCURRENCY_DEADLOCK, message);
                self.end_for(EndCause::NotQueued { failure });
            }
            Ok(key) => {
                let (limit, policy) = (concurrency.limit, concurrency.policy);
                self.emit(RunEvent::Queued { key: key.into(), limit, policy });
            }
            Err(failure) => self.end_for(EndCause::NotQueued { failure }),
        }
    }

    /// It holds a permit: starts the nodes that may start.
    pub(super) fn admit(&mut self) -> Result<(), Refusal> {
        if let Some(over) = self.state.refusal_if_ended() {
            return Err(over);
        }
        if self.state.status != Status::Scheduling {
            return Err(Refusal::NotQueued);
        }
        if self.state.owner.is_none() {
            return Err(Refusal::Queued);
        }
        self.emit(RunEvent::Admitted {});
        self.open_all();
        Ok(())
    }

    /// Leaves memory for its place in the queue, where something else than a permit had woken it.
    pub(super) fn requeue(&mut self) -> Result<(), Refusal> {
        let place = self.state.place.clone().filter(|_| self.state.owner.is_some());
        let place = place.ok_or(Refusal::Busy)?;
        let (key, limit, policy) = (place.key, place.limit, place.policy);
        self.emit(RunEvent::Queued { key, limit, policy });
        Ok(())
    }

    /// Is everything at hand that the key needs? Asked before the first event of a new generation.
    pub(super) fn has_concurrency_key(&self) -> bool {
        if let Some(concurrency) = &self.plan.concurrency {
            // A failure comes up when the generation begins.
            self.concurrency_key(&concurrency.key).ok();
        }
        !self.env.contents.has_missed()
    }

    /// The key, as a text. A value that is no name is rejected: all executions whose input lacks a
    /// field would wait for each other.
    fn concurrency_key(&self, template: &Template) -> Result<String, Failure> {
        let value = template.render(&outer_scope(self.state, self.env.now, &self.env.contents))?;
        key_text(&value, "a concurrency key", CONCURRENCY_KEY_BYTES_MAX)
    }
}

/// A value as the name that others may share.
pub(super) fn key_text(value: &Json, what: &str, max: usize) -> Result<String, Failure> {
    // A number is the name that it is written as: two of them that a float would take for one
    // are two keys.
    let is_number = value.text().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let parsed = if is_number { Value::from(value.text()) } else { value.to_value()? };
    let key = match parsed {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            return Err(invalid(format!("{what} must be a text or a number, not {value}")));
        }
    };
    if key.is_empty() || key.len() > max {
        let bytes = key.len();
        return Err(invalid(format!("{what} has {bytes} bytes; from 1 to {max} are allowed")));
    }
    Ok(key)
}
