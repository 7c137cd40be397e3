//! `waypost budget`: changes what an execution may spend on tokens.

use anyhow::Result;
use waypost_core::budget::{Money, SpendingLimits};
use waypost_core::command::Request;

use super::requests::{Stated, send};
use super::{Context, Exit, Usage, find};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    named: find::Named,
    #[command(flatten)]
    limits: NewLimits,
    #[command(flatten)]
    stated: Stated,
}

/// New limits of a budget.
#[derive(clap::Args, Debug)]
pub(super) struct NewLimits {
    /// The most tokens that the execution may use in all, those that it has used included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens: Option<u64>,
    /// The most that they may cost in all, for example 12.50
    #[arg(long, value_name = "AMOUNT", value_parser = money)]
    money: Option<Money>,
}

impl NewLimits {
    /// The limits, if there are any.
    pub(super) fn given(self) -> Option<SpendingLimits> {
        let limits = SpendingLimits { tokens: self.tokens, money: self.money };
        Some(limits).filter(|limits| *limits != SpendingLimits::default())
    }
}

fn money(text: &str) -> Result<Money, String> {
    Money::parse(text).ok_or_else(|| "not a number with at most six decimals".to_owned())
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let Args { named, limits, stated: Stated { reason, sent } } = args;
    let Some(limits) = limits.given() else {
        return Err(Usage("say what to change: --tokens N, --money AMOUNT, or both".into()).into());
    };
    send(&named, Request::Budget { limits, reason }, sent, context).await
}
