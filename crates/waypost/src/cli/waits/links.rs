//! `waypost approval-links`: links by which people decide an approval without an API key.

use anyhow::Result;
use waypost_core::id::WaitId;
use waypost_core::time::Millis;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_server::wire;
use waypost_server::wire::payload::{Short, Time};

use crate::cli::{Context, Exit, Usage};
use crate::client::Ask;
use crate::output::print_columns;
use crate::target::server_only;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The wait's id, from `waypost waits --kind approval`
    wait: String,
    /// Only a link for this approver; with a key of the role operator, the name of the key
    #[arg(long, value_name = "NAME")]
    approver: Option<String>,
    /// How long the links can be used, such as 2d; default: until the approval expires, or 7 days
    #[arg(long, value_name = "DURATION")]
    valid_for: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let wait = &args.wait;
    wait.parse::<WaitId>().map_err(|error| Usage(error.to_string()))?;
    let expires_at = match &args.valid_for {
        None => None,
        Some(text) => {
            let bad = |_| Usage(format!("--valid-for {text:?} is not a duration, such as 2d"));
            Some(Time(SystemClock.now().plus(Millis::parse(text).map_err(bad)?)))
        }
    };
    let client = server_only("approval-links", &context.settings)?;
    let asked = wire::NewApprovalLinks { approver: args.approver.clone().map(Short), expires_at };
    let made: wire::ApprovalLinks =
        client.ask(Ask::post(&["waits", wait, "links"]).json(&asked)?).await?.body;
    let columns = |link: &wire::ApprovalLinkOf| {
        vec![link.approver.clone(), link.expires_at.0.to_string(), link.url.clone()]
    };
    context.show(&made, || print_columns(&["APPROVER", "EXPIRES", "LINK"], &made.links, columns))
}
