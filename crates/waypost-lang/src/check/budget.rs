//! With a budget, the most that an attempt can use must be known before it starts.

use serde_json::Value;

use crate::definition::{BudgetBlock, MeterField, ParsedDefinition, ParsedMeter};
use crate::diagnostics::{Code, Faults, quoted};

const RESERVED_HINT: &str =
    "an attempt reserves `maxInputTokens` and `maxTokens` of the budget before it starts";

pub(super) fn check(definition: &ParsedDefinition<'_>, faults: &mut Faults) {
    let Some(budget) = &definition.budget else { return };
    for meter in definition.nodes.iter().filter_map(|node| node.meter.as_ref()) {
        check_count("maxTokens", &meter.max_tokens, faults);
        check_count("maxInputTokens", &meter.max_input_tokens, faults);
        if budget.budget.limits.money.is_some() {
            check_prices(budget, meter, faults);
        }
    }
}

fn check_count(name: &str, field: &MeterField, faults: &mut Faults) {
    if field.value.is_none() {
        let message = format!("`{name}` is required, because the definition has a `budget`");
        faults.error(Code::MissingField, &field.span, message).hint(RESERVED_HINT);
    } else if field.has_hole() {
        let message =
            format!("`{name}` must be a fixed number, because the definition has a `budget`");
        faults.error(Code::HoleNotAllowed, &field.span, message).hint(RESERVED_HINT);
    }
}

fn check_prices(budget: &BudgetBlock, meter: &ParsedMeter, faults: &mut Faults) {
    if meter.prices(Some(budget)).is_some() {
        return;
    }
    let hint = "write `prices: { my-model: { input: 2.5, output: 10 } }` in `budget`, or `prices` in the \
                config of the node";
    if meter.prices.has_hole() {
        let message = "`prices` must be fixed, because the `budget` limits money";
        faults.error(Code::HoleNotAllowed, &meter.prices.span, message);
    } else if meter.model.has_hole() {
        let message = "the `budget` limits money, and the price of a computed model is unknown";
        let hint = "write `prices` in the config of the node";
        faults.error(Code::MissingField, &meter.model.span, message).hint(hint);
    } else if let Some(model) = meter.model.value.as_ref().and_then(Value::as_str) {
        let message =
            format!("the `budget` limits money, and the price of {} is unknown", quoted(model));
        faults.error(Code::MissingField, &meter.model.span, message).hint(hint);
    }
}
