//! The items of a map, as its log recorded them.

use serde_json::Value as Json;
use waypost_core::command::Tuning;
use waypost_core::event::NodeEvent;
use waypost_core::status::NodeStatus;

use super::{NodeRan, value};

/// The items of a map, as they were recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemsRan {
    pub count: u64,
    /// A list; `None` where they are the numbers from 0 on.
    pub list: Option<Json>,
    /// How many may fail.
    pub tolerated: u64,
    /// The event that recorded them.
    pub found: u64,
}

impl ItemsRan {
    /// An item. What is no list came from a blob, as the only one of its lines.
    pub fn item(&self, index: u64) -> Json {
        match &self.list {
            None => index.into(),
            Some(Json::Array(list)) => {
                let at = usize::try_from(index).ok();
                at.and_then(|at| list.get(at)).cloned().unwrap_or_default()
            }
            Some(line) => line.clone(),
        }
    }
}

impl NodeRan {
    pub(super) fn read_map(&mut self, seq: u64, event: &NodeEvent) {
        match event {
            NodeEvent::MapOpened { count, items, tolerated, .. } => {
                let (list, found) = (items.as_ref().map(value), seq);
                let (count, tolerated) = (*count, *tolerated);
                self.items = Some(ItemsRan { count, list, tolerated, found });
                self.status = NodeStatus::Waiting;
            }
            NodeEvent::ItemsOpened { attempt, from, count, .. } => {
                for index in *from..from + count {
                    self.opened(seq, *attempt, Some(index));
                }
            }
            NodeEvent::Tuned { held, concurrency, .. } => {
                self.tuned.push((seq, Tuning { held: *held, concurrency: *concurrency }));
            }
            _ => {}
        }
    }
}
