//! The rules about rows of triggers and groups of windows, without I/O: what is wrong with one, in words that say
//! what to do about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use waypost_core::check::Invariant;
use waypost_core::id::DefinitionHash;
use waypost_core::plan::Plan;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::decide::{GOES_ON, schedule_due};
use waypost_core::trigger::{
    ScheduleCursor, ScheduleTrigger, Trigger, TriggerCursor, TriggerKind, TriggerKindName,
};
use waypost_ports::inspect::{InspectedGroup, InspectedTrigger};
use waypost_ports::triggers::rules::{StoredTrigger, ends_endpoint};
use waypost_ports::triggers::throttles::GroupRole;
use waypost_ports::triggers::{ITEM_KEPT, TriggerState};

use crate::triggers::{CLAIM_LEASE, ends_wanted};

/// By how much times of the store may differ that instances wrote at the same moment.
pub(super) const SLACK: Millis = Millis::from_secs(60);

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TriggerFault {
    pub(crate) rule: Invariant,
    pub(crate) what: String,
    /// Does what must be there follow from the definition and other rows?
    pub(crate) repairable: bool,
}

impl TriggerFault {
    pub(super) fn new(rule: Invariant, what: impl Into<String>) -> Self {
        Self { rule, what: what.into(), repairable: false }
    }

    fn repairable(rule: Invariant, what: impl Into<String>) -> Self {
        Self { repairable: true, ..Self::new(rule, what) }
    }
}

/// The current version of a workflow.
#[derive(Clone, Debug)]
pub(crate) struct CurrentVersion {
    pub(crate) version: u32,
    pub(crate) hash: DefinitionHash,
    /// Its plan, or why this build cannot use it.
    pub(crate) plan: Result<Arc<Plan>, String>,
}

/// The row of a trigger, and what it is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSeen<'a> {
    pub(crate) row: &'a InspectedTrigger,
    /// The store's time, not before the row was read.
    pub(crate) now: Timestamp,
    pub(crate) current: Option<&'a CurrentVersion>,
    /// The ids of the endpoints that there are.
    pub(crate) endpoints: &'a BTreeSet<Arc<str>>,
    pub(crate) roster: u64,
    /// The newest nominal time that has started an execution.
    pub(crate) latest: Option<Timestamp>,
}

impl RowSeen<'_> {
    /// Everything that is wrong with the row.
    pub(crate) fn faults(&self) -> Vec<TriggerFault> {
        let row = &self.row.stored.row;
        let mut faults = Vec::new();
        if row.revision > self.roster {
            let what = format!(
                "it is at revision {}, and the list of triggers at {}: instances may not notice its last change",
                row.revision, self.roster
            );
            faults.push(TriggerFault::repairable(Invariant::TriggerRoster, what));
        }
        match self.declared() {
            Err(fault) => faults.extend(fault),
            Ok(trigger) => {
                faults.extend(self.topics(trigger));
                faults.extend(self.cursor(trigger));
                faults.extend(self.due(trigger));
                faults.extend(self.endpoint(trigger));
            }
        }
        faults.extend(self.claim());
        faults
    }

    /// What the row must be where it is not, as far as that follows from its definition.
    pub(crate) fn derived(&self) -> StoredTrigger {
        let mut derived = self.row.stored.clone();
        derived.row.revision += 1;
        let Ok(trigger) = self.declared() else { return derived };
        let row = &mut derived.row;
        if let Some(current) = self.current {
            row.version = current.version;
        }
        row.topics = trigger.topics();
        if self.due(trigger).is_some() {
            row.next_due = match (&trigger.kind, &row.cursor) {
                _ if row.state != TriggerState::Active => None,
                (TriggerKind::Schedule(schedule), TriggerCursor::Schedule(cursor)) => {
                    schedule_due(&trigger.jitter_key(&row.workflow), schedule, cursor, self.now)
                }
                (TriggerKind::Poll(_) | TriggerKind::Stream(_), _) => Some(self.now),
                _ => None,
            };
        }
        derived
    }

    /// The trigger that the current version declares under this name, for a row that is one of that version;
    /// otherwise what is wrong, if anything is.
    fn declared(&self) -> Result<&Trigger, Option<TriggerFault>> {
        let rule = Invariant::TriggerMatchesVersion;
        let row = &self.row.stored.row;
        let is_retired = row.state == TriggerState::Retired;
        let Some(current) = self.current else {
            let what = "its workflow has no current version: deploy one";
            return Err((!is_retired).then(|| TriggerFault::new(rule, what)));
        };
        let CurrentVersion { version, hash, plan } = current;
        let plan = match plan {
            Ok(plan) => plan,
            Err(reason) => {
                let what = format!("version {version}, which is current, cannot be used: {reason}");
                return Err((!is_retired).then(|| TriggerFault::new(rule, what)));
            }
        };
        let declared = plan.triggers.iter().find(|trigger| trigger.name == row.name);
        let what = match declared {
            None if is_retired => return Err(None),
            None => format!(
                "it is {}, and version {version}, which is current, does not declare it",
                row.state.name()
            ),
            Some(_) if is_retired => {
                format!("it is retired, and version {version}, which is current, declares it")
            }
            Some(_) if row.definition != *hash => {
                format!("its row is of version {}, and version {version} is current", row.version)
            }
            Some(trigger) if trigger.kind_name() != row.kind => format!(
                "its row is of a {}, and version {version} declares a {}",
                row.kind.name(),
                trigger.kind_name().name()
            ),
            Some(trigger) => return Ok(trigger),
        };
        Err(Some(TriggerFault::new(rule, format!("{what}: deploy the workflow again"))))
    }

    fn topics(&self, trigger: &Trigger) -> Option<TriggerFault> {
        let rule = Invariant::TriggerMatchesVersion;
        let row = &self.row.stored.row;
        if row.topics != trigger.topics() {
            let what = format!(
                "events find it by {:?}, and its definition says {:?}",
                row.topics,
                trigger.topics()
            );
            return Some(TriggerFault::repairable(rule, what));
        }
        let version = self.current.map_or(row.version, |current| current.version);
        let what =
            format!("its row is of version {}, and its definition is {version}", row.version);
        (row.version != version).then(|| TriggerFault::repairable(rule, what))
    }

    /// Is the cursor of this kind, and not before what has fired?
    fn cursor(&self, trigger: &Trigger) -> Option<TriggerFault> {
        let row = &self.row.stored.row;
        let fits = match &row.cursor {
            TriggerCursor::None => matches!(
                row.kind,
                TriggerKindName::Webhook | TriggerKindName::Event | TriggerKindName::WorkflowEnded
            ),
            TriggerCursor::Schedule(_) => row.kind == TriggerKindName::Schedule,
            TriggerCursor::Poll(_) => row.kind == TriggerKindName::Poll,
            TriggerCursor::Stream(_) => row.kind == TriggerKindName::Stream,
        };
        if !fits {
            let what = format!("its cursor is not one of a {}", row.kind.name());
            return Some(TriggerFault::new(Invariant::TriggerMatchesVersion, what));
        }
        let (TriggerCursor::Schedule(cursor), TriggerKind::Schedule(schedule)) =
            (&row.cursor, &trigger.kind)
        else {
            return None;
        };
        // A backfill may be ahead of the schedule by the jitter.
        let jitter = schedule.spec.jitter.unwrap_or_default();
        let covered = cursor.reached.map_or(cursor.after, |reached| reached.max(cursor.after));
        let latest = self.latest.filter(|latest| *latest > covered.plus(jitter).plus(SLACK))?;
        let what = format!(
            "its cursor is at {}, and the time {latest} has fired: rewind it to that time",
            cursor.after
        );
        Some(TriggerFault::new(Invariant::TriggerCursorHolds, what))
    }

    fn due(&self, trigger: &Trigger) -> Option<TriggerFault> {
        let row = &self.row.stored.row;
        let fault = |what: String| Some(TriggerFault::repairable(Invariant::TriggerDue, what));
        let waits = match (&trigger.kind, &row.cursor) {
            _ if row.state != TriggerState::Active => None,
            (TriggerKind::Schedule(schedule), TriggerCursor::Schedule(cursor)) => {
                latest_due(&trigger.jitter_key(&row.workflow), schedule, cursor, self.now)
            }
            (TriggerKind::Poll(_) | TriggerKind::Stream(_), _) => Some(Timestamp(i64::MAX)),
            _ => None,
        };
        match (row.next_due, waits) {
            (None, Some(latest)) if latest.0 == i64::MAX => {
                fault("it is never due, and its source is never read".to_owned())
            }
            (None, Some(latest)) => fault(format!("it is never due, and has to be at {latest}")),
            (Some(due), Some(latest)) if due > latest => {
                fault(format!("it is due at {due}, and has to be at {latest}"))
            }
            (Some(due), None) if row.state != TriggerState::Active => {
                fault(format!("it is {}, and due at {due}", row.state.name()))
            }
            // A schedule that has come to its end finds that out.
            (Some(due), None) if due > self.now.plus(GOES_ON) => {
                fault(format!("it is due at {due}, and has nothing to do then"))
            }
            _ => None,
        }
    }

    /// Can it be claimed when it is due?
    fn claim(&self) -> Option<TriggerFault> {
        let claimable = self.row.claimable_at;
        let what = match (self.row.stored.row.next_due, claimable) {
            (Some(due), Some(at)) => {
                let latest = due.max(self.now.plus(CLAIM_LEASE).plus(SLACK));
                (at > latest)
                    .then(|| format!("it is due at {due}, and nothing takes it before {at}"))
            }
            (Some(due), None) => Some(format!("it is due at {due}, and nothing ever takes it")),
            (None, Some(at)) => Some(format!("it is never due, and is taken at {at}")),
            (None, None) => None,
        };
        what.map(|what| TriggerFault::repairable(Invariant::TriggerDue, what))
    }

    fn endpoint(&self, trigger: &Trigger) -> Option<TriggerFault> {
        let row = &self.row.stored.row;
        let wanted = ends_wanted(&trigger.kind)?;
        let id = ends_endpoint(row, &wanted).id;
        let what = format!("it has no endpoint {id}, and gets no ends");
        let is_there = self.endpoints.contains(&id);
        (!is_there).then(|| TriggerFault::repairable(Invariant::TriggerEndpoint, what))
    }

    /// The trigger that the row is of, if its endpoint is missing.
    pub(crate) fn without_endpoint(&self) -> Option<&Trigger> {
        self.declared().ok().filter(|trigger| self.endpoint(trigger).is_some())
    }
}

/// The latest time at which a schedule with this cursor may be due. It may be due earlier: then it finds nothing to
/// do, and is due again when it should be.
fn latest_due(
    key: &str,
    schedule: &ScheduleTrigger,
    cursor: &ScheduleCursor,
    now: Timestamp,
) -> Option<Timestamp> {
    // It was decided at this time or before.
    schedule_due(key, schedule, cursor, now).map(|due| due.max(now.plus(GOES_ON)))
}

/// Everything that is wrong with a group of a window. `now` is not before it was read.
pub(crate) fn group_faults(group: &InspectedGroup, now: Timestamp) -> Vec<TriggerFault> {
    let rule = Invariant::TriggerGroups;
    let InspectedGroup { stored, held, claimable_at, .. } = group;
    let key = &group.key;
    let mut faults = Vec::new();
    let mut fault =
        |what: String| faults.push(TriggerFault::new(rule, format!("group {key:?} {what}")));
    match group.state {
        None => fault("belongs to no trigger, and never fires".to_owned()),
        Some(TriggerState::Retired) => {
            fault("waits for a trigger that is retired, and never fires".to_owned());
        }
        Some(_) => {}
    }
    // What is kept of queues and permits of throttles, only their stores know.
    let is_window = group.role == GroupRole::Window;
    if is_window && held.count > 0 && held.bytes != stored.bytes as u64 {
        fault(format!("counts {} bytes, and its events have {}", stored.bytes, held.bytes));
    }
    if is_window && held.count > u64::from(stored.events) {
        fault(format!("counts {} events, and holds {}", stored.events, held.count));
    }
    if is_window && held.count > 0 && held.last != group.seq {
        fault(format!(
            "is at event {}, and the last one that it holds is {}",
            group.seq, held.last
        ));
    }
    let is_remembered = stored.first_at > now.minus(ITEM_KEPT).plus(SLACK);
    if is_remembered && held.unknown > 0 {
        fault(format!(
            "holds {} events that would be taken again: they have no item",
            held.unknown
        ));
    }
    let mut repairable =
        |what: String| faults.push(TriggerFault::repairable(rule, format!("group {key:?} {what}")));
    if is_window && held.count == 0 {
        repairable("holds no event, and never fires".to_owned());
    }
    match group.state {
        Some(TriggerState::Active) if group.paused => {
            repairable("is marked as paused, and its trigger is active: it never fires".to_owned());
        }
        Some(state @ (TriggerState::Paused | TriggerState::Broken)) if !group.paused => {
            repairable(format!("is not marked as paused, and its trigger is {}", state.name()));
        }
        _ => {}
    }
    let latest = match group.closed {
        false => stored.due,
        true => stored.due.max(now.plus(CLAIM_LEASE).plus(SLACK)),
    };
    if is_window && *claimable_at > latest {
        repairable(format!("is due at {}, and nothing takes it before {claimable_at}", stored.due));
    }
    faults
}
