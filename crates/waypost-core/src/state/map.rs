//! Maps: which items are open, which are done, and what is kept of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;
use crate::failure::Failure;
use crate::json::Json;
use crate::kind::MapSpec;
use crate::limits::{ITEM_FAILURE_CHARS_MAX, ITEM_FAILURES_MAX, MAP_RESULTS_BYTES_MAX};
use crate::planted::{Bug, is_planted};
use crate::time::Timestamp;

/// A map that has evaluated its items.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MapState {
    pub count: u64,
    /// The items; absent where they are the numbers from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Arc<[Json]>>,
    /// The blob that they are read from, page by page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BlobRef>,
    /// Of those, the ones that are open.
    #[serde(default, with = "crate::json::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub open_items: BTreeMap<u64, Json>,
    /// How many may fail without the map failing.
    pub tolerated: u64,
    /// Bytes of outputs that are kept, at most; absent for [`MAP_RESULTS_BYTES_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_max: Option<u64>,
    /// The next item to open. All before it are open or done.
    pub next: u64,
    /// How many are done, and how many of them failed.
    pub done: u64,
    pub failed: u64,
    /// The outputs of the items, without those that are `null`.
    #[serde(with = "crate::json::pairs")]
    pub outputs: BTreeMap<u64, Json>,
    /// Bytes of these outputs; above `results_max`, none are kept any more, and the log is read for them
    /// at the end.
    pub output_bytes: usize,
    /// The items that failed, as ranges of indexes: first and last.
    pub failed_ranges: Vec<(u64, u64)>,
    /// The first failures, by index: their kinds, and the beginnings of their messages.
    #[serde(with = "crate::json::pairs")]
    pub failures: BTreeMap<u64, Box<Failure>>,
    /// More failed than are tolerated, and no more items are opened.
    pub stopped: bool,
    /// A person holds it: no more items are opened until it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<MapHold>,
    /// How many items may be open at once, where a person changed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// Who holds a map, why, and since when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MapHold {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub since: Timestamp,
}

impl MapHold {
    /// "held by alice (the API is slow)".
    pub fn describe(&self) -> String {
        let by = self.actor.as_ref().map_or_else(String::new, |actor| format!(" by {actor}"));
        let why = self.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        format!("held{by}{why}")
    }
}

impl MapState {
    pub(crate) fn new(count: u64, items: Option<Arc<[Json]>>, tolerated: u64) -> Self {
        Self {
            count,
            items,
            source: None,
            open_items: BTreeMap::new(),
            tolerated,
            results_max: None,
            next: 0,
            done: 0,
            failed: 0,
            outputs: BTreeMap::new(),
            output_bytes: 0,
            failed_ranges: Vec::new(),
            failures: BTreeMap::new(),
            stopped: false,
            held: None,
            concurrency: None,
        }
    }

    /// The value of an item.
    pub fn item(&self, index: u64) -> Json {
        match &self.items {
            None if self.source.is_some() => {
                self.open_items.get(&index).cloned().unwrap_or_else(Json::null)
            }
            None => Json::from_value(&index.into()),
            Some(items) => {
                let item = usize::try_from(index).ok().and_then(|index| items.get(index));
                item.cloned().unwrap_or_else(Json::null)
            }
        }
    }

    /// Are there items to open, sooner or later?
    pub fn has_items_left(&self) -> bool {
        self.next < self.count && !self.stopped
    }

    /// How many items may be open at once.
    pub fn places(&self, spec: &MapSpec) -> u64 {
        match self.held {
            Some(_) => 0,
            None => u64::from(self.concurrency.unwrap_or(spec.concurrency)),
        }
    }

    /// Are the outputs too large to be kept here?
    pub fn is_too_large(&self) -> bool {
        self.output_bytes as u64 > self.results_max.unwrap_or(MAP_RESULTS_BYTES_MAX)
    }

    pub(crate) fn completed(&mut self, index: u64, output: Option<Json>) {
        self.done += 1;
        self.open_items.remove(&index);
        let Some(output) = output.filter(|output| !output.is_null()) else { return };
        let index = if is_planted(Bug::ResultsOutOfOrder) { self.done - 1 } else { index };
        self.output_bytes = self.output_bytes.saturating_add(output.bytes() + 1);
        if self.is_too_large() {
            self.outputs.clear();
        } else {
            self.outputs.insert(index, output);
        }
    }

    pub(crate) fn item_failed(&mut self, index: u64, failure: Option<Box<Failure>>) {
        self.done += 1;
        self.open_items.remove(&index);
        self.failed += 1;
        self.note_failed(index);
        if let Some(mut failure) = failure
            && self.failures.len() < ITEM_FAILURES_MAX
        {
            failure.message = failure.message.chars().take(ITEM_FAILURE_CHARS_MAX).collect();
            failure.details = None;
            self.failures.insert(index, failure);
        }
    }

    /// Adds an index to the ranges, which stay sorted and apart.
    fn note_failed(&mut self, index: u64) {
        let at = self.failed_ranges.partition_point(|(first, _)| *first <= index);
        let before = at.checked_sub(1).and_then(|before| self.failed_ranges.get(before));
        let joins_before = before.is_some_and(|(_, last)| last + 1 == index);
        let joins_after = self.failed_ranges.get(at).is_some_and(|(first, _)| index + 1 == *first);
        match (joins_before, joins_after) {
            (true, true) => {
                let (_, last) = self.failed_ranges.remove(at);
                if let Some(range) = self.failed_ranges.get_mut(at - 1) {
                    range.1 = last;
                }
            }
            (true, false) => {
                if let Some(range) = self.failed_ranges.get_mut(at - 1) {
                    range.1 = index;
                }
            }
            (false, true) => {
                if let Some(range) = self.failed_ranges.get_mut(at) {
                    range.0 = index;
                }
            }
            (false, false) => self.failed_ranges.insert(at, (index, index)),
        }
    }

    /// Did this item fail?
    pub fn has_failed(&self, index: u64) -> bool {
        let at = self.failed_ranges.partition_point(|(first, _)| *first <= index);
        let range = at.checked_sub(1).and_then(|at| self.failed_ranges.get(at));
        range.is_some_and(|(_, last)| index <= *last)
    }

    /// The indexes of the items that failed, in order.
    pub fn failed_indexes(&self) -> impl Iterator<Item = u64> + '_ {
        self.failed_ranges.iter().flat_map(|(first, last)| *first..=*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_items_are_kept_without_details_and_with_short_messages() {
        let mut map = MapState::new(2, None, 2);
        let details = Some(Json::from_value(&serde_json::json!({ "body": "x" })));
        let long = "é".repeat(2 * ITEM_FAILURE_CHARS_MAX);
        map.item_failed(1, Some(Box::new(Failure { details, ..Failure::permanent("k", long) })));
        let kept = &map.failures[&1];
        assert_eq!((&*kept.kind, &kept.details), ("k", &None));
        assert_eq!(kept.message.chars().count(), ITEM_FAILURE_CHARS_MAX);
    }

    #[test]
    fn failed_indexes_are_complete_and_in_order_whatever_order_they_come_in() {
        let mut map = MapState::new(100, None, 0);
        let order = [5, 3, 4, 9, 0, 1, 10, 99, 98, 2, 50];
        order.iter().for_each(|index| map.item_failed(*index, None));
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        assert_eq!(map.failed_indexes().collect::<Vec<_>>(), sorted);
        assert_eq!(map.failed_ranges, [(0, 5), (9, 10), (50, 50), (98, 99)]);
        assert_eq!((map.done, map.failed), (11, 11));
    }
}
