//! `waypost triggers dead`: items that could start no execution.

use anyhow::Result;
use serde_json::json;
use waypost_server::wire;

use super::{Named, PageArgs, fired, paged, path};
use crate::cli::{Context, Exit};
use crate::client::{Ask, Client};
use crate::output::{print_columns, print_line};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    trigger: Named,
    /// Fire this dead letter again, with the current version
    #[arg(long, value_name = "ID", conflicts_with = "discard")]
    retry: Option<u64>,
    /// Discard this dead letter
    #[arg(long, value_name = "ID")]
    discard: Option<u64>,
    /// Only those that are `dead`, `retried` or `discarded`
    #[arg(long)]
    state: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

pub(super) async fn run(client: &Client, args: &Args, context: &Context) -> Result<Exit> {
    if let Some(id) = args.retry {
        let id = id.to_string();
        let path = path(&args.trigger, &["dead", &id, "retry"])?;
        return fired(client, Ask::post(&path), context).await;
    }
    if let Some(id) = args.discard {
        let text = id.to_string();
        client.tell(Ask::post(&path(&args.trigger, &["dead", &text, "discard"])?)).await?;
        let result = json!({ "id": id, "discarded": true });
        return context.show(&result, || print_line(&format!("dead letter {id} is discarded")));
    }
    let path = path(&args.trigger, &["dead"])?;
    let ask = paged(Ask::get(&path).query("state", args.state.clone()), &args.page);
    let list: wire::TriggerDeadLetterList = client.ask(ask).await?.body;
    let columns = |letter: &wire::TriggerDeadLetter| {
        vec![
            letter.id.to_string(),
            letter.at.0.to_string(),
            letter.state.clone(),
            letter.key.clone(),
            letter.reason.clone(),
        ]
    };
    context.show(&list, || {
        if list.dead_letters.is_empty() {
            return print_line("no dead letters");
        }
        print_columns(&["ID", "AT", "STATE", "KEY", "REASON"], &list.dead_letters, columns);
        if let Some(next) = &list.next {
            print_line(&format!("more: the same with --before {next}"));
        }
    })
}
