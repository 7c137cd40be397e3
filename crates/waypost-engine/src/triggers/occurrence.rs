//! What happened, as a trigger gets it and as a dead letter keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use waypost_core::json::{BadJson, Json};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Fired, ItemDigest, ItemKey, Payload, Trigger};
use waypost_ports::triggers::{DeadFire, DeadFireRow, FireOutcome, SettledFire, TriggerRow};

/// Bytes of an item's key.
pub const ITEM_KEY_BYTES_MAX: usize = 512;
/// Bytes of the reason that an item is kept with.
const REASON_BYTES_MAX: usize = 2_000;

/// Something that happened and may start an execution.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// What identifies it among those of its trigger, at most [`ITEM_KEY_BYTES_MAX`]: a second one with this
    /// key starts nothing.
    pub key: Arc<str>,
    /// Has Waypost itself made up the key? Then no key from outside means the same item.
    pub is_own: bool,
    /// The key as people read it.
    pub label: Arc<str>,
    /// The nominal time of a schedule.
    pub nominal: Option<Timestamp>,
    /// The nominal time before, of a schedule.
    pub previous_at: Option<Timestamp>,
    /// Of a schedule: the newest nominal time before this one whose execution was completed.
    pub last_success_at: Option<Timestamp>,
    /// What the execution knows of it besides, as an object: see [`Fired::details`].
    pub details: Option<Json>,
    /// How many executions that started each other by triggers are above the one that it starts.
    pub depth: u32,
    /// What conditions and templates see.
    pub payload: Payload,
}

impl Occurrence {
    /// Something that is identified by a key. The digest of a key stands for one that is too long.
    pub fn new(key: &str, payload: Payload) -> Self {
        let label = shortened(key, ITEM_KEY_BYTES_MAX).into();
        let key = match key.len() <= ITEM_KEY_BYTES_MAX {
            true => key.into(),
            false => blake3::hash(key.as_bytes()).to_string().into(),
        };
        Self {
            key,
            is_own: false,
            label,
            nominal: None,
            previous_at: None,
            last_success_at: None,
            details: None,
            depth: 0,
            payload,
        }
    }

    /// A `CloudEvent`. The execution knows all of it but its data, which is the input.
    pub fn of_event(key: &str, event: &Json) -> Self {
        let occurrence = Self::new(key, Payload::event(event));
        let all: BTreeMap<String, Json> = serde_json::from_str(event.text()).unwrap_or_default();
        let attributes =
            all.into_iter().filter(|(name, _)| !matches!(name.as_str(), "data" | "data_base64"));
        let details = Json::object(attributes)
            .and_then(|attributes| Json::object([("event", attributes)].into_iter()));
        match details {
            Ok(details) => occurrence.with_details(details),
            Err(_) => occurrence,
        }
    }

    /// A nominal time of a schedule.
    pub fn of_time(nominal: Timestamp) -> Self {
        Self { nominal: Some(nominal), ..Self::new(&nominal.to_string(), Payload::nothing()) }
    }

    /// Under a key that Waypost itself has made up.
    #[must_use]
    pub(super) fn own(self) -> Self {
        Self { is_own: true, ..self }
    }

    /// With what the execution knows of it besides.
    #[must_use]
    pub fn with_details(self, details: Json) -> Self {
        Self { details: Some(details), ..self }
    }

    /// The item that this is, of a trigger.
    pub fn item(&self, row: &TriggerRow) -> ItemDigest {
        let key = ItemKey { key: Arc::clone(&self.key), incarnation: row.incarnation };
        if self.is_own { key.digest_of_own() } else { key.digest() }
    }

    /// What the execution knows of it.
    pub fn fired(&self, trigger: &Trigger, now: Timestamp) -> Fired {
        Fired {
            name: Arc::clone(&trigger.name),
            kind: trigger.kind_name().name().into(),
            node: trigger.node.clone(),
            at: self.nominal.unwrap_or(now),
            fired_at: now,
            key: Arc::clone(&self.label),
            previous_at: self.previous_at,
            last_success_at: self.last_success_at,
            depth: self.depth,
            details: self.details.clone(),
        }
    }

    /// This item as one that started nothing.
    pub fn settled(
        &self,
        row: &TriggerRow,
        outcome: FireOutcome,
        reason: Option<&str>,
    ) -> SettledFire {
        let dead = (outcome == FireOutcome::Dead).then(|| self.keep());
        SettledFire {
            item: self.item(row),
            label: Arc::clone(&self.label),
            nominal: self.nominal,
            outcome,
            reason: reason.map(|reason| shortened(reason, REASON_BYTES_MAX).into()),
            dead: dead.map(|payload| DeadFire { payload }),
        }
    }

    /// As a dead letter keeps it.
    fn keep(&self) -> Arc<str> {
        let optional = |time: Option<Timestamp>| {
            time.map_or_else(Json::null, |time| Json::from_value(&time.0.into()))
        };
        let kept = || -> Result<Json, BadJson> {
            let fields = [
                ("payload", self.payload.keep()?),
                ("nominal", optional(self.nominal)),
                ("previous", optional(self.previous_at)),
                ("details", self.details.clone().unwrap_or_else(Json::null)),
                ("depth", Json::from_value(&self.depth.into())),
            ];
            Json::object(fields.into_iter())
        };
        // What is nested too deeply is kept without a payload: people see why it is dead.
        kept().map_or_else(|_| "{}".into(), |kept| kept.text().into())
    }

    /// A dead letter again, as an item of its own: each dead letter can be fired once. `None` where nothing
    /// was kept that can be fired.
    pub fn again(dead: &DeadFireRow) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct KeptOccurrence {
            payload: Json,
            nominal: Option<i64>,
            previous: Option<i64>,
            details: Option<Json>,
            #[serde(default)]
            depth: u32,
        }
        let key = format!("dead letter {}", dead.id);
        let Ok(kept) = serde_json::from_str::<KeptOccurrence>(&dead.payload) else {
            // An event whose window is gone: the store has nothing but the event.
            let event = Json::parse_own(&dead.payload).ok()?;
            let again = Self::of_event(&key, &event);
            return Some(Self { label: Arc::clone(&dead.label), ..again.own() });
        };
        let payload = Payload::kept(kept.payload.text())?;
        Some(Self {
            label: Arc::clone(&dead.label),
            nominal: kept.nominal.map(Timestamp),
            previous_at: kept.previous.map(Timestamp),
            details: kept.details,
            depth: kept.depth,
            ..Self::new(&key, payload).own()
        })
    }
}

/// A text up to so many bytes.
fn shortened(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn execution_knows_all_of_an_event_but_its_data() {
        for data in ["data", "data_base64"] {
            let event = json!({ "id": "1", "type": "order.paid", "partition": 3, data: "x" });
            let occurrence = Occurrence::of_event("k", &Json::from_value(&event));
            let details = occurrence.details.unwrap().to_value().unwrap();
            let known = json!({ "event": { "id": "1", "type": "order.paid", "partition": 3 } });
            assert_eq!(details, known);
        }
    }
}
