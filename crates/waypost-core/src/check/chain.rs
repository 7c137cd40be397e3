//! Headers: the chain of frames, who wrote them, under which ownership, when.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::invariant::Invariant::{AppendsOnce, Fenced, Linked, TimeGoesOn, VersionsGrow};
use super::{BrokenRule, Verdict, broken, require, require_with};
use crate::event::{Event, RunEvent};
use crate::frame::FrameHeader;
use crate::id::ExecutionNo;
use crate::time::Timestamp;

/// The state of the chain so far, from the headers.
#[derive(Debug, Default)]
pub(super) struct Chain {
    last: Option<Last>,
    appends: BTreeSet<Uuid>,
    /// The ownership that events have reached; headers must agree with it.
    epoch: u32,
    /// Has the execution ended? Then its parent may open it again, from any instance.
    ended: bool,
}

#[derive(Debug)]
struct Last {
    header: FrameHeader,
    at: Timestamp,
    requires: u16,
}

impl Chain {
    pub(super) fn frame(
        &mut self,
        execution: ExecutionNo,
        header: &FrameHeader,
        at: Timestamp,
    ) -> Vec<BrokenRule> {
        let rules = [
            self.is_linked(execution, header),
            self.is_fenced(header),
            self.is_new(header),
            self.is_later(at),
            is_decided_first(header, at),
            self.is_readable_by_its_writer(header),
        ];
        let requires = self.last.as_ref().map_or(0, |last| last.requires).max(header.requires);
        self.last = Some(Last { header: *header, at, requires });
        rules.into_iter().filter_map(Result::err).collect()
    }

    /// The store's time of the last frame.
    pub(super) fn last_at(&self) -> Option<Timestamp> {
        self.last.as_ref().map(|last| last.at)
    }

    /// Judges an event that changes the ownership.
    pub(super) fn event(&mut self, header: &FrameHeader, event: &Event) -> Verdict {
        self.ended = event.is_end();
        let Event::Run(RunEvent::Owned { instance, epoch }) = event else { return Ok(()) };
        let before = std::mem::replace(&mut self.epoch, *epoch);
        require_with(before.checked_add(1) == Some(*epoch), Fenced, || {
            format!("epoch {epoch} does not follow {before}")
        })?;
        require_with(*instance == header.instance, Fenced, || {
            format!("{} made {instance} the owner", header.instance)
        })
    }

    /// A frame may hold a take-over: the ownership that it names is the one after its events.
    pub(super) fn close(&mut self, header: &FrameHeader) -> Verdict {
        let reached = std::mem::replace(&mut self.epoch, header.epoch);
        require_with(header.epoch == reached, Fenced, || {
            format!("written under epoch {}, the log is at {reached}", header.epoch)
        })
    }

    fn is_linked(&self, execution: ExecutionNo, header: &FrameHeader) -> Verdict {
        require_with(header.execution == execution, Linked, || {
            format!("the frame belongs to {}", header.execution)
        })?;
        let (parent, end) = match &self.last {
            Some(Last { header, .. }) => (Some(header.as_parent()), header.last_seq),
            None => (None, 0),
        };
        let first_seq = header.first_seq;
        match end.checked_add(1) {
            Some(next) if first_seq == next => {}
            Some(next) if first_seq > next => {
                let what = format!("seq {next} to {} are missing", first_seq - 1);
                return broken(Linked, what);
            }
            _ => {
                let what = format!("the frame begins at {first_seq}, the last one ended at {end}");
                return broken(Linked, what);
            }
        }
        require(header.parent == parent, Linked, "the frame names another one as its parent")
    }

    fn is_fenced(&self, header: &FrameHeader) -> Verdict {
        let Some(Last { header: last, .. }) = &self.last else { return Ok(()) };
        let FrameHeader { epoch, instance, .. } = header;
        require_with(*epoch >= last.epoch, Fenced, || {
            format!("written under epoch {epoch}, after {}", last.epoch)
        })?;
        let same = *instance == last.instance || self.ended;
        require_with(*epoch > last.epoch || same, Fenced, || {
            format!("epoch {epoch} has two writers, {} and {instance}", last.instance)
        })
    }

    fn is_new(&mut self, header: &FrameHeader) -> Verdict {
        let id = header.append_id.0;
        require_with(self.appends.insert(id), AppendsOnce, || format!("append {id} is there twice"))
    }

    fn is_later(&self, at: Timestamp) -> Verdict {
        let before = self.last_at().unwrap_or(at);
        require_with(at >= before, TimeGoesOn, || format!("stored at {at}, after {before}"))
    }

    fn is_readable_by_its_writer(&self, header: &FrameHeader) -> Verdict {
        let (needed, known) = (self.last.as_ref().map_or(0, |last| last.requires), header.requires);
        require_with(known >= needed, VersionsGrow, || {
            format!("it needs log format {known}, an earlier frame log format {needed}")
        })
    }
}

/// The engine decides by a time that is never ahead of the store's: a wait that it ends is due there.
fn is_decided_first(header: &FrameHeader, at: Timestamp) -> Verdict {
    require_with(header.decided_at <= at, TimeGoesOn, || {
        format!("decided at {}, stored before that, at {at}", header.decided_at)
    })
}
