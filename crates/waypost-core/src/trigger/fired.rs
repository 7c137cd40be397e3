//! What an execution knows of the fire that started it, and the identity of fires.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TriggerKindName;
use crate::json::Json;
use crate::time::Timestamp;

/// What started an execution. Expressions see it as `trigger`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// The trigger's name, which is unique in the workflow.
    pub name: Arc<str>,
    /// `schedule`, `webhook` and so on.
    pub kind: Arc<str>,
    /// The id of the trigger node, for a trigger that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The nominal time of a schedule; otherwise, when it fired.
    pub at: Timestamp,
    /// When it fired.
    pub fired_at: Timestamp,
    /// What identifies the fire, as people read it.
    pub key: Arc<str>,
    /// The nominal time before, of a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_at: Option<Timestamp>,
    /// Of a schedule: the newest nominal time before this one whose execution was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// How many executions that started each other by triggers are above this one.
    #[serde(default)]
    pub depth: u32,
    /// What its kind adds, as an object: `headers`, `event` without its data, `execution`, `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

/// What identifies a fire of a trigger, as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemKey {
    /// Up to 512 bytes.
    pub key: Arc<str>,
    /// Grows with each rewind that lets items fire again.
    pub incarnation: u32,
}

/// The digest of an item's key, by which the store knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemDigest(pub [u8; 32]);

impl ItemKey {
    /// The key of a time.
    pub fn of_time(nominal: Timestamp, incarnation: u32) -> Self {
        Self { key: nominal.to_string().into(), incarnation }
    }

    /// By which the store knows it.
    pub fn digest(&self) -> ItemDigest {
        self.digest_after(&[])
    }

    /// By which the store knows an item that Waypost itself has named: a group of a window, a fire by hand. No key
    /// from outside has this digest, because this byte is in no text.
    pub fn digest_of_own(&self) -> ItemDigest {
        self.digest_after(&[0xff])
    }

    fn digest_after(&self, mark: &[u8]) -> ItemDigest {
        let mut hash = blake3::Hasher::new();
        hash.update(&self.incarnation.to_le_bytes());
        hash.update(mark);
        hash.update(self.key.as_bytes());
        ItemDigest(*hash.finalize().as_bytes())
    }
}

impl Fired {
    /// As expressions see it: its fields, and those of `details` beside them.
    pub fn to_json(&self) -> Json {
        let mut fields = match self.details.as_ref().and_then(|details| details.to_value().ok()) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let texts = [
            ("name", self.name.to_string()),
            ("kind", self.kind.to_string()),
            ("at", self.at.to_string()),
            ("firedAt", self.fired_at.to_string()),
            ("key", self.key.to_string()),
        ];
        fields.extend(texts.map(|(name, text)| (name.to_owned(), text.into())));
        fields.insert("depth".to_owned(), self.depth.into());
        if let Some(node) = &self.node {
            fields.insert("node".to_owned(), Value::from(&**node));
        }
        if self.kind_name() == Some(TriggerKindName::Schedule) {
            for (name, at) in
                [("previousAt", self.previous_at), ("lastSuccessAt", self.last_success_at)]
            {
                let text = at.map_or(Value::Null, |at| at.to_string().into());
                fields.insert(name.to_owned(), text);
            }
        }
        Json::from_value(&Value::Object(fields))
    }

    /// What expressions see as `trigger`: also where a person, or another execution, started this one.
    pub fn seen_as(fired: Option<&Self>) -> Json {
        let manual = || Json::from_value(&serde_json::json!({ "kind": "manual" }));
        fired.map_or_else(manual, Self::to_json)
    }

    /// The kind's name, where this version knows it.
    pub fn kind_name(&self) -> Option<TriggerKindName> {
        TriggerKindName::parse(&self.kind)
    }
}
