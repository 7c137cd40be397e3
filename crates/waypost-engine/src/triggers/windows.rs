//! Groups of events that are due, of windows and of throttles: one fire for each.

use std::sync::Arc;

use waypost_core::json::{BadJson, Json};
use waypost_core::trigger::{Payload, TriggerKind, WindowMode};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::{
    Arrival, Arrived, DueGroup, FireOutcome, Settlement, TriggerRow, TriggerState,
};

use super::scheduling::rejected;
use super::{FireError, FireResult, Firing, Occurrence};

/// How often a group is tried again because its trigger was changed meanwhile.
const TRIES: usize = 3;

impl Firing {
    /// Puts events into windows and before throttles. What may start at once is to be [flushed](Self::flush).
    pub async fn arrive(&self, arrivals: Vec<Arrival>) -> Result<Vec<Arrived>, StoreError> {
        let arrived = self.call(move |triggers| triggers.arrive(&arrivals)).await?;
        let is_skip = |arrived: &&Arrived| matches!(arrived, Arrived::Skipped | Arrived::Replaced);
        let skipped = arrived.iter().filter(is_skip).count() as u64;
        self.engine.metrics().trigger_fires_total.add(FireOutcome::Skipped.name(), skipped);
        Ok(arrived)
    }

    /// Fires a group. Where the result is [`FireResult::Stale`] or [`FireResult::Retry`], the group is still there,
    /// or has fired though this instance got no answer: it is claimed again later.
    pub async fn flush(&self, group: &DueGroup) -> Result<FireResult, FireError> {
        let mut row = Arc::unwrap_or_clone(Arc::clone(&group.row));
        for _ in 0..TRIES {
            let occurrence = self.occurrence_of(&row, group).await?;
            let fence = Some(group.fence.clone());
            let fired = match &occurrence {
                Ok(occurrence) => self.fire(&row, occurrence, None, fence).await?,
                Err(error) => FireResult::Dead { reason: error.to_string() },
            };
            let (outcome, reason) = match &fired {
                FireResult::Started(_) | FireResult::Retry { .. } => return Ok(fired),
                FireResult::Stale => {
                    match self.row(&row.workflow, &row.name).await? {
                        Some(fresh) if fresh.state == TriggerState::Active => row = fresh,
                        _ => return Ok(fired),
                    }
                    continue;
                }
                FireResult::Known(_) => (None, None),
                FireResult::Filtered => (Some(FireOutcome::Filtered), None),
                FireResult::Dead { reason } => (Some(FireOutcome::Dead), Some(reason.clone())),
                FireResult::Rejected { holding } => {
                    (Some(FireOutcome::Skipped), Some(rejected(*holding)))
                }
            };
            let occurrence = occurrence
                .unwrap_or_else(|_| Occurrence::new(&item_key(group), Payload::nothing()).own());
            let settled = |outcome| occurrence.settled(&row, outcome, reason.as_deref());
            let settlement = Settlement {
                at: row.at(),
                advance: None,
                group: Some(group.fence.clone()),
                fires: outcome.map(settled).into_iter().collect(),
                failures: 0,
                failure: None,
                broken: None,
                cancel: Vec::new(),
            };
            // Where the item is known, its commit has deleted the group.
            if self.store(settlement).await? || matches!(fired, FireResult::Known(_)) {
                return Ok(fired);
            }
        }
        Ok(FireResult::Stale)
    }

    async fn occurrence_of(
        &self,
        row: &TriggerRow,
        group: &DueGroup,
    ) -> Result<Result<Occurrence, BadJson>, FireError> {
        let planned = self.planned(row).await?;
        let mode = match &planned.trigger.kind {
            TriggerKind::Event(event) => event.window.as_ref().map(|window| window.mode),
            _ => None,
        };
        let made = || {
            let events = group.payloads.iter().map(|(payload, _)| Json::parse_own(payload));
            let events = events.collect::<Result<Vec<Json>, BadJson>>()?;
            // What was collected as a batch fires as one, also where a deploy has changed that since.
            let single = match (mode, &events[..]) {
                (Some(WindowMode::Batch { .. }), _) => None,
                (Some(WindowMode::Debounce { .. }), events) => events.last(),
                (Some(WindowMode::Throttle(_)) | None, [event]) => Some(event),
                (Some(WindowMode::Throttle(_)) | None, _) => None,
            };
            let key = item_key(group);
            let occurrence = match single {
                Some(event) => Occurrence::of_event(&key, event),
                None => Occurrence::new(&key, Payload::events(&events)?),
            };
            let mut occurrence = occurrence.own();
            if let [(_, label)] = &group.payloads[..] {
                occurrence.label = Arc::clone(label);
            }
            Ok(occurrence)
        };
        Ok(made())
    }
}

/// No other group of the trigger has it.
fn item_key(group: &DueGroup) -> String {
    format!("window {} of {}", group.fence.seq, group.fence.group)
}
