//! What becomes of the row of a trigger: the rules that all stores share. A store reads a row, applies a rule
//! and writes the row back, in one transaction. Whatever moves the cursor ends the claim of the trigger.

use std::sync::Arc;

use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Throttle, TriggerCursor, TriggerKindName};

use super::{
    Advance, DEAD_FIRES_MAX, EndsWanted, Fire, LAST_FIRED_STEP, NewTrigger, Settlement,
    TRIGGERS_MAX, TriggerAt, TriggerChange, TriggerNo, TriggerRow, TriggerState,
};
use crate::outbox::{NewEndpoint, SigningSecret, TRIGGER_ENDPOINT_PREFIX};
use crate::store::{Definition, Mail, NewDefinition, StoreError};

/// Why a trigger is paused that was deployed with `--paused`.
pub const PAUSED_BY_DEPLOY: &str = "it was deployed paused";
/// Why an event of a window is a dead letter.
pub const WINDOW_GONE: &str = "a deploy took away the window in which it waited";

/// The row of a trigger, with what only stores look at.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredTrigger {
    pub row: TriggerRow,
    /// Of the definition it was registered with last ([`NewTrigger::timing`]).
    pub timing: [u8; 32],
    /// Is it paused by `enabled: false`, and by nothing else? Then a deploy may end that.
    pub by_definition: bool,
}

/// What a deploy does to a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Registered {
    /// A new one; its number is still to be given.
    New(StoredTrigger),
    /// A known one. If it does not collect events any more, or in a window of another kind, its groups become dead
    /// letters.
    Known { trigger: StoredTrigger, discards_groups: bool },
}

/// What a deploy of a version does to the triggers of its workflow.
pub fn register(
    known: Vec<StoredTrigger>,
    new: &NewDefinition,
    version: &Definition,
    now: Timestamp,
) -> Vec<Registered> {
    let is_new = |trigger: &&NewTrigger| known.iter().all(|one| one.row.name != trigger.name);
    let added: Vec<Registered> = new
        .triggers
        .iter()
        .filter(is_new)
        .map(|trigger| Registered::New(first(trigger, new.paused, version, now)))
        .collect();
    let of_known = |mut known: StoredTrigger| {
        let Some(trigger) = new.triggers.iter().find(|one| one.name == known.row.name) else {
            if known.row.state == TriggerState::Retired {
                return None;
            }
            known.enter(TriggerState::Retired, None);
            known.row.revision += 1;
            return Some(Registered::Known { trigger: known, discards_groups: true });
        };
        let is_event = trigger.kind == TriggerKindName::Event;
        let discards_groups =
            known.row.kind != trigger.kind || is_event && known.timing != trigger.timing;
        known.redefine(trigger, new.paused, version);
        Some(Registered::Known { trigger: known, discards_groups })
    };
    known.into_iter().filter_map(of_known).chain(added).collect()
}

/// The row of a trigger that was not known.
fn first(new: &NewTrigger, paused: bool, version: &Definition, now: Timestamp) -> StoredTrigger {
    let row = TriggerRow {
        number: TriggerNo(0),
        workflow: Arc::clone(&version.name),
        name: Arc::clone(&new.name),
        kind: new.kind,
        version: version.version,
        definition: version.hash,
        revision: 0,
        seq: 0,
        incarnation: 0,
        state: TriggerState::Retired,
        reason: None,
        cursor: TriggerCursor::None,
        next_due: None,
        failures: 0,
        failure: None,
        topics: Vec::new(),
        registered_at: now,
        last_fired_at: None,
    };
    let mut trigger = StoredTrigger { row, timing: new.timing, by_definition: false };
    trigger.redefine(new, paused, version);
    trigger
}

impl StoredTrigger {
    /// As a version that has become the current one declares it. A trigger that was retired counts from now.
    fn redefine(&mut self, new: &NewTrigger, paused: bool, version: &Definition) {
        let before = self.row.state;
        let is_same_version = self.row.definition == version.hash;
        let stays_paused = before == TriggerState::Paused && !self.by_definition;
        let stays_broken = before == TriggerState::Broken && is_same_version;
        let mut anew = self.timing != new.timing
            || self.row.kind != new.kind
            || before == TriggerState::Retired;
        let row = &mut self.row;
        (row.kind, row.version, row.definition) = (new.kind, version.version, version.hash);
        row.topics.clone_from(&new.topics);
        row.revision += u64::from(!is_planted(Bug::SpecNotFenced));
        self.timing = new.timing;
        let keeps_due = before == TriggerState::Active && !anew;
        if stays_paused {
            // Until a person resumes it.
        } else if !new.enabled {
            self.enter(TriggerState::Paused, None);
            self.by_definition = true;
        } else if paused {
            self.enter(TriggerState::Paused, Some(PAUSED_BY_DEPLOY.into()));
        } else if !stays_broken || anew {
            // The times of a pause are not caught up.
            anew |= before == TriggerState::Paused && new.kind == TriggerKindName::Schedule;
            self.enter(TriggerState::Active, None);
        }
        let row = &mut self.row;
        if anew {
            row.cursor = new.cursor.clone();
            row.seq += 1;
            (row.failures, row.failure) = (0, None);
        }
        if row.state == TriggerState::Active && !keeps_due {
            row.next_due = new.next_due;
        }
    }

    fn enter(&mut self, state: TriggerState, reason: Option<Arc<str>>) {
        if state != TriggerState::Active {
            self.row.next_due = None;
        }
        (self.row.state, self.row.reason, self.by_definition) = (state, reason, false);
    }

    fn is_at(&self, at: TriggerAt) -> bool {
        self.row.revision == at.revision
    }

    /// May a fire or a settlement that was prepared at this revision, on this seq, be stored?
    pub fn admits(&self, at: TriggerAt, advance: Option<&Advance>) -> bool {
        let is_there = self.row.state == TriggerState::Active && self.is_at(at);
        (is_there || is_planted(Bug::PauseNotFenced))
            && advance
                .is_none_or(|advance| advance.seq == self.row.seq || is_planted(Bug::FireNotFenced))
    }

    /// Applies a change; `false` where the row is at another revision, or retired, or its cursor has moved since
    /// the one of the change was made from it.
    pub fn change(&mut self, at: TriggerAt, change: &TriggerChange) -> bool {
        let has_moved = match change {
            TriggerChange::Move { seq: Some(seq), .. } => {
                *seq != self.row.seq && !is_planted(Bug::MoveNotFenced)
            }
            _ => false,
        };
        if !self.is_at(at) || self.row.state == TriggerState::Retired || has_moved {
            return false;
        }
        self.row.revision += 1;
        match change {
            TriggerChange::Pause { reason } => self.enter(TriggerState::Paused, reason.clone()),
            TriggerChange::Break { reason } => {
                self.enter(TriggerState::Broken, Some(Arc::clone(reason)));
            }
            TriggerChange::Resume { cursor, next_due } => {
                self.enter(TriggerState::Active, None);
                self.move_to(cursor, *next_due);
            }
            TriggerChange::Move { seq: _, cursor, next_due, again } => {
                self.move_to(cursor, *next_due);
                self.row.incarnation += u32::from(*again);
            }
        }
        true
    }

    fn move_to(&mut self, cursor: &TriggerCursor, next_due: Option<Timestamp>) {
        self.row.cursor = cursor.clone();
        self.row.seq += 1;
        self.row.next_due = next_due.filter(|_| self.row.state == TriggerState::Active);
        (self.row.failures, self.row.failure) = (0, None);
    }

    /// Applies a settlement that it [admits](Self::admits).
    pub fn settle(&mut self, settlement: &Settlement) {
        if let Some(advance) = &settlement.advance {
            self.move_to(&advance.cursor, advance.next_due);
            self.row.failures = settlement.failures;
            self.row.failure.clone_from(&settlement.failure);
        }
        if let Some(reason) = &settlement.broken {
            self.row.revision += 1;
            self.enter(TriggerState::Broken, Some(Arc::clone(reason)));
        }
    }

    /// So many of its dead letters wait for a person, after a settlement with one: with as many as may, it is
    /// broken.
    pub fn count_dead(&mut self, dead: u64) {
        if dead >= DEAD_FIRES_MAX && self.row.state == TriggerState::Active {
            self.row.revision += 1;
            let reason = format!("{dead} dead letters wait: retry or discard them, then resume it");
            self.enter(TriggerState::Broken, Some(reason.into()));
        }
    }

    /// Applies a fire that it [admits](Self::admits); `false` where that changes nothing of the row.
    pub fn fire(&mut self, fire: &Fire, now: Timestamp) -> bool {
        if let Some(advance) = &fire.advance {
            self.move_to(&advance.cursor, advance.next_due);
        } else if self.row.last_fired_at.is_some_and(|last| now.since(last) < LAST_FIRED_STEP) {
            return false;
        }
        self.row.last_fired_at = Some(now);
        true
    }
}

/// The message with which the trigger, at this seq, cancels an execution. It is the same when it is repeated.
pub fn cancel_mail(trigger: TriggerNo, seq: u64, execution: ExecutionNo, reason: &str) -> Mail {
    let message = format!("trigger-{}-{seq}-{}", trigger.0, execution.0);
    let body = Request::Cancel { reason: Some(reason.to_owned()) }.into();
    Mail { execution, message: message.into(), actor: None, body, blobs: Vec::new() }
}

/// The answer to a deploy with which there would be more triggers than [`TRIGGERS_MAX`].
pub fn too_many_triggers() -> StoreError {
    StoreError::Refused(format!("there would be more than {TRIGGERS_MAX} triggers"))
}

/// What holds back the events of a trigger that a deploy has registered.
pub fn throttle_of(row: &TriggerRow, new: &NewDefinition) -> Throttle {
    let of_trigger = new.triggers.iter().find(|new| new.name == row.name);
    of_trigger.and_then(|new| new.throttle).unwrap_or(Throttle::OPEN)
}

/// The endpoint of the outbox through which a trigger that a deploy has registered gets the ends that it fires
/// with, if it does. Its id names the trigger and what it wants: where that changes, another endpoint is added
/// before the old one goes, so that no end is between them.
pub fn endpoint_of(row: &TriggerRow, new: &NewDefinition) -> Option<NewEndpoint> {
    let is_it = |new: &&NewTrigger| new.name == row.name;
    let wanted = new.triggers.iter().find(is_it)?.ends.as_ref()?;
    Some(ends_endpoint(row, wanted))
}

/// The endpoint of a trigger that fires with these ends.
pub fn ends_endpoint(row: &TriggerRow, wanted: &EndsWanted) -> NewEndpoint {
    let EndsWanted { workflow, kinds } = wanted;
    let digest = blake3::hash(format!("{} {workflow:?}", kinds.bits()).as_bytes()).to_hex();
    let digest = digest.get(..12).unwrap_or_default();
    NewEndpoint {
        id: format!("{TRIGGER_ENDPOINT_PREFIX}{}-{digest}", row.number.0).into(),
        url: "trigger:".into(),
        description: serde_json::json!([row.workflow, row.name]).to_string().into(),
        workflow: workflow.clone(),
        kinds: *kinds,
        with_output: true,
        with_links: false,
        // Nothing is signed with it.
        secret: SigningSecret(Uuid::new_v4().as_bytes().to_vec()),
    }
}

/// The trigger of such an endpoint.
pub fn ends_trigger(endpoint: &str) -> Option<TriggerNo> {
    let (number, _) = endpoint.strip_prefix(TRIGGER_ENDPOINT_PREFIX)?.split_once('-')?;
    number.parse().ok().map(TriggerNo)
}

/// Is a trigger with these topics to be found by this one?
pub fn has_topic(topics: &[Arc<str>], wanted: &str) -> bool {
    topics.iter().any(|topic| match topic.strip_suffix('*') {
        Some(prefix) => wanted.starts_with(prefix),
        None => **topic == *wanted,
    })
}
