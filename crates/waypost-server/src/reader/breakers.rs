//! Circuit breakers, from the store.

use waypost_core::breaker::BreakerChange;
use waypost_ports::breakers::BreakerRow;

use super::Reader;
use crate::problem::{Code, Problem};
use crate::wire;
use crate::wire::payload::Time;

impl Reader {
    /// A page of circuit breakers, by key.
    pub fn breakers(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<wire::BreakerList, Problem> {
        let mut rows = self.backend.list_breakers(after, limit.saturating_add(1))?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| row.key.to_string());
        Ok(wire::BreakerList { breakers: rows.iter().map(shown).collect(), next })
    }

    /// Closes a circuit breaker. One that the store does not know of is closed, and a problem: its key may
    /// be misspelt.
    pub fn reset_breaker(&self, key: &str) -> Result<(), Problem> {
        let answer = self.backend.change_breaker(key, &BreakerChange::Reset)?;
        match answer.known {
            true => Ok(()),
            false => {
                let detail = format!("no breaker {key:?} is open or had a failure of late");
                Err(Problem::new(Code::UnknownBreaker, detail)
                    .hint("GET /v1/breakers lists those that do"))
            }
        }
    }
}

fn shown(row: &BreakerRow) -> wire::Breaker {
    let BreakerRow { key, state, at } = row;
    let open = state.open.as_ref();
    let counted = u32::try_from(state.failures.len()).unwrap_or(u32::MAX);
    wire::Breaker {
        key: key.to_string(),
        status: state.status(*at).to_owned(),
        failures: open.map_or(counted, |open| open.failures),
        since: open.map(|open| Time(open.since)),
        until: open.map(|open| Time(open.until)),
        probes: open.map(|open| open.probes),
        last_failure: state.last.as_deref().map(str::to_owned),
    }
}
