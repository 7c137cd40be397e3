//! What is asked of executions, from this process and through the inbox; and who awaits an end.

use waypost_core::command::Command;
use waypost_core::event::Origin;
use waypost_core::id::ExecutionId;
use waypost_ports::store::{Mail, MailBody};

use super::Driver;
use super::io::{Answer, Outgoing, Output, Request, Ticket};
use super::live::Letter;

impl Driver {
    /// A request from this process: straight to the mailbox where the execution is live, through
    /// the inbox where it is not.
    pub(super) fn request(&mut self, request: Request, ticket: Ticket, outputs: &mut Vec<Output>) {
        let Request { execution, body, message, actor } = request;
        if self.live.contains_key(&execution) {
            let command = command_of(body, Origin { message, actor });
            self.post(execution, Letter { command, ticket: Some(ticket) });
            return;
        }
        let chosen = message.is_some();
        let message = message.unwrap_or_else(|| format!("msg_{}", self.ids.uuid().simple()).into());
        let mail = Mail { execution, message, actor, body };
        outputs.push(Output::Deliver(Outgoing { mail, chosen, ticket }));
    }

    /// Mail from the inbox. Nobody awaits its answer.
    pub(super) fn mail(&mut self, mail: Mail) {
        let origin = Origin { message: Some(mail.message), actor: mail.actor };
        self.post(mail.execution, Letter::command(command_of(mail.body, origin)));
    }

    /// A request is in the inbox, or was refused there.
    pub(super) fn delivered(
        &mut self,
        execution: ExecutionId,
        ticket: Ticket,
        answer: Answer,
        outputs: &mut Vec<Output>,
    ) {
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
        execution: ExecutionId,
        ticket: Ticket,
        outputs: &mut Vec<Output>,
    ) {
        self.waiting_for_end.entry(execution).or_default().push(ticket);
        if !self.live.contains_key(&execution) {
            outputs.push(Output::FindEnd(execution));
        }
    }

    /// It has been, or there is no such execution.
    pub(super) fn end_found(
        &mut self,
        execution: ExecutionId,
        answer: &Answer,
        outputs: &mut Vec<Output>,
    ) {
        self.adopted.remove(&execution);
        let tickets = self.waiting_for_end.remove(&execution).unwrap_or_default();
        outputs.extend(tickets.into_iter().map(|ticket| Output::Answer(ticket, answer.clone())));
    }

    /// Whoever awaited an end has gone away.
    pub(super) fn forget(&mut self, execution: ExecutionId, ticket: Ticket) {
        if let Some(waiting) = self.waiting_for_end.get_mut(&execution) {
            waiting.retain(|other| *other != ticket);
            if waiting.is_empty() {
                self.waiting_for_end.remove(&execution);
            }
        }
    }
}

fn command_of(body: MailBody, origin: Origin) -> Command {
    match body {
        MailBody::Signal { name, body } => Command::Signal { name, body, origin },
        MailBody::Cancel { reason } => Command::Cancel { reason, origin },
        MailBody::Pause { now } => Command::Pause { now, origin },
        MailBody::Resume => Command::Resume { origin },
        MailBody::ResumeWait { wait, body } => Command::ResumeWait { wait, body, origin },
    }
}
