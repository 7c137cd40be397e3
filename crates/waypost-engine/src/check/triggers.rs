//! Triggers: their rows against the definitions that declare them, their items against the logs that they started,
//! and what waits in windows.
//!
//! Rows move while they are read. A row is wrong if it is wrong twice and has not changed in between; items and groups
//! are read together with what they are compared with, from one snapshot.

mod rules;
pub(super) mod starts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waypost_core::check::Invariant;
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo};
use waypost_core::time::Timestamp;
use waypost_core::trigger::TriggerKindName;
use waypost_ports::inspect::{InspectTriggers, InspectedTrigger, TriggerRepair, TriggerStrayKind};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::rules::ends_endpoint;
use waypost_ports::triggers::{FireOutcome, TriggerNo, TriggerState};

use self::rules::{CurrentVersion, RowSeen, TriggerFault, group_faults};
use self::starts::{Begun, start_fault};
use super::{CheckReport, Cure, Finding};
use crate::triggers::ends_wanted;
use crate::{Damage, Plans};

/// Rows that are read at once.
const PAGE: usize = 200;
/// How often a row that changes meanwhile is looked at.
const LOOKS: usize = 4;

/// The trigger that a finding is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AboutTrigger {
    pub number: TriggerNo,
    /// `WORKFLOW/NAME`.
    pub name: Arc<str>,
}

/// The newest nominal times that have started executions, by trigger.
pub(super) type Latest = BTreeMap<TriggerNo, Timestamp>;

/// How an execution began, with its names.
pub(super) type BegunAs = (ExecutionNo, Option<ExecutionId>, Begun);

/// Triggers of a store, and the plans of their definitions.
#[derive(Clone, Copy)]
pub(super) struct TriggerChecker<'a> {
    pub(super) store: &'a dyn InspectTriggers,
    pub(super) plans: &'a Plans,
}

/// A row as it was read, with what was read beside it.
struct Look {
    row: InspectedTrigger,
    now: Timestamp,
    current: Option<CurrentVersion>,
    endpoints: Arc<BTreeSet<Arc<str>>>,
    roster: u64,
}

impl Look {
    fn seen(&self, latest: Option<Timestamp>) -> RowSeen<'_> {
        let Self { row, now, current, endpoints, roster } = self;
        let (now, current, roster) = (*now, current.as_ref(), *roster);
        RowSeen { row, now, current, endpoints, roster, latest }
    }

    /// Grows with every change of the row.
    fn state(&self) -> (u64, u64) {
        (self.row.stored.row.revision, self.row.stored.row.seq)
    }
}

impl TriggerChecker<'_> {
    /// Are there any?
    pub(super) fn has_triggers(&self) -> Result<bool, StoreError> {
        Ok(!self.store.stored_triggers(None, 1)?.rows.is_empty())
    }

    /// Compares executions with the items that started them. Their logs have been read before: an item is stored with
    /// the first frame.
    pub(super) fn check_starts(
        &self,
        begun: &[BegunAs],
        latest: &mut Latest,
    ) -> Result<Vec<Finding>, StoreError> {
        let executions: Vec<ExecutionNo> = begun.iter().map(|(execution, ..)| *execution).collect();
        let fires = self.store.fires_of(&executions)?;
        for fire in fires.iter().filter(|named| named.fire.outcome == FireOutcome::Started) {
            if let Some(nominal) = fire.fire.nominal {
                let newest = latest.entry(fire.trigger).or_insert(nominal);
                *newest = nominal.max(*newest);
            }
        }
        if fires.is_empty() && begun.iter().all(|(.., begun)| begun.fired.is_none()) {
            return Ok(Vec::new());
        }
        let now = self.store.stored_triggers(None, 0)?.at;
        let mut findings = Vec::new();
        for (execution, key, begun) in begun {
            let first = fires.partition_point(|fire| fire.execution < *execution);
            let past = fires.partition_point(|fire| fire.execution <= *execution);
            let of_it = fires.get(first..past).unwrap_or_default();
            if let Some(TriggerFault { rule, what, .. }) = start_fault(begun, of_it, now) {
                let finding = Finding::new(*execution, rule, what, None);
                findings.push(Finding { key: key.clone(), ..finding });
            }
        }
        Ok(findings)
    }

    /// Checks everything but starts. `latest` is what [`check_starts`](Self::check_starts) has found before.
    pub(super) fn check_rows(&self, latest: &Latest) -> Result<CheckReport, StoreError> {
        let mut report = CheckReport::default();
        let (mut names, mut known) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<Arc<str>>>::new());
        let mut live: BTreeMap<Arc<str>, DefinitionHash> = BTreeMap::new();
        let (mut after, mut roster_behind) = (None, false);
        loop {
            let page = self.store.stored_triggers(after, PAGE)?;
            let looks = self.looks(page.rows, page.at)?;
            let Some(last) = looks.last() else { break };
            after = Some(last.row.stored.row.number);
            for look in looks {
                let row = &look.row.stored.row;
                let (number, workflow) = (row.number, Arc::clone(&row.workflow));
                names.insert(number, name_of(&look.row));
                known.entry(Arc::clone(&workflow)).or_default().insert(Arc::clone(&row.name));
                if row.state != TriggerState::Retired {
                    live.insert(workflow, row.definition);
                }
                report.tally.triggers += 1;
                let mut faults = self.confirmed(look, latest.get(&number).copied())?;
                // One of them says it all.
                faults.retain(|fault| fault.rule != Invariant::TriggerRoster || !roster_behind);
                roster_behind |= faults.iter().any(|fault| fault.rule == Invariant::TriggerRoster);
                report.findings.extend(self.findings(number, &names, faults));
            }
        }
        report.findings.extend(self.undeclared(&known, live)?);
        report.findings.extend(self.check_groups(&names)?);
        report.findings.extend(self.strays(&names)?);
        Ok(report)
    }

    /// Reads what rows are compared with: after them, so that it is at least as new.
    fn looks(&self, rows: Vec<InspectedTrigger>, now: Timestamp) -> Result<Vec<Look>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let rows_current = rows
            .into_iter()
            .map(|row| Ok((self.current(&row.stored.row.workflow)?, row)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        let listens =
            |row: &InspectedTrigger| row.stored.row.kind == TriggerKindName::WorkflowEnded;
        let endpoints: BTreeSet<Arc<str>> = match rows_current.iter().any(|(_, row)| listens(row)) {
            true => self.store.endpoints()?.into_iter().map(|row| row.endpoint.id).collect(),
            false => BTreeSet::new(),
        };
        let (endpoints, roster) = (Arc::new(endpoints), self.store.roster_revision()?);
        let look = |(current, row)| {
            let endpoints = Arc::clone(&endpoints);
            Look { row, now, current, endpoints, roster }
        };
        Ok(rows_current.into_iter().map(look).collect())
    }

    fn look_at(&self, trigger: TriggerNo) -> Result<Option<Look>, StoreError> {
        let page = self.store.stored_triggers(Some(TriggerNo(trigger.0 - 1)), 1)?;
        let mut rows = page.rows;
        rows.retain(|row| row.stored.row.number == trigger);
        Ok(self.looks(rows, page.at)?.pop())
    }

    fn current(&self, workflow: &str) -> Result<Option<CurrentVersion>, StoreError> {
        let Some(row) = self.store.current(workflow)? else { return Ok(None) };
        let plan = match self.plans.get(row.hash, self.store) {
            Ok(plan) => Ok(plan),
            Err(Damage::Store(error)) => return Err(error),
            Err(damage) => Err(damage.to_string()),
        };
        Ok(Some(CurrentVersion { version: row.version, hash: row.hash, plan }))
    }

    /// What is wrong with a row twice, without a change in between.
    fn confirmed(
        &self,
        mut look: Look,
        latest: Option<Timestamp>,
    ) -> Result<Vec<TriggerFault>, StoreError> {
        let mut faults = look.seen(latest).faults();
        for _ in 1..LOOKS {
            if faults.is_empty() {
                break;
            }
            let Some(again) = self.look_at(look.row.stored.row.number)? else { break };
            let is_same = again.state() == look.state();
            let mut found = again.seen(latest).faults();
            if is_same {
                found.retain(|fault| faults.iter().any(|before| before.rule == fault.rule));
                return Ok(found);
            }
            (look, faults) = (again, found);
        }
        Ok(Vec::new())
    }

    fn findings(
        &self,
        number: TriggerNo,
        names: &BTreeMap<TriggerNo, Arc<str>>,
        faults: Vec<TriggerFault>,
    ) -> Vec<Finding> {
        let unnamed = || format!("number {}", number.0).into();
        let name = names.get(&number).cloned().unwrap_or_else(unnamed);
        faults
            .into_iter()
            .map(|fault| finding(AboutTrigger { number, name: Arc::clone(&name) }, fault))
            .collect()
    }

    /// Triggers of current versions that have been deployed, and have no row.
    fn undeclared(
        &self,
        known: &BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
        live: BTreeMap<Arc<str>, DefinitionHash>,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        for (workflow, definition) in live {
            let deployed = |current: &CurrentVersion| current.hash == definition;
            let Some(current) = self.current(&workflow)?.filter(deployed) else { continue };
            let Ok(plan) = &current.plan else { continue };
            for trigger in &plan.triggers {
                let is_known =
                    known.get(&workflow).is_some_and(|names| names.contains(&trigger.name));
                if is_known || self.store.trigger(&workflow, &trigger.name)?.is_some() {
                    continue;
                }
                let what = format!(
                    "version {}, which is current, declares it, and it has no row: deploy the workflow again",
                    current.version
                );
                let name = format!("{workflow}/{}", trigger.name).into();
                let about = AboutTrigger { number: TriggerNo(0), name };
                let rule = Invariant::TriggerMatchesVersion;
                findings.push(finding(about, TriggerFault { rule, what, repairable: false }));
            }
        }
        Ok(findings)
    }

    fn check_groups(
        &self,
        names: &BTreeMap<TriggerNo, Arc<str>>,
    ) -> Result<Vec<Finding>, StoreError> {
        let (mut findings, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.stored_groups(after, PAGE)?;
            let Some(last) = page.groups.last() else { return Ok(findings) };
            after = Some(last.number);
            for group in &page.groups {
                findings.extend(self.findings(group.trigger, names, group_faults(group, page.at)));
            }
        }
    }

    fn strays(&self, names: &BTreeMap<TriggerNo, Arc<str>>) -> Result<Vec<Finding>, StoreError> {
        let strays = self.store.trigger_strays()?.into_iter();
        let found = strays.flat_map(|stray| {
            let label = &stray.label;
            let (rule, what) = match stray.kind {
                TriggerStrayKind::StartWithoutLog => (
                    Invariant::TriggerItemsOnce,
                    format!("item {label:?} started an execution that has no log"),
                ),
                TriggerStrayKind::EventWithoutGroup => (
                    Invariant::TriggerGroups,
                    format!("event {label:?} waits in no group, and never fires: publish it again under another id"),
                ),
                TriggerStrayKind::DeadItemWithoutLetter => (
                    Invariant::TriggerDeadLetters,
                    format!("item {label:?} is dead, and there is no dead letter to fire it again"),
                ),
                TriggerStrayKind::LetterWithoutItem => (
                    Invariant::TriggerDeadLetters,
                    format!("dead letter {label:?} has no item: the same item could fire"),
                ),
            };
            let fault = TriggerFault { rule, what, repairable: false };
            self.findings(stray.trigger.unwrap_or(TriggerNo(0)), names, vec![fault])
        });
        Ok(found.collect())
    }

    /// The current faults of a trigger and of its groups.
    fn faults_of(&self, trigger: TriggerNo) -> Result<Vec<TriggerFault>, StoreError> {
        let Some(look) = self.look_at(trigger)? else { return Ok(Vec::new()) };
        let mut faults = look.seen(None).faults();
        let mut after = None;
        loop {
            let page = self.store.stored_groups(after, PAGE)?;
            let Some(last) = page.groups.last() else { return Ok(faults) };
            after = Some(last.number);
            let of_it = page.groups.iter().filter(|group| group.trigger == trigger);
            faults.extend(of_it.flat_map(|group| group_faults(group, page.at)));
        }
    }

    /// Repairs what follows from definitions, and marks the findings that are gone.
    pub(super) fn repair(&self, report: &mut CheckReport) -> Result<(), StoreError> {
        let of_triggers =
            report.findings.iter().filter(|finding| finding.cure == Some(Cure::Trigger));
        let triggers: BTreeSet<TriggerNo> =
            of_triggers.filter_map(|finding| Some(finding.trigger.as_ref()?.number)).collect();
        for trigger in triggers {
            let Some(look) = self.look_at(trigger)? else { continue };
            let seen = look.seen(None);
            let row = &look.row.stored.row;
            if let Some(wanted) = seen.without_endpoint().and_then(|it| ends_wanted(&it.kind)) {
                self.store.add_endpoint(&ends_endpoint(row, &wanted))?;
            }
            let (at, seq, derived) = (row.at(), row.seq, seen.derived());
            // If it has changed meanwhile there is nothing to do: what changed it wrote its rows.
            self.store.repair_trigger(&TriggerRepair { at, seq, derived })?;
            let left = self.faults_of(trigger)?;
            for finding in &mut report.findings {
                let is_about =
                    finding.trigger.as_ref().is_some_and(|about| about.number == trigger);
                let stays = |fault: &TriggerFault| {
                    fault.repairable && fault.rule == finding.violation.invariant
                };
                if is_about && finding.cure.is_some() {
                    finding.repaired = !left.iter().any(stays);
                }
            }
        }
        Ok(())
    }
}

fn name_of(row: &InspectedTrigger) -> Arc<str> {
    let row = &row.stored.row;
    format!("{}/{}", row.workflow, row.name).into()
}

fn finding(about: AboutTrigger, TriggerFault { rule, what, repairable }: TriggerFault) -> Finding {
    let cure = repairable.then_some(Cure::Trigger);
    Finding { trigger: Some(about), ..Finding::new(ExecutionNo(0), rule, what, cure) }
}

#[cfg(test)]
mod tests;
