//! What must be true of triggers after every statement at the store: the rows before and after it are compared.
//! An item fires once, by the version that is current and while its trigger is active; its execution knows of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use waypost_core::event::{Event as LogEvent, RunCreated, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{ItemDigest, ItemKey};
use waypost_ports::memory::HeldGroup;
use waypost_ports::source::SourcePage;
use waypost_ports::triggers::{FireOutcome, FireRow, TriggerNo, TriggerRow, TriggerState};

use super::asks::Asked;
use super::flows::{FlowKind, Timing};
use super::virtual_tasks::TaskNo;
use crate::process::Life;
use crate::simulation::Simulation;
use crate::simulation::operations::POISON;

/// What is known of the triggers of a world.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) rows: BTreeMap<TriggerNo, TriggerRow>,
    pub(super) groups: Vec<HeldGroup>,
    fires_seen: usize,
    items: BTreeSet<(TriggerNo, ItemDigest)>,
    executions: BTreeSet<ExecutionNo>,
    /// The store's time on which a process decides about a trigger.
    decided: BTreeMap<(Life, TriggerNo), Timestamp>,
    /// The last page that a process has read of a source.
    pages: BTreeMap<(Life, Arc<str>), SeenPage>,
    /// What tasks do for people.
    causes: BTreeMap<TaskNo, Asked>,
    /// By the versions of schedules.
    pub(super) timings: BTreeMap<DefinitionHash, Timing>,
    /// Times that backfills promised.
    pub(super) backfills: Vec<(Arc<str>, Vec<Timestamp>)>,
    /// Workflows whose schedules have begun anew.
    pub(super) anew: BTreeSet<Arc<str>>,
}

/// What a page of a source says.
#[derive(Clone)]
pub(super) struct SeenPage {
    pub(super) keys: Vec<String>,
    pub(super) next: Value,
}

/// What one statement has changed of a trigger.
pub(super) struct Change {
    pub(super) was: TriggerRow,
    pub(super) is: TriggerRow,
    /// What became of items.
    pub(super) fires: Vec<FireRow>,
    /// The store's time.
    pub(super) at: Timestamp,
    pub(super) by: Option<(Life, TaskNo)>,
    /// The events that were held in windows before and after.
    pub(super) held: (Vec<HeldGroup>, Vec<HeldGroup>),
}

/// A rule that is broken, and how.
pub(super) type Broken = (&'static str, String);

impl Watch {
    pub(super) fn decides(&mut self, life: Life, trigger: TriggerNo, now: Timestamp) {
        self.decided.insert((life, trigger), now);
    }

    pub(super) fn decided_at(&self, change: &Change) -> Option<Timestamp> {
        let (life, _) = change.by?;
        self.decided.get(&(life, change.is.number)).copied()
    }

    pub(super) fn causes(&mut self, task: TaskNo, cause: Asked) {
        self.causes.insert(task, cause);
    }

    pub(super) fn cause(&self, change: &Change) -> Option<&Asked> {
        self.causes.get(&change.by?.1)
    }

    pub(super) fn reads(&mut self, life: Life, workflow: &Arc<str>, page: Option<&SourcePage>) {
        let Some(body) = page.and_then(|page| page.body.to_value().ok()) else { return };
        let items = body["items"].as_array().into_iter().flatten();
        let keys = items.filter_map(|item| item["id"].as_str()).map(str::to_owned).collect();
        let page = SeenPage { keys, next: serde_json::json!({ "since": body["next"] }) };
        self.pages.insert((life, Arc::clone(workflow)), page);
    }

    pub(super) fn page(&self, change: &Change) -> Option<&SeenPage> {
        self.pages.get(&(change.by?.0, Arc::clone(&change.is.workflow)))
    }

    pub(super) fn backfills(&mut self, flow: &Arc<str>, times: Vec<Timestamp>) {
        self.backfills.push((Arc::clone(flow), times));
    }

    /// Has an item of this key fired, or been settled, since the trigger's last rewind?
    pub(super) fn knows(&self, row: &TriggerRow, key: &str) -> bool {
        let item = ItemKey { key: key.into(), incarnation: row.incarnation };
        self.items.contains(&(row.number, item.digest()))
    }
}

impl Simulation {
    /// A statement was made at the store.
    pub(in crate::simulation) fn watch_triggers(&mut self, by: Option<(Life, TaskNo)>) {
        if self.triggers.is_empty() {
            return;
        }
        let seen = self.triggers.watch.fires_seen;
        let (rows, groups, fires, at) = self.store.with(|tables, now| {
            let rows: Vec<TriggerRow> = tables.trigger_rows().cloned().collect();
            let fires = tables.fire_rows().skip(seen);
            let fires: Vec<(TriggerNo, FireRow)> =
                fires.map(|(trigger, row)| (trigger, row.clone())).collect();
            (rows, tables.held_groups().collect::<Vec<_>>(), fires, now)
        });
        self.triggers.watch.fires_seen += fires.len();
        let held_before = std::mem::replace(&mut self.triggers.watch.groups, groups.clone());
        for is in rows {
            let before = self.triggers.watch.rows.insert(is.number, is.clone());
            let Some(was) = before else { continue };
            let of = |groups: &[HeldGroup]| -> Vec<HeldGroup> {
                groups.iter().filter(|group| group.trigger == is.number).cloned().collect()
            };
            let held = (of(&held_before), of(&groups));
            let mine = fires.iter().filter(|(trigger, _)| *trigger == is.number);
            let mine: Vec<FireRow> = mine.map(|(_, row)| row.clone()).collect();
            if was == is && mine.is_empty() && held.0 == held.1 {
                continue;
            }
            let change = Change { was, is, fires: mine, at, by, held };
            self.note_change(&change);
            if let Err((rule, what)) = self.check_change(&change) {
                let named = format!("{}: {what}", change.is.workflow);
                self.fail(rule, named);
            }
        }
    }

    fn note_change(&mut self, change: &Change) {
        let Change { was, is, fires, by, .. } = change;
        let (life, task) = by.unwrap_or_default();
        let numbers = [life.into(), task, is.revision, is.seq, fires.len() as u64];
        self.note("trigger", &numbers, || {
            let fired = fires.iter().map(|row| {
                let execution = row.execution.map_or(0, |execution| execution.0);
                format!("{} {} x{execution}", row.label, row.outcome.name())
            });
            let fired = fired.collect::<Vec<_>>().join(", ");
            let cursor =
                if was.cursor == is.cursor { String::new() } else { format!("{:?}", is.cursor) };
            format!(
                "p{life} {} r{} s{} {} due {:?}: {fired} {cursor}",
                is.workflow,
                is.revision,
                is.seq,
                is.state.name(),
                is.next_due
            )
        });
    }

    /// After a failover: everything is looked at anew.
    pub(in crate::simulation) fn rewatch_triggers(&mut self) {
        let watch = &mut self.triggers.watch;
        watch.rows.clear();
        watch.groups.clear();
        watch.items.clear();
        watch.executions.clear();
        watch.backfills.clear();
        // What was decided on the store before is not judged.
        watch.pages.clear();
        watch.decided.clear();
        watch.fires_seen = 0;
        let fires: Vec<_> = self.store.with(|tables, _| {
            tables.fire_rows().map(|(trigger, row)| (trigger, row.item, row.execution)).collect()
        });
        watch.fires_seen = fires.len();
        for (trigger, item, execution) in fires {
            watch.items.insert((trigger, item));
            watch.executions.extend(execution);
        }
        self.watch_triggers(None);
    }

    fn check_change(&mut self, change: &Change) -> Result<(), Broken> {
        for fire in &change.fires {
            self.check_fire(change, fire)?;
        }
        let Some(flow) = self.triggers.flow(&change.is.workflow) else { return Ok(()) };
        match &flow.kind {
            FlowKind::Schedule(_) => self.check_schedule(change),
            FlowKind::Poll(_) => self.check_poll(change),
            // After a failover, a group may come a second time under the number of one that was lost.
            FlowKind::Event(Some(mode)) if self.failovers == 0 => self.check_window(change, *mode),
            FlowKind::Event(Some(_)) => Ok(()),
            FlowKind::Event(None) | FlowKind::Webhook | FlowKind::Ended => Ok(()),
        }
    }

    /// What became of one item.
    fn check_fire(&mut self, change: &Change, fire: &FireRow) -> Result<(), Broken> {
        let Change { was, is, .. } = change;
        let label = &fire.label;
        if !self.triggers.watch.items.insert((is.number, fire.item)) {
            return Err(("trigger.twice", format!("the item {label} is there twice")));
        }
        if was.state != TriggerState::Active && fire.outcome != FireOutcome::Dead {
            let what =
                format!("{label} is {} while it is {}", fire.outcome.name(), was.state.name());
            return Err(("trigger.paused", what));
        }
        if fire.outcome == FireOutcome::Dead {
            return self.check_dead(change, fire);
        }
        let Some(execution) = fire.execution else { return Ok(()) };
        if !self.triggers.watch.executions.insert(execution) {
            return Err(("trigger.twice", format!("x{} was started twice", execution.0)));
        }
        let Some(created) = self.created(execution) else {
            return Err((
                "trigger.frame",
                format!("{label} names x{}, which is not there", execution.0),
            ));
        };
        // After a failover, a revision may come a second time with another version.
        if created.definition != was.definition && self.failovers == 0 {
            let what = format!("{label} starts another version than {}", was.version);
            return Err(("trigger.version", what));
        }
        let knows = created.trigger.as_ref().is_some_and(|fired| {
            fired.name == is.name
                && fired.key == *label
                && fire.nominal.is_none_or(|nominal| fired.at == nominal)
        });
        match knows && created.workflow == is.workflow {
            true => Ok(()),
            false => Err(("trigger.frame", format!("x{} does not know of {label}", execution.0))),
        }
    }

    /// Only poison may start nothing, or what the store has refused.
    fn check_dead(&self, change: &Change, fire: &FireRow) -> Result<(), Broken> {
        let reason = fire.reason.as_deref().unwrap_or_default();
        let flow = self.triggers.flow(&change.is.workflow).map(|flow| &flow.kind);
        let is_poison = match flow {
            Some(FlowKind::Poll(source)) => {
                source.items.iter().any(|item| item.key == *fire.label && item.is_poison)
            }
            _ => false,
        };
        match is_poison || reason.contains(POISON) {
            true => Ok(()),
            false => Err(("trigger.dead", format!("{} starts nothing: {reason}", fire.label))),
        }
    }

    /// The first event of an execution.
    pub(super) fn created(&self, execution: ExecutionNo) -> Option<RunCreated> {
        let frame =
            self.store.with(|tables, _| tables.frames_from(execution, 0).next().cloned())?;
        let events = decode(frame.body.as_ref().ok()?).ok()?;
        match events.into_iter().next()? {
            LogEvent::Run(RunEvent::Created(created)) => Some(*created),
            _ => None,
        }
    }
}
