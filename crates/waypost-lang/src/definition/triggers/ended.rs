//! Triggers that fire with the ends of executions.

use waypost_core::status::Status;
use waypost_core::trigger::{TriggerKind, WorkflowEndedTrigger};

use super::{Block, ParsedTrigger};
use crate::diagnostics::{Code, Faults, quoted};
use crate::fields;
use crate::source::Span;

const STATUSES: [Status; 4] =
    [Status::Completed, Status::Failed, Status::Cancelled, Status::TimedOut];
const HINT: &str =
    "a chain of workflows that start each other ends at 16; write `self: true` if it is meant";

/// `workflow` is the definition's own name, where it is known already.
pub(super) fn read(block: &mut Block<'_, '_, '_>, workflow: Option<&str>) -> Option<TriggerKind> {
    let hint = "the workflow whose executions end, or `*` for all others";
    let entry = block.required("workflow", hint);
    let of = block.text("workflow");
    let may_be_self = block.flag("self", false);
    let mut statuses = Vec::new();
    for (text, tree) in block.texts("status") {
        match STATUSES.into_iter().find(|status| status.name() == text) {
            Some(status) => statuses.push(status),
            None => {
                let names = STATUSES.map(Status::name);
                let message = format!("`status` cannot be {}: no execution ends so", quoted(&text));
                let faults = &mut *block.context.faults;
                let likely = faults.likely(&text, names);
                let fault = faults.error(Code::BadValue, &tree.span, message);
                fault.hint(format!("write {}", crate::diagnostics::listed(names, "or")));
                if likely.is_some() {
                    fault.suggest(likely);
                }
            }
        }
    }
    let (entry, of) = (entry?, of?);
    let faults = &mut *block.context.faults;
    if of != "*" {
        fields::check_name("`workflow`", &of, &entry.value.span, &fields::WORKFLOW_NAME, faults);
    }
    if workflow == Some(of.as_str()) && !may_be_self {
        starts_itself(&entry.value.span, faults);
    }
    let own = WorkflowEndedTrigger { workflow: of.into(), statuses };
    Some(TriggerKind::WorkflowEnded(Box::new(own)))
}

/// The same rule for a node, which is read before the name is known.
pub(super) fn check_self(
    ended: &WorkflowEndedTrigger,
    parsed: &ParsedTrigger<'_>,
    workflow: &str,
    faults: &mut Faults,
) {
    if *ended.workflow == *workflow && !parsed.canonical.contains_key("self") {
        starts_itself(&parsed.name_span, faults);
    }
}

fn starts_itself(span: &Span, faults: &mut Faults) {
    let message = "the workflow starts itself whenever it ends";
    faults.error(Code::StartsItself, span, message).hint(HINT);
}
