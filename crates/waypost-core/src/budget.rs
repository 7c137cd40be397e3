//! Budgets: what a definition may spend on tokens, and what one attempt may cost.
//!
//! ```text
//!   definition ─▶ Budget            tokens, money, what happens when both are used up
//!   node       ─▶ Meter             the most that one attempt can use, and its prices
//!   attempt    ─▶ Amount reserved   before it starts; given back when its TokensUsed is known
//! ```
//!
//! Money is counted in whole millionths: sums are exact, and every build computes the same. What an
//! execution has spent is in [`Spending`](crate::state::Spending).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::NodeIx;
use crate::plan::Plan;

/// Tokens that prices are given for.
const PRICED_TOKENS: u128 = 1_000_000;
const MILLIONTHS: u64 = 1_000_000;
const DECIMALS: usize = 6;

/// An amount of money in millionths of its unit. Waypost does not know the currency.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(pub u64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Reads a decimal number with at most six decimals: `12`, `0.15`.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let part: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
        whole.checked_mul(MILLIONTHS)?.checked_add(part).map(Self)
    }

    /// Reads a number or a text of JSON.
    pub fn from_value(value: &serde_json::Value) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return Self::parse(text);
        }
        let whole = value.as_u64().map(|whole| whole.to_string());
        // Written out without an exponent, and with the fewest digits that mean the same number.
        let text = whole.or_else(|| value.as_f64().map(|number| number.to_string()));
        Self::parse(&text?)
    }

    /// Nothing?
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / MILLIONTHS, self.0 % MILLIONTHS);
        let decimals = format!("{part:0DECIMALS$}");
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            decimals => write!(f, "{whole}.{decimals}"),
        }
    }
}

/// Money per million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prices {
    pub input: Money,
    pub output: Money,
}

impl Prices {
    /// What a call costs, rounded up to a millionth.
    pub fn cost(self, usage: TokensUsed) -> Money {
        let part = |tokens: u64, price: Money| u128::from(tokens) * u128::from(price.0);
        let sum = part(usage.input, self.input).saturating_add(part(usage.output, self.output));
        Money(u64::try_from(sum.div_ceil(PRICED_TOKENS)).unwrap_or(u64::MAX))
    }
}

/// The tokens of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TokensUsed {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the reply.
    pub output: u64,
}

/// A usage as handlers report it: what a provider does not count is absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

impl TokensUsed {
    /// All tokens.
    pub fn tokens(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Reads the `usage` of an output or of the details of a failure; `None` if there are no counts.
    /// Where only the sum is known, what the parts lack of it counts as the reply's, which costs more.
    pub fn read(text: &str) -> Option<Self> {
        let ReportedUsage { input_tokens, output_tokens, total_tokens } =
            serde_json::from_str(text).ok()?;
        let (input, output) = match (input_tokens, output_tokens, total_tokens) {
            (None, None, None) => return None,
            (input, Some(output), None) => (input.unwrap_or(0), output),
            (Some(input), None, None) => (input, 0),
            (Some(input), output, Some(total)) => {
                let least = total.saturating_sub(input);
                (input, output.unwrap_or(least).max(least))
            }
            (None, output, Some(total)) => {
                let output = output.unwrap_or(total);
                (total.saturating_sub(output), output)
            }
        };
        Some(Self { input, output })
    }

    /// As [`read`](Self::read), from a document with a field `usage`.
    pub fn within(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Carrier {
            usage: Option<crate::json::Json>,
        }
        let carrier: Carrier = serde_json::from_str(text).ok()?;
        Self::read(carrier.usage?.text())
    }
}

/// How much one attempt of a node can use, and what that costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// The most tokens that the request may have, if the definition says so.
    pub max_input: Option<u64>,
    /// The most tokens that the reply may have, if the definition says so.
    pub max_output: Option<u64>,
    /// What tokens cost, if that is known before the attempt.
    pub prices: Option<Prices>,
}

impl Meter {
    /// The most that one attempt can use.
    pub fn most(&self) -> Amount {
        let (input, output) = (self.max_input.unwrap_or(0), self.max_output.unwrap_or(0));
        self.amount(TokensUsed { input, output })
    }

    /// What a usage is worth.
    pub fn amount(&self, usage: TokensUsed) -> Amount {
        let money = self.prices.map_or(Money::ZERO, |prices| prices.cost(usage));
        Amount { tokens: usage.tokens(), money }
    }
}

/// Tokens, and what they cost: a reservation, or what was spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Amount {
    /// The most tokens that the attempt can use.
    pub tokens: u64,
    /// What they cost, in millionths; zero where the prices are unknown.
    #[serde(default, skip_serializing_if = "Money::is_zero")]
    pub money: Money,
}

impl Amount {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_add(other.tokens);
        Self { tokens, money: self.money.plus(other.money) }
    }

    /// The difference, or zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let money = Money(self.money.0.saturating_sub(other.money.0));
        Self { tokens: self.tokens.saturating_sub(other.tokens), money }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.tokens)?;
        if !self.money.is_zero() {
            write!(f, " and {} money", self.money)?;
        }
        Ok(())
    }
}

/// The limits of a budget. What is absent is not limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SpendingLimits {
    /// The most tokens; absent where that stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The most money, in millionths; absent where that stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl SpendingLimits {
    /// Is so much within them?
    pub fn allow(self, amount: Amount) -> bool {
        self.tokens.is_none_or(|most| amount.tokens <= most)
            && self.money.is_none_or(|most| amount.money <= most)
    }

    /// Those of `self`, and for what it does not limit those of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { tokens: self.tokens.or(other.tokens), money: self.money.or(other.money) }
    }
}

impl fmt::Display for SpendingLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tokens, self.money) {
            (Some(tokens), Some(money)) => write!(f, "{tokens} tokens and {money} money"),
            (Some(tokens), None) => write!(f, "{tokens} tokens"),
            (None, Some(money)) => write!(f, "{money} money"),
            (None, None) => f.write_str("no limits"),
        }
    }
}

/// The budget of a definition: of each of its executions, over all generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    pub limits: SpendingLimits,
    pub on_exhausted: OnExhausted,
}

/// What happens to an attempt for which nothing is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExhausted {
    /// Its node fails with `budget_exhausted`.
    #[default]
    Fail,
    /// The execution is paused, until a person resumes it, with a larger budget.
    Pause,
}

impl OnExhausted {
    /// As definitions write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Pause => "pause",
        }
    }
}

/// Prices by the name of the model.
pub type PriceTable = std::collections::BTreeMap<Arc<str>, Prices>;

impl Plan {
    /// What an attempt of this node reserves before it starts; absent where there is no budget, or the
    /// node uses no tokens.
    pub fn reservation(&self, node: NodeIx) -> Option<Amount> {
        self.budget?;
        self.node(node).meter.map(|meter| meter.most())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_decimal_text() {
        for (text, millionths, shown) in [
            ("0", 0, "0"),
            ("12", 12_000_000, "12"),
            ("0.15", 150_000, "0.15"),
            ("2.50", 2_500_000, "2.5"),
            ("0.000001", 1, "0.000001"),
        ] {
            let money = Money::parse(text).expect(text);
            assert_eq!((money.0, money.to_string().as_str()), (millionths, shown), "{text}");
        }
        for text in ["", ".5", "5.", "-1", "1e3", "0.0000001", "1,5", "99999999999999999999"] {
            assert_eq!(Money::parse(text), None, "{text}");
        }
        for (value, millionths) in [
            (serde_json::json!(0.000_001), 1),
            (serde_json::json!(3), 3_000_000),
            (serde_json::json!("0.1"), 100_000),
            (serde_json::json!(0.3), 300_000),
        ] {
            assert_eq!(Money::from_value(&value), Some(Money(millionths)), "{value}");
        }
        assert_eq!(Money::from_value(&serde_json::json!(-1)), None);
        assert_eq!(Money::from_value(&serde_json::json!(true)), None);
    }

    #[test]
    fn cost_is_rounded_up_once_and_never_above_the_reservation() {
        let prices = Prices { input: Money(150_000), output: Money(600_000) };
        let cost = |input, output| prices.cost(TokensUsed { input, output }).0;
        assert_eq!(cost(1_000_000, 0), 150_000);
        assert_eq!(cost(1, 0), 1, "0.15 of a millionth");
        assert_eq!(cost(1, 1), 1, "0.75 of a millionth");
        assert_eq!(cost(0, 0), 0);
        let dear = Prices { input: Money(u64::MAX), output: Money(u64::MAX) };
        let most = TokensUsed { input: u64::MAX, output: u64::MAX };
        assert_eq!(dear.cost(most), Money(u64::MAX), "not less for being too much");
        let meter = Meter { max_input: Some(100), max_output: Some(50), prices: Some(prices) };
        for (input, output) in [(100, 50), (99, 50), (100, 0), (0, 50)] {
            let used = meter.amount(TokensUsed { input, output });
            assert!(used.money <= meter.most().money && used.tokens <= meter.most().tokens);
        }
    }

    #[test]
    fn usage_is_read_as_far_as_it_is_counted() {
        let read = |text: &str| TokensUsed::within(text).map(|usage| (usage.input, usage.output));
        let all = r#"{"text":"a","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}"#;
        assert_eq!(read(all), Some((3, 4)));
        assert_eq!(read(r#"{"usage":{"inputTokens":3}}"#), Some((3, 0)));
        assert_eq!(read(r#"{"usage":{"totalTokens":7}}"#), Some((0, 7)), "the dearer part");
        assert_eq!(read(r#"{"usage":{"outputTokens":2,"totalTokens":7}}"#), Some((5, 2)));
        let thoughts = r#"{"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":9}}"#;
        assert_eq!(read(thoughts), Some((3, 6)), "tokens that no part has are the reply's");
        let none = r#"{"usage":{"inputTokens":null,"outputTokens":null,"totalTokens":null}}"#;
        assert_eq!(read(none), None);
        assert_eq!(read(r#"{"text":"a"}"#), None);
        assert_eq!(read("7"), None);
    }
}
