//! The block `budget`: what each execution may spend on tokens; and what the nodes that use tokens say
//! about how many.

use serde_json::Value;
use waypost_core::budget::{Budget, Meter, Money, OnExhausted, PriceTable, Prices, SpendingLimits};
use waypost_core::kind::KindSpec;

use crate::diagnostics::{Code, Faults};
use crate::fields;
use crate::source::Span;
use crate::tree::{self, Tree, TreeEntry, TreeValue};

pub(crate) const BUDGET_FIELDS: &[&str] = &["tokens", "money", "onExhausted", "prices"];
pub(crate) const ON_EXHAUSTED: &[&str] = &["fail", "pause"];
const PRICE_FIELDS: &[&str] = &["input", "output"];
const PRICES_HINT: &str = "write `my-model: { input: 2.5, output: 10 }`, per million tokens";

#[derive(Debug)]
pub(crate) struct BudgetBlock {
    pub(crate) budget: Budget,
    pub(crate) prices: PriceTable,
}

/// Reads the block; `None` where it limits nothing.
pub(super) fn read(entry: &TreeEntry, faults: &mut Faults) -> Option<BudgetBlock> {
    let entries = fields::map("`budget`", &entry.value, faults)?;
    let meant = fields::refuse_unknown(entries, BUDGET_FIELDS, "`budget`", faults);
    let errors = faults.errors();
    let tokens = fields::get(entries, "tokens", faults, fields::count(1..=u64::MAX >> 1));
    let money = fields::get(entries, "money", faults, read_limit);
    let on_exhausted = fields::get(entries, "onExhausted", faults, fields::one_of(ON_EXHAUSTED));
    let prices = fields::get(entries, "prices", faults, read_table).unwrap_or_default();
    if tokens.is_none() && money.is_none() {
        if faults.errors() == errors && meant.is_empty() {
            let hint = "write `tokens: 200000`, `money: 5`, or both";
            let message = "`budget` needs `tokens` or `money`";
            faults.error(Code::MissingField, &entry.key_span, message).hint(hint);
        }
        return None;
    }
    let on_exhausted = match on_exhausted {
        Some("pause") => OnExhausted::Pause,
        _ => OnExhausted::Fail,
    };
    Some(BudgetBlock {
        budget: Budget { limits: SpendingLimits { tokens, money }, on_exhausted },
        prices,
    })
}

fn read_limit(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Money> {
    let money = read_money(what, tree, faults)?;
    if money.is_zero() {
        let message = format!("{what} must be more than zero");
        faults.error(Code::BadValue, &tree.span, message);
        return None;
    }
    Some(money)
}

fn read_money(what: &str, tree: &Tree, faults: &mut Faults) -> Option<Money> {
    let money = Money::from_value(&tree.to_json());
    if money.is_none() {
        let message =
            format!("{what} must be a number that is not negative, with six decimals at most");
        faults.error(Code::BadValue, &tree.span, message);
    }
    money
}

fn read_table(what: &str, tree: &Tree, faults: &mut Faults) -> Option<PriceTable> {
    let models = fields::map(what, tree, faults)?;
    let prices = |entry: &TreeEntry| Some((entry.key.as_str().into(), read_prices(entry, faults)?));
    Some(models.iter().filter_map(prices).collect())
}

fn read_prices(entry: &TreeEntry, faults: &mut Faults) -> Option<Prices> {
    let what = format!("the prices of `{}`", entry.key);
    let entries = fields::map(&what, &entry.value, faults)?;
    let meant = fields::refuse_unknown(entries, PRICE_FIELDS, &what, faults);
    let mut price = |name: &str| {
        let found = fields::present(entries, name);
        if found.is_none() && meant.is_empty() {
            let message = format!("{what} need `{name}`");
            faults.error(Code::MissingField, &entry.key_span, message).hint(PRICES_HINT);
        }
        read_money(&format!("`{name}`"), &found?.value, faults)
    };
    let (input, output) = (price("input"), price("output"));
    Some(Prices { input: input?, output: output? })
}

/// A field of a node that uses tokens, and where it is; or where it would be.
#[derive(Debug)]
pub(crate) struct MeterField {
    pub(crate) value: Option<Value>,
    pub(crate) span: Span,
}

impl MeterField {
    fn of(name: &str, entries: &[TreeEntry], fallback: &Span) -> Self {
        match tree::find(entries, name)
            .filter(|entry| !matches!(entry.value.value, TreeValue::Null))
        {
            Some(entry) => {
                Self { value: Some(entry.value.to_json()), span: entry.value.span.clone() }
            }
            None => Self { value: None, span: fallback.clone() },
        }
    }

    /// Is it known only when it is rendered?
    pub(crate) fn has_hole(&self) -> bool {
        self.value.as_ref().is_some_and(|value| value.to_string().contains("${{"))
    }

    fn count(&self) -> Option<u64> {
        self.value.as_ref().and_then(Value::as_u64)
    }
}

/// What a node that uses tokens says about how many.
#[derive(Debug)]
pub(crate) struct ParsedMeter {
    pub(crate) model: MeterField,
    pub(crate) max_tokens: MeterField,
    pub(crate) max_input_tokens: MeterField,
    pub(crate) prices: MeterField,
}

impl ParsedMeter {
    /// Finds the fields; `None` for nodes of kinds that use no tokens.
    pub(super) fn find(
        kind: &KindSpec,
        config: Option<&TreeEntry>,
        kind_span: &Span,
    ) -> Option<Self> {
        if !kind.is_metered() {
            return None;
        }
        let entries = config.and_then(|entry| entry.value.as_map()).unwrap_or_default();
        let fallback = config.map_or(kind_span, |entry| &entry.key_span);
        let field = |name| MeterField::of(name, entries, fallback);
        Some(Self {
            model: field("model"),
            max_tokens: field("maxTokens"),
            max_input_tokens: field("maxInputTokens"),
            prices: field("prices"),
        })
    }

    /// The meter, as far as it is known before the config is rendered.
    pub(crate) fn meter(&self, budget: Option<&BudgetBlock>) -> Meter {
        Meter {
            max_input: self.max_input_tokens.count(),
            max_output: self.max_tokens.count(),
            prices: self.prices(budget),
        }
    }

    /// The node's own prices; if it has none, those of its model in the budget.
    pub(crate) fn prices(&self, budget: Option<&BudgetBlock>) -> Option<Prices> {
        if let Some(own) = &self.prices.value {
            let price = |name: &str| own.get(name).and_then(Money::from_value);
            return Some(Prices { input: price("input")?, output: price("output")? });
        }
        let model = self.model.value.as_ref().and_then(Value::as_str)?;
        budget?.prices.get(model).copied()
    }
}
