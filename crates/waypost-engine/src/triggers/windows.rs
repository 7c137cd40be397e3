//! Windows that are due: one fire for a group of events.

use std::sync::Arc;

use waypost_core::json::{BadJson, Json};
use waypost_core::trigger::{Payload, TriggerKind, WindowMode};
use waypost_ports::triggers::{DueGroup, FireOutcome, Settlement, TriggerRow, TriggerState};

use super::scheduling::rejected;
use super::work::TriggerWork;
use super::{FireError, FireResult, Occurrence};

/// How often a group is tried again because its trigger was changed meanwhile.
const TRIES: usize = 3;

impl TriggerWork {
    /// Fires a group.
    pub async fn flush(&self, group: DueGroup) -> Result<(), FireError> {
        let mut row = Arc::unwrap_or_clone(Arc::clone(&group.row));
        for _ in 0..TRIES {
            let occurrence = self.occurrence(&row, &group).await?;
            let fence = Some(group.fence.clone());
            let fired = match &occurrence {
                Ok(occurrence) => self.firing.fire(&row, occurrence, None, fence).await?,
                Err(error) => FireResult::Dead { reason: error.to_string() },
            };
            let (outcome, reason) = match fired {
                FireResult::Started(_) => return Ok(()),
                FireResult::Retry { why } => {
                    tracing::warn!(%why, trigger = %row.name, "a window is fired later");
                    return Ok(());
                }
                FireResult::Stale => {
                    match self.firing.row(&row.workflow, &row.name).await? {
                        Some(fresh) if fresh.state == TriggerState::Active => row = fresh,
                        _ => return Ok(()),
                    }
                    continue;
                }
                FireResult::Known(_) => (None, None),
                FireResult::Filtered => (Some(FireOutcome::Filtered), None),
                FireResult::Dead { reason } => (Some(FireOutcome::Dead), Some(reason)),
                FireResult::Rejected { holding } => {
                    (Some(FireOutcome::Skipped), Some(rejected(holding)))
                }
            };
            let occurrence = occurrence
                .unwrap_or_else(|_| Occurrence::new(&item_key(&group), Payload::nothing()));
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
            if self.firing.store(settlement).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn occurrence(
        &self,
        row: &TriggerRow,
        group: &DueGroup,
    ) -> Result<Result<Occurrence, BadJson>, FireError> {
        let planned = self.firing.planned(row).await?;
        let mode = match &planned.trigger.kind {
            TriggerKind::Event(event) => event.window.as_ref().map(|window| window.mode),
            _ => None,
        };
        let made = || {
            let events = group.payloads.iter().map(|(payload, _)| Json::parse_own(payload));
            let events = events.collect::<Result<Vec<Json>, BadJson>>()?;
            let payload = match (mode, events.last()) {
                (Some(WindowMode::Debounce { .. }), Some(last)) => Payload::event(last),
                _ => Payload::events(&events)?,
            };
            let mut occurrence = Occurrence::new(&item_key(group), payload);
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
