//! `waypost breakers`: circuit breakers that are not closed, and how to close them.

use anyhow::Result;
use serde_json::json;
use waypost_server::reader::PAGE_MAX;
use waypost_server::wire;

use super::{Context, Exit, input};
use crate::output::{print_columns, print_line};
use crate::target::AdminTarget;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// List the breakers that are not closed, or had a failure within their period
    List(PageArgs),
    /// Close a breaker and forget its failures; attempts that wait for it go on when they ask again
    Reset {
        /// The breaker's key, as `breakers list` shows it
        key: String,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct PageArgs {
    /// Maximum number of results (at most 1,000 per page)
    #[arg(long, default_value_t = 50, value_parser = input::count())]
    limit: usize,
    /// Continue after this key, the last one of an earlier page
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
}

pub(crate) async fn run(action: &Action, context: &Context) -> Result<Exit> {
    let target = AdminTarget::open(&context.settings)?;
    match action {
        Action::List(page) => {
            let list = target.breakers(page.after.as_deref(), page.limit.min(PAGE_MAX)).await?;
            context.show(&list, || print(&list))
        }
        Action::Reset { key } => {
            target.reset_breaker(key).await?;
            let result = json!({ "key": key, "status": "closed" });
            context.show(&result, || print_line(&format!("breaker {key} is closed")))
        }
    }
}

fn print(list: &wire::BreakerList) {
    if list.breakers.is_empty() {
        print_line("no breaker is open or had a failure of late");
    } else {
        let headings = ["KEY", "STATUS", "FAILURES", "SINCE", "UNTIL", "PROBES", "LAST FAILURE"];
        print_columns(&headings, &list.breakers, columns);
    }
    if let Some(next) = &list.next {
        print_line(&format!("more: repeat with --after {next}"));
    }
}

fn columns(breaker: &wire::Breaker) -> Vec<String> {
    let time = |time: &Option<wire::payload::Time>| {
        time.as_ref().map_or_else(String::new, |time| time.0.to_string())
    };
    vec![
        breaker.key.clone(),
        breaker.status.clone(),
        breaker.failures.to_string(),
        time(&breaker.since),
        time(&breaker.until),
        breaker.probes.map_or_else(String::new, |probes| probes.to_string()),
        breaker.last_failure.clone().unwrap_or_default(),
    ]
}
