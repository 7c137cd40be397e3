//! Behaviours that wait for the outside: signals and decisions of people.

use std::sync::Arc;

use super::{Behaviour, DurationTemplate, OperationSpec};
use crate::expr::{Expression, Template};
use crate::json::Json;
use crate::plan::{Plan, PlanNode};

/// The branches of an approval.
pub const APPROVED: &str = "approved";
/// See [`APPROVED`].
pub const REJECTED: &str = "rejected";
/// See [`APPROVED`].
pub const EXPIRED: &str = "expired";

/// Several signals that a node waits for.
#[derive(Debug, PartialEq)]
pub struct SignalsSpec {
    pub signals: Vec<SignalSpec>,
    /// How many of them end the wait: 1 to all.
    pub need: u32,
    /// Fails with kind `timeout` after this long, or selects a branch.
    pub timeout: Option<DurationTemplate>,
    /// The branch that it selects then.
    pub on_timeout: Option<Arc<str>>,
}

/// Which signal a node waits for.
#[derive(Debug, PartialEq)]
pub struct SignalName {
    pub name: Template,
    /// The correlation key: with it, the signal may be [published](crate::published), too.
    pub key: Option<Template>,
    /// It is an [event](crate::event_wait), whose type is the name, and this is what it must have.
    pub event: Option<Template>,
}

/// One of several signals.
#[derive(Debug, PartialEq)]
pub struct SignalSpec {
    pub name: SignalName,
    /// Must hold for the signal to count; sees its body as `signal`.
    pub filter: Option<Expression>,
}

/// What a person is asked to decide.
#[derive(Debug, PartialEq)]
pub struct ApprovalSpec {
    pub title: Template,
    pub description: Option<Template>,
    /// JSON Schema of the form that comes with an approval.
    pub form: Option<Json>,
    /// A list of names; anyone who may control executions where absent.
    pub approvers: Option<Template>,
    /// Expires after this long.
    pub timeout: Option<DurationTemplate>,
    /// The approvers are reminded after this long.
    pub reminder: Option<DurationTemplate>,
    pub escalate: Option<Escalation>,
}

/// A message whose delivery a node waits for.
#[derive(Debug, PartialEq)]
pub struct NotifySpec {
    pub message: Template,
    /// Fails with kind `timeout` after this long.
    pub timeout: Option<DurationTemplate>,
}

/// Who else may decide, and when.
#[derive(Debug, PartialEq)]
pub struct Escalation {
    pub after: DurationTemplate,
    /// A list of names.
    pub to: Template,
}

impl From<Template> for SignalName {
    /// A signal without a key.
    fn from(name: Template) -> Self {
        Self { name, key: None, event: None }
    }
}

impl SignalName {
    pub(super) fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.name.visit(visit);
        self.key.iter().chain(&self.event).for_each(|key| key.visit(visit));
    }
}

impl SignalsSpec {
    pub(super) fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        for SignalSpec { name, filter } in &self.signals {
            name.visit(visit);
            filter.iter().for_each(&mut *visit);
        }
        self.timeout.iter().for_each(|timeout| timeout.visit(visit));
    }
}

impl NotifySpec {
    pub(super) fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.message.visit(visit);
        self.timeout.iter().for_each(|timeout| timeout.visit(visit));
    }
}

impl ApprovalSpec {
    pub(super) fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.title.visit(visit);
        self.description.iter().for_each(|text| text.visit(visit));
        self.approvers.iter().for_each(|names| names.visit(visit));
        for span in self.timeout.iter().chain(&self.reminder) {
            span.visit(visit);
        }
        if let Some(Escalation { after, to }) = &self.escalate {
            after.visit(visit);
            to.visit(visit);
        }
    }
}

impl Behaviour {
    /// Is this one of its filters, which see the body of a signal as `signal`?
    pub fn is_signal_filter(&self, expression: &Expression) -> bool {
        let Self::Signals(SignalsSpec { signals, .. }) = self else { return false };
        let mut filters = signals.iter().filter_map(|signal| signal.filter.as_ref());
        filters.any(|filter| std::ptr::eq(filter, expression))
    }

    /// Does it take the log format in which nodes wait for several signals?
    pub(crate) fn needs_waits_format(&self) -> bool {
        matches!(self, Self::Signals(_)) || self.on_timeout().is_some()
    }

    /// Does it wait for published events?
    pub(crate) fn waits_for_events(&self) -> bool {
        self.signal_names().any(|name| name.event.is_some())
    }

    /// The keys of the signals that it waits for, by position; of events, what they must have.
    pub(crate) fn signal_keys(&self) -> impl Iterator<Item = Option<&Template>> {
        self.signal_names().map(|name| name.key.as_ref().or(name.event.as_ref()))
    }

    fn signal_names(&self) -> impl Iterator<Item = &SignalName> {
        let one = if let Self::Signal { name, .. } = self { Some(name) } else { None };
        let several = if let Self::Signals(spec) = self { &*spec.signals } else { &[] };
        one.into_iter().chain(several.iter().map(|signal| &signal.name))
    }

    /// The branch that a wait selects when it takes too long.
    pub fn on_timeout(&self) -> Option<&str> {
        match self {
            Self::Signal { on_timeout, .. }
            | Self::Signals(SignalsSpec { on_timeout, .. })
            | Self::Operation(OperationSpec { on_timeout, .. }) => on_timeout.as_deref(),
            Self::Polled(branch) => Some(branch),
            Self::Approval(_) => Some(EXPIRED),
            Self::Pass
            | Self::Input
            | Self::Trigger { .. }
            | Self::Gather
            | Self::Value { .. }
            | Self::Condition(_)
            | Self::Switch { .. }
            | Self::Fail(_)
            | Self::Delay(_)
            | Self::Notify(_)
            | Self::Task { .. }
            | Self::Workflow(_)
            | Self::Emit(_)
            | Self::Group
            | Self::Loop(_)
            | Self::Map(_) => None,
        }
    }

    /// Are the polls of an operation late if this node of its body was?
    pub(crate) fn is_late_with(&self, node: &PlanNode) -> bool {
        // The loop needs the node that starts the operation, which needs none.
        let is_loop = matches!(node.behaviour, Self::Loop(_)) && !node.needs.is_empty();
        matches!(self, Self::Polled(_)) && is_loop
    }

    /// Is this branch taken instead of edges without one? What follows an approval must not follow a
    /// rejection, and what follows a signal must not follow its absence.
    pub fn is_aside(&self, branch: &str) -> bool {
        let rejected = matches!(self, Self::Approval(_)) && branch == REJECTED;
        rejected || self.on_timeout() == Some(branch)
    }
}

impl Plan {
    /// Does one of its nodes wait for a signal by its key?
    pub fn has_keys(&self) -> bool {
        self.nodes.iter().any(|node| node.behaviour.signal_keys().flatten().next().is_some())
    }
}
