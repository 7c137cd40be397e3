//! Log lines about executions that change their owner without an orderly hand-over. One line for each
//! step or claim, however many executions it is about.

use std::collections::BTreeMap;

use tracing::warn;
use waypost_core::id::{ExecutionId, InstanceId};
use waypost_core::time::Millis;

use crate::driver::Loaded;

/// Executions that one line names; the others are counted.
const NAMED_MAX: usize = 10;

/// Appends were refused because another instance owns these executions by now.
pub(crate) fn log_lost(instance: InstanceId, lost: &[ExecutionId]) {
    if !lost.is_empty() {
        let (count, executions) = (lost.len(), names(lost.iter()));
        warn!(%instance, count, executions, "executions were lost to another instance");
    }
}

/// A renewal succeeded when this was left of the lease before it.
pub(crate) fn log_lapse(instance: InstanceId, remaining: Millis) {
    if remaining == Millis(0) {
        warn!(%instance, "the lease expired before it was renewed; other instances may have taken over");
    }
}

/// A claim gave these executions.
pub(crate) fn log_taken_over(instance: InstanceId, claimed: &[Loaded]) {
    let owners = claimed.iter().map(|loaded| (loaded.state.owner, &loaded.state.created.key));
    for (from, keys) in taken_over(instance, owners) {
        let (count, executions) = (keys.len(), names(keys.into_iter()));
        warn!(%instance, %from, count, executions, "executions were taken over from an instance that is gone");
    }
}

/// By the last owner, what did not come from a hand-over: the log still names another owner.
fn taken_over<'a>(
    instance: InstanceId,
    claimed: impl Iterator<Item = (Option<InstanceId>, &'a ExecutionId)>,
) -> BTreeMap<InstanceId, Vec<&'a ExecutionId>> {
    let mut by_owner = BTreeMap::<_, Vec<_>>::new();
    for (owner, key) in claimed {
        if let Some(owner) = owner.filter(|owner| *owner != instance) {
            by_owner.entry(owner).or_default().push(key);
        }
    }
    by_owner
}

fn names<'a>(mut keys: impl ExactSizeIterator<Item = &'a ExecutionId>) -> String {
    let named: Vec<&str> = keys.by_ref().take(NAMED_MAX).map(|key| &*key.0).collect();
    match keys.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_over_groups_by_the_owner_that_is_gone() {
        let instance = |number| InstanceId(uuid::Uuid::from_u128(number));
        let keys = ["mine", "parked", "a", "b", "c"].map(|key| ExecutionId(key.into()));
        let owners =
            [Some(instance(1)), None, Some(instance(2)), Some(instance(3)), Some(instance(2))];
        let found = taken_over(instance(1), owners.into_iter().zip(&keys));
        let expected = [(instance(2), vec![&keys[2], &keys[4]]), (instance(3), vec![&keys[3]])];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn names_above_the_limit_counts_the_rest() {
        let keys: Vec<_> = (0..12).map(|at| ExecutionId(format!("e{at}").into())).collect();
        assert_eq!(names(keys[..2].iter()), "e0, e1");
        assert_eq!(names(keys.iter()), "e0, e1, e2, e3, e4, e5, e6, e7, e8, e9 and 2 more");
    }
}
