//! One fire: from an occurrence to an execution, or to why there is none. Shared by everything that fires.

use std::sync::Arc;

use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::plan::Plan;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Prepared, PreparedStart, Trigger};
use waypost_ports::store::{Store, StoreError};
use waypost_ports::triggers::{
    Advance, Fire, FireOutcome, GroupFence, Settlement, TriggerRow, Triggers,
};

use super::surroundings::blocking;
use super::{Occurrence, Surroundings};
use crate::driver::StartRequest;
use crate::engine::{EngineError, Started};
use crate::shell::{Damage, NotKept, Plans};

/// How many executions may have started each other by triggers.
pub const TRIGGER_DEPTH_MAX: u32 = 16;

/// Fires triggers. Cheap to clone.
#[derive(Clone)]
pub struct Firing {
    /// The engine that starts the executions.
    pub engine: Arc<dyn Surroundings>,
    pub store: Arc<dyn Store>,
    pub triggers: Arc<dyn Triggers>,
    pub plans: Arc<Plans>,
}

/// What became of an occurrence.
pub enum FireResult {
    /// It started an execution, which is durable.
    Started(Box<Started>),
    /// Its item was fired or settled before; with the execution that it started then.
    Known(Option<ExecutionNo>),
    /// The trigger's condition does not hold. Nothing was stored.
    Filtered,
    /// It cannot start an execution, and a repetition would end the same. Nothing was stored:
    /// [`Firing::settle`] keeps a dead letter.
    Dead { reason: String },
    /// So many executions hold the permits of its concurrency key, and the policy is to reject. Nothing was
    /// stored.
    Rejected { holding: u64 },
    /// The trigger has changed since its row was read: read it again, and decide again.
    Stale,
    /// Not now: the engine stops, the store cannot be reached, an instance is too old. It may have been
    /// stored: the same item is to be fired again.
    Retry { why: EngineError },
}

/// Why nothing can be fired by a row as it is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FireError {
    /// The definition that the row names cannot be used by this build, or does not have the trigger.
    #[error("the trigger's definition cannot be used: {0}")]
    Definition(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Damage> for FireError {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Store(error) => Self::Store(error),
            damage => Self::Definition(damage.to_string()),
        }
    }
}

/// A trigger, with the plan that it is a part of.
#[derive(Clone, Debug)]
pub struct PlannedTrigger {
    pub plan: Arc<Plan>,
    pub trigger: Arc<Trigger>,
}

impl Firing {
    /// What a row names.
    pub async fn planned(&self, row: &TriggerRow) -> Result<PlannedTrigger, FireError> {
        let plan = self.plan(row.definition).await?;
        let find = plan.triggers.iter().find(|trigger| trigger.name == row.name);
        let missing = || FireError::Definition(format!("it has no trigger {:?}", &*row.name));
        let trigger = Arc::clone(find.ok_or_else(missing)?);
        Ok(PlannedTrigger { plan, trigger })
    }

    async fn plan(&self, hash: DefinitionHash) -> Result<Arc<Plan>, FireError> {
        if let Some(plan) = self.plans.known(hash) {
            return Ok(plan);
        }
        let (plans, store) = (Arc::clone(&self.plans), Arc::clone(&self.store));
        Ok(blocking(&*self.engine, move || plans.get(hash, &*store)).await??)
    }

    /// Starts the execution of an occurrence, together with the item, the trigger's next cursor and the group
    /// of a window that it empties, if these are given.
    pub async fn fire(
        &self,
        row: &TriggerRow,
        occurrence: &Occurrence,
        advance: Option<Advance>,
        group: Option<GroupFence>,
    ) -> Result<FireResult, FireError> {
        let PlannedTrigger { plan, trigger } = self.planned(row).await?;
        let fired = occurrence.fired(&trigger, self.engine.now());
        let start = match trigger.prepare(&fired, &occurrence.payload) {
            Prepared::Start(start) => start,
            Prepared::Filtered => return Ok(FireResult::Filtered),
            Prepared::Failed(failure) => return Ok(FireResult::Dead { reason: failure.message }),
        };
        // Not before the condition: a trigger that does not want it has nothing to do with the chain.
        if occurrence.depth > TRIGGER_DEPTH_MAX {
            let reason = format!(
                "more than {TRIGGER_DEPTH_MAX} executions started each other by triggers before this one"
            );
            return Ok(FireResult::Dead { reason });
        }
        if let Err(faults) = self.plans.check_input(&plan, &start.input) {
            let reason = format!("the input does not fit the schema: {}", faults.join("; "));
            return Ok(FireResult::Dead { reason });
        }
        let PreparedStart { input, id, labels } = *start;
        let fire = Fire {
            at: row.at(),
            item: occurrence.item(row),
            label: Arc::clone(&occurrence.label),
            nominal: occurrence.nominal,
            advance,
            group,
        };
        let request = StartRequest {
            key: id.clone(),
            labels,
            actor: Some(format!("trigger:{}/{}", row.workflow, row.name).into()),
            fire: Some(Box::new((fired, fire))),
            ..StartRequest::new(plan, row.version, input)
        };
        Ok(match self.engine.start(request).await {
            Ok(started) if started.new.is_some() => {
                let metrics = self.engine.metrics();
                metrics.trigger_fires_total.add(FireOutcome::Started.name(), 1);
                FireResult::Started(Box::new(started))
            }
            Ok(started) => FireResult::Known(Some(started.execution)),
            Err(EngineError::ItemSettled(_)) => FireResult::Known(None),
            Err(EngineError::Stale) => FireResult::Stale,
            Err(EngineError::Rejected(holding)) => FireResult::Rejected { holding },
            Err(EngineError::IdTaken(_)) => {
                let id = id.map(|id| id.0.to_string()).unwrap_or_default();
                FireResult::Dead { reason: format!("another execution has the id {id}") }
            }
            Err(error) if is_passing(&error) => FireResult::Retry { why: error },
            Err(error) => FireResult::Dead { reason: error.to_string() },
        })
    }

    /// Records an occurrence that started nothing, without moving the trigger's cursor. `false` where the
    /// trigger has changed since its row was read.
    pub async fn settle(
        &self,
        row: &TriggerRow,
        occurrence: &Occurrence,
        outcome: FireOutcome,
        reason: Option<&str>,
    ) -> Result<bool, StoreError> {
        let settlement = Settlement {
            at: row.at(),
            advance: None,
            group: None,
            fires: vec![occurrence.settled(row, outcome, reason)],
            failures: 0,
            failure: None,
            broken: None,
            cancel: Vec::new(),
        };
        self.store(settlement).await
    }

    /// Stores a settlement. `false` where the trigger has changed since its row was read.
    pub async fn store(&self, settlement: Settlement) -> Result<bool, StoreError> {
        let outcomes: Vec<FireOutcome> = settlement.fires.iter().map(|fire| fire.outcome).collect();
        let cancelled: Vec<ExecutionNo> =
            settlement.cancel.iter().map(|(execution, _)| *execution).collect();
        if !self.call(move |triggers| triggers.settle_trigger(&settlement)).await? {
            return Ok(false);
        }
        let metrics = self.engine.metrics();
        let count = |outcome: FireOutcome| metrics.trigger_fires_total.add(outcome.name(), 1);
        outcomes.into_iter().for_each(count);
        self.announce(cancelled).await;
        Ok(true)
    }

    /// Announces mail to the owners of these executions. Best effort: without it, the mail is read with the
    /// next poll.
    async fn announce(&self, executions: Vec<ExecutionNo>) {
        if executions.is_empty() {
            return;
        }
        let (store, count) = (Arc::clone(&self.store), executions.len());
        match self.blocking(move || store.owners(&executions)).await {
            Ok(owners) => {
                let unowned = (owners.len() < count).then_some(None);
                let owners = owners.into_iter().map(|(_, owner)| Some(owner));
                self.engine.announce_mail(owners.chain(unowned).collect());
            }
            Err(error) => tracing::debug!(%error, "the owners of executions cannot be read"),
        }
    }

    /// The row of a trigger, as it is now.
    pub async fn row(&self, workflow: &str, name: &str) -> Result<Option<TriggerRow>, StoreError> {
        let (workflow, name) = (workflow.to_owned(), name.to_owned());
        self.call(move |triggers| triggers.trigger(&workflow, &name)).await
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Triggers) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let triggers = Arc::clone(&self.triggers);
        self.blocking(move || call(&*triggers)).await
    }

    pub(super) async fn blocking<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        blocking(&*self.engine, call).await?
    }
}

/// May the same fire start an execution later?
fn is_passing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Stopping
            | EngineError::Unanswered
            | EngineError::Store(_)
            | EngineError::ClusterTooOld { .. }
            | EngineError::NotKept(NotKept::ClusterTooOld { .. } | NotKept::Blob(_))
    )
}
