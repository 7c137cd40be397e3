//! Requests to executions, from this process and through the inbox.

use std::sync::Arc;

use waypost_core::command::{Command, Request};
use waypost_core::event::Origin;
use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::state::SignalRoom;
use waypost_ports::store::{Mail, MailBody};

use super::Driver;
use super::io::{Answer, ControlRequest, Loaded, Outgoing, Output, StoreWork, Ticket};
use super::live::{Letter, Live};

impl Driver {
    /// A request from this process: straight to the mailbox where the execution is live, through
    /// the inbox where it is not.
    ///
    /// A request that an older instance could not read is refused while one is alive: it may own the
    /// execution, or take it over.
    pub(super) fn request(&mut self, request: ControlRequest, ticket: Ticket) {
        let (needs, readable) = (request.request.requires(), self.readable);
        if needs > readable {
            let refused = Answer::ClusterTooOld { needs, readable };
            return self.outputs.push(Output::Answer(ticket, refused));
        }
        if self.live.contains_key(&request.execution) {
            return self.post_request(request, ticket);
        }
        if matches!(request.request, Request::Retry { .. }) {
            self.delivering += 1;
            let request = Box::new(request);
            return self.outputs.push(Output::Store(StoreWork::LoadEnded(request, ticket)));
        }
        let ControlRequest { execution, request, origin: Origin { message, actor } } = request;
        let chosen = message.is_some();
        let message = message.unwrap_or_else(|| format!("msg_{}", self.ids.uuid().simple()).into());
        let body = MailBody::from(request);
        let blobs = body.blobs();
        let mail = Mail { execution, message, actor, body, blobs };
        self.deliver(Outgoing { mail, chosen, ticket });
    }

    fn post_request(&mut self, request: ControlRequest, ticket: Ticket) {
        let ControlRequest { execution, request, origin } = request;
        let command = Command::Request(request, origin);
        self.post(execution, Letter { command, ticket: Some(ticket), mail: None });
    }

    /// A retry of an execution that has ended. The frame that reopens it names the end as its parent, so
    /// that of two instances that retry at once one is refused, and finds the execution running.
    pub(super) fn reopen(&mut self, (loaded, request, ticket): (Loaded, ControlRequest, Ticket)) {
        self.delivering = self.delivering.saturating_sub(1);
        let execution = request.execution;
        if self.draining {
            return self.outputs.push(Output::Answer(ticket, Answer::Draining));
        }
        if self.live.contains_key(&execution) {
            return self.outputs.push(Output::Answer(ticket, Answer::Moved));
        }
        self.live.insert(execution, Live::loaded(loaded));
        self.post_request(request, ticket);
    }

    /// Puts mail into an inbox. Its sender gets the outcome, so the engine is not quiet before it
    /// is known.
    pub(super) fn deliver(&mut self, outgoing: Outgoing) {
        self.delivering += 1;
        self.outputs.push(Output::Store(StoreWork::Deliver(outgoing)));
    }

    /// Mail from the inbox. No caller awaits its answer.
    pub(super) fn mail(&mut self, mail: Mail) {
        let Mail { execution, message, actor, body, blobs: _ } = mail;
        if self.claims.is_refused(execution, &message) {
            return;
        }
        let letter = match body {
            MailBody::ChildEnded(end) => {
                let command = Command::ChildEnded(end);
                Letter { command, ticket: None, mail: Some(message) }
            }
            MailBody::Request(request) => {
                let origin = Origin { message: Some(Arc::clone(&message)), actor };
                let command = Command::Request(request, origin);
                Letter { command, ticket: None, mail: Some(message) }
            }
            MailBody::Report(report) => {
                let live = self.live.get(&execution);
                // Verified again: the sender may not have been able to.
                let refusal =
                    live.and_then(|live| live.refuses(&report, &self.issuer, &self.config));
                let command = match refusal {
                    Some(refusal) => {
                        let reason = refusal.to_string();
                        Command::Ignore { message: Arc::clone(&message), reason, repeatable: false }
                    }
                    None => Command::Report(report),
                };
                Letter { command, ticket: None, mail: Some(message) }
            }
        };
        self.post(execution, letter);
    }

    /// A request is in the inbox, or was refused there.
    pub(super) fn delivered(&mut self, execution: ExecutionNo, ticket: Ticket, answer: Answer) {
        self.delivering = self.delivering.saturating_sub(1);
        // It was unowned, or this instance claimed it meanwhile without this mail.
        match self.live.get_mut(&execution) {
            Some(live) => {
                live.mail_waits = true;
                self.claims.look_for_mail(self.now);
            }
            None => self.claims.nudge(self.now),
        }
        self.outputs.push(Output::Answer(ticket, answer));
    }
}

/// A held execution records signals and acts on none of them, so they are decided before the
/// request that ends the pause or the execution, whichever came first. Their senders were promised
/// that they are or will be in the log: see [`Receipt::Kept`](crate::Receipt::Kept). One that there is
/// no room for comes after it: a wait may take it then.
pub(super) fn signals_first(loaded: &mut Loaded) {
    if !loaded.is_held() || is_planted(Bug::CancelBeforeKept) {
        return;
    }
    let mut room = SignalRoom::of(&loaded.state);
    let (mut first, mut others, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for mail in std::mem::take(&mut loaded.mail) {
        let place = match &mail.body {
            MailBody::Request(Request::Signal { name, body }) => match room.take(name, body) {
                Ok(()) => &mut first,
                Err(_) => &mut last,
            },
            MailBody::Request(_) | MailBody::Report(_) | MailBody::ChildEnded(_) => &mut others,
        };
        place.push(mail);
    }
    loaded.mail = first.into_iter().chain(others).chain(last).collect();
}
