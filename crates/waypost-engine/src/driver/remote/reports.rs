//! Reports of remote workers, and whether they are admitted.

use std::sync::Arc;

use waypost_core::command::{Command, Outcome, Refusal, Report};
use waypost_core::event::{MessageId, REMOTE_LOG_FORMAT};
use waypost_core::id::{ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::status::NodeStatus;
use waypost_ports::store::{Mail, MailBody};

use crate::config::Config;
use crate::driver::Driver;
use crate::driver::io::{Answer, Outgoing, Output, Ticket};
use crate::driver::live::{Letter, Live};
use crate::tokens::TokenIssuer;

/// A remote worker's report on an attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskReport {
    pub execution: ExecutionNo,
    /// That execution's key, where it is known: by it others show that they own it.
    pub key: Option<ExecutionId>,
    pub node: Arc<str>,
    pub attempt: u32,
    pub token: Token,
    pub worker: WorkerId,
    pub outcome: Outcome,
}

impl From<TaskReport> for Report {
    fn from(report: TaskReport) -> Self {
        let TaskReport { node, attempt, token, worker, outcome, .. } = report;
        Self { node, attempt, token, worker: Some(worker), outcome }
    }
}

impl Driver {
    /// A remote worker's report: straight to the mailbox if the execution is live, through the
    /// inbox if it is not, unless it is for this memory alone.
    pub(in crate::driver) fn task_report(
        &mut self,
        report: TaskReport,
        ticket: Ticket,
        only_here: bool,
    ) {
        let execution = report.execution;
        let Some(live) = self.live.get_mut(&execution) else {
            match only_here {
                true => self.outputs.push(Output::Answer(ticket, Answer::NotHere)),
                false => {
                    self.deliver(Outgoing { mail: report.mail(), chosen: false, ticket });
                }
            }
            return;
        };
        let report = Report::from(report);
        match live.refuses(&report, &self.issuer, &self.config) {
            Some(refusal) => {
                self.measures.reports_refused += 1;
                live.answer(ticket, Answer::Refused(refusal), &mut self.outputs);
            }
            None => {
                live.reported.push(self.now);
                if !matches!(report.outcome, Outcome::Started | Outcome::Checkpoint(_)) {
                    // It has stopped, whatever came of it.
                    self.remote.stopping.remove(&report.token);
                }
                // A report that was relayed may come again through the inbox, if its sender got no
                // answer in time: under the same message id it is a duplicate.
                let mail = only_here.then(|| message_of(&report));
                let command = Command::Report(report);
                self.post(execution, Letter { command, ticket: Some(ticket), mail });
            }
        }
    }
}

impl Live {
    /// Why a report of a remote worker is rejected before the execution sees it: its token is not
    /// one of ours, or it would start an attempt that must not be recorded.
    pub(in crate::driver) fn refuses(
        &self,
        report: &Report,
        issuer: &TokenIssuer,
        config: &Config,
    ) -> Option<Refusal> {
        let foreign = issuer.admit(&self.plan, &self.state, report).err();
        foreign.or_else(|| self.starts_remote(report, config))
    }

    fn starts_remote(&self, report: &Report, config: &Config) -> Option<Refusal> {
        let at = self.state.find(&self.plan, &report.node)?;
        let node = self.state.node(at);
        let starts = node.status == NodeStatus::Queued && node.attempt == report.attempt;
        let (status, attempt) = (node.status, node.attempt);
        (starts && config.fold < REMOTE_LOG_FORMAT).then(|| Refusal::Stale {
            node: Arc::clone(&report.node),
            status,
            attempt,
        })
    }
}

impl TaskReport {
    /// As mail to the execution's owner, relayed or through the inbox: under the same message id,
    /// so that duplicates are recognised.
    pub(crate) fn mail(self) -> Mail {
        let execution = self.execution;
        let report = Report::from(self);
        let message = message_of(&report);
        let body = MailBody::Report(report);
        let blobs = body.blobs();
        Mail { execution, message, actor: None, body, blobs }
    }

    /// As it was before it was sent. `None` for mail that is not a worker's report.
    pub(crate) fn from_mail(mail: Mail) -> Option<Self> {
        let Mail { execution, body: MailBody::Report(report), .. } = mail else { return None };
        let Report { node, attempt, token, worker, outcome } = report;
        Some(Self { execution, key: None, node, attempt, token, worker: worker?, outcome })
    }
}

/// The id of a report in an inbox: an equal report is the same message.
fn message_of(report: &Report) -> MessageId {
    let kind = match &report.outcome {
        Outcome::Started => "started",
        Outcome::Completed(_) => "completed",
        Outcome::Failed(_) => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Lost(_) => "lost",
        Outcome::Checkpoint(_) => "checkpoint",
        Outcome::Blocked(_) => "blocked",
    };
    let outcome = serde_json::to_vec(&report.outcome).unwrap_or_default();
    let digest = blake3::hash(&outcome).to_hex();
    let digest = digest.get(..16).unwrap_or_default();
    format!("rep_{}_{kind}_{digest}", report.token).into()
}
