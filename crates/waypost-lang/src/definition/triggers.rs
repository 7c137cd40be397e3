//! Triggers: the entries of `on`, and nodes that are triggers.
//!
//! ```text
//!   - schedule: nightly       ─┐
//!     cron: "0 2 * * *"        ├─▶ the same trigger, but that the second one begins at its node
//!   - id: nightly             ─┘
//!     type: schedule
//!     config: { cron: … }
//! ```

mod block;
mod ended;
mod event;
mod poll;
mod schedule;
mod stream;
mod webhook;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use waypost_core::expr::Template;
use waypost_core::kind::{Behaviour, Field, Kind};
use waypost_core::limits::{LABEL_CHARS_MAX, LABELS_MAX, TRIGGERS_MAX};
use waypost_core::trigger::{Trigger, TriggerKind, TriggerKindName};

use super::{Located, ParsedDefinition, ParsedNode, ReadContext};
use crate::diagnostics::{Code, Fault, Faults, Severity, did_you_mean, listed, quoted};
use crate::fields;
use crate::source::Span;
use crate::tree::{Tree, TreeEntry};
use crate::{SourceCheck, SourceFault};

use block::Block;

pub(crate) use stream::SAFETIES;

/// What a trigger brings, besides `trigger`: the names that its expressions see.
pub(crate) type SeenNames = &'static [&'static str];

/// A trigger, read.
#[derive(Debug)]
pub(crate) struct ParsedTrigger<'t> {
    pub(crate) name_span: Span,
    pub(crate) trigger: Trigger,
    /// As an entry of `on`, with defaults left out.
    pub(crate) canonical: Map<String, Value>,
    pub(crate) expressions: Vec<Located<'t>>,
}

impl ParsedDefinition<'_> {
    /// The trigger nodes of a definition, if there are several: an execution begins at some of them.
    pub(crate) fn entries(&self) -> HashSet<usize> {
        let own = self.scopes.first().map_or(0..0, |scope| scope.nodes.clone());
        let is_entry =
            |at: &usize| matches!(self.nodes[*at].behaviour, Some(Behaviour::Trigger { .. }));
        let found: HashSet<usize> = own.filter(is_entry).collect();
        if found.len() > 1 { found } else { HashSet::new() }
    }

    /// Reports sources of streams that cannot be read where the definition is deployed.
    pub(crate) fn check_sources(&self, check: &SourceCheck<'_>, faults: &mut Faults) {
        let of_nodes = self.nodes.iter().filter_map(|node| node.trigger.as_deref());
        for parsed in self.on.iter().chain(of_nodes) {
            let TriggerKind::Stream(stream) = &parsed.trigger.kind else { continue };
            let Some(fault) = check(&self.name, &stream.source) else { continue };
            let SourceFault { severity, message, hint } = fault;
            let (code, span) = (Code::UnknownSource, parsed.name_span.clone());
            let fault = match severity {
                Severity::Error => Fault::error(code, span, message),
                Severity::Warning => Fault::warning(code, span, message),
            };
            faults.add(fault.with_hint(hint));
        }
    }
}

/// Reads the entries of `on`.
pub(super) fn read<'t>(
    entry: &'t TreeEntry,
    workflow: Option<&str>,
    context: &mut ReadContext<'_>,
) -> Vec<ParsedTrigger<'t>> {
    let Some(items) = entry.value.as_list() else {
        let hint = "write `- schedule: nightly`, and below it `cron: \"0 2 * * *\"`";
        fields::wrong_type("`on`", "a list", &entry.value, context.faults).hint(hint);
        return Vec::new();
    };
    if items.len() > TRIGGERS_MAX {
        let message = format!("`on` may have at most {TRIGGERS_MAX} triggers, not {}", items.len());
        context.faults.error(Code::TooLarge, &entry.key_span, message);
        return Vec::new();
    }
    items.iter().filter_map(|item| read_entry(item, workflow, context)).collect()
}

fn read_entry<'t>(
    tree: &'t Tree,
    workflow: Option<&str>,
    context: &mut ReadContext<'_>,
) -> Option<ParsedTrigger<'t>> {
    let entries = fields::map("a trigger", tree, context.faults)?;
    let (kind, entry) = kind_of(entries, tree, context.faults)?;
    let name = fields::name("the name of a trigger", &entry.value, &fields::ID, context.faults);
    let article = if kind == TriggerKindName::Event { "an" } else { "a" };
    let of = format!("{article} `{}` trigger", kind.name());
    let own: Vec<&TreeEntry> = entries.iter().filter(|other| other.key != entry.key).collect();
    let block = Block::new(own, &entry.key_span, of, &names(kind), context);
    let mut parsed = read_trigger(kind, name?, &entry.value.span, workflow, block)?;
    parsed.canonical.insert(kind.name().to_owned(), Value::from(name?));
    Some(parsed)
}

/// The kind of an entry, and the field that names it.
fn kind_of<'t>(
    entries: &'t [TreeEntry],
    tree: &Tree,
    faults: &mut Faults,
) -> Option<(TriggerKindName, &'t TreeEntry)> {
    let mut found = entries.iter().filter_map(|entry| {
        let kind = TriggerKindName::parse(&entry.key)?;
        Some((kind, entry))
    });
    let kinds = || TriggerKindName::ALL.map(TriggerKindName::name);
    let Some((kind, entry)) = found.next() else {
        let mut likely = None;
        for entry in entries {
            likely = likely.or_else(|| Some((entry, faults.likely(&entry.key, kinds())?)));
        }
        let (span, hint) = match likely {
            Some((entry, kind)) => (entry.key_span.clone(), did_you_mean(kind)),
            None => {
                let kinds = listed(kinds(), "or");
                (
                    super::first_line(tree),
                    format!("write `- schedule: nightly`; the kind is {kinds}"),
                )
            }
        };
        faults.error(Code::UnknownKind, &span, "the trigger has no kind").hint(hint);
        return None;
    };
    if let Some((other, second)) = found.next() {
        let message =
            format!("the trigger has two kinds, `{}` and `{}`", kind.name(), other.name());
        faults.error(Code::DuplicateField, &second.key_span, message).hint("make it two entries");
        return None;
    }
    Some((kind, entry))
}

/// The trigger that a node of such a kind is; `None` for other kinds.
pub(super) fn read_node<'t>(
    kind: Option<&(&dyn Kind, Span)>,
    id: Option<&'t TreeEntry>,
    config: Option<&'t TreeEntry>,
    context: &mut ReadContext<'_>,
) -> Option<ParsedTrigger<'t>> {
    let (kind, kind_span) = kind?;
    let kind = TriggerKindName::parse(kind.spec().name)?;
    let (entries, span) = match config {
        Some(entry) => (fields::map("`config`", &entry.value, context.faults)?, &entry.key_span),
        None => (&[][..], kind_span),
    };
    let of = format!("the config of `{}`", kind.name());
    let block = Block::new(entries.iter().collect(), span, of, &names(kind), context);
    let (name, name_span) = match id {
        Some(id) => (id.value.as_text().unwrap_or_default(), id.value.span.clone()),
        None => ("", kind_span.clone()),
    };
    let mut parsed = read_trigger(kind, name, &name_span, None, block)?;
    parsed.trigger.node = Some(Arc::clone(&parsed.trigger.name));
    Some(parsed)
}

/// Rules about a node that is a trigger: it is a beginning of the whole execution.
pub(super) fn check_node(entries: &[TreeEntry], node: &ParsedNode<'_>, faults: &mut Faults) {
    let Some(kind) = node.kind.filter(|kind| TriggerKindName::parse(kind.name).is_some()) else {
        return;
    };
    if let Some(needs) = fields::present(entries, "needs") {
        let message =
            format!("`needs` is not allowed on a `{}`: the execution begins with it", kind.name);
        let hint = "let the other node need this one";
        faults.error(Code::BadValue, &needs.key_span, message).hint(hint);
    }
}

/// Rules about all triggers of a definition together: their names.
pub(super) fn check_all(
    on: &[ParsedTrigger<'_>],
    nodes: &[ParsedNode<'_>],
    own: usize,
    workflow: Option<&str>,
    faults: &mut Faults,
) {
    let mut known: HashSet<&str> = HashSet::new();
    let of_nodes = nodes.iter().take(own).filter_map(|node| node.trigger.as_deref());
    let mut count = 0;
    for parsed in on.iter().chain(of_nodes) {
        count += 1;
        if let (TriggerKind::WorkflowEnded(ended), Some(workflow)) =
            (&parsed.trigger.kind, workflow)
            && parsed.trigger.node.is_some()
        {
            ended::check_self(ended, parsed, workflow, faults);
        }
        let name = &*parsed.trigger.name;
        // Two nodes of one id are reported as that.
        let is_second = !known.insert(name);
        if is_second
            && (parsed.trigger.node.is_none()
                || on.iter().any(|other| *other.trigger.name == *name))
        {
            let message = format!("there are two triggers {}", quoted(name));
            let hint = "give each a name of its own: it is the trigger's identity in all versions";
            faults.error(Code::DuplicateTrigger, &parsed.name_span, message).hint(hint);
        }
    }
    if count > TRIGGERS_MAX && on.len() <= TRIGGERS_MAX {
        let span = nodes.first().map_or(0..0, |node| node.id_span.clone());
        let message = format!("a definition may have at most {TRIGGERS_MAX} triggers, not {count}");
        faults.error(Code::TooLarge, &span, message);
    }
    for node in nodes.iter().skip(own).filter(|node| node.trigger.is_some()) {
        let message =
            format!("{} cannot be in a body: the execution begins with it", quoted(&node.id));
        faults.error(Code::BadValue, &node.id_span, message).hint("move it out of the body");
    }
}

fn names(kind: TriggerKindName) -> Vec<&'static str> {
    kind.fields().iter().map(|field: &Field| field.name).collect()
}

/// Reads the fields of a trigger; `None` if what makes it fire cannot be known.
fn read_trigger<'t>(
    kind: TriggerKindName,
    name: &str,
    name_span: &Span,
    workflow: Option<&str>,
    mut block: Block<'t, '_, '_>,
) -> Option<ParsedTrigger<'t>> {
    let errors = block.context.faults.errors();
    let (fires, sees): (Option<TriggerKind>, SeenNames) = match kind {
        TriggerKindName::Schedule => (schedule::read(&mut block), &["trigger"]),
        TriggerKindName::Webhook => {
            (webhook::read(&mut block), &["trigger", "body", "headers", "query"])
        }
        TriggerKindName::Event => event::read(&mut block),
        TriggerKindName::Poll => (poll::read(&mut block), &["trigger", "item", "cursor"]),
        TriggerKindName::WorkflowEnded => {
            (ended::read(&mut block, workflow), &["trigger", "execution"])
        }
        TriggerKindName::Stream => (stream::read(&mut block), &["trigger", "item"]),
    };
    let description = block.text("description");
    // Of a window, it is asked of each event when it arrives.
    let of_one = if kind == TriggerKindName::Event { event::ONE } else { sees };
    let condition = block.expression("if", of_one);
    let input = block.template("input", sees);
    let id = block.template("id", sees);
    let labels = read_labels(&mut block, sees);
    let enabled = block.flag("enabled", true);
    let faulty = block.context.faults.errors() > errors;
    let (canonical, expressions) = block.finish();
    let trigger = Trigger {
        name: name.into(),
        description: description.map(Into::into),
        node: None,
        enabled,
        condition,
        input,
        id,
        labels,
        kind: fires.filter(|_| !faulty)?,
    };
    Some(ParsedTrigger { name_span: name_span.clone(), trigger, canonical, expressions })
}

fn read_labels(block: &mut Block<'_, '_, '_>, sees: SeenNames) -> Vec<(Arc<str>, Template)> {
    let Some(entry) = block.present("labels") else { return Vec::new() };
    let faults = &mut *block.context.faults;
    let Some(entries) = fields::map("`labels`", &entry.value, faults) else { return Vec::new() };
    if entries.len() > LABELS_MAX {
        let message =
            format!("an execution may have at most {LABELS_MAX} labels, not {}", entries.len());
        faults.error(Code::TooLarge, &entry.key_span, message);
        return Vec::new();
    }
    let mut labels: Vec<(Arc<str>, Template)> = Vec::new();
    let mut written = Map::new();
    for label in entries {
        let fits = (1..=LABEL_CHARS_MAX).contains(&label.key.chars().count())
            && !label.key.contains('=')
            && !label.key.chars().any(char::is_control);
        if !fits {
            let message = format!("the name of a label cannot be {}", quoted(&label.key));
            let hint = format!("use up to {LABEL_CHARS_MAX} characters, without `=`");
            block.context.faults.error(Code::BadName, &label.key_span, message).hint(hint);
            continue;
        }
        let Some(text) = fields::word("a label", &label.value, block.context.faults) else {
            continue;
        };
        let is_compiled = block.compiled(&label.value, sees).is_some();
        let text = Value::from(text);
        if let Some(template) = Template::compile(&text).ok().filter(|_| is_compiled) {
            labels.push((label.key.as_str().into(), template));
        }
        written.insert(label.key.clone(), text);
    }
    labels.sort_by(|(one, _), (other, _)| one.cmp(other));
    if !written.is_empty() {
        block.keep("labels", written);
    }
    labels
}
