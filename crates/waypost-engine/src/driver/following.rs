//! After a commit: its consequences, and executions that leave memory.

use waypost_core::command::Command;
use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Millis;
use waypost_ports::store::Appended;

use super::Driver;
use super::io::{Answer, EndSummary, Output, StoreWork};
use super::live::{Arrival, Consequences, Leave, Letter, Live, PendingFrame};

impl Driver {
    pub(super) fn appended(&mut self, execution: ExecutionNo, appended: Appended) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        let Some(frame) = live.take_pending() else { return };
        self.in_flight_bytes -= frame.bytes;
        match appended {
            Appended::Committed { at } => {
                self.measures.committed(&frame.events, live);
                self.measures.reports_landed(&frame.reported, self.now);
                self.measures.takeovers += u64::from(live.confirm_take_over());
                if frame.consumes {
                    self.claims.consumed_mail(self.now);
                }
                live.forget_refused(&frame.refused_mail);
                self.claims.refused(execution, &frame.refused_mail);
                let next = live.committed(at, frame, &mut self.outputs);
                if is_planted(Bug::BirthOutsideCommit) {
                    let births = next.born.iter().filter_map(|born| live.reopenings.remove(born));
                    let appends = births.map(|birth| Output::Store(StoreWork::Append(birth)));
                    self.outputs.extend(appends);
                }
                if !live.suspicion.doubt {
                    self.settled(execution);
                }
                self.follow_up(execution, next);
            }
            Appended::Fenced => {
                self.measures.fenced += 1;
                if !frame.is_first() {
                    self.measures.lost.push(live.state.created.key.clone());
                }
                self.refused(execution, &frame, &Answer::Moved);
                // If this was a take-over that came too late, its claim still stands, and no other
                // instance will claim the execution.
                let forgets = is_planted(Bug::LostReplyIsFailure);
                if !frame.is_first() && !self.draining && !forgets {
                    self.outputs.push(Output::Store(StoreWork::Reload(execution)));
                }
                // The frame that came first may have been its end.
                if self.ends.is_awaited(execution) {
                    self.outputs.push(Output::Store(StoreWork::FindEnd(execution)));
                }
            }
            Appended::Duplicate { execution: existing, taken } => {
                self.refused(execution, &frame, &Answer::Exists { existing, taken });
            }
            Appended::Rejected { holding } => {
                self.refused(execution, &frame, &Answer::Rejected { holding });
                // It began with another one's frame, and ends as rejected.
                if !frame.is_first() && !self.draining {
                    self.rejected.insert(execution, holding);
                    self.outputs.push(Output::Store(StoreWork::Reload(execution)));
                }
            }
            Appended::ItemSettled(it) => self.refused(execution, &frame, &Answer::ItemSettled(it)),
            Appended::Stale => self.refused(execution, &frame, &Answer::Stale),
            Appended::Unborn => {
                // Decided again from the log, with other numbers and names.
                self.refused(execution, &frame, &Answer::Moved);
                if !frame.is_first() && !self.draining {
                    self.outputs.push(Output::Store(StoreWork::Reload(execution)));
                }
            }
            Appended::Poisoned { reason } => {
                let answer = Answer::Poisoned(reason.clone());
                self.refused(execution, &frame, &answer);
                if !frame.is_first() {
                    self.outputs.push(Output::Store(StoreWork::Hold { execution, reason }));
                }
            }
        }
    }

    /// The store rejected a frame: nothing that it decided has happened. Every caller of a part of
    /// it gets `answer`; if it was the first frame, there is no execution whose end could be
    /// awaited.
    fn refused(&mut self, execution: ExecutionNo, frame: &PendingFrame, answer: &Answer) {
        let mut tickets = frame.tickets();
        if frame.is_first() {
            self.adopted.remove(&execution);
            tickets.extend(self.ends.take(execution));
        }
        self.answer_all(tickets, answer);
        self.drop_live(execution);
    }

    pub(super) fn follow_up(&mut self, execution: ExecutionNo, mut next: Consequences) {
        for (token, worker) in &next.cancelled {
            match worker {
                None if self.stop_unrendered(execution, *token) => {}
                None => self.stop_task(*token),
                Some(worker) => self.stop_remote(*worker, *token),
            }
        }
        self.follow_remote(execution, &next.started_remote);
        self.others_concerned(&next.born, next.sent);
        match next.leaves.take() {
            Some(Leave::Ended(end)) => self.ended(execution, end),
            Some(Leave::Parked) => self.parked(execution),
            Some(Leave::HandedOver) => self.drop_live(execution),
            None => {
                self.begin(execution, next);
                self.fetch(execution);
                self.await_next(execution);
            }
        }
    }

    /// Attempts begin or wait for a slot, and nodes are evaluated.
    fn begin(&mut self, execution: ExecutionNo, next: Consequences) {
        if !self.draining {
            next.launches.into_iter().for_each(|launch| self.launch(execution, launch));
        }
        for (order, slot) in next.runs {
            self.run(order, slot);
        }
        if let Some(live) = self.live.get_mut(&execution) {
            for (run, missed) in next.unrendered {
                live.fetches.put_off_run(run, missed);
            }
        }
        for offer in next.offers {
            match self.live.get(&execution).and_then(|live| live.slot(offer.node)) {
                Some(class) => self.slots.offer(class, offer),
                None => self.offer_remote(offer),
            }
        }
        if !self.draining
            && let Some(live) = self.live.get_mut(&execution)
        {
            live.evaluate(next.evaluations);
            self.enqueue(execution);
        }
        for report in next.never_ran {
            self.report(execution, report);
        }
    }

    /// Queues the execution to decide its mailbox, or arms its timer.
    pub(super) fn await_next(&mut self, execution: ExecutionNo) {
        let Some(live) = self.live.get(&execution) else { return };
        if !live.mailbox.is_empty() {
            return self.enqueue(execution);
        }
        let may_follow = !self.draining && !live.fetches.is_waiting();
        if live.state.wants_delivery() && may_follow {
            // One frame delivers a signal to only so many.
            return self.post(execution, Letter::command(Command::Deliver));
        }
        if live.state.wants_items() && may_follow {
            // One frame opens only so many.
            return self.post(execution, Letter::command(Command::OpenItems));
        }
        match live.next_due() {
            // What is due may wait for contents, and must not be decided over and over.
            Some(due) if due <= self.now && live.fetches.is_waiting() => {
                self.wheel.arm(execution, Some(self.now.plus(Millis::from_secs(1))));
            }
            // It came due while the frame was in flight.
            Some(due) if due <= self.now => {
                self.measures.timer(due, self.now);
                self.post(execution, Letter::command(Command::Tick));
            }
            due => {
                let due = due.filter(|_| !is_planted(Bug::TimerNeverArmed));
                self.wheel.arm(execution, due);
            }
        }
    }

    /// It leaves memory until its timer or mail brings it back.
    fn parked(&mut self, execution: ExecutionNo) {
        self.withdraw_all(execution);
        let Some(live) = self.remove(execution) else { return };
        if live.claimed_again && !self.draining {
            self.outputs.push(Output::Store(StoreWork::Reload(execution)));
        }
        self.claims.parked(live.state.next_due(), &self.config);
        self.is_queued(&live.state);
        self.leaves_mail(&live);
        self.answer_all(live.into_tickets(), &Answer::Moved);
    }

    /// It has ended: it leaves memory, and the callers that await its end are answered.
    fn ended(&mut self, execution: ExecutionNo, end: EndSummary) {
        self.withdraw_all(execution);
        let live = self.remove(execution);
        let was_loaded = |live: &&Live| live.arrival != Arrival::Created;
        if let Some(live) = live.as_ref().filter(was_loaded).filter(|_| self.config.contexts) {
            self.outputs.push(Output::Forget(live.state.created.key.clone()));
        }
        if live.as_ref().is_some_and(|live| live.state.place.is_some()) {
            // The next in the queue is ready: claim it now and not with the next poll.
            self.claims.nudge(self.now);
            self.sibling.may_claim();
        }
        self.adopted.remove(&execution);
        let late = live.map(Live::into_tickets).unwrap_or_default();
        let tickets = self.ends.take(execution).into_iter().chain(late);
        self.answer_all(tickets, &Answer::Ended(end));
    }

    /// Mail that came while an execution was in memory has made it ready, or does so when it loses its owner: a
    /// claim finds it.
    fn leaves_mail(&mut self, live: &Live) {
        if live.mail_waits || !live.mailbox.is_empty() {
            self.claims.nudge(self.now);
        }
    }

    /// Drops an execution that another instance owns now, or no instance, and stops its attempts.
    pub(super) fn drop_live(&mut self, execution: ExecutionNo) {
        if let Some(live) = self.remove(execution) {
            self.leaves_mail(&live);
            for token in live.running_tokens().collect::<Vec<_>>() {
                self.stop_task(token);
            }
            self.answer_all(live.into_tickets(), &Answer::Moved);
        }
    }

    fn remove(&mut self, execution: ExecutionNo) -> Option<Live> {
        self.wheel.arm(execution, None);
        self.remote.forget(execution);
        self.slots.forget(execution);
        self.handing_over.remove(&execution);
        self.staying.remove(&execution);
        self.settled(execution);
        let live = self.live.remove(&execution);
        // An answer to the frame of an execution that is gone is not awaited.
        self.in_flight_bytes -= live.as_ref().map_or(0, Live::in_flight_bytes);
        live
    }
}
