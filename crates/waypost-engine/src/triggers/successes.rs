//! `trigger.lastSuccessAt`: the nominal time of the newest fire whose execution was completed. It is looked up
//! only for definitions that mention it.

use std::collections::HashMap;

use parking_lot::Mutex;
use waypost_core::id::{DefinitionHash, ExecutionNo};
use waypost_core::status::Status;
use waypost_core::time::Timestamp;
use waypost_ports::store::{DefinitionRef, Store};
use waypost_ports::triggers::{FireOutcome, FiresRequest, TriggerNo, TriggerRow, Triggers};

use super::{FireError, Firing};
use crate::shell::{Damage, Plans, fold};

/// Fires that are looked at, the newest first. Where none of them was a success, there is none.
const FIRES_MAX: usize = 50;
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
    /// The last success of a trigger, if its definition asks for it.
    pub(super) async fn last(
        &self,
        firing: &Firing,
        row: &TriggerRow,
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
                true => last_success(&*store, &*triggers, &plans, number)?,
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

fn last_success(
    store: &dyn Store,
    triggers: &dyn Triggers,
    plans: &Plans,
    trigger: TriggerNo,
) -> Result<Option<Timestamp>, FireError> {
    let request = FiresRequest {
        trigger,
        outcome: Some(FireOutcome::Started),
        before: None,
        limit: FIRES_MAX,
    };
    let mut newest: Vec<(Timestamp, ExecutionNo)> = triggers
        .fires(&request)?
        .rows
        .into_iter()
        .filter_map(|fire| fire.nominal.zip(fire.execution))
        .collect();
    newest.sort_by(|a, b| b.cmp(a));
    for (nominal, execution) in newest {
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
