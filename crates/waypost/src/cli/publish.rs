//! `waypost publish`: a signal by its key, to every execution that waits for it.

use anyhow::Result;
use waypost_server::wire;
use waypost_server::wire::payload::{Payload, Short};

use super::requests::Identified;
use super::{Context, Exit, input};
use crate::output::print_line;
use crate::target::AdminTarget;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The signal's name
    name: String,
    /// The correlation key that executions wait for
    #[arg(long)]
    key: String,
    /// Its body: JSON, `@file`, or `-` for standard input
    #[arg(long, short, value_name = "JSON", default_value = "null")]
    body: String,
    /// How long it is kept for the first execution that waits for it, if none does yet (at most 30d)
    #[arg(long, value_name = "DURATION", default_value = "1d")]
    keep: String,
    #[command(flatten)]
    sent: Identified,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let body = Payload(input::payload("the body", &args.body)?);
    let target = AdminTarget::open(&context.settings)?;
    let message_id = args.sent.message_id.map(Short);
    let (name, key, keep) = (Short(args.name), Short(args.key), Some(Short(args.keep)));
    let published = target.publish(wire::Publish { name, key, body, keep, message_id }).await?;
    context.show(&published, || {
        print_line(&match (published.repeated, published.executions) {
            (true, _) => format!("signal {} was published before", published.message_id),
            (false, 0) => "kept: no execution waits for it yet".to_owned(),
            (false, 1) => "sent to 1 execution".to_owned(),
            (false, count) => format!("sent to {count} executions"),
        });
    })
}
