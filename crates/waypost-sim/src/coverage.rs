//! Coverage: which arrows of the state machines were taken, and which faults have struck.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::event::{Event, NodeEvent, RunEvent};
use waypost_core::status::Status;
use waypost_core::transitions::{Arrow, NodePhase, arrows, status_after};

use crate::fault::Fault;

/// Arrows of the tables that no world takes, by status and event.
const UNREACHED: &[(&str, &str)] = &[
    // A parked execution is taken over before a message is decided.
    ("WAITING", "SignalReceived"),
    ("WAITING", "MessageIgnored"),
    ("WAITING", "RunPauseRequested"),
    ("WAITING", "RunEnding"),
];

/// The arrows of the tables that worlds take.
pub fn reachable() -> Vec<Arrow> {
    let is_reached = |(from, event, _): &Arrow| !UNREACHED.contains(&(*from, *event));
    arrows().into_iter().filter(is_reached).collect()
}

/// The coverage of a simulation, or of many.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// How often each arrow was taken.
    pub arrows: BTreeMap<Arrow, u64>,
    /// How often each fault has struck, by the order of [`Fault::ALL`].
    pub faults: Vec<u64>,
}

impl Coverage {
    /// Adds what another one has reached.
    pub fn add(&mut self, other: &Self) {
        for (arrow, count) in &other.arrows {
            *self.arrows.entry(*arrow).or_default() += count;
        }
        self.add_faults(&other.faults);
    }

    pub(crate) fn add_faults(&mut self, struck: &[u64]) {
        self.faults.resize(Fault::ALL.len(), 0);
        self.faults.iter_mut().zip(struck).for_each(|(sum, count)| *sum += count);
    }

    /// Arrows that were never taken, and faults that never struck.
    pub fn missing(&self) -> (Vec<Arrow>, Vec<Fault>) {
        let arrows = reachable().into_iter().filter(|arrow| !self.arrows.contains_key(arrow));
        let never =
            |(at, _): &(usize, &Fault)| self.faults.get(*at).is_none_or(|count| *count == 0);
        let faults = Fault::ALL.iter().enumerate().filter(never).map(|(_, fault)| *fault);
        (arrows.collect(), faults.collect())
    }

    /// Arrows that were taken, and should not be there or not be reached.
    pub fn unknown(&self) -> Vec<Arrow> {
        let known = reachable();
        self.arrows.keys().filter(|arrow| !known.contains(arrow)).copied().collect()
    }
}

/// Follows one execution through its two machines, by its events alone. The auditor compares it with
/// the state after every frame.
#[derive(Clone, Debug)]
pub struct Tracker {
    status: Status,
    nodes: BTreeMap<Arc<str>, NodePhase>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self { status: Status::Running, nodes: BTreeMap::new() }
    }
}

impl Tracker {
    /// Takes in the next event, and counts the arrow that it is.
    pub fn event(&mut self, event: &Event, coverage: &mut Coverage) {
        let before = self.status;
        self.status = status_after(before, event);
        if let Event::Run(RunEvent::Reopened { nodes, .. }) = event {
            self.nodes.retain(|node, _| !nodes.contains(node));
        }
        for prefix in opened(event) {
            // Its nodes begin anew, as those of an earlier try of a group did.
            self.nodes.retain(|node, _| !node.starts_with(&prefix));
        }
        let arrow = match event {
            // It leads from nowhere.
            Event::Run(RunEvent::Created(_)) => return,
            Event::Run(event) => (before.name(), event.row().name, self.status.name()),
            Event::Node(event) => {
                let (row, node) = (event.row(), Arc::clone(event.node()));
                let phase = self.nodes.entry(node).or_insert(NodePhase::Pending);
                let from = *phase;
                // An event without an arrow is counted as one that leads nowhere, which nothing draws.
                *phase = row.from(from).unwrap_or(from);
                (from.shown().name(), row.name, phase.shown().name())
            }
        };
        *coverage.arrows.entry(arrow).or_default() += 1;
    }

    /// The status of the execution.
    pub fn status(&self) -> Status {
        self.status
    }
}

/// What the paths of the nodes begin with that are in the scopes which an event opens.
fn opened(event: &Event) -> Vec<String> {
    match event {
        Event::Node(NodeEvent::BodyOpened { node, index: Some(index), .. }) => {
            vec![format!("{node}[{index}]/")]
        }
        Event::Node(NodeEvent::BodyOpened { node, index: None, .. }) => vec![format!("{node}/")],
        Event::Node(NodeEvent::ItemsOpened { node, from, count, .. }) => {
            (*from..from + count).map(|index| format!("{node}[{index}]/")).collect()
        }
        _ => Vec::new(),
    }
}
