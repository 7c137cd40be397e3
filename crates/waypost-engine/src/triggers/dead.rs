//! Dead letters of triggers, fired again.

use waypost_ports::triggers::{DeadFireRow, DeadFireState, DeadFiresRequest, ITEM_KEPT, Triggers};

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
        if self.is_forgotten(workflow, name, &letter).await? {
            let reason = "the dead letter was fired again before, and it is not known any more what it started";
            return Err(ControlError::Invalid(reason.to_owned()));
        }
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

    /// Was it fired again so long ago that its item may be gone, which keeps it from starting a second execution?
    async fn is_forgotten(
        &self,
        workflow: &str,
        name: &str,
        letter: &DeadFireRow,
    ) -> Result<bool, ControlError> {
        let is_old = self.firing.now().since(letter.at) > ITEM_KEPT;
        if letter.state != DeadFireState::Retried || !is_old {
            return Ok(false);
        }
        let row = self.firing.row(workflow, name).await?.ok_or(ControlError::Unknown)?;
        let occurrence = Occurrence::again(letter).filter(|_| letter.trigger == row.number);
        let Some(occurrence) = occurrence else { return Ok(false) };
        let (number, item) = (row.number, occurrence.item(&row));
        let known = self.firing.call(move |triggers| triggers.fired(number, &[item])).await?;
        Ok(known.iter().all(Option::is_none))
    }

    async fn dead(&self, id: i64) -> Result<DeadFireRow, ControlError> {
        let request = DeadFiresRequest { id: Some(id), limit: 1, ..DeadFiresRequest::default() };
        let found = self.firing.call(move |triggers| triggers.dead_fires(&request)).await?;
        found.into_iter().next().ok_or(ControlError::Unknown)
    }
}
