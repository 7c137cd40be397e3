//! A node kind for the core: a description, and a function that turns a config into a
//! [`Behaviour`].
//!
//! ```text
//!   kind file (waypost-nodes)        core                            engine
//!   ────────────────────────        ─────────────────────          ────────────────────
//!   KindSpec: name, fields   ──▶    validation, JSON Schema
//!   compile(config)          ──▶    Behaviour, part of the plan ─▶  decide
//!   Handler (actions only)   ──────────────────────────────────▶    runs Behaviour::Task
//! ```
//!
//! Behaviours are a small closed set inside `decide`; kinds are an open set built on top. That is
//! why a new kind needs no change here.

mod branches;
mod call;
mod container;
mod waits;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::expr::{Expression, Template};
use crate::slot::SlotClass;
use crate::time::Millis;

pub use call::{EmitSpec, WorkflowCall};
pub use container::{
    BodyKind, Collect, Container, Loop, LoopTest, MapSpec, OperationSpec, Tolerate,
};
pub use waits::{
    APPROVED, ApprovalSpec, EXPIRED, Escalation, NotifySpec, REJECTED, SignalName, SignalSpec,
    SignalsSpec,
};

/// The families of the definition language: the `type` of the long form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Starts an execution.
    Trigger,
    /// Decided by the engine itself.
    Logic,
    /// Run by a handler.
    Action,
}

impl Family {
    /// As definitions spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::Logic => "logic",
            Self::Action => "action",
        }
    }
}

/// The description of a kind, from which validation, the JSON Schema and the docs are generated.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// The name in the short form, `type: api-call`.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub family: Family,
    /// How its body runs; absent for kinds whose nodes have none.
    pub body: Option<BodyKind>,
    /// One sentence for the docs and the schema.
    pub summary: &'static str,
    pub fields: &'static [Field],
}

impl KindSpec {
    /// Do attempts use tokens, which a budget limits? Such a kind has the fields `model`, `maxTokens`,
    /// `maxInputTokens` and `prices`, and reports a `usage` in its output or in the details of a failure.
    pub fn is_metered(&self) -> bool {
        self.fields.iter().any(|field| field.name == "maxInputTokens")
    }
}

/// One field of a kind's `config`.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    /// One sentence for the docs and the schema.
    pub summary: &'static str,
}

/// The shape of a field. `${{ }}` is allowed exactly in the shapes that say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A string, with holes.
    Text,
    /// A string with holes, a number or a boolean.
    Scalar,
    /// Any JSON, with holes anywhere in it.
    Any,
    /// An object, with holes in its values.
    Object,
    /// An array, with holes in its items.
    List,
    Expression,
    /// A bare expression that sees one more name than others do.
    ExpressionWith(&'static str),
    /// A plain string without holes.
    Name,
    OneOf(&'static [&'static str]),
    /// A whole number, not negative.
    Integer,
    /// A number, or a text with an expression that results in one.
    Number,
    Boolean,
    /// A duration: `30s`, `PT30S`, a number of milliseconds, or a text with a hole.
    Duration,
    /// A JSON Schema, without holes.
    Schema,
    /// Checked by the kind's own `compile`.
    Custom,
}

/// A fault in a config, found by a kind's `compile`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFault {
    /// Keys and positions from the config's root to the culprit.
    pub path: Vec<String>,
    pub message: String,
    pub hint: Option<String>,
}

impl ConfigFault {
    /// A fault at a field.
    pub fn at(field: &str, message: impl Into<String>) -> Self {
        Self { path: vec![field.to_owned()], message: message.into(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// A node kind. Implemented once per kind, each in a file of its own.
pub trait Kind: Send + Sync {
    fn spec(&self) -> &'static KindSpec;

    /// Turns a config into a behaviour. The fields' shapes, and every expression in them, have been
    /// checked already; the rest are rules about several fields, or about their meaning.
    fn compile(&self, config: &Map<String, Value>) -> Result<Behaviour, Vec<ConfigFault>>;
}

/// All kinds that definitions may use.
#[derive(Clone, Copy)]
pub struct Catalog<'a>(pub &'a [&'a dyn Kind]);

impl<'a> Catalog<'a> {
    /// The kind of this name or alias.
    pub fn find(&self, name: &str) -> Option<&'a dyn Kind> {
        self.0.iter().copied().find(|kind| {
            let spec = kind.spec();
            spec.name == name || spec.aliases.contains(&name)
        })
    }

    /// Every name and alias.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|kind| {
            let spec = kind.spec();
            std::iter::once(spec.name).chain(spec.aliases.iter().copied())
        })
    }
}

/// The behaviour of a node when its turn comes. All but [`Behaviour::Task`] happen inside `decide`.
#[derive(Debug, PartialEq)]
pub enum Behaviour {
    /// Completes with `null`.
    Pass,
    /// Completes with the execution's input.
    Input,
    /// Completes with the execution's input where it begins with this node, and is skipped otherwise.
    Trigger {
        /// Does it stand for starts by hand?
        manual: bool,
    },
    /// Completes with its own input: `{dependency: output}` of the sources that were taken.
    Gather,
    /// Completes with a rendered value; `result` marks the value as (part of) the execution's
    /// output.
    Value { template: Template, result: bool },
    /// Selects branch `true` or `false`.
    Condition(Expression),
    /// Selects the branch of the first case that holds.
    Switch { cases: Vec<Case>, default: Option<String> },
    /// Fails.
    Fail(Fail),
    /// Waits until a time.
    Delay(Delay),
    /// Waits for a signal.
    Signal {
        name: SignalName,
        /// Must hold for the signal to count; sees its body as `signal`.
        filter: Option<Expression>,
        /// Fails with kind `timeout` after this long, or selects a branch.
        timeout: Option<DurationTemplate>,
        /// The branch that it selects then.
        on_timeout: Option<Arc<str>>,
    },
    /// Waits for some or all of several signals.
    Signals(SignalsSpec),
    /// Waits for the decision of a person.
    Approval(Box<ApprovalSpec>),
    /// Sends a message, and waits until it was delivered or given up.
    Notify(Box<NotifySpec>),
    /// Has a handler do it.
    Task {
        /// Which handler: the kind's name, or the one that the node names.
        handler: Arc<str>,
        /// The slot of the owner in which an attempt runs; none if the handler is only remote.
        slot: Option<SlotClass>,
        /// Rendered when the task is offered.
        config: Template,
    },
    /// Runs its body once.
    Group,
    /// Runs its body once, and completes on this branch if the polls in it take too long.
    Polled(Arc<str>),
    /// Runs its body once, then waits for a callback.
    Operation(OperationSpec),
    /// Runs its body again and again.
    Loop(Loop),
    /// Runs its body for each item.
    Map(MapSpec),
    /// Starts an execution of a workflow.
    Workflow(WorkflowCall),
    /// Sends a signal to another execution.
    Emit(EmitSpec),
}

/// One case of a switch.
#[derive(Debug, PartialEq)]
pub struct Case {
    pub when: Expression,
    pub branch: String,
}

/// The failure that a `fail` node makes.
#[derive(Debug, PartialEq)]
pub struct Fail {
    pub kind: String,
    pub message: Template,
    pub details: Option<Template>,
}

/// How long a delay waits.
#[derive(Debug, PartialEq)]
pub enum Delay {
    For(DurationTemplate),
    /// Until a time, given as RFC 3339 text or milliseconds since 1970.
    Until(Template),
}

/// A span that may be computed.
#[derive(Debug, PartialEq)]
pub enum DurationTemplate {
    Fixed(Millis),
    /// Computed: a number of `unit_ms`, or a text such as `30s`.
    Computed {
        template: Template,
        /// The unit of a bare number, in milliseconds.
        unit_ms: u32,
    },
}

impl Behaviour {
    /// The slot in which its attempts run; none if it is no task, or one for remote workers only.
    pub fn slot(&self) -> Option<SlotClass> {
        if let Self::Task { slot, .. } = self { *slot } else { None }
    }

    /// Is it a task whose handler is only remote?
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Task { slot: None, .. })
    }

    /// Is it a task that gives secrets to a remote worker? Its config is then an object with `input` and
    /// `secrets`; without secrets it is the input itself.
    pub fn sends_secrets(&self) -> bool {
        let mut sends = false;
        if let Self::Task { slot: None, config, .. } = self {
            config.visit(&mut |hole| sends |= hole.references().mentions("secrets"));
        }
        sends
    }

    /// Calls `visit` with every expression inside.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Pass
            | Self::Input
            | Self::Trigger { .. }
            | Self::Gather
            | Self::Group
            | Self::Polled(_) => {}
            Self::Value { template, .. } | Self::Task { config: template, .. } => {
                template.visit(visit);
            }
            Self::Condition(expression) => visit(expression),
            Self::Switch { cases, .. } => cases.iter().for_each(|case| visit(&case.when)),
            Self::Fail(fail) => {
                fail.message.visit(visit);
                fail.details.iter().for_each(|details| details.visit(visit));
            }
            Self::Delay(Delay::Until(template)) => template.visit(visit),
            Self::Delay(Delay::For(duration)) => duration.visit(visit),
            Self::Signal { name, filter, timeout, .. } => {
                name.visit(visit);
                filter.iter().for_each(&mut *visit);
                timeout.iter().for_each(|timeout| timeout.visit(visit));
            }
            Self::Signals(spec) => spec.visit(visit),
            Self::Operation(spec) => spec.timeout.iter().for_each(|timeout| timeout.visit(visit)),
            Self::Approval(spec) => spec.visit(visit),
            Self::Notify(spec) => spec.visit(visit),
            Self::Loop(Loop { test, delay, .. }) => {
                let (LoopTest::While(expression) | LoopTest::Until(expression)) = test;
                visit(expression);
                delay.iter().for_each(|delay| delay.visit(visit));
            }
            Self::Map(map) => map.items.visit(visit),
            Self::Workflow(WorkflowCall { config, .. }) | Self::Emit(EmitSpec { config, .. }) => {
                config.visit(visit);
            }
        }
    }

    /// How it runs its body, if it has one.
    pub fn container(&self) -> Option<Container<'_>> {
        match self {
            Self::Group | Self::Polled(_) => Some(Container::Group),
            Self::Operation(spec) => Some(Container::Operation(spec)),
            Self::Loop(spec) => Some(Container::Loop(spec)),
            Self::Map(spec) => Some(Container::Map(spec)),
            Self::Pass
            | Self::Input
            | Self::Trigger { .. }
            | Self::Gather
            | Self::Value { .. }
            | Self::Condition(_)
            | Self::Switch { .. }
            | Self::Fail(_)
            | Self::Delay(_)
            | Self::Signal { .. }
            | Self::Signals(_)
            | Self::Approval(_)
            | Self::Notify(_)
            | Self::Task { .. }
            | Self::Workflow(_)
            | Self::Emit(_) => None,
        }
    }
}

impl DurationTemplate {
    pub(super) fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        if let Self::Computed { template, .. } = self {
            template.visit(visit);
        }
    }
}
