//! What limits an execution, on the wire: its concurrency key, and its budget.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use waypost_core::budget::Money;

/// An amount of money: a decimal number with at most six decimals, as text, which is exact. Requests may
/// have a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoneyText(pub Money);

impl Serialize for MoneyText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MoneyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wrong = || D::Error::custom("not an amount of money with at most six decimals");
        Money::from_value(&value).map(Self).ok_or_else(wrong)
    }
}

impl JsonSchema for MoneyText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Money".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "pattern": r"^[0-9]{1,12}(\.[0-9]{1,6})?$" },
            { "type": "integer", "minimum": 0, "maximum": 1_000_000_000_000_u64 },
        ] })
    }
}

wire! {
    /// The concurrency permit that an execution holds or is queued for.
    pub struct Concurrency {
        /// The key, within its workflow.
        pub key: String,
        /// How many executions of the key may hold a permit at once.
        pub limit: u32,
        /// What happens when all permits are taken: `queue`, `reject` or `cancel-oldest`.
        pub policy: String,
        /// Does it hold a permit?
        pub admitted: bool,
        /// How many executions are ahead of it in the queue, permit holders included.
        pub queue_position: u64,
    }

    /// The tokens that an execution used, over all generations, and its budget.
    pub struct Spending {
        /// Tokens of requests.
        pub input_tokens: u64,
        /// Tokens of replies.
        pub output_tokens: u64,
        /// What they cost, as far as the definition has prices.
        pub cost: MoneyText,
        /// What attempts may have used whose usage will never be known.
        pub lost?: LostUsage,
        /// The most that attempts under way can use.
        pub reserved?: SpendingAmount,
        /// The budget, if the definition has one.
        pub budget?: BudgetLimits,
    }

    /// Tokens, and what they cost.
    pub struct SpendingAmount {
        /// How many tokens.
        pub tokens: u64,
        /// What they cost, as far as the definition has prices.
        pub cost: MoneyText,
    }

    /// Attempts whose usage will never be known: their process died, they took too long, or the reply had
    /// no counts. The budget counts what they had reserved as spent; a provider may have charged less.
    pub struct LostUsage {
        /// How many attempts.
        pub attempts: u32,
        /// What they had reserved; zero without a budget.
        pub tokens: u64,
        /// What that costs, as far as the definition has prices.
        pub cost: MoneyText,
    }

    /// The limits of a budget, with what people changed.
    pub struct BudgetLimits {
        /// The most tokens.
        pub tokens?: u64,
        /// The most money.
        pub money?: MoneyText,
        /// What happens to an attempt for which nothing is left: `fail` or `pause`.
        pub on_exhausted: String,
    }
}
