//! Triggers, from rows to the wire.

use waypost_core::json::Json;
use waypost_core::trigger::TriggerCursor;
use waypost_ports::triggers::{DeadFireRow, FireOutcome, FireRow, TriggerRow};

use crate::wire;
use crate::wire::payload::{Payload, Time};

pub(crate) fn trigger(row: &TriggerRow) -> wire::Trigger {
    let cursor = match &row.cursor {
        TriggerCursor::None => None,
        TriggerCursor::Schedule(cursor) => serde_json::to_value(cursor).ok(),
        TriggerCursor::Poll(cursor) => serde_json::to_value(cursor).ok(),
        TriggerCursor::Stream(cursor) => serde_json::to_value(cursor).ok(),
    };
    wire::Trigger {
        workflow: row.workflow.to_string(),
        name: row.name.to_string(),
        kind: row.kind.name().to_owned(),
        state: row.state.name().to_owned(),
        reason: row.reason.as_deref().map(str::to_owned),
        version: row.version,
        topics: row.topics.iter().map(|topic| topic.to_string()).collect(),
        next_due_at: row.next_due.map(Time),
        waiting: None,
        last_fired_at: row.last_fired_at.map(Time),
        registered_at: Time(row.registered_at),
        failures: row.failures,
        failure: row.failure.as_deref().map(str::to_owned),
        cursor: cursor.map(|cursor| Payload(Json::from_value(&cursor))),
        revision: row.revision,
    }
}

/// An item of a trigger's history, under the names of events that users know from logs.
pub(crate) fn fire(row: &FireRow, id: Option<String>) -> wire::TriggerFire {
    let event = match row.outcome {
        FireOutcome::Started | FireOutcome::Collected => "TriggerInputReceived",
        FireOutcome::Filtered | FireOutcome::Skipped | FireOutcome::Missed | FireOutcome::Dead => {
            "TriggerCursorAdvanced"
        }
        FireOutcome::Gap => "TriggerGap",
    };
    wire::TriggerFire {
        event: event.to_owned(),
        key: row.label.to_string(),
        at: Time(row.at),
        nominal: row.nominal.map(Time),
        outcome: row.outcome.name().to_owned(),
        reason: row.reason.as_deref().map(str::to_owned),
        id,
    }
}

pub(crate) fn dead_letter(row: &DeadFireRow) -> wire::TriggerDeadLetter {
    wire::TriggerDeadLetter {
        id: row.id,
        key: row.label.to_string(),
        at: Time(row.at),
        reason: row.reason.to_string(),
        state: row.state.name().to_owned(),
        payload: Payload(Json::parse(&row.payload).unwrap_or_else(|_| Json::null())),
    }
}
