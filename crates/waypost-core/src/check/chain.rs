//! Headers: the chain of frames, who wrote them, under which ownership, when.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{BrokenRule, Invariant, Verdict, broken};
use crate::event::{Event, RunEvent};
use crate::frame::FrameHeader;
use crate::id::{ExecutionNo, InstanceId};
use crate::time::Timestamp;

/// The state of the chain so far, from the headers.
#[derive(Debug, Default)]
pub(super) struct Chain {
    last: Option<Last>,
    appends: BTreeSet<Uuid>,
    /// The ownership that events have reached; headers must agree with it.
    epoch: u32,
}

#[derive(Debug)]
struct Last {
    header: FrameHeader,
    at: Timestamp,
    writer: InstanceId,
    requires: u16,
}

impl Chain {
    /// Judges the next header.
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
        self.last = Some(Last { header: *header, at, writer: header.instance, requires });
        rules.into_iter().filter_map(Result::err).collect()
    }

    /// The store's time of the last frame.
    pub(super) fn last_at(&self) -> Option<Timestamp> {
        self.last.as_ref().map(|last| last.at)
    }

    /// Judges an event that changes the ownership.
    pub(super) fn event(&mut self, header: &FrameHeader, event: &Event) -> Verdict {
        let Event::Run(RunEvent::Owned { instance, epoch }) = event else { return Ok(()) };
        let before = std::mem::replace(&mut self.epoch, *epoch);
        if before.checked_add(1) != Some(*epoch) {
            return broken(Invariant::Fenced, format!("epoch {epoch} does not follow {before}"));
        }
        if *instance != header.instance {
            let what = format!("{} made {instance} the owner", header.instance);
            return broken(Invariant::Fenced, what);
        }
        Ok(())
    }

    /// A frame may hold a take-over: the ownership that it names is the one after its events.
    pub(super) fn close(&mut self, header: &FrameHeader) -> Verdict {
        let reached = std::mem::replace(&mut self.epoch, header.epoch);
        if header.epoch == reached {
            return Ok(());
        }
        let what = format!("written under epoch {}, the log is at {reached}", header.epoch);
        broken(Invariant::Fenced, what)
    }

    fn is_linked(&self, execution: ExecutionNo, header: &FrameHeader) -> Verdict {
        if header.execution != execution {
            let what = format!("the frame belongs to {}", header.execution);
            return broken(Invariant::Linked, what);
        }
        let (parent, end) = match &self.last {
            Some(Last { header, .. }) => (Some(header.as_parent()), header.last_seq),
            None => (None, 0),
        };
        let first_seq = header.first_seq;
        match end.checked_add(1) {
            Some(next) if first_seq == next => {}
            Some(next) if first_seq > next => {
                let what = format!("seq {next} to {} are missing", first_seq - 1);
                return broken(Invariant::Linked, what);
            }
            _ => {
                let what = format!("the frame begins at {first_seq}, the last one ended at {end}");
                return broken(Invariant::Linked, what);
            }
        }
        if header.parent != parent {
            return broken(Invariant::Linked, "the frame names another one as its parent");
        }
        Ok(())
    }

    fn is_fenced(&self, header: &FrameHeader) -> Verdict {
        let Some(Last { header: last, writer, .. }) = &self.last else { return Ok(()) };
        if header.epoch < last.epoch {
            let what = format!("written under epoch {}, after {}", header.epoch, last.epoch);
            return broken(Invariant::Fenced, what);
        }
        if header.epoch == last.epoch && header.instance != *writer {
            let what =
                format!("epoch {} has two writers, {writer} and {}", header.epoch, header.instance);
            return broken(Invariant::Fenced, what);
        }
        Ok(())
    }

    fn is_new(&mut self, header: &FrameHeader) -> Verdict {
        let id = header.append_id.0;
        if self.appends.insert(id) {
            return Ok(());
        }
        broken(Invariant::AppendsOnce, format!("append {id} is there twice"))
    }

    fn is_later(&self, at: Timestamp) -> Verdict {
        match &self.last {
            Some(last) if at < last.at => {
                broken(Invariant::TimeGoesOn, format!("stored at {at}, after {}", last.at))
            }
            _ => Ok(()),
        }
    }

    fn is_readable_by_its_writer(&self, header: &FrameHeader) -> Verdict {
        let (needed, known) = (self.last.as_ref().map_or(0, |last| last.requires), header.requires);
        if known >= needed {
            return Ok(());
        }
        let what = format!("it needs fold {known}, an earlier frame fold {needed}");
        broken(Invariant::VersionsGrow, what)
    }
}

/// The engine decides by a time that is never ahead of the store's: a wait that it ends is due there.
fn is_decided_first(header: &FrameHeader, at: Timestamp) -> Verdict {
    if header.decided_at <= at {
        return Ok(());
    }
    let what = format!("decided at {}, stored before that, at {at}", header.decided_at);
    broken(Invariant::TimeGoesOn, what)
}
