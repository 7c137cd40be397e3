//! Approvals: a person decides, in time or not. Others are asked after a while.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Decider;
use super::evaluate::{duration, invalid, text_of};
use crate::command::{ApprovalDecision, Refusal};
use crate::event::{ApprovalWait, NodeEvent, Origin, Wait};
use crate::expr::{Scope, Template};
use crate::failure::Failure;
use crate::json::Json;
use crate::kind::{ApprovalSpec, EXPIRED};
use crate::limits::APPROVERS_MAX;
use crate::path::At;
use crate::planted::{Bug, is_planted};

impl Decider<'_> {
    pub(super) fn await_approval(&mut self, at: At, spec: &ApprovalSpec) -> Result<(), Failure> {
        let scope = self.scope(at);
        let title = text_of(&spec.title.render(&scope)?, "the title of an approval")?;
        let description = spec.description.as_ref().map(|text| text.render(&scope)).transpose()?;
        let description = description.as_ref().map(words).transpose()?.flatten();
        let names = |template: &Template| names_of(template, &scope);
        let approvers = spec.approvers.as_ref().map(names).transpose()?.unwrap_or_default();
        let now = self.env.now_max;
        let span = spec.timeout.as_ref().map(|timeout| duration(timeout, &scope)).transpose()?;
        let reminder = spec.reminder.as_ref().map(|after| duration(after, &scope)).transpose()?;
        let (mut escalate, mut escalate_to) = (None, Vec::new());
        if let Some(escalation) = &spec.escalate {
            escalate = Some(now.plus(duration(&escalation.after, &scope)?));
            escalate_to = names(&escalation.to)?;
        }
        let due = span.map(|span| now.plus(span));
        let remind = reminder.map(|after| now.plus(after));
        let title = title.into();
        let approval =
            ApprovalWait { title, description, approvers, due, remind, escalate, escalate_to };
        self.wait(at, Wait::Approval(Box::new(approval)), span);
        Ok(())
    }

    /// A person decides. The first decision stands: later ones find no open wait.
    pub(super) fn decide_approval(
        &mut self,
        wait: u64,
        decision: &ApprovalDecision,
        origin: Origin,
    ) -> Result<(), Refusal> {
        if let Some(refusal) = self.state.refuses_decision(wait, &decision.approver) {
            if is_planted(Bug::SecondDecisionTaken) && refusal == Refusal::NoSuchWait(wait) {
                return Ok(());
            }
            return self.ignore(origin, refusal);
        }
        let (true, Some(at)) = (self.state.acts(), self.state.waiting_since(wait)) else {
            return self.ignore(origin, Refusal::Paused);
        };
        let by = decision.by();
        let Ok(output) = self.decided_output(decision, &by) else {
            return self.ignore(origin, Refusal::BadForm);
        };
        if !self.has_variables_of(at, Some(&output)) {
            return Ok(());
        }
        let origin = self.identified(origin);
        self.resume_node(at, origin);
        let branch = decision.verdict.branch();
        if let Err(failure) = self.complete(at, Some(output), Some(branch.into())) {
            self.attempt_failed(at, failure);
        }
        Ok(())
    }

    fn decided_output(
        &self,
        decision: &ApprovalDecision,
        by: &str,
    ) -> Result<Json, crate::json::BadJson> {
        let text = |text: Value| Json::from_value(&text);
        let fields = [
            ("decision", text(json!(decision.verdict.branch()))),
            ("by", text(json!(by))),
            ("at", text(json!(self.env.now.to_string()))),
            ("comment", text(json!(decision.comment))),
            ("form", decision.form.clone()),
        ];
        Json::object(fields.into_iter())
    }

    /// The output of an approval that was not decided in time.
    pub(super) fn expired_output(&self) -> Json {
        let at = self.env.now.to_string();
        let none = Value::Null;
        let fields =
            json!({ "decision": EXPIRED, "by": none, "at": at, "comment": none, "form": none });
        Json::from_value(&fields)
    }

    pub(super) fn approval_expired(&mut self, at: At) {
        let output = Some(self.expired_output());
        self.timed_out(at, output, EXPIRED);
    }

    /// Records the first reminder of an approval, which is due. After a pause several are: each is
    /// recorded, in the order in which they were due.
    pub(super) fn remind(&mut self, at: At) {
        let Some(Wait::Approval(approval)) = &self.node(at).wait else {
            unreachable!("a reminder's timer is removed with the wait")
        };
        let escalated = match (approval.remind, approval.escalate) {
            (Some(remind), Some(escalate)) => escalate < remind,
            (remind, _) => remind.is_none(),
        };
        self.resumed(at, |node, attempt| NodeEvent::Reminded { node, attempt, escalated });
    }
}

/// A text, or nothing where it is empty.
fn words(value: &Json) -> Result<Option<Arc<str>>, Failure> {
    let found = value.to_value()?;
    match &found {
        Value::Null => Ok(None),
        Value::String(text) => {
            Ok(Some(text.as_str().into()).filter(|text: &Arc<str>| !text.is_empty()))
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(invalid(format!("the description of an approval must be a text, not {value}")))
        }
    }
}

fn names_of(template: &Template, scope: &Scope) -> Result<Vec<Arc<str>>, Failure> {
    let value = template.render(scope)?;
    let found = value.to_value()?;
    let all = match &found {
        Value::Array(all) if all.len() <= APPROVERS_MAX => all.as_slice(),
        Value::String(_) => std::slice::from_ref(&found),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => &[],
    };
    let name = |name: &Value| name.as_str().filter(|name| !name.is_empty()).map(Arc::from);
    let names: Option<Vec<Arc<str>>> = all.iter().map(name).collect();
    names.filter(|names| !names.is_empty()).ok_or_else(|| {
        let what = format!("approvers must be 1 to {APPROVERS_MAX} names, not {value}");
        invalid(what)
    })
}
