//! Executions: list, get, and everything that can be read of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use waypost_core::id::ExecutionId;
use waypost_core::status::Status;
use waypost_ports::query::{EventsRequest, ListRequest};

use super::page_size;
use crate::http::call::{Call, Reply};
use crate::problem::Problem;
use crate::reader::Nodes;
use crate::server::Server;
use crate::stream::{self, Reach};

/// How long a list that must not be behind is waited for.
const CONSISTENT_MAX: Duration = Duration::from_secs(2);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(crate) async fn list(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let values = &call.values;
    let labels: BTreeMap<String, String> = values
        .all("label")
        .filter_map(|label| label.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let request = ListRequest {
        statuses: values.all("status").filter_map(Status::parse).collect(),
        workflow: values.get("workflow").map(str::to_owned),
        since: values.time("since"),
        until: values.time("until"),
        labels,
        text: values.get("text").map(str::to_owned),
        before: values.number("cursor").and_then(|at| i64::try_from(at).ok()).map(ExecutionId),
        limit: page_size(&call),
    };
    if values.flag("consistent") {
        catch_up(&server).await?;
    }
    Reply::ok(&server.blocking(move |server| server.reader.list(&request)).await?)
}

/// Waits until lists show what was committed before; gives up silently, since the list says itself
/// how far behind it is.
async fn catch_up(server: &Arc<Server>) -> Result<(), Problem> {
    let deadline = tokio::time::Instant::now() + CONSISTENT_MAX;
    while tokio::time::Instant::now() < deadline {
        let lag = server.blocking(|server| Ok(server.reader.home().lag()?)).await?;
        if lag.frames == 0 {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

pub(crate) async fn get(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    if let Some(wait) = call.values.duration("wait") {
        let sought = key.clone();
        let execution = server.blocking(move |server| server.reader.find(&sought)).await?;
        // Whether it has ended is read off the log below.
        server.patiently(wait, server.engine.ended(execution)).await;
    }
    Reply::ok(&server.blocking(move |server| server.reader.execution(&key)).await?)
}

pub(crate) async fn nodes(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    let incomplete = call.values.get("state") == Some("incomplete");
    let which = if incomplete { Nodes::Incomplete } else { Nodes::All };
    Reply::ok(&server.blocking(move |server| server.reader.nodes(&key, which)).await?)
}

pub(crate) async fn events(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let values = call.values.clone();
    let limit = page_size(&call);
    let page = server
        .blocking(move |server| {
            server.reader.events(&EventsRequest {
                execution: server.reader.find(values.text("id"))?,
                node: values.get("node").map(str::to_owned),
                kind: values.get("type").map(str::to_owned),
                after: values.number("after").unwrap_or(0),
                limit,
            })
        })
        .await?;
    Reply::ok(&page)
}

pub(crate) async fn output(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    Reply::ok(&server.blocking(move |server| server.reader.output(&key)).await?)
}

pub(crate) async fn why(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    Reply::ok(&server.blocking(move |server| server.reader.why(&key)).await?)
}

pub(crate) async fn stream(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    let execution = server.blocking(move |server| server.reader.find(&key)).await?;
    let after = call.values.number("last-event-id").or_else(|| call.values.number("after"));
    stream::of_one(&server, execution, after.unwrap_or(0), reach(&call), call.identity).await
}

pub(crate) async fn stream_all(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let after = call.values.get("last-event-id").or_else(|| call.values.get("after"));
    let kinds = call.values.all("type").map(str::to_owned).collect();
    stream::of_all(&server, after, kinds, reach(&call), call.identity.clone()).await
}

/// How far the stream is to go.
fn reach(call: &Call) -> Reach {
    if call.values.get("follow") == Some("false") { Reach::UpToNow } else { Reach::Follow }
}
