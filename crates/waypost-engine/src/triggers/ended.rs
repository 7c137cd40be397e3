//! Ends of workflows as triggers: an endpoint of the outbox inside of Waypost, whose messages the dispatcher
//! fires instead of sending them. Order, repeats and dead letters come with the outbox.
//!
//! A deploy stores the endpoint with the trigger's row. Its id names the trigger and what the trigger listens to.
//! Where that changes, another endpoint is added before the old one goes, so that no end is between them; an end
//! that both get is one item. Endpoints that are over are deleted by [`EndedTriggers::reconcile`], which also adds
//! what an older build has left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::event::{Event, RunCreated, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::outbox::delivery::Delivered;
use waypost_core::outbox::{MessageKind, MessageKinds};
use waypost_core::planted::{Bug, is_planted};
use waypost_core::status::Status;
use waypost_core::trigger::{Payload, TriggerKind, TriggerKindName, WorkflowEndedTrigger};
use waypost_ports::outbox::{
    EndpointRow, MessageState, MessagesRequest, NewEndpoint, Outbox, OutboxMessage,
    is_trigger_endpoint,
};
use waypost_ports::store::{Store, StoreError};
use waypost_ports::triggers::rules::{ends_endpoint, ends_trigger};
use waypost_ports::triggers::{
    EndsWanted, FireOutcome, TriggerAt, TriggerNo, TriggerRow, TriggerState, Triggers,
    TriggersRequest,
};

use super::scheduling::rejected;
use super::{FireError, FireResult, Firing, Occurrence};

/// Stands for every workflow but the trigger's own.
const ANY_WORKFLOW: &str = "*";
/// Triggers that are read at once.
const PAGE: usize = 500;
/// How often an end is fired again because its trigger was changed meanwhile.
const TRIES: usize = 5;
/// Executions above one that are looked at for the trigger that began the tree.
const PARENTS_MAX: usize = 64;

/// Fires the ends of executions. Cheap to clone.
#[derive(Clone)]
pub struct EndedTriggers {
    pub firing: Firing,
    pub outbox: Arc<dyn Outbox>,
}

impl EndedTriggers {
    /// Makes the endpoints those of the triggers that there are. What is added gets every end that is
    /// committed after this returns.
    pub async fn reconcile(&self) -> Result<(), FireError> {
        // Endpoints first: a deploy stores a trigger together with its endpoint, so every endpoint that is known
        // here has its trigger among the rows that are read after it.
        let outbox = Arc::clone(&self.outbox);
        let mut known = self.firing.blocking(move || outbox.endpoints()).await?;
        known.retain(|row| is_trigger_endpoint(&row.endpoint.id));
        let mut wishes = BTreeMap::new();
        for row in self.firing.call(rows).await? {
            wishes.insert(row.number, (row.at(), self.wish(&row).await?));
        }
        let of_no_row = |row: &&EndpointRow| wish_of(&wishes, &row.endpoint.id).is_none();
        let of_no_row: Vec<_> =
            known.iter().filter(of_no_row).map(|row| row.endpoint.clone()).collect();
        // Triggers of another kind by now.
        for endpoint in of_no_row {
            let Some((workflow, name)) = named(&endpoint.description) else { continue };
            if let Some(row) = self.firing.row(&workflow, &name).await? {
                let wish = self.wish(&row).await?;
                wishes.insert(row.number, (row.at(), wish));
            }
        }
        let outbox = Arc::clone(&self.outbox);
        Ok(self.firing.blocking(move || change_endpoints(&*outbox, &known, &wishes)).await?)
    }

    async fn wish(&self, row: &TriggerRow) -> Result<Wish, FireError> {
        if row.state == TriggerState::Retired {
            return Ok(Wish::Nothing);
        }
        match self.firing.planned(row).await {
            Ok(planned) => Ok(match ends_wanted(&planned.trigger.kind) {
                Some(wanted) => Wish::Endpoint(Box::new(ends_endpoint(row, &wanted))),
                None => Wish::Nothing,
            }),
            Err(FireError::Definition(_)) => Ok(Wish::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Fires the end that a message is about; `None` where it is to be done later.
    pub async fn deliver(
        &self,
        message: &OutboxMessage,
        endpoint: &EndpointRow,
    ) -> Option<Delivered> {
        let done = Some(Delivered::Yes { status: 204 });
        match self.fire(message, endpoint).await {
            Ok(true) => done,
            Ok(false) => None,
            // Also where this build cannot use the definition: another instance may, and a failed attempt would cool
            // the endpoint for all of them.
            Err(error) => {
                tracing::warn!(%error, id = %message.name, "an end is fired later");
                None
            }
        }
    }

    /// `false` where it is to be fired later.
    async fn fire(
        &self,
        message: &OutboxMessage,
        endpoint: &EndpointRow,
    ) -> Result<bool, FireError> {
        let Some((workflow, name)) = named(&endpoint.endpoint.description) else {
            return Ok(true);
        };
        let mut occurrence = None;
        for _ in 0..TRIES {
            let Some(row) = self.firing.row(&workflow, &name).await? else { return Ok(true) };
            match row.state {
                TriggerState::Active => {}
                // Until it is resumed, or paused.
                TriggerState::Broken => return Ok(false),
                // What ends during a pause is not caught up.
                TriggerState::Paused | TriggerState::Retired => return Ok(true),
            }
            let planned = self.firing.planned(&row).await?;
            let TriggerKind::WorkflowEnded(ended) = &planned.trigger.kind else { return Ok(true) };
            let about = AboutEnd::of(message);
            let Some(about) = about.filter(|about| about.is_for(&row, ended)) else {
                return Ok(true);
            };
            let occurrence = match &mut occurrence {
                Some(known) => known,
                none => none.insert(self.occurrence(message, about).await?),
            };
            let (outcome, reason) = match self.firing.fire(&row, occurrence, None, None).await? {
                FireResult::Started(_) | FireResult::Known(_) => return Ok(true),
                FireResult::Stale if is_planted(Bug::EndLeftWhenStale) => return Ok(true),
                FireResult::Stale => continue,
                FireResult::Retry { why } => {
                    tracing::warn!(%why, trigger = %name, %workflow, "an end is fired later");
                    return Ok(is_planted(Bug::EndAnsweredUnfired));
                }
                FireResult::Filtered => (FireOutcome::Filtered, None),
                FireResult::Dead { reason } => (FireOutcome::Dead, Some(reason)),
                FireResult::Rejected { holding } => (FireOutcome::Skipped, Some(rejected(holding))),
            };
            if self.firing.settle(&row, occurrence, outcome, reason.as_deref()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn occurrence(
        &self,
        message: &OutboxMessage,
        about: AboutEnd,
    ) -> Result<Occurrence, FireError> {
        let (store, read) = (Arc::clone(&self.firing.store), message.clone());
        let read = move || {
            let depth = depth(&*store, read.name.execution)?;
            Ok::<_, StoreError>((depth, crate::dispatcher::output_of(&*store, &read)?))
        };
        let (depth, output) = self.firing.blocking(read).await?;
        let key = format!("{} {}", about.id, message.name.seq);
        let mut fields = about.fields;
        fields.insert("output".to_owned(), output);
        let execution = Json::object(fields.into_iter());
        let execution = execution.map_err(|error| FireError::Definition(error.to_string()))?;
        let id = Json::from_value(&serde_json::json!({ "execution": about.id }));
        let occurrence = Occurrence::new(&key, Payload::ended(&execution)).with_details(id);
        Ok(Occurrence { depth, ..occurrence })
    }
}

/// What a message says about an end.
struct AboutEnd {
    id: String,
    workflow: String,
    status: Option<Status>,
    /// As expressions see them.
    fields: BTreeMap<String, Json>,
}

impl AboutEnd {
    fn of(message: &OutboxMessage) -> Option<Self> {
        let mut fields: BTreeMap<String, Json> = serde_json::from_slice(&message.data).ok()?;
        let id = fields.remove("execution")?;
        let text = |json: &Json| serde_json::from_str::<String>(json.text()).ok();
        let about = Self {
            id: text(&id)?,
            workflow: text(fields.get("workflow")?)?,
            status: end_of(message.kind),
            fields: BTreeMap::new(),
        };
        fields.insert("id".to_owned(), id);
        Some(Self { fields, ..about })
    }

    /// Does the trigger, as it is now, fire with it?
    fn is_for(&self, row: &TriggerRow, ended: &WorkflowEndedTrigger) -> bool {
        let by_workflow = match &*ended.workflow {
            ANY_WORKFLOW => self.workflow != *row.workflow,
            workflow => self.workflow == workflow,
        };
        let by_status = self
            .status
            .is_some_and(|status| ended.statuses.is_empty() || ended.statuses.contains(&status));
        by_workflow && by_status
    }
}

fn end_of(kind: MessageKind) -> Option<Status> {
    match kind {
        MessageKind::Completed => Some(Status::Completed),
        MessageKind::Failed => Some(Status::Failed),
        MessageKind::Cancelled => Some(Status::Cancelled),
        MessageKind::TimedOut => Some(Status::TimedOut),
        _ => None,
    }
}

/// Every trigger of ends.
fn rows(triggers: &dyn Triggers) -> Result<Vec<TriggerRow>, StoreError> {
    let kind = Some(TriggerKindName::WorkflowEnded);
    let mut request = TriggersRequest { kind, limit: PAGE, ..TriggersRequest::default() };
    let mut rows: Vec<TriggerRow> = Vec::new();
    loop {
        let page = triggers.triggers(&request)?;
        rows.extend(page.rows);
        match rows.last().filter(|_| page.more) {
            Some(last) => {
                request.after = Some((Arc::clone(&last.workflow), Arc::clone(&last.name)));
            }
            None => return Ok(rows),
        }
    }
}

/// The ends with which a trigger of this kind fires, if it does.
pub(crate) fn ends_wanted(kind: &TriggerKind) -> Option<EndsWanted> {
    let TriggerKind::WorkflowEnded(ended) = kind else { return None };
    let ends = MessageKind::ALL.into_iter().filter(|kind| {
        let wanted = |status| ended.statuses.is_empty() || ended.statuses.contains(&status);
        end_of(*kind).is_some_and(wanted)
    });
    let kinds = ends.fold(MessageKinds::default(), |kinds, kind| kinds.with(kind.into()));
    let workflow = (*ended.workflow != *ANY_WORKFLOW).then(|| Arc::clone(&ended.workflow));
    Some(EndsWanted { workflow, kinds })
}

/// The workflow and the name of an endpoint's trigger.
fn named(description: &str) -> Option<(String, String)> {
    serde_json::from_str(description).ok()
}

/// What a trigger wants of the outbox.
enum Wish {
    Nothing,
    Endpoint(Box<NewEndpoint>),
    /// Its definition cannot be used by this build: its endpoints stay as they are.
    Unknown,
}

type Wishes = BTreeMap<TriggerNo, (TriggerAt, Wish)>;

/// What the trigger of an endpoint wants.
fn wish_of<'a>(wishes: &'a Wishes, endpoint: &str) -> Option<&'a (TriggerAt, Wish)> {
    wishes.get(&ends_trigger(endpoint)?)
}

/// Adds what is missing, then deletes what its trigger does not want, once no message of it is left.
fn change_endpoints(
    outbox: &dyn Outbox,
    known: &[EndpointRow],
    wishes: &Wishes,
) -> Result<(), StoreError> {
    let ids: BTreeSet<&str> = known.iter().map(|row| &*row.endpoint.id).collect();
    for (_, wish) in wishes.values() {
        let Wish::Endpoint(new) = wish else { continue };
        if ids.contains(&*new.id) {
            continue;
        }
        match outbox.add_endpoint(new) {
            // A deploy or another instance has added it.
            Ok(()) | Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    for EndpointRow { endpoint: NewEndpoint { id, .. }, .. } in known {
        let goes = match wish_of(wishes, id) {
            None | Some((_, Wish::Unknown)) => None,
            Some((at, Wish::Nothing)) => Some(at),
            Some((at, Wish::Endpoint(new))) => {
                (new.id != *id && !has_pending(outbox, id)?).then_some(at)
            }
        };
        if let Some(at) = goes {
            outbox.delete_endpoint_of(id, *at)?;
        }
    }
    Ok(())
}

fn has_pending(outbox: &dyn Outbox, endpoint: &Arc<str>) -> Result<bool, StoreError> {
    let request = MessagesRequest {
        endpoint: Some(Arc::clone(endpoint)),
        state: Some(MessageState::Pending),
        limit: 1,
        ..MessagesRequest::default()
    };
    Ok(!outbox.messages(&request)?.rows.is_empty())
}

/// The depth of an execution that the end of this one starts.
fn depth(store: &dyn Store, mut execution: ExecutionNo) -> Result<u32, StoreError> {
    for _ in 0..PARENTS_MAX {
        let Some(created) = created(store, execution)? else { break };
        match (created.trigger, created.parent) {
            (Some(fired), _) => return Ok(fired.depth + 1),
            (None, Some(parent)) => execution = parent.execution,
            (None, None) => break,
        }
    }
    Ok(1)
}

fn created(store: &dyn Store, execution: ExecutionNo) -> Result<Option<RunCreated>, StoreError> {
    let Some(first) = store.load_after(execution, 0)?.into_iter().next() else { return Ok(None) };
    let body = first.body.map_err(StoreError::Corrupt)?;
    let events = decode(&body).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(events.into_iter().find_map(|event| match event {
        Event::Run(RunEvent::Created(created)) => Some(*created),
        _ => None,
    }))
}
