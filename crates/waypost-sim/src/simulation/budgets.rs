//! Budgets: models report the tokens that they used, and people raise what is exhausted. The checker reads
//! every commit: what is reserved and used never exceeds the budget.

use serde_json::{Value, json};
use waypost_core::budget::SpendingLimits;
use waypost_core::command::{Outcome, Request};
use waypost_core::event::{Event as LogEvent, NodeEvent, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_engine::driver::TaskOrder;

use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::program::{INPUT_TOKENS, OUTPUT_TOKENS};
use crate::random::Random;

/// The handler of tasks that ask a language model.
const MODEL: &str = "llm";
/// What people who unblock an execution add to its budget.
const AMPLE_TOKENS: u64 = 50 * (INPUT_TOKENS + OUTPUT_TOKENS);

/// Models, and the people who pay for them, with a stream of their own.
pub(super) struct Models(Random);

impl Models {
    pub(super) fn new(seed: &Random) -> Self {
        Self(seed.split("models"))
    }
}

impl Simulation {
    /// The outcome of an attempt, with the tokens that it used. A model does not always say.
    pub(super) fn with_usage(&mut self, order: &TaskOrder, outcome: Outcome) -> Outcome {
        let Outcome::Completed(output) = &outcome else { return outcome };
        let random = &mut self.models.0;
        if &*order.task.handler != MODEL || random.percent(10) {
            return outcome;
        }
        let (input, reply) = (random.between(1, INPUT_TOKENS), random.between(0, OUTPUT_TOKENS));
        let mut output = output.to_value().unwrap_or_default();
        output["usage"] = json!({ "inputTokens": input, "outputTokens": reply });
        Outcome::Completed(Json::from_value(&output))
    }

    /// A frame that reserves tokens, or finds none left: people may change the budget.
    pub(super) fn tempt_to_pay(&mut self, execution: ExecutionNo, events: &[LogEvent]) {
        if self.faults_over {
            return;
        }
        for event in events {
            let tries = match event {
                LogEvent::Run(RunEvent::BudgetExhausted { .. }) => 6,
                LogEvent::Node(NodeEvent::Reserved(_)) => 1,
                _ => continue,
            };
            let (mut inner, random) = (self.store.inner(), &mut self.models.0);
            let strikes = (0..tries).any(|_| inner.weather.strikes_apart(Fault::Budgets, random));
            drop(inner);
            if strikes {
                let soon = random.below(4_000);
                self.after(soon, WorldEvent::Pay(execution));
            }
        }
    }

    /// Maybe a user changes the budget of any execution that has one.
    pub(super) fn may_pay(&mut self, execution: ExecutionNo) {
        let random = &mut self.models.0;
        let has = self.auditor.logs.get(&execution).and_then(|log| log.check.plan()?.budget);
        if has.is_some() && self.store.inner().weather.strikes_apart(Fault::Budgets, random) {
            self.pay(execution);
        }
    }

    /// A user sets a budget: more than is spent or not, and resumes the execution or not.
    pub(super) fn pay(&mut self, execution: ExecutionNo) {
        if self.faults_over {
            return;
        }
        let more = self.models.0.below(5 * (INPUT_TOKENS + OUTPUT_TOKENS));
        self.set_budget(execution, more);
        if self.models.0.percent(70) {
            self.ask(execution, Request::Resume { reason: None }, None);
        }
    }

    fn set_budget(&mut self, execution: ExecutionNo, more: u64) {
        let Some(state) = self.auditor.state(execution) else { return };
        let tokens = Some(state.spending.spent().tokens + more);
        let limits = SpendingLimits { tokens, money: None };
        self.ask(execution, Request::Budget { limits, reason: None }, None);
    }

    /// After the faults: an exhausted budget is raised, before the execution is resumed.
    pub(super) fn raise_exhausted(&mut self, execution: ExecutionNo) {
        let state = self.auditor.state(execution);
        if state.is_some_and(|state| state.spending.exhausted.is_some()) {
            self.set_budget(execution, AMPLE_TOKENS);
        }
    }
}

/// The address that a task calls, by its config.
pub(super) fn address_of(config: &Value) -> Option<&str> {
    let field = |name| config.get(name).and_then(Value::as_str);
    field("url").or_else(|| field("baseUrl"))
}
