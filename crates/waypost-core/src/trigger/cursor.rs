//! How far a trigger is: what its row keeps as JSON. Fields are added with defaults.

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::time::Timestamp;

/// The cursor of each kind that has one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerCursor {
    /// Of triggers that keep nothing: webhooks, events, ends of workflows.
    None,
    Schedule(ScheduleCursor),
    Poll(PollCursor),
    Stream(StreamCursor),
}

/// How far a schedule is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleCursor {
    /// The last nominal time that was dealt with, or since when the schedule counts.
    pub after: Timestamp,
    /// Times that wait for an execution to end, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Timestamp>,
    /// The nominal time of the fire before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Timestamp>,
    /// How far it was before a rewind, until it is there again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Timestamp>,
    /// The oldest time that a backfill was asked to fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfilled: Option<Timestamp>,
    /// Backfills under way, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backfills: Vec<Backfill>,
}

/// Times of the past that are fired on request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backfill {
    /// Its identity, for people.
    pub id: u64,
    /// The next time at or after this one.
    pub from: Timestamp,
    /// And before this one.
    pub to: Timestamp,
    /// Do times fire that fired before?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Fires in a second, at most.
    pub rate: u32,
    pub fired: u64,
    /// Times that had fired before.
    pub known: u64,
    pub total: u64,
    /// No time fires before this one: what holds it to its rate.
    #[serde(default)]
    pub not_before: Timestamp,
}

/// How far a poll is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollCursor {
    /// As the template `next` made it.
    pub cursor: Json,
    /// The `ETag` of the last page that changed nothing since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Items in a row that could not be started.
    #[serde(default)]
    pub dead_in_a_row: u32,
}

/// How far a stream is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamCursor {
    /// The place of the last entry that was dealt with, as the source writes it; absent before the first
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Where it begins, if that is not where the definition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Entries that had ever been added up to the place, for sources that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Which stream or table of this name it is, for sources that tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// Keys of rows that have fired and are not marked in their table yet. Nothing is read before they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmarked: Vec<String>,
    /// Entries after the place at the last read, for sources that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Entries that were removed from the source before they were read.
    #[serde(default)]
    pub removed: u64,
    /// Items in a row that could not be started.
    #[serde(default)]
    pub dead_in_a_row: u32,
}
