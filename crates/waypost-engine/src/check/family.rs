//! Parents and children: what a log says of another one must be what that one says.
//!
//! The other log is looked up by its number, while the first is read, and no more of it is kept than the
//! answer. It is read later than what refers to it, and logs only grow: on a store in use it is never
//! behind. A log that cannot be read is a finding about that log, and tells nothing here.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::child::ParentLink;
use waypost_core::event::{Event, NodeEvent, RunCreated, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_ports::store::{LogReader, Store, StoreError};

/// Children of parents that are remembered, over all parents.
const REMEMBERED_MAX: usize = 100_000;

/// The children that parents have recorded. The children of one parent often follow each other, and its
/// log is not read once for each.
#[derive(Default)]
pub(super) struct Parents(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    parents: BTreeMap<ExecutionNo, Children>,
    children: usize,
}

/// The path of the node that started each child, and whether it waits for it.
type Children = BTreeMap<ExecutionNo, (Arc<str>, bool)>;

/// The logs around the one that is checked.
#[derive(Clone, Copy)]
pub(super) struct Family<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) parents: &'a Parents,
}

impl Family<'_> {
    /// Compares one event with the log that it is about; returns what is wrong.
    pub(super) fn check(
        &self,
        execution: ExecutionNo,
        event: &Event,
    ) -> Result<Option<String>, StoreError> {
        let unreadable_is_no_fault = |result: Result<Option<String>, StoreError>| match result {
            Err(StoreError::Corrupt(_)) => Ok(None),
            other => other,
        };
        unreadable_is_no_fault(match event {
            Event::Run(RunEvent::Created(created)) => match &created.parent {
                Some(parent) => self.check_parent(execution, parent),
                None => Ok(None),
            },
            Event::Node(event @ NodeEvent::ChildStarted { execution: child, .. }) => {
                self.check_child(execution, *child, event)
            }
            Event::Node(NodeEvent::ChildEnded { execution: child, generation, status, .. }) => {
                self.check_end(*child, (*generation, *status))
            }
            Event::Run(_) | Event::Node(_) => Ok(None),
        })
    }

    /// Has the parent recorded that it started this execution?
    fn check_parent(
        &self,
        execution: ExecutionNo,
        parent: &ParentLink,
    ) -> Result<Option<String>, StoreError> {
        let name = format!("{} ({})", parent.key, parent.execution);
        let started = match self.parents.find(parent.execution, execution) {
            None => {
                let Some(children) = children_of(self.store, parent.execution)? else {
                    return Ok(Some(format!("its parent {name} has no log")));
                };
                let started = children.get(&execution).cloned();
                self.parents.remember(parent.execution, children);
                started
            }
            found => found,
        };
        Ok(match started {
            None => Some(format!("its parent {name} has not recorded that it started it")),
            Some((node, _)) if node != parent.node => Some(format!(
                "it names node {} of {name}, which recorded that node {node} started it",
                parent.node
            )),
            Some((_, awaits)) if awaits != parent.awaits => {
                Some(format!("{name} recorded otherwise whether its node waits for it"))
            }
            Some(_) => None,
        })
    }

    /// Does the log of this child name the node that has recorded its start?
    fn check_child(
        &self,
        execution: ExecutionNo,
        child: ExecutionNo,
        started: &NodeEvent,
    ) -> Result<Option<String>, StoreError> {
        let NodeEvent::ChildStarted { node, child: key, definition, .. } = started else {
            return Ok(None);
        };
        let name = format!("{key} ({child})");
        let created = match created(self.store, child)? {
            First::Created(created) => created,
            First::Unreadable => return Ok(None),
            First::Missing => return Ok(Some(format!("{name}, which it started, has no log"))),
        };
        let named = created
            .parent
            .as_ref()
            .is_some_and(|parent| parent.execution == execution && parent.node == *node);
        Ok(match named {
            false => {
                Some(format!("{name}, which node {node} started, does not name it as its parent"))
            }
            true if created.key != *key || created.definition != *definition => {
                Some(format!("{name}, which node {node} started, was created as something else"))
            }
            true => None,
        })
    }

    /// Did this generation of the child end like this?
    fn check_end(
        &self,
        child: ExecutionNo,
        (generation, status): (u32, Status),
    ) -> Result<Option<String>, StoreError> {
        let mut current = 1;
        for frame in LogReader::whole(self.store, child) {
            let Some(events) = frame?.body.ok().and_then(|body| decode(&body).ok()) else {
                return Ok(None);
            };
            for event in events {
                if let Event::Run(RunEvent::Reopened { generation, .. }) = event {
                    current = generation;
                }
                if let Some(ended) = end_of(&event).filter(|_| current == generation) {
                    let wrong = format!(
                        "it took generation {generation} of {child} for {status}, and it is {ended}"
                    );
                    return Ok((ended != status).then_some(wrong));
                }
            }
        }
        Ok(Some(format!("it took the end of generation {generation} of {child}, which has none")))
    }
}

impl Parents {
    fn find(&self, parent: ExecutionNo, child: ExecutionNo) -> Option<(Arc<str>, bool)> {
        self.0.lock().parents.get(&parent)?.get(&child).cloned()
    }

    fn remember(&self, parent: ExecutionNo, children: Children) {
        let mut remembered = self.0.lock();
        if remembered.children + children.len() > REMEMBERED_MAX {
            *remembered = Remembered::default();
        }
        remembered.children += children.len();
        let before = remembered.parents.insert(parent, children);
        remembered.children -= before.map_or(0, |before| before.len());
    }
}

/// What a log begins with.
enum First {
    Created(Box<RunCreated>),
    Unreadable,
    Missing,
}

fn created(store: &dyn Store, execution: ExecutionNo) -> Result<First, StoreError> {
    let Some(frame) = LogReader::whole(store, execution).next().transpose()? else {
        return Ok(First::Missing);
    };
    let events = frame.body.ok().and_then(|body| decode(&body).ok()).unwrap_or_default();
    Ok(match events.into_iter().next() {
        Some(Event::Run(RunEvent::Created(created))) => First::Created(created),
        _ => First::Unreadable,
    })
}

/// The children that a log has recorded; none where there is no log.
fn children_of(store: &dyn Store, parent: ExecutionNo) -> Result<Option<Children>, StoreError> {
    let mut children = None;
    for frame in LogReader::whole(store, parent) {
        let unreadable = || StoreError::Corrupt(format!("the log of {parent}"));
        let body = frame?.body.map_err(|_| unreadable())?;
        let known = children.get_or_insert_with(Children::new);
        for event in decode(&body).map_err(|_| unreadable())? {
            if let Event::Node(NodeEvent::ChildStarted { execution, node, detached, .. }) = event {
                known.insert(execution, (node, !detached));
            }
        }
    }
    Ok(children)
}

fn end_of(event: &Event) -> Option<Status> {
    match event {
        Event::Run(RunEvent::Completed { .. }) => Some(Status::Completed),
        Event::Run(RunEvent::Failed { .. }) => Some(Status::Failed),
        Event::Run(RunEvent::Cancelled { .. }) => Some(Status::Cancelled),
        Event::Run(RunEvent::TimedOut {}) => Some(Status::TimedOut),
        Event::Run(_) | Event::Node(_) => None,
    }
}
