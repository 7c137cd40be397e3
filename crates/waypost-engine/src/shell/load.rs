//! From what a store holds to a state: recovery is `apply` in a loop.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::apply::{apply, begin};
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::{FrameHeader, decode};
use waypost_core::id::DefinitionHash;
use waypost_core::json::Json;
use waypost_core::plan::Plan;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::state::State;
use waypost_core::time::Timestamp;
use waypost_ports::store::{Control, DefinitionRef, History, LogReader, Store, StoreError};

use crate::driver::{Loaded, Suspicion};

/// Turns the canonical form of a definition into a plan.
pub type PlanSource = dyn Fn(&str) -> Result<Plan, String> + Send + Sync;

/// Checks an input against the schema of a plan. Returns the faults.
pub(crate) type InputCheck = dyn Fn(&Plan, &Json) -> Result<(), Vec<String>> + Send + Sync;

/// Plans by definition, compiled once.
pub struct Plans {
    compile: Box<PlanSource>,
    check: Option<Box<InputCheck>>,
    known: Mutex<HashMap<DefinitionHash, Arc<Plan>>>,
}

/// Plans in the cache; above it the cache starts anew.
const PLANS_MAX: usize = 1_000;

/// Why an execution cannot be driven. It is quarantined with this as the reason.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Damage {
    /// Its log does not make sense.
    #[error("its log is damaged: {0}")]
    Log(String),
    /// Its definition is missing or cannot be compiled by this build.
    #[error("its definition cannot be used: {0}")]
    Definition(String),
    /// Not its fault: the store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Plans {
    /// A cache over a compiler.
    pub fn new(compile: Box<PlanSource>) -> Self {
        Self { compile, check: None, known: Mutex::new(HashMap::new()) }
    }

    /// With a check of the inputs that executions give to those that they start, and triggers.
    #[must_use]
    pub fn checking(self, check: Box<InputCheck>) -> Self {
        Self { check: Some(check), ..self }
    }

    pub(crate) fn check_input(&self, plan: &Plan, input: &Json) -> Result<(), Vec<String>> {
        self.check.as_ref().map_or(Ok(()), |check| check(plan, input))
    }

    /// The plan of a definition, if it is at hand.
    pub(crate) fn known(&self, hash: DefinitionHash) -> Option<Arc<Plan>> {
        self.known.lock().get(&hash).cloned()
    }

    /// The plan of a definition.
    pub fn get(&self, hash: DefinitionHash, store: &dyn Store) -> Result<Arc<Plan>, Damage> {
        if let Some(plan) = self.known(hash) {
            return Ok(plan);
        }
        let missing = || Damage::Definition(format!("definition {hash} is not in the store"));
        let definition = store.definition(&DefinitionRef::Hash(hash))?.ok_or_else(missing)?;
        let plan = Arc::new((self.compile)(&definition.canonical).map_err(Damage::Definition)?);
        self.keep(Arc::clone(&plan));
        Ok(plan)
    }

    /// Caches a plan that the caller compiled.
    pub fn keep(&self, plan: Arc<Plan>) {
        let mut known = self.known.lock();
        if known.len() >= PLANS_MAX {
            known.clear();
        }
        known.insert(plan.hash, plan);
    }
}

/// Folds a history into a state, reading its log page by page. A snapshot that cannot be used is
/// passed over: it is a cache, and the whole log is read instead.
pub fn fold(mut history: History, plans: &Plans, store: &dyn Store) -> Result<Loaded, Damage> {
    let from_snapshot = match &history.snapshot {
        Some(snapshot) => start_from_snapshot(&snapshot.body, snapshot.seq, plans, store)?,
        None => None,
    };
    let snapshot_bytes = history.snapshot.as_ref().map_or(0, |snapshot| snapshot.body.len());
    let log = match (&from_snapshot, &history.snapshot) {
        (None, Some(_)) => {
            let mut bodies = history.frames.iter().map(|frame| &frame.body);
            if let Some(Err(reason)) = bodies.find(|body| body.is_err()) {
                return Err(Damage::Log(reason.clone())); // its header may not say where the log ends
            }
            history.whole_log(store)
        }
        _ => history.take_log(store),
    };
    let Folded { plan, state, last, at, log_bytes } =
        fold_frames(log, from_snapshot, plans, store)?;
    let control = history.control.as_ref();
    let permit = control.and_then(|control| control.permit.as_ref());
    let suspicion = |row: &Control| Suspicion { crashes: row.crashes, doubt: row.doubt };
    Ok(Loaded {
        parent: last.as_parent(),
        stored_at: at,
        requires: last.requires,
        row_held: control.is_some_and(|control| control.held.is_some()),
        suspicion: control.map(suspicion).unwrap_or_default(),
        holds_permit: permit.is_some_and(|permit| permit.holding),
        plan,
        state,
        sizes: (log_bytes, snapshot_bytes),
        mail: history.mail,
        mail_waits: history.mail_waits,
    })
}

fn start_from_snapshot(
    body: &[u8],
    seq: u64,
    plans: &Plans,
    store: &dyn Store,
) -> Result<Option<(Arc<Plan>, State)>, Damage> {
    let Some(hash) = State::definition_of(body) else { return Ok(None) };
    let plan = plans.get(hash, store)?;
    let state = match is_planted(Bug::CacheTrustedBySeq) {
        true => State::decode(body, &plan).map(|state| State { seq, ..state }),
        false => State::decode(body, &plan).filter(|state| state.seq == seq),
    };
    Ok(state.map(|state| (plan, state)))
}

type Start = Option<(Arc<Plan>, State)>;

struct Folded {
    plan: Arc<Plan>,
    state: State,
    /// The last frame, and when it was committed.
    last: FrameHeader,
    at: Timestamp,
    log_bytes: usize,
}

fn fold_frames(
    log: LogReader<'_>,
    mut folded: Start,
    plans: &Plans,
    store: &dyn Store,
) -> Result<Folded, Damage> {
    let mut log_bytes = 0;
    let mut end = None;
    for frame in log {
        let frame = frame?;
        let header = &frame.header;
        end = Some((*header, frame.at));
        let seq = folded.as_ref().map_or(0, |(_, state)| state.seq);
        if header.last_seq <= seq {
            continue; // covered by the snapshot; read for its header
        }
        let damaged = |what: String| Damage::Log(format!("{what} (seq {})", header.first_seq));
        if header.first_seq != seq + 1 {
            return Err(damaged(format!("seq {} does not follow {seq}", header.first_seq)));
        }
        let body = frame.body.as_ref().map_err(|reason| damaged(reason.clone()))?;
        log_bytes += body.len();
        for event in decode(body).map_err(|error| damaged(error.to_string()))? {
            let at = header.decided_at;
            folded = Some(match folded {
                None => {
                    let Event::Run(RunEvent::Created(created)) = &event else {
                        return Err(damaged("the log does not begin with RunCreated".into()));
                    };
                    let plan = plans.get(created.definition, store)?;
                    let state = begin(&plan, header.execution, &event, at)
                        .map_err(|error| damaged(error.to_string()))?;
                    (plan, state)
                }
                Some((plan, mut state)) => {
                    apply(&plan, &mut state, &event, at)
                        .map_err(|error| damaged(error.to_string()))?;
                    (plan, state)
                }
            });
        }
        if folded.as_ref().is_none_or(|(_, state)| state.seq != header.last_seq) {
            return Err(damaged("the frame does not hold the events its header names".into()));
        }
    }
    let read = folded.zip(end).ok_or_else(|| Damage::Log("the log is empty".into()));
    let ((plan, state), (last, at)) = read?;
    Ok(Folded { plan, state, last, at, log_bytes })
}
