//! From frames to changes, by execution. Nothing here talks to the database.

use std::collections::BTreeMap;

use waypost_core::frame;
use waypost_core::id::DefinitionHash;
use waypost_core::projection::{Changes, ExecutionView, Stamp, WaitChange, WaitEnd};
use waypost_core::time::Timestamp;

use super::queue::Frame;

/// The projected state of an execution.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    /// The last seq of the last frame they show.
    pub(super) projected: u64,
    pub(super) view: ExecutionView,
    pub(super) definition: Option<DefinitionHash>,
    /// Are there rows? An execution whose first event cannot be read has none.
    pub(super) known: bool,
}

/// An execution that a round touches.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) known: bool,
    /// The seq that its rows must have before these changes.
    pub(super) since: u64,
    /// The seq of its rows after them.
    pub(super) projected: u64,
    pub(super) changes: Changes,
    /// Of what the rows show; absent where there are none.
    definition: Option<DefinitionHash>,
}

/// The result of folding a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Folded {
    /// It is part of the changes.
    Taken,
    /// The rows show it already.
    Known,
    /// Frames before it are missing: the log has to be read.
    Gap,
    /// It is part of the changes, but could not be read.
    Unreadable,
}

impl Touched {
    pub(super) fn on(base: Base) -> Self {
        let Base { projected, view, definition, known } = base;
        Self { known, since: projected, projected, changes: Changes::resume(view), definition }
    }

    /// Takes in a frame.
    pub(super) fn fold(&mut self, taken: &Frame) -> Folded {
        if taken.last_seq <= self.projected {
            return Folded::Known;
        }
        if taken.first_seq != self.projected + 1 {
            return Folded::Gap;
        }
        self.projected = taken.last_seq;
        let events = taken.body.as_deref().map(frame::decode);
        let Some(Ok(events)) = events else { return Folded::Unreadable };
        for (seq, event) in (taken.first_seq..).zip(events) {
            self.changes.apply(Stamp { seq, at: taken.decided_at }, event);
        }
        Folded::Taken
    }

    /// Is there anything to write?
    pub(super) fn is_visible(&self) -> bool {
        self.projected > self.since && (self.known || self.changes.created.is_some())
    }

    /// Does a repair start rows of nodes anew? Those are written from the whole log.
    pub(super) fn starts_anew(&self) -> bool {
        self.changes.nodes.values().any(|change| change.reset)
    }

    /// The definition that it executes.
    pub(super) fn definition(&self) -> Option<DefinitionHash> {
        let created = self.changes.created.as_ref();
        created.map(|created| created.run.definition).or(self.definition)
    }

    /// The state of the rows once these changes are written.
    pub(super) fn into_base(self) -> Base {
        let known = self.known || self.changes.created.is_some();
        let definition = self.definition();
        Base { projected: self.projected, view: self.changes.view, definition, known }
    }
}

/// The waits that some changes open, and those of earlier rows that they close.
#[derive(Debug, Default)]
pub(super) struct Waits<'a> {
    pub(super) opened: Vec<OpenedWait<'a>>,
    /// By path; the first end of a path counts.
    pub(super) closed: BTreeMap<&'a str, Closed>,
    /// Whatever was open still.
    pub(super) all_closed: Option<Closed>,
}

/// A wait that began, and maybe ended.
#[derive(Debug)]
pub(super) struct OpenedWait<'a> {
    pub(super) stamp: Stamp,
    pub(super) path: &'a str,
    pub(super) wait: &'a waypost_core::event::Wait,
    pub(super) closed: Option<Closed>,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) at: Timestamp,
    pub(super) end: WaitEnd,
}

impl<'a> Waits<'a> {
    /// Changes in their order: an end closes the waits that are open then, in rows or in these
    /// changes.
    pub(super) fn of(changes: &'a [WaitChange]) -> Self {
        let mut waits = Self::default();
        for change in changes {
            match change {
                WaitChange::Opened { stamp, node, wait } => {
                    waits.opened.push(OpenedWait { stamp: *stamp, path: node, wait, closed: None });
                }
                WaitChange::Closed { at, node, end } => {
                    let closed = Closed { at: *at, end: *end };
                    let is_meant = |path: &str| node.as_ref().is_none_or(|node| **node == *path);
                    for opened in waits.opened.iter_mut().filter(|opened| is_meant(opened.path)) {
                        opened.closed.get_or_insert(closed);
                    }
                    match node {
                        _ if waits.all_closed.is_some() => {}
                        Some(node) => drop(waits.closed.entry(node).or_insert(closed)),
                        None => waits.all_closed = Some(closed),
                    }
                }
            }
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::event::{Event, RunEvent, Wait};
    use waypost_core::frame::encode;

    use super::*;

    fn frame(first_seq: u64, events: &[Event]) -> Frame {
        let last_seq = first_seq + events.len() as u64 - 1;
        let body = Some(encode(events));
        Frame { execution: 1, first_seq, last_seq, decided_at: Timestamp(5), body }
    }

    fn cancelled() -> Event {
        Event::Run(RunEvent::Cancelled { reason: None })
    }

    #[test]
    fn frames_are_taken_in_order_and_once() {
        let mut touched = Touched::on(Base { projected: 4, known: true, ..Base::default() });
        assert_eq!(touched.fold(&frame(3, &[cancelled(), cancelled()])), Folded::Known);
        assert_eq!(touched.fold(&frame(6, &[cancelled()])), Folded::Gap);
        assert!(!touched.is_visible());
        assert_eq!(touched.fold(&frame(5, &[cancelled()])), Folded::Taken);
        let damaged = Frame { body: None, ..frame(6, &[cancelled()]) };
        assert_eq!(touched.fold(&damaged), Folded::Unreadable);
        assert_eq!((touched.since, touched.projected, touched.changes.view.seq), (4, 6, 5));
        assert!(touched.is_visible());
    }

    #[test]
    fn the_end_of_a_wait_concerns_what_was_open() {
        let opened = |seq, node: &str| WaitChange::Opened {
            stamp: Stamp { seq, at: Timestamp(1) },
            node: node.into(),
            wait: Wait::Delay { due: Timestamp(9) },
        };
        let closed = |at, node: Option<&str>, end| WaitChange::Closed {
            at: Timestamp(at),
            node: node.map(Into::into),
            end,
        };
        let changes = [
            closed(1, Some("a"), WaitEnd::Completed),
            opened(2, "a"),
            closed(3, Some("a"), WaitEnd::Timeout),
            opened(4, "a"),
            opened(5, "b"),
            closed(6, None, WaitEnd::Failed),
            opened(7, "b"),
        ];
        let waits = Waits::of(&changes);
        let ends: Vec<_> = waits.opened.iter().map(|o| o.closed.map(|c| c.at.0)).collect();
        assert_eq!(ends, [Some(3), Some(6), Some(6), None]);
        assert_eq!(waits.closed["a"].at, Timestamp(1), "the first end is that of the row");
        assert_eq!(waits.all_closed.map(|closed| closed.at), Some(Timestamp(6)));
    }
}
