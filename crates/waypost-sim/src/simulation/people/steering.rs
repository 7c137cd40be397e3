//! People steer maps: they cancel items, hold and release maps, and change how many items are open.

use waypost_core::command::{Request, Tuning};
use waypost_core::event::{Event as LogEvent, NodeEvent};
use waypost_core::id::ExecutionNo;

use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::model::Steered;

/// A map that can be steered.
struct OpenMap {
    path: String,
    count: u64,
    open: Vec<u64>,
    held: bool,
}

impl Simulation {
    /// Items were opened: a user may steer the map soon.
    pub(in crate::simulation) fn tempt_to_steer(
        &mut self,
        execution: ExecutionNo,
        events: &[LogEvent],
    ) {
        let opens = |event: &LogEvent| {
            use NodeEvent::{ItemsOpened, MapOpened};
            matches!(event, LogEvent::Node(MapOpened { .. } | ItemsOpened { .. }))
        };
        if !events.iter().any(opens) {
            return;
        }
        let (mut inner, random) = (self.store.inner(), &mut self.people.steering);
        // Few frames open items: they are tempting.
        let strikes = (0..4).any(|_| inner.weather.strikes_apart(Fault::Steers, random));
        drop(inner);
        if strikes {
            let within = *random.pick(&[10, 100, 3_000]);
            let soon = random.below(within);
            self.after(soon, WorldEvent::Steer(execution));
        }
    }

    /// A user steers one of the open maps of an execution.
    pub(in crate::simulation) fn steer(&mut self, execution: ExecutionNo) {
        if self.faults_over {
            return;
        }
        let maps = self.open_maps(execution);
        if maps.is_empty() {
            return;
        }
        if self.people.steering.percent(60) {
            let soon = self.people.steering.below(2_000);
            self.after(soon, WorldEvent::Steer(execution));
        }
        let random = &mut self.people.steering;
        let map = random.pick(&maps);
        if random.percent(40) {
            // An item that is open; or any, also one that there is not.
            let any = random.below(map.count + 1);
            let item = match map.open.is_empty() || random.percent(20) {
                true => any,
                false => *random.pick(&map.open),
            };
            let item = format!("{}[{item}]", map.path);
            return self.cancel_item(execution, item);
        }
        let held = random.percent(70).then(|| random.percent(60));
        let concurrency = (held.is_none() || random.percent(30)).then(|| random.between(1, 4));
        let concurrency = concurrency.and_then(|count| u32::try_from(count).ok());
        self.tune(execution, map.path.clone(), Tuning { held, concurrency });
    }

    /// After the faults, no map stays held.
    pub(super) fn release_maps(&mut self, execution: ExecutionNo) {
        for map in self.open_maps(execution).into_iter().filter(|map| map.held) {
            self.tune(execution, map.path, Tuning { held: Some(false), concurrency: None });
        }
    }

    fn cancel_item(&mut self, execution: ExecutionNo, item: String) {
        let request = Request::CancelItem { node: item.as_str().into(), reason: None };
        let done = self.people.done_to.entry(execution).or_default();
        done.steered.push(Steered::ItemCancelled(item));
        self.ask(execution, request, None);
    }

    fn tune(&mut self, execution: ExecutionNo, map: String, tuning: Tuning) {
        let request = Request::Tune { node: map.as_str().into(), tuning, reason: None };
        let done = self.people.done_to.entry(execution).or_default();
        done.steered.push(Steered::Tuned(map, tuning));
        self.ask(execution, request, None);
    }

    fn open_maps(&self, execution: ExecutionNo) -> Vec<OpenMap> {
        let log = self.auditor.logs.get(&execution);
        let Some((plan, state)) = log.and_then(|log| log.check.plan().zip(log.check.state()))
        else {
            return Vec::new();
        };
        let nodes = state.nodes().filter(|(_, node)| !node.status.is_settled());
        let maps = nodes.filter_map(|(at, node)| {
            let body = node.body.as_deref()?;
            let map = body.map.as_deref()?;
            Some(OpenMap {
                path: state.path(plan, at).to_string(),
                count: map.count,
                open: body.open.keys().filter_map(|index| *index).collect(),
                held: map.held.is_some(),
            })
        });
        maps.collect()
    }
}
