//! Budgets: some tasks of a random program ask a language model, and the program limits their tokens. From
//! a stream of its own, so that programs without any do not change.

use super::{AMPLE_MS, Appetite};
use crate::program::{BudgetRule, INPUT_TOKENS, Kind, OUTPUT_TOKENS, Program, Script};
use crate::random::Random;

impl Program {
    /// Lets some tasks ask a language model.
    pub(super) fn add_budget(&mut self, random: &Random, appetite: &Appetite) {
        let mut random = random.split("budget");
        if !random.percent(appetite.budgets_percent) {
            return;
        }
        self.each_node_mut(&mut |node| {
            if matches!(node.kind, Kind::Task(_)) && random.percent(70) {
                node.kind = Kind::Task(Script::Model);
                (node.at_most_once, node.remote) = (false, false);
                node.timeout_ms = random.percent(30).then_some(AMPLE_MS);
            }
        });
        let attempts = random.between(1, 5);
        let tokens = (INPUT_TOKENS + OUTPUT_TOKENS) * attempts + random.below(100);
        self.budget = Some(BudgetRule { tokens, pause: random.percent(60) });
    }
}
