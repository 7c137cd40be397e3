//! Dead letters of triggers, fired again.

use waypost_ports::triggers::{DeadFireRow, DeadFireState, DeadFiresRequest, Triggers};

use super::control::{ControlError, TriggerControl};
use super::{FireResult, Occurrence};

impl TriggerControl {
    /// Fires a dead letter again, with the version that is current now.
    pub async fn retry_dead(
        &self,
        workflow: &str,
        name: &str,
        dead: i64,
    ) -> Result<FireResult, ControlError> {
        let letter = self.dead(dead).await?;
        let result = self
            .retrying(workflow, name, |row, _| {
                if letter.trigger != row.number {
                    return Err(ControlError::Unknown);
                }
                if letter.state == DeadFireState::Discarded {
                    return Err(ControlError::Invalid("the dead letter was discarded".to_owned()));
                }
                let nothing = || {
                    ControlError::Invalid("the dead letter has nothing to fire again".to_owned())
                };
                Occurrence::again(&letter).ok_or_else(nothing)
            })
            .await?;
        if matches!(result, FireResult::Started(_) | FireResult::Known(_) | FireResult::Filtered) {
            let settle = move |triggers: &dyn Triggers| {
                triggers.settle_dead_fire(dead, DeadFireState::Retried)
            };
            self.firing.call(settle).await?;
        }
        Ok(result)
    }

    async fn dead(&self, id: i64) -> Result<DeadFireRow, ControlError> {
        let request = DeadFiresRequest { id: Some(id), limit: 1, ..DeadFiresRequest::default() };
        let found = self.firing.call(move |triggers| triggers.dead_fires(&request)).await?;
        found.into_iter().next().ok_or(ControlError::Unknown)
    }
}
