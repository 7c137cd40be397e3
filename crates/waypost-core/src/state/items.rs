//! The items of a map and the iterations of a loop, listed by page and status. Computed from the
//! state alone: nothing of the log is read for it, however many items there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Body, NodeState, State};
use crate::command::Refusal;
use crate::failure::Failure;
use crate::json::Json;
use crate::kind::Container;
use crate::path::At;
use crate::plan::Plan;
use crate::status::NodeStatus;
use crate::time::Timestamp;

/// Which items are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemsRequest {
    /// Only these: PENDING, RUNNING, COMPLETED, FAILED or CANCELLED.
    pub status: Option<NodeStatus>,
    /// Only those after this index.
    pub after: Option<u64>,
    pub limit: usize,
}

/// A page of items, in the order of their indexes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ItemsPage {
    /// How many items the map has, or how many iterations were begun; unknown before it begins.
    pub count: Option<u64>,
    pub items: Vec<ItemView>,
    /// Are there more?
    pub more: bool,
}

/// One item, or one iteration.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemView {
    pub index: u64,
    pub status: NodeStatus,
    /// When its first node was scheduled, while it is open.
    pub started_at: Option<Timestamp>,
    pub output: Option<Json>,
    pub failure: Option<Failure>,
}

impl State {
    /// A page of the items of a map, or of the iterations of a loop.
    pub fn items(
        &self,
        plan: &Plan,
        path: &Arc<str>,
        request: ItemsRequest,
    ) -> Result<ItemsPage, Refusal> {
        let node = plan.locate(path).ok_or_else(|| Refusal::NoSuchNode(Arc::clone(path)))?;
        let is_map = match plan.node(node).behaviour.container() {
            Some(Container::Map(_)) => true,
            Some(Container::Loop(_)) => false,
            Some(Container::Group | Container::Operation(_)) | None => {
                return Err(Refusal::NoItems(Arc::clone(path)));
            }
        };
        let at = self.find(plan, path).ok_or_else(|| Refusal::NotListed(Arc::clone(path)))?;
        let Some(body) = self.node(at).body.as_deref() else { return Ok(ItemsPage::default()) };
        Ok(Listing { state: self, at, body, is_map }.page(request))
    }
}

struct Listing<'a> {
    state: &'a State,
    at: At,
    body: &'a Body,
    is_map: bool,
}

impl Listing<'_> {
    fn page(&self, ItemsRequest { status, after, limit }: ItemsRequest) -> ItemsPage {
        let from = after.map_or(0, |after| after.saturating_add(1));
        let mut indexes = self.indexes(status, from);
        let found: Vec<u64> = indexes.by_ref().take(limit).collect();
        let more = indexes.next().is_some();
        drop(indexes);
        let results = self.results();
        let items = found.into_iter().map(|index| self.item(index, &results)).collect();
        let map = self.body.map.as_ref();
        ItemsPage { count: Some(map.map_or(self.body.opened, |map| map.count)), items, more }
    }

    fn node(&self) -> &NodeState {
        self.state.node(self.at)
    }

    /// The indexes of the items of a status, in order. Those that are left out are not visited one by
    /// one: there may be millions.
    fn indexes(&self, status: Option<NodeStatus>, from: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        let Some(map) = &self.body.map else {
            let all = from.max(1)..=self.body.opened;
            return Box::new(all.filter(move |at| status.is_none_or(|s| s == self.status(*at))));
        };
        let open = self.body.open.range(Some(from)..).filter_map(|(index, _)| *index);
        let not_begun = from.max(map.next)..map.count;
        let failed =
            map.failed_ranges.iter().flat_map(move |(first, last)| from.max(*first)..=*last);
        match status {
            None => Box::new(from..map.count),
            Some(NodeStatus::Running) => Box::new(open),
            Some(NodeStatus::Failed) => Box::new(failed),
            Some(status) if status == self.not_begun() => Box::new(not_begun),
            Some(NodeStatus::Completed) => {
                // Between the ranges of those that failed.
                let firsts = map.failed_ranges.iter().map(|(first, _)| *first);
                let ends = firsts.chain([map.next]);
                let begins =
                    [0].into_iter().chain(map.failed_ranges.iter().map(|(_, last)| last + 1));
                let done = begins.zip(ends).flat_map(move |(begin, end)| from.max(begin)..end);
                Box::new(done.filter(|index| self.body.scope(Some(*index)).is_none()))
            }
            Some(
                NodeStatus::Pending
                | NodeStatus::Queued
                | NodeStatus::Waiting
                | NodeStatus::TimedOut
                | NodeStatus::Skipped
                | NodeStatus::Cancelled,
            ) => Box::new(std::iter::empty()),
        }
    }

    /// The status of items that were never opened: after the end of the map, no item will be.
    fn not_begun(&self) -> NodeStatus {
        match self.node().status.is_settled() {
            true => NodeStatus::Cancelled,
            false => NodeStatus::Pending,
        }
    }

    fn status(&self, index: u64) -> NodeStatus {
        if self.body.scope(Some(index)).is_some() {
            return NodeStatus::Running;
        }
        let Some(map) = &self.body.map else {
            let last = index == self.body.opened;
            return match (&self.body.failure, self.node().status) {
                (Some(_), _) if last => NodeStatus::Failed,
                (None, NodeStatus::Cancelled) if last => NodeStatus::Cancelled,
                _ => NodeStatus::Completed,
            };
        };
        match index {
            _ if index >= map.next => self.not_begun(),
            _ if map.has_failed(index) => NodeStatus::Failed,
            _ => NodeStatus::Completed,
        }
    }

    fn item(&self, index: u64, results: &Results<'_>) -> ItemView {
        let status = self.status(index);
        let scope = self.body.scope(Some(index)).and_then(|scope| self.state.scope(scope));
        let nodes = scope.into_iter().flat_map(|scope| &scope.nodes);
        let started_at = nodes.filter_map(|node| Some(node.scheduled.as_ref()?.at)).min();
        let failure = match (&self.body.map, status) {
            (Some(map), NodeStatus::Failed) => map.failures.get(&index).map(|kept| &**kept),
            (None, NodeStatus::Failed) => self.body.failure.as_deref(),
            _ => None,
        };
        let output = (status == NodeStatus::Completed).then(|| results.of(index, self.is_map));
        ItemView { index, status, started_at, output: output.flatten(), failure: failure.cloned() }
    }

    /// The outputs that are kept: in the body while it is under way, then in the container's output.
    fn results(&self) -> Results<'_> {
        if let Some(map) = self.body.map.as_ref().filter(|map| !map.outputs.is_empty()) {
            return Results::Items(&map.outputs);
        }
        if !self.body.collected.is_empty() {
            return Results::Iterations(&self.body.collected);
        }
        let output = self.node().output.as_ref().map_or("null", Json::text);
        let list = match self.is_map {
            true => serde_json::from_str::<WithResults<'_>>(output).map(|found| found.results),
            false => serde_json::from_str(output),
        };
        Results::Output(list.unwrap_or_default())
    }
}

/// The output of a map that has completed, as far as it is read here.
#[derive(serde::Deserialize)]
struct WithResults<'a> {
    #[serde(borrow, default)]
    results: Vec<&'a RawValue>,
}

enum Results<'a> {
    Items(&'a BTreeMap<u64, Json>),
    Iterations(&'a [Json]),
    Output(Vec<&'a RawValue>),
}

impl Results<'_> {
    /// Items count from 0, iterations from 1.
    fn of(&self, index: u64, is_map: bool) -> Option<Json> {
        let place = usize::try_from(if is_map { index } else { index.checked_sub(1)? }).ok()?;
        match self {
            Self::Items(outputs) => outputs.get(&index).cloned(),
            Self::Iterations(outputs) => outputs.get(place).cloned(),
            Self::Output(outputs) => Json::parse(outputs.get(place)?.get()).ok(),
        }
    }
}
