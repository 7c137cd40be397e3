//! What a trigger would do with a payload, without doing it.

use waypost_core::trigger::Prepared;

use super::control::{ControlError, TriggerControl};
use super::{ByHand, FireError, Occurrence};

impl TriggerControl {
    /// What [`fire`](TriggerControl::fire) would start. Nothing is started or stored, and the trigger may be
    /// paused.
    pub async fn test(
        &self,
        workflow: &str,
        name: &str,
        by_hand: ByHand<'_>,
    ) -> Result<Prepared, ControlError> {
        let row = self.firing.row(workflow, name).await.map_err(FireError::Store)?;
        let row = row.ok_or(ControlError::Unknown)?;
        let planned = self.firing.planned(&row).await?;
        let payload = by_hand.payload_of(&planned.trigger.kind).map_err(ControlError::Invalid)?;
        let occurrence = Occurrence::new("test", payload);
        let now = self.firing.now();
        match by_hand.is_admitted(&planned.trigger, now) {
            Ok(true) => {}
            Ok(false) => return Ok(Prepared::Filtered),
            Err(failure) => return Ok(Prepared::Failed(failure)),
        }
        let fired = occurrence.fired(&planned.trigger, now);
        let prepared = planned.trigger.prepare(&fired, &occurrence.payload);
        if let Prepared::Start(start) = &prepared
            && let Err(faults) = self.firing.plans.check_input(&planned.plan, &start.input)
        {
            let faults = faults.join("; ");
            let reason = format!("the input does not fit the schema: {faults}");
            return Err(ControlError::Invalid(reason));
        }
        Ok(prepared)
    }
}
