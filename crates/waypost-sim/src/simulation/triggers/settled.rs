//! What must be true of triggers in the end: nothing that was due is undone.

use waypost_core::event::Event as LogEvent;
use waypost_core::trigger::TriggerCursor;
use waypost_ports::outbox::{MessageState, is_trigger_endpoint};
use waypost_ports::triggers::{FireOutcome, FireRow, TriggerNo, TriggerRow, TriggerState};

use super::asks::Asked;
use super::flows::{FlowKind, TRIGGER, Timing};
use crate::clock::START;
use crate::program::NAME;
use crate::simulation::Simulation;

impl Simulation {
    /// Why triggers have not come to rest, if they have not.
    pub(in crate::simulation) fn trigger_unrest(&self) -> Option<String> {
        if self.triggers.is_empty() {
            return None;
        }
        let unanswered = |ask: &&super::TriggerAsk| {
            !ask.is_over && matches!(ask.what, Asked::Delivery { .. } | Asked::Event { .. })
        };
        if let Some(ask) = self.triggers.asks.iter().find(unanswered) {
            return Some(format!("{}: a delivery is never answered", ask.flow));
        }
        let (rows, groups, ends) = self.store.with(|tables, _| {
            let rows: Vec<TriggerRow> = tables.trigger_rows().cloned().collect();
            let ends = tables.outbox_rows().filter(|row| {
                is_trigger_endpoint(&row.message.name.endpoint)
                    && row.state == MessageState::Pending
            });
            (rows, tables.held_groups().count(), ends.count())
        });
        if groups + ends > 0 {
            return Some(format!("{groups} groups and {ends} ends wait"));
        }
        rows.iter()
            .find(|row| !self.trigger_rests(row))
            .map(|row| format!("{row:?} is not at rest"))
    }

    fn trigger_rests(&self, row: &TriggerRow) -> bool {
        let kind = self.triggers.flow(&row.workflow).map(|flow| &flow.kind);
        let is_done = match (kind, &row.cursor) {
            (Some(FlowKind::Schedule(_)), TriggerCursor::Schedule(cursor)) => {
                // Not that of a version whose deploy has failed.
                let timing = self.triggers.watch.timings.get(&row.definition);
                let left = |timing: &Timing| timing.times(cursor.after, timing.until);
                timing.is_none_or(|timing| left(timing).is_empty())
                    && cursor.waiting.is_empty()
                    && cursor.backfills.is_empty()
            }
            (Some(FlowKind::Poll(source)), _) => {
                let knows = |key: &str| self.triggers.watch.knows(row, key);
                // A cursor may have passed items whose fires were lost with the store.
                self.failovers > 0 || source.items.iter().all(|item| knows(&item.key))
            }
            _ => true,
        };
        row.state == TriggerState::Active && is_done
    }

    /// When the last trigger is due, in a world without faults.
    pub(in crate::simulation) fn triggers_due_ms(&self) -> u64 {
        let appears = self.triggers.flows.iter().filter_map(|flow| match &flow.kind {
            FlowKind::Poll(source) => source.items.iter().map(|item| item.appears_ms).max(),
            FlowKind::Schedule(timing) => Some(timing.until.since(START).0),
            FlowKind::Webhook | FlowKind::Event(_) | FlowKind::Ended => None,
        });
        let due = self.store.with(|tables, _| {
            let due = tables.trigger_rows().filter(|row| row.failures > 0);
            due.filter_map(|row| row.next_due).max()
        });
        appears.chain(due.map(|due| due.since(START).0)).max().unwrap_or(0)
    }

    /// What was answered is durable.
    pub(super) fn check_asked(&mut self, at: usize) {
        let Some(ask) = self.triggers.asks.get(at).filter(|ask| ask.is_taken) else { return };
        let key = match &ask.what {
            Asked::Delivery { key } | Asked::Event { key, .. } => key.clone(),
            _ => return,
        };
        let flow = ask.flow.clone();
        let found = self.fires_of(&flow).into_iter().filter(|row| *row.label == *key).count();
        // A debounce fires under the label of its last event.
        if found == 0 && self.failovers == 0 {
            self.fail("trigger.ack", format!("{flow}: {key} was taken and is not durable"));
        }
    }

    fn fires_of(&self, workflow: &str) -> Vec<FireRow> {
        self.store.with(|tables, _| {
            let number: Option<TriggerNo> = tables.trigger(workflow, TRIGGER).map(|row| row.number);
            let mine = tables.fire_rows().filter(|(trigger, _)| Some(*trigger) == number);
            mine.map(|(_, row)| row.clone()).collect()
        })
    }

    /// The end: everything that was promised has fired.
    pub(in crate::simulation) fn check_triggers(&mut self) {
        let failovers = self.failovers;
        for at in 0..self.triggers.asks.len() {
            self.check_asked(at);
        }
        // One that was lost in a failover may be answered after it.
        let promised = self.triggers.watch.backfills.clone();
        for (flow, times) in promised.into_iter().filter(|_| failovers == 0) {
            let fires = self.fires_of(&flow);
            let fired = |time| {
                fires
                    .iter()
                    .any(|row| row.nominal == Some(time) && row.outcome != FireOutcome::Missed)
            };
            let left_out = times.into_iter().find(|time| !fired(*time));
            if let Some(time) = left_out.filter(|_| !self.triggers.watch.anew.contains(&flow)) {
                return self.fail("trigger.backfill", format!("{flow}: {time} is left out"));
            }
        }
        let ended = |flow: &&super::Flow| matches!(flow.kind, FlowKind::Ended);
        let flows: Vec<_> =
            self.triggers.flows.iter().filter(ended).map(|flow| flow.name.clone()).collect();
        if self.failovers == 0 {
            flows.iter().for_each(|flow| self.check_ends(flow));
        }
    }

    /// Each end of the watched workflow has fired once.
    fn check_ends(&mut self, flow: &str) {
        let fires = self.fires_of(flow);
        for execution in self.auditor.logs.keys().copied().collect::<Vec<_>>() {
            let Some(created) = self.created(execution) else { continue };
            if *created.workflow != *NAME {
                continue;
            }
            for (seq, event) in (1_u64..).zip(self.events_of(execution)) {
                let label = format!("{} {seq}", created.key);
                let count = fires.iter().filter(|row| *row.label == *label).count();
                if count != usize::from(LogEvent::is_end(&event)) {
                    return self
                        .fail("trigger.ends", format!("{flow}: {label} fired {count} times"));
                }
            }
        }
    }
}
