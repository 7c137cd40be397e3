//! What the programs of a world are made of.

use crate::program::Appetite;
use crate::random::Random;

/// Most worlds are short; some have delays that outlive leases many times over, and some have maps in most
/// programs, or executions that start others.
pub(super) fn draw(seed: &Random) -> Appetite {
    let mut random = seed.split("appetite");
    let simulated = Appetite::simulated();
    let has_maps = seed.split("worlds of maps").percent(20);
    let has_approvals = seed.split("worlds of approvals").percent(12);
    let has_storms = seed.split("worlds of storms").percent(12);
    let has_budgets = seed.split("worlds of budgets").percent(12);
    let has_operations = seed.split("worlds of operations").percent(20);
    let has_trees = seed.split("worlds of trees").percent(20);
    let has_messages = seed.split("worlds of messages").percent(20);
    Appetite {
        maps_percent: if has_maps { 90 } else { simulated.maps_percent },
        approvals_percent: if has_approvals { 80 } else { simulated.approvals_percent },
        storms_percent: if has_storms { 80 } else { simulated.storms_percent },
        budgets_percent: if has_budgets { 80 } else { simulated.budgets_percent },
        operations_percent: if has_operations { 80 } else { simulated.operations_percent },
        children_percent: if has_trees { 80 } else { simulated.children_percent },
        messages_percent: if has_messages { 80 } else { simulated.messages_percent },
        nodes_max: if random.percent(80) { 7 } else { 14 },
        delay_ms_max: if random.percent(90) { 40_000 } else { 900_000 },
        ..simulated
    }
}
