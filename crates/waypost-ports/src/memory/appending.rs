//! Appending: which frames go in, and what became of the others.

use std::collections::BTreeSet;

use waypost_core::event::MessageId;
use waypost_core::frame::FrameHeader;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;

use super::Tables;
use crate::store::{Append, Appended, ControlChange, StoredFrame, Submission, TakenName};

/// The result of inserting a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// It went in.
    At(Timestamp),
    /// It did not: something else is in its place, or its names are taken.
    Not,
    /// It did not, because this many executions hold the permits of its concurrency key.
    Rejected(u64),
    /// It did not, because an execution that was to begin with it could not.
    Unborn,
}

impl Tables {
    /// A whole append, with nothing in between.
    pub fn append(&mut self, batch: &[Append], now: Timestamp) -> Vec<Appended> {
        let parents = self.find_parents(batch);
        let inserted = self.insert(batch, &parents, now);
        self.wake_parked(batch, &inserted, now);
        batch.iter().zip(inserted).map(|(append, at)| self.outcome(append, at)).collect()
    }

    /// The reading half of the append statement: for each frame, is its parent the last frame of
    /// its execution? A frame may also follow an earlier one of the batch.
    pub fn find_parents(&self, batch: &[Append]) -> Vec<bool> {
        let found = |(at, append): (usize, &Append)| {
            if is_planted(Bug::FenceWithoutParent) {
                return true;
            }
            let header = &append.header;
            let earlier = batch.get(..at).unwrap_or_default().iter().rev();
            let before =
                earlier.map(|append| &append.header).find(|h| h.execution == header.execution);
            match before {
                Some(before) => follows(header, before),
                None => match self.frames_from(header.execution, 0).last() {
                    Some(last) => follows(header, &last.header),
                    None => header.parent.is_none() && header.first_seq == 1,
                },
            }
        };
        batch.iter().enumerate().map(found).collect()
    }

    /// The writing half: inserts the frames whose parent was found, if no other frame has their
    /// place and their names are free, with their side rows. Returns when each was committed.
    pub fn insert(&mut self, batch: &[Append], parents: &[bool], now: Timestamp) -> Vec<Inserted> {
        let mut refused = Vec::new();
        let mut inserted = Vec::with_capacity(batch.len());
        for (append, parent) in batch.iter().zip(parents) {
            let header = &append.header;
            let place = (header.execution, header.first_seq);
            let free = *parent
                && header.first_seq <= header.last_seq
                && !refused.contains(&header.execution)
                && !self.frames.contains_key(&place)
                && self.taken(append).is_none()
                && self.has_mail(append);
            let refusal = match (free, self.rejects(append)) {
                (false, _) => Some(Inserted::Not),
                (true, Some(holding)) => Some(Inserted::Rejected(holding)),
                (true, None) => {
                    (!self.can_be_born(&append.side.births)).then_some(Inserted::Unborn)
                }
            };
            if let Some(refusal) = refusal {
                refused.push(header.execution);
                inserted.push(refusal);
                continue;
            }
            for append in std::iter::once(append).chain(&append.side.births) {
                let header = append.header;
                let place = (header.execution, header.first_seq);
                let frame = StoredFrame { header, at: now, body: Ok(append.body.clone()) };
                self.frames.insert(place, frame);
                self.commits.push(place);
                self.write_side(append);
                self.outbox.enqueue(append, now);
                self.write_fire(append, now);
            }
            self.report_deliveries();
            for mail in &append.side.mail {
                self.put(mail);
            }
            self.topics.change(append, now);
            inserted.push(Inserted::At(now));
        }
        inserted
    }

    /// Is all the mail there that the frame was decided on?
    fn has_mail(&self, append: &Append) -> bool {
        let (execution, relied_on) = (append.header.execution, &append.side.relied_on);
        let is_there = |message: &MessageId| {
            self.inbox.iter().any(|mail| mail.execution == execution && mail.message == *message)
        };
        relied_on.iter().all(is_there)
    }

    /// Are the numbers and names of all of them free?
    fn can_be_born(&self, births: &[Append]) -> bool {
        let numbers: BTreeSet<_> = births.iter().map(|birth| birth.header.execution).collect();
        let named = births.iter().filter_map(first_submission).count();
        let names: BTreeSet<_> =
            births.iter().filter_map(first_submission).map(|names| &names.key).collect();
        let free = |birth: &Append| match self.frames_from(birth.header.execution, 0).last() {
            None => birth.header.parent.is_none() && self.taken(birth).is_none(),
            // It is opened again.
            Some(last) => birth.header.parent.is_some() && follows(&birth.header, &last.header),
        };
        numbers.len() == births.len() && names.len() == named && births.iter().all(free)
    }

    /// The outcome of a frame. One that was not inserted is looked up in a statement of its own:
    /// the insert's snapshot may not have the frame that it waited for.
    pub fn outcome(&self, append: &Append, inserted: Inserted) -> Appended {
        match inserted {
            Inserted::At(at) => return Appended::Committed { at },
            Inserted::Rejected(holding) => return Appended::Rejected { holding },
            Inserted::Unborn => return Appended::Unborn,
            Inserted::Not => {}
        }
        let header = &append.header;
        if header.last_seq < header.first_seq {
            return Appended::Poisoned { reason: "the frame ends before it begins".to_owned() };
        }
        match self.frames.get(&(header.execution, header.first_seq)) {
            Some(stored)
                if stored.header.append_id == header.append_id
                    && !is_planted(Bug::LostReplyIsFailure) =>
            {
                Appended::Committed { at: stored.at }
            }
            _ => self.taken(append).unwrap_or(Appended::Fenced),
        }
    }

    /// After the commit that parked them: executions whose mail came before it are made ready. Mail
    /// that comes after it finds them parked ([`wake`](Self::wake)). Whichever commits second sees
    /// the other. So are those that the committed frames have sent mail to, or a signal by key.
    pub fn wake_parked(&mut self, batch: &[Append], inserted: &[Inserted], now: Timestamp) {
        for (append, inserted) in batch.iter().zip(inserted) {
            let parks = matches!(
                append.side.control,
                Some(ControlChange::Parked { .. } | ControlChange::Held { .. })
            );
            if !matches!(inserted, Inserted::At(_)) {
                continue;
            }
            if parks {
                self.make_ready(append.header.execution);
            }
            for mail in &append.side.mail {
                self.wake(mail);
            }
            let topics = append.side.topics.iter().filter(|_| !is_planted(Bug::SubscriberBlind));
            for name in topics.flat_map(|topics| topics.names()).collect::<BTreeSet<_>>() {
                self.route(name, now);
            }
        }
    }

    /// The answer to a first frame whose fire is refused, or whose names another execution has.
    fn taken(&self, append: &Append) -> Option<Appended> {
        let submission = first_submission(append)?;
        let refusal = submission.fire.as_ref().and_then(|fire| self.triggers.refusal(fire));
        if refusal.is_some() {
            return refusal;
        }
        if let Some(idempotency) = &submission.idempotency
            && let Some((execution, digest)) = self.idempotency.get(&idempotency.key)
        {
            let taken = TakenName::key(*digest == idempotency.digest);
            return Some(Appended::Duplicate { execution: *execution, taken });
        }
        let execution = *self.keys.get(&submission.key)?;
        Some(Appended::Duplicate { execution, taken: TakenName::Id })
    }
}

/// Does a frame build on this one?
fn follows(header: &FrameHeader, before: &FrameHeader) -> bool {
    header.parent == Some(before.as_parent()) && before.last_seq + 1 == header.first_seq
}

/// The names of an execution that begins with this frame.
pub(super) fn first_submission(append: &Append) -> Option<&Submission> {
    append.side.submission.as_ref().filter(|_| append.header.parent.is_none())
}
