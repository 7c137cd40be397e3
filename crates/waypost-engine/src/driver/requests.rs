//! What is asked of executions, from this process and through the inbox; and who awaits an end.

use std::sync::Arc;

use waypost_core::command::Command;
use waypost_core::event::Origin;
use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::store::{Mail, MailBody};

use super::Driver;
use super::io::{Answer, Loaded, Outgoing, Output, Request, StoreWork, Ticket};
use super::live::{Letter, Live};

/// Ends that are looked for at once: each is an execution to be read.
const ENDS_AT_ONCE: usize = 64;

impl Driver {
    /// A request from this process: straight to the mailbox where the execution is live, through
    /// the inbox where it is not.
    pub(super) fn request(&mut self, request: Request, ticket: Ticket, outputs: &mut Vec<Output>) {
        let Request { execution, body, message, actor } = request;
        if self.live.contains_key(&execution) {
            let command = command_of(body, Origin { message, actor });
            self.post(execution, Letter { command, ticket: Some(ticket), mail: None });
            return;
        }
        if matches!(body, MailBody::Retry { .. }) {
            self.delivering += 1;
            let request = Box::new(Request { execution, body, message, actor });
            return outputs.push(Output::Store(StoreWork::LoadEnded(request, ticket)));
        }
        let chosen = message.is_some();
        let message = message.unwrap_or_else(|| format!("msg_{}", self.ids.uuid().simple()).into());
        let mail = Mail { execution, message, actor, body };
        self.deliver(Outgoing { mail, chosen, ticket }, outputs);
    }

    /// A retry of an execution that has ended. The frame that reopens it names the end as its parent, so
    /// that of two instances that retry at once one is refused, and finds the execution running.
    pub(super) fn reopen(
        &mut self,
        (loaded, request, ticket): (Loaded, Request, Ticket),
        outputs: &mut Vec<Output>,
    ) {
        self.delivering = self.delivering.saturating_sub(1);
        let Request { execution, body, message, actor } = request;
        if self.draining {
            return outputs.push(Output::Answer(ticket, Answer::Draining));
        }
        if self.live.contains_key(&execution) {
            return outputs.push(Output::Answer(ticket, Answer::Moved));
        }
        self.live.insert(execution, Live::loaded(loaded));
        let command = command_of(body, Origin { message, actor });
        self.post(execution, Letter { command, ticket: Some(ticket), mail: None });
    }

    /// Has mail put into an inbox. Whoever sent it is told what became of it, so this is awaited before
    /// the engine is quiet.
    pub(super) fn deliver(&mut self, outgoing: Outgoing, outputs: &mut Vec<Output>) {
        self.delivering += 1;
        outputs.push(Output::Store(StoreWork::Deliver(outgoing)));
    }

    /// Mail from the inbox. Nobody awaits its answer.
    pub(super) fn mail(&mut self, mail: Mail) {
        let mut message = None;
        if let MailBody::Report(report) = &mail.body {
            message = Some(Arc::clone(&mail.message));
            let live = self.live.get(&mail.execution);
            // Asked once more: whoever put it into the inbox may not have been able to tell.
            let refusal = live.and_then(|live| live.refuses(report, &self.mint, &self.config));
            if let Some(refusal) = refusal {
                let (message, reason) = (mail.message, refusal.to_string());
                let command = Command::Ignore { message: Arc::clone(&message), reason };
                let letter = Letter { command, ticket: None, mail: Some(message) };
                return self.post(mail.execution, letter);
            }
        }
        let origin = Origin { message: Some(mail.message), actor: mail.actor };
        let command = command_of(mail.body, origin);
        self.post(mail.execution, Letter { command, ticket: None, mail: message });
    }

    /// A request is in the inbox, or was refused there.
    pub(super) fn delivered(
        &mut self,
        execution: ExecutionNo,
        ticket: Ticket,
        answer: Answer,
        outputs: &mut Vec<Output>,
    ) {
        self.delivering = self.delivering.saturating_sub(1);
        // Nobody owned it, or it was claimed here in the meantime, without this mail.
        match self.live.get_mut(&execution) {
            Some(live) => {
                live.mail_waits = true;
                self.claims.look_for_mail(self.now);
            }
            None => self.claims.nudge(self.now),
        }
        outputs.push(Output::Answer(ticket, answer));
    }

    /// Somebody wants to hear of an end, which may have been.
    pub(super) fn await_end(
        &mut self,
        execution: ExecutionNo,
        ticket: Ticket,
        outputs: &mut Vec<Output>,
    ) {
        self.waiting_for_end.entry(execution).or_default().push(ticket);
        if !self.live.contains_key(&execution) {
            outputs.push(Output::Store(StoreWork::FindEnd(execution)));
        }
    }

    /// Looks whether others have ended what somebody here awaits: a few at a time, in turn. What is in
    /// memory here ends here.
    pub(super) fn look_for_ends(&mut self, now: Timestamp, outputs: &mut Vec<Output>) {
        if !self.config.among_others || now < self.ends_at || self.waiting_for_end.is_empty() {
            return;
        }
        self.ends_at = now.plus(self.config.poll_every);
        let remote = |id: &&ExecutionNo| !self.live.contains_key(id);
        let mut awaited: Vec<_> = self.waiting_for_end.keys().filter(remote).copied().collect();
        awaited.sort_unstable();
        let next = awaited.partition_point(|id| *id <= self.ends_after);
        let turn = awaited.iter().cycle().skip(next).take(awaited.len().min(ENDS_AT_ONCE));
        for execution in turn {
            self.ends_after = *execution;
            outputs.push(Output::Store(StoreWork::FindEnd(*execution)));
        }
    }

    /// It has been, or there is no such execution.
    pub(super) fn end_found(
        &mut self,
        execution: ExecutionNo,
        answer: &Answer,
        outputs: &mut Vec<Output>,
    ) {
        self.adopted.remove(&execution);
        let tickets = self.waiting_for_end.remove(&execution).unwrap_or_default();
        outputs.extend(tickets.into_iter().map(|ticket| Output::Answer(ticket, answer.clone())));
    }

    /// Whoever awaited an end has gone away.
    pub(super) fn forget(&mut self, execution: ExecutionNo, ticket: Ticket) {
        if let Some(waiting) = self.waiting_for_end.get_mut(&execution) {
            waiting.retain(|other| *other != ticket);
            if waiting.is_empty() {
                self.waiting_for_end.remove(&execution);
            }
        }
    }
}

/// A held execution notes signals and acts on none of them, so they are decided before the request
/// that ends the pause or the execution, whichever came first. Their senders were told that they are
/// in the log or will be: see [`Receipt::Kept`](crate::Receipt::Kept).
pub(super) fn signals_first(loaded: &mut Loaded) {
    let state = &loaded.state;
    let is_held = loaded.row_held || !state.moves() || state.status == Status::Scheduling;
    if is_held && !is_planted(Bug::CancelBeforeKept) {
        loaded.mail.sort_by_key(|mail| !matches!(mail.body, MailBody::Signal { .. }));
    }
}

fn command_of(body: MailBody, origin: Origin) -> Command {
    match body {
        MailBody::Signal { name, body } => Command::Signal { name, body, origin },
        MailBody::Cancel { reason } => Command::Cancel { reason, origin },
        MailBody::Pause { now } => Command::Pause { now, origin },
        MailBody::Resume => Command::Resume { origin },
        MailBody::CompleteWait { wait, body } => Command::CompleteWait { wait, body, origin },
        MailBody::Retry { reason } => Command::Reopen { reason, origin },
        MailBody::Report(report) => Command::Report(report),
    }
}
