//! What a deploy registers.

use std::sync::Arc;

use waypost_core::plan::Plan;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{Registration, Trigger};
use waypost_ports::triggers::NewTrigger;

use super::ended::ends_wanted;

/// The triggers of a plan, as a deploy at `now` of the store's time registers them.
pub fn registrations(plan: &Plan, workflow: &str, now: Timestamp) -> Vec<NewTrigger> {
    let registration = |trigger: &Arc<Trigger>| {
        let Registration { timing, cursor, next_due, topics, throttle } =
            trigger.registration(workflow, now);
        NewTrigger {
            name: Arc::clone(&trigger.name),
            kind: trigger.kind_name(),
            timing,
            cursor,
            next_due,
            enabled: trigger.enabled,
            topics,
            throttle,
            ends: ends_wanted(&trigger.kind),
        }
    };
    plan.triggers.iter().map(registration).collect()
}
