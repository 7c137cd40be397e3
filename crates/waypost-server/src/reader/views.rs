//! From types of the core to types of the wire.

use waypost_core::budget::Amount;
use waypost_core::event::{EndCause, Wait};
use waypost_core::id::WaitId;
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_core::path::{At, ScopeNo};
use waypost_core::slot::SlotClass;
use waypost_core::state::{self, ItemView, ItemsPage};
use waypost_core::why::{UnblockedBy, why as reasons};
use waypost_ports::access::{AuditEntry, KeyRow};
use waypost_ports::query::{DefinitionRow, EventRow, ExecutionRow};
use waypost_ports::store::Definition;

use super::{Found, ITEM_OUTPUT_BYTES_MAX, Nodes, PAGE_BYTES_MAX};
use crate::problem::Problem;
use crate::wire;
use crate::wire::payload::{ExecutionStatus, NodeState, Payload, Time};

pub(super) fn execution(found: &Found) -> wire::Execution {
    let (plan, state) = (&found.plan, &found.state);
    let (created, end) = (&state.created, state.end.as_ref());
    let nodes = plan.root().nodes.len() as u64;
    wire::Execution {
        id: created.key.to_string(),
        workflow: created.workflow.to_string(),
        version: created.version,
        definition: created.definition.to_string(),
        status: ExecutionStatus(found.status()),
        pausing: state.pausing,
        reason: match &state.cause {
            Some(EndCause::Cancel { reason, .. }) => reason.clone(),
            _ => state.pause_reason.clone(),
        },
        generation: state.generation,
        seq: state.seq,
        labels: created.labels.clone(),
        created_at: Time(state.created_at),
        updated_at: Time(state.updated_at),
        ended_at: end.map(|end| Time(end.at)),
        resume_at: state.next_due().map(Time),
        trigger: created.trigger.as_deref().map(|fired| Payload(fired.to_json())),
        input: Payload(created.input.clone()),
        output: end.and_then(|end| end.output.clone()).map(Payload),
        failure: end.and_then(|end| end.failure.as_ref()).map(failure),
        variables: state
            .variables(ScopeNo::ROOT)
            .iter()
            .map(|(name, value)| (name.to_string(), Payload(value.clone())))
            .collect(),
        quarantine: found.quarantine(),
        concurrency: place(found),
        spending: spending(found),
        progress: wire::execution::Progress {
            nodes,
            settled: nodes.saturating_sub(u64::from(state.root.unsettled)),
        },
        parent: created.parent.as_deref().map(|parent| wire::execution::ParentExecution {
            id: parent.key.to_string(),
            node: parent.node.to_string(),
            root: parent.root.to_string(),
            depth: parent.depth,
        }),
    }
}

/// What it spent; absent where its definition has no nodes that use tokens.
fn spending(found: &Found) -> Option<wire::execution::Spending> {
    use wire::limits::{BudgetLimits, LostUsage, MoneyText, Spending, SpendingAmount};
    let (plan, spent) = (&found.plan, &found.state.spending);
    if plan.budget.is_none() && plan.nodes.iter().all(|node| node.meter.is_none()) {
        return None;
    }
    let amount =
        |amount: Amount| SpendingAmount { tokens: amount.tokens, cost: MoneyText(amount.money) };
    let lost = LostUsage {
        attempts: spent.lost_attempts,
        tokens: spent.lost.tokens,
        cost: MoneyText(spent.lost.money),
    };
    let limits = found.state.budget_limits(plan).zip(plan.budget);
    Some(Spending {
        input_tokens: spent.used.input,
        output_tokens: spent.used.output,
        cost: MoneyText(spent.cost),
        lost: (spent.lost_attempts > 0).then_some(lost),
        reserved: (spent.reserved != Amount::default()).then(|| amount(spent.reserved)),
        budget: limits.map(|(limits, budget)| BudgetLimits {
            tokens: limits.tokens,
            money: limits.money.map(MoneyText),
            on_exhausted: budget.on_exhausted.name().to_owned(),
        }),
    })
}

/// Its place in the queue of its concurrency key. Only the store knows how many are before it.
fn place(found: &Found) -> Option<wire::execution::Concurrency> {
    let permit = found.control.as_ref()?.permit.as_ref()?;
    let place = found.state.place.as_ref()?;
    Some(wire::execution::Concurrency {
        key: place.key.to_string(),
        limit: place.limit,
        policy: place.policy.name().to_owned(),
        admitted: place.admitted,
        queue_position: permit.before,
    })
}

pub(super) fn nodes(found: &Found, which: Nodes) -> wire::NodeList {
    let wanted = |node: &state::NodeState| which == Nodes::All || !node.status.is_settled();
    let all = found.state.nodes().filter(|(_, node)| wanted(node));
    let mut nodes: Vec<_> = all.map(|(at, state)| node(found, at, state)).collect();
    let (mut bytes, mut outputs_left_out) = (0, 0);
    for node in &mut nodes {
        bytes += node.output.as_ref().map_or(0, |output| output.0.bytes());
        if bytes > PAGE_BYTES_MAX && node.output.take().is_some() {
            outputs_left_out += 1;
        }
    }
    wire::NodeList { nodes, seq: found.state.seq, outputs_left_out, items: None }
}

/// A page of items, as a list of nodes without nodes.
pub(super) fn item_list(found: &Found, page: ItemsPage) -> wire::NodeList {
    let last = page.items.last().filter(|_| page.more);
    let items = wire::execution::ItemList {
        count: page.count,
        next: last.map(|last| last.index),
        page: page.items.into_iter().map(item).collect(),
    };
    let (nodes, seq) = (Vec::new(), found.state.seq);
    wire::NodeList { nodes, seq, outputs_left_out: 0, items: Some(items) }
}

fn item(item: ItemView) -> wire::execution::Item {
    let bytes = item.output.as_ref().map_or(0, Json::bytes);
    let is_large = bytes > ITEM_OUTPUT_BYTES_MAX;
    wire::execution::Item {
        index: item.index,
        status: NodeState(item.status),
        started_at: item.started_at.map(Time),
        output: item.output.filter(|_| !is_large).map(Payload),
        output_bytes: is_large.then_some(bytes as u64),
        failure: item.failure.as_ref().map(failure),
    }
}

fn node(found: &Found, at: At, state: &state::NodeState) -> wire::Node {
    let node = found.plan.node(at.node);
    wire::Node {
        id: found.state.path(&found.plan, at).to_string(),
        kind: node.kind.to_owned(),
        label: node.label.as_deref().map(str::to_owned),
        status: NodeState(state.status),
        attempt: state.attempt,
        scheduled_at: state.scheduled.as_ref().map(|first| Time(first.at)),
        started_at: state.started_at.map(Time),
        settled_at: state.settled_at.map(Time),
        output: state.output.clone().map(Payload),
        branch: state.branch.as_deref().map(str::to_owned),
        failure: state.failure.as_deref().map(failure),
        wait: wait(found, state),
        iterations: iterations(found, at, state),
        items: items(state),
        child: state.child.as_ref().map(|child| child.key.to_string()),
    }
}

fn iterations(found: &Found, at: At, state: &state::NodeState) -> Option<u64> {
    let is_loop = matches!(found.plan.node(at.node).behaviour, Behaviour::Loop(_));
    state.body.as_ref().filter(|_| is_loop).map(|body| body.opened)
}

fn items(state: &state::NodeState) -> Option<wire::execution::Items> {
    let body = state.body.as_ref()?;
    let map = body.map.as_ref()?;
    let open = u64::try_from(body.open.len()).unwrap_or(u64::MAX);
    let held = map.held.as_ref().map(|held| wire::execution::MapHold {
        by: held.actor.as_deref().map(str::to_owned),
        reason: held.reason.clone(),
        since: Time(held.since),
    });
    let (count, done, failed) = (map.count, map.done, map.failed);
    Some(wire::execution::Items { count, open, done, failed, held, concurrency: map.concurrency })
}

fn wait(found: &Found, node: &state::NodeState) -> Option<wire::Wait> {
    let wait = node.wait.as_ref()?;
    let (kind, name) = match wait {
        Wait::Delay { .. } => ("delay", None),
        Wait::Signal { name, .. } => ("signal", Some(name.to_string())),
        Wait::Signals { names, .. } => ("signal", Some(names.join(", "))),
        Wait::Approval(approval) => ("approval", Some(approval.title.to_string())),
        Wait::Callback { operation, .. } => ("async-operation", Some(operation.to_string())),
        Wait::Retry { .. } => ("retry", None),
        Wait::Child { child } => ("child", Some(child.to_string())),
        Wait::Breaker(breaker) => ("breaker", Some(breaker.key.to_string())),
        // The nodes of the body have their own.
        Wait::Body => return None,
    };
    let id = wait_id(found, node.wait_seq);
    Some(wire::Wait { id, kind: kind.to_owned(), name, due: wait.due().map(Time) })
}

fn wait_id(found: &Found, seq: u64) -> String {
    WaitId { execution: found.state.created.key.clone(), seq }.to_string()
}

pub(crate) fn failure(failure: &waypost_core::failure::Failure) -> wire::Failure {
    wire::Failure {
        kind: failure.kind.clone().into_owned(),
        message: failure.message.clone(),
        status: failure.status,
        details: failure.details.clone().map(Payload),
    }
}

pub(super) fn why(found: &Found) -> wire::Why {
    let state = &found.state;
    let permit = found.control.as_ref().and_then(|control| control.permit.as_ref());
    let before = permit.map(|permit| permit.before);
    let reasons = reasons(&found.plan, state, before).into_iter().map(|reason| {
        let (unblocked_by, signal) = unblocked_by(&reason.unblocked_by);
        wire::Reason {
            node: reason.node.as_deref().map(str::to_owned),
            what: reason.what,
            since: Time(reason.since),
            until: reason.until.map(Time),
            unblocked_by: unblocked_by.to_owned(),
            signal,
            wait: reason.wait.map(|seq| wait_id(found, seq)),
        }
    });
    let owner = found.control.as_ref().and_then(|control| control.owner);
    wire::Why {
        id: state.created.key.to_string(),
        status: ExecutionStatus(found.status()),
        reasons: reasons.collect(),
        owner: owner.map(|owner| owner.to_string()),
    }
}

fn unblocked_by(by: &UnblockedBy) -> (&'static str, Option<String>) {
    match by {
        UnblockedBy::Time => ("time", None),
        UnblockedBy::Delivery => ("delivery", None),
        UnblockedBy::Signal(name) => ("signal", Some(name.to_string())),
        UnblockedBy::Decision => ("decision", None),
        UnblockedBy::Resume => ("resume", None),
        UnblockedBy::Attempt => ("attempt", None),
        UnblockedBy::Slot(SlotClass::Work) => ("slot", None),
        UnblockedBy::Slot(SlotClass::Io) => ("io-slot", None),
        UnblockedBy::Permit => ("permit", None),
        UnblockedBy::Worker(_) => ("worker", None),
        UnblockedBy::Engine => ("engine", None),
        UnblockedBy::Retry => ("retry", None),
        UnblockedBy::Release => ("release", None),
        UnblockedBy::Callback => ("callback", None),
        UnblockedBy::Execution(_) => ("execution", None),
        UnblockedBy::Breaker(_) => ("breaker", None),
        UnblockedBy::Budget => ("budget", None),
        UnblockedBy::Nothing => ("nothing", None),
    }
}

pub(crate) fn event(row: EventRow) -> wire::Event {
    wire::Event {
        seq: row.seq,
        at: Time(row.at),
        epoch: row.epoch,
        kind: row.kind,
        node: row.node,
        attempt: row.attempt,
        execution: None,
        data: Payload(row.fields),
    }
}

pub(super) fn summary(row: ExecutionRow) -> wire::ExecutionSummary {
    let current = row.view.current_node;
    // An older instance of a rolling upgrade does not know the column.
    let progress = row.view.progress.filter(|progress| current.as_ref() == Some(&progress.node));
    wire::ExecutionSummary {
        id: row.key.to_string(),
        workflow: row.workflow.to_string(),
        version: row.version,
        status: ExecutionStatus(row.view.status),
        labels: row.labels,
        created_at: Time(row.created_at),
        ended_at: row.view.completed_at.map(Time),
        nodes_executed: row.view.nodes_executed,
        failure: row.view.error.map(|message| wire::execution::FailureNote {
            kind: row.failure.map(|failure| failure.kind.into_owned()),
            message: message.to_string(),
        }),
        progress: progress.map(|progress| wire::execution::MapProgress {
            node: progress.node.to_string(),
            count: progress.count,
            begun: progress.begun,
            failed: progress.failed,
        }),
        current_node: current.map(|path| path.to_string()),
        resume_at: row.resume_at.map(Time),
    }
}

pub(super) fn definition_summary(row: &DefinitionRow) -> wire::DefinitionSummary {
    wire::DefinitionSummary {
        workflow: row.workflow.to_string(),
        version: row.version,
        current: row.current,
        hash: row.hash.to_string(),
        created_at: row.created_at.map(Time),
    }
}

pub(super) fn definition(
    definition: &Definition,
    current: u32,
) -> Result<wire::Definition, Problem> {
    let content = Json::parse(&definition.canonical).map_err(|error| Problem::internal(&error))?;
    Ok(wire::Definition {
        workflow: definition.name.to_string(),
        version: definition.version,
        current,
        hash: definition.hash.to_string(),
        definition: Payload(content),
    })
}

pub(super) fn key(row: &KeyRow) -> wire::ApiKey {
    wire::ApiKey {
        id: row.key.id.to_string(),
        name: row.key.name.to_string(),
        role: row.key.role.into(),
        created_at: Time(row.created_at),
        revoked_at: row.revoked_at.map(Time),
    }
}

pub(super) fn audit_row(place: u64, entry: &AuditEntry) -> wire::AuditRow {
    wire::AuditRow {
        place,
        at: Time(entry.at),
        actor: entry.actor.to_string(),
        address: entry.address.to_string(),
        action: entry.action.to_string(),
        subject: entry.subject.as_deref().map(str::to_owned),
        status: entry.status,
    }
}
