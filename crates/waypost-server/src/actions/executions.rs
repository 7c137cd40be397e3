//! Executions: list, get, and everything that can be read of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use waypost_core::id::{ExecutionNo, WaitId};
use waypost_core::state::ItemsRequest;
use waypost_core::status::{NodeStatus, Status};
use waypost_ports::clock::{Clock, SystemClock};
use waypost_ports::query::{EventsRequest, ListCondition, ListRequest, Read, WaitsRequest};

use super::page_size;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader::{Nodes, PAGE_BYTES_MAX, Reader};
use crate::server::Server;
use crate::stream::{self, Reach};

/// How long a list that must not be behind is waited for.
const CONSISTENT_MAX: Duration = Duration::from_secs(2);
/// How often it is polled.
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
        condition: values.get("filter").map(condition).transpose()?,
        before: values.number("cursor").and_then(|at| i64::try_from(at).ok()).map(ExecutionNo),
        limit: page_size(&call),
    };
    if values.flag("consistent") {
        catch_up(&server).await?;
    }
    Reply::ok(&server.blocking(move |server| server.reader.list(&request)).await?)
}

/// The condition that a text means.
fn condition(text: &str) -> Result<Arc<ListCondition>, Problem> {
    let compiled = ListCondition::compile(text, SystemClock.now());
    let wrong = |why| Problem::new(Code::BadParameter, format!("filter, {why}"));
    Ok(Arc::new(compiled.map_err(wrong)?))
}

/// A page of the open waits of all executions.
pub(crate) async fn waits(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let values = &call.values;
    let cursor = values.get("cursor").and_then(|id| id.parse::<WaitId>().ok());
    let kind = values.get("kind").map(str::to_owned);
    let request = WaitsRequest {
        workflow: values.get("workflow").map(str::to_owned),
        limit: page_size(&call),
        ..WaitsRequest::default()
    };
    if values.flag("consistent") {
        catch_up(&server).await?;
    }
    let list = move |server: &Server| server.reader.waits(kind.as_deref(), cursor, request);
    Reply::ok(&server.blocking(list).await?)
}

/// Waits until lists contain everything committed before; gives up silently, since the list has its
/// own lag.
async fn catch_up(server: &Arc<Server>) -> Result<(), Problem> {
    let deadline = tokio::time::Instant::now() + CONSISTENT_MAX;
    while tokio::time::Instant::now() < deadline {
        let lag = server.blocking(|server| Ok(server.reader.backend().lag()?)).await?;
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
        let execution = server.find(&key).await?;
        // Whether it has ended is read off the log below.
        server.wait_for(wait, server.engine.ended(execution)).await;
    }
    Reply::ok(&folded(&server, key, Reader::execution).await?)
}

/// A value computed from an execution's log.
async fn folded<T: Send + 'static>(
    server: &Arc<Server>,
    key: String,
    look: impl FnOnce(&Reader, &str) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let sought = key.clone();
    let weigh = move |server: &Server| Ok(Read::State(server.reader.find(&sought)?));
    server.weighing(weigh, move |server| look(&server.reader, &key)).await
}

pub(crate) async fn nodes(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    if let Some(under) = call.values.get("under").map(str::to_owned) {
        if call.values.get("state").is_some() {
            let detail = "`state` is about nodes; with `under`, items have a `status`";
            return Err(Problem::new(Code::BadParameter, detail));
        }
        let wanted = call.values.get("status");
        let request = ItemsRequest {
            status: NodeStatus::ALL.into_iter().find(|status| Some(status.name()) == wanted),
            after: call.values.number("after"),
            limit: page_size(&call),
        };
        let look = move |reader: &Reader, key: &str| reader.items(key, &under, request);
        return Reply::ok(&folded(&server, key, look).await?);
    }
    for needs_under in ["status", "after", "limit"] {
        if call.values.get(needs_under).is_some() {
            let detail = format!("`{needs_under}` is about items, and needs `under`");
            return Err(Problem::new(Code::BadParameter, detail));
        }
    }
    let incomplete = call.values.get("state") == Some("incomplete");
    let which = if incomplete { Nodes::Incomplete } else { Nodes::All };
    Reply::ok(&folded(&server, key, move |reader, key| reader.nodes(key, which)).await?)
}

/// Executions on a page of children: the status of each is looked up.
const CHILDREN_PAGE_MAX: usize = 100;

pub(crate) async fn events(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = server.find(call.values.text("id")).await?;
    let values = &call.values;
    let request = EventsRequest {
        execution,
        node: values.get("node").map(str::to_owned),
        kind: values.get("type").map(str::to_owned),
        after: values.number("after").unwrap_or(0),
        limit: page_size(&call),
        bytes: server.budget.page_bytes(PAGE_BYTES_MAX),
    };
    let EventsRequest { after, limit, bytes, .. } = request;
    let read = Read::Events { execution, after, limit, bytes };
    let page = move |server: &Server| Reply::ok(&server.reader.events(&request)?);
    let page = server.page(read, &call.connection, page);
    let (mut reply, share) = server.with_room(page).await??;
    reply.share = share;
    Ok(reply)
}

pub(crate) async fn children(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = server.find(call.values.text("id")).await?;
    if call.values.flag("consistent") {
        catch_up(&server).await?;
    }
    let after = call.values.number("after").unwrap_or(0);
    let limit = page_size(&call).min(CHILDREN_PAGE_MAX);
    let bytes = server.budget.page_bytes(PAGE_BYTES_MAX);
    let request = EventsRequest { execution, node: None, kind: None, after, limit, bytes };
    let read = Read::Events { execution, after, limit, bytes };
    let page = move |server: &Server| Reply::ok(&server.reader.children(&request)?);
    let page = server.page(read, &call.connection, page);
    let (mut reply, share) = server.with_room(page).await??;
    reply.share = share;
    Ok(reply)
}

pub(crate) async fn output(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    Reply::ok(&folded(&server, key, Reader::output).await?)
}

pub(crate) async fn why(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let key = call.values.text("id").to_owned();
    Reply::ok(&folded(&server, key, Reader::why).await?)
}

pub(crate) async fn stream(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let execution = server.find(call.values.text("id")).await?;
    let after = call.values.number("last-event-id").or_else(|| call.values.number("after"));
    stream::of_one(&server, execution, after.unwrap_or(0), reach(&call), call.into()).await
}

pub(crate) async fn stream_all(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let after = call.values.get("last-event-id").or_else(|| call.values.get("after"));
    let after = after.map(str::to_owned);
    let kinds = call.values.all("type").map(str::to_owned).collect();
    stream::of_all(&server, after.as_deref(), kinds, reach(&call), call.into()).await
}

/// How far the stream is to go.
fn reach(call: &Call) -> Reach {
    if call.values.get("follow") == Some("false") { Reach::UpToNow } else { Reach::Follow }
}
