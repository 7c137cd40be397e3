//! Behaviours that wait for signals.

use std::sync::Arc;

use super::{Behaviour, DurationTemplate};
use crate::expr::{Expression, Template};

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

/// One of several signals.
#[derive(Debug, PartialEq)]
pub struct SignalSpec {
    pub name: Template,
    /// Must hold for the signal to count; sees its body as `signal`.
    pub filter: Option<Expression>,
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

    /// The branch that a wait selects when it takes too long.
    pub fn on_timeout(&self) -> Option<&Arc<str>> {
        match self {
            Self::Signal { on_timeout, .. } | Self::Signals(SignalsSpec { on_timeout, .. }) => {
                on_timeout.as_ref()
            }
            Self::Pass
            | Self::Input
            | Self::Gather
            | Self::Value { .. }
            | Self::Condition(_)
            | Self::Switch { .. }
            | Self::Fail(_)
            | Self::Delay(_)
            | Self::Task { .. }
            | Self::Workflow(_)
            | Self::Group
            | Self::Loop(_)
            | Self::Map(_) => None,
        }
    }
}
