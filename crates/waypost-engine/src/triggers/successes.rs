//! `trigger.lastSuccessAt`: the newest nominal time before the one that fires whose execution was completed. It is
//! looked up only for definitions that mention it.

use std::collections::{BinaryHeap, HashMap};

use parking_lot::Mutex;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::store::{DefinitionRef, Store, StoreError};
use waypost_ports::triggers::{FireOutcome, FiresRequest, TriggerNo, TriggerRow, Triggers};

use super::{FireError, Firing};
use crate::shell::{Damage, Plans, fold};

/// Fires that one call reads.
const PAGE: usize = 200;
/// Pages that are read at most. Where none of their fires was a success, there is none.
const PAGES_MAX: usize = 10;
/// Executions that are looked at, the newest nominal time first. Where none of them was a success, there is none.
const EXECUTIONS_MAX: usize = 500;
/// Definitions in the cache; above it the cache starts anew.
const DEFINITIONS_MAX: usize = 1_000;
/// How expressions spell it.
const FIELD: &str = "lastSuccessAt";

/// Which definitions mention it.
#[derive(Debug, Default)]
pub(super) struct Successes {
    wanted: Mutex<HashMap<DefinitionHash, bool>>,
}

impl Successes {
    /// The last success of a trigger before a nominal time, if its definition asks for it.
    pub(super) async fn last(
        &self,
        firing: &Firing,
        row: &TriggerRow,
        before: Timestamp,
    ) -> Result<Option<Timestamp>, FireError> {
        let known = self.wanted.lock().get(&row.definition).copied();
        if known == Some(false) {
            return Ok(None);
        }
        let Firing { store, triggers, plans, .. } = firing.clone();
        let (hash, number) = (row.definition, row.number);
        let found = firing.blocking(move || {
            let wanted = match known {
                Some(wanted) => wanted,
                None => mentions(&*store, hash)?,
            };
            let last = match wanted {
                true => {
                    let mut times = StartedTimes::new(&*triggers, number, before);
                    last_success(&*store, &plans, &mut times)?
                }
                false => None,
            };
            Ok::<_, FireError>((wanted, last))
        });
        let (wanted, last) = found.await?;
        let mut cached = self.wanted.lock();
        if cached.len() >= DEFINITIONS_MAX {
            cached.clear();
        }
        cached.insert(hash, wanted);
        Ok(last)
    }
}

fn mentions(store: &dyn Store, hash: DefinitionHash) -> Result<bool, FireError> {
    let definition = store.definition(&DefinitionRef::Hash(hash))?;
    Ok(definition.is_some_and(|definition| definition.canonical.contains(FIELD)))
}

/// The times of a trigger that started an execution, the newest nominal time first. The store lists them by when
/// they fired, which differs for backfills; none fired before its nominal time, so that a time is the newest one
/// once what is left to read fired before it.
struct StartedTimes<'a> {
    triggers: &'a dyn Triggers,
    next: FiresRequest,
    before: Timestamp,
    found: BinaryHeap<(Timestamp, ExecutionNo)>,
    pages: usize,
    /// What is left to read fired at this time or before it; nothing is left without one.
    left: Option<Timestamp>,
}

impl<'a> StartedTimes<'a> {
    fn new(triggers: &'a dyn Triggers, trigger: TriggerNo, before: Timestamp) -> Self {
        let outcome = Some(FireOutcome::Started);
        let next = FiresRequest { trigger, outcome, before: None, limit: PAGE };
        let (found, left) = (BinaryHeap::new(), Some(Timestamp(i64::MAX)));
        Self { triggers, next, before, found, pages: 0, left }
    }

    fn next(&mut self) -> Result<Option<(Timestamp, ExecutionNo)>, StoreError> {
        while let Some(left) = self.left {
            if self.found.peek().is_some_and(|(nominal, _)| *nominal >= left) {
                break;
            }
            self.read()?;
        }
        Ok(self.found.pop())
    }

    fn read(&mut self) -> Result<(), StoreError> {
        let page = self.triggers.fires(&self.next)?;
        self.pages += 1;
        let last = page.rows.last().filter(|_| page.more && self.pages < PAGES_MAX);
        self.left = last.map(|last| last.at);
        self.next.before = last.map(|last| last.place);
        let times = page.rows.iter().filter_map(|fire| fire.nominal.zip(fire.execution));
        self.found.extend(times.filter(|(nominal, _)| *nominal < self.before));
        Ok(())
    }
}

fn last_success(
    store: &dyn Store,
    plans: &Plans,
    times: &mut StartedTimes<'_>,
) -> Result<Option<Timestamp>, FireError> {
    for _ in 0..EXECUTIONS_MAX {
        let Some((nominal, execution)) = times.next()? else { break };
        let Some(history) = store.load(execution)? else { continue };
        match fold(history, plans, store) {
            Ok(loaded) if loaded.state.status == Status::Completed => return Ok(Some(nominal)),
            // One that is damaged was no success.
            Ok(_) | Err(Damage::Log(_) | Damage::Definition(_)) => {}
            Err(Damage::Store(error)) => return Err(error.into()),
        }
    }
    Ok(None)
}
