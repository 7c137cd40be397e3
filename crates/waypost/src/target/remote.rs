//! Questions to a server, each a route of its API.

use std::time::Duration;

use anyhow::Result;
use reqwest::StatusCode;
use waypost_core::budget::SpendingLimits;
use waypost_core::command::Request;
use waypost_core::id::WaitId;
use waypost_core::state::ItemsRequest;
use waypost_ports::query::{ListRequest, WaitsRequest};
use waypost_server::wire;
use waypost_server::workflows::Deploy;

use super::{ChildrenPage, EventsOf, RequestOutcome};
use crate::client::{Ask, Client};

/// The longest that one request waits for an end; servers allow twice as much.
const WAIT_MAX: Duration = Duration::from_secs(30);

impl Client {
    pub(super) async fn newest(&self) -> Result<Option<String>> {
        let request = ListRequest { limit: 1, ..ListRequest::default() };
        let list = self.list(&request).await?;
        let Some(newest) = list.executions.into_iter().next() else { return Ok(None) };
        // What it started is newer, and not what a person means. A damaged one has no more than its id.
        let read: Result<wire::Execution> = self.get(&["executions", &newest.id]).await;
        let root = read.ok().and_then(|execution| execution.parent).map(|parent| parent.root);
        Ok(Some(root.unwrap_or(newest.id)))
    }

    /// The execution once it has ended or the time is over.
    pub(crate) async fn execution_after(
        &self,
        id: &str,
        wait: Duration,
    ) -> Result<wire::Execution> {
        let wait = wait.min(WAIT_MAX);
        let ask = Ask::get(&["executions", id]).query("wait", Some(span(wait))).awaited(wait);
        Ok(self.ask(ask).await?.body)
    }

    pub(super) async fn events(&self, id: &str, wanted: &EventsOf) -> Result<wire::EventList> {
        let ask = Ask::get(&["executions", id, "events"])
            .query("node", wanted.node.as_ref())
            .query("type", wanted.kind.as_ref())
            .query("after", Some(wanted.after))
            .query("limit", Some(wanted.limit));
        Ok(self.ask(ask).await?.body)
    }

    pub(super) async fn children(
        &self,
        id: &str,
        ChildrenPage { after, limit, consistent }: ChildrenPage,
    ) -> Result<wire::ChildList> {
        let ask = Ask::get(&["executions", id, "children"])
            .query("after", Some(after))
            .query("limit", Some(limit))
            .query("consistent", consistent.then_some(true));
        Ok(self.ask(ask).await?.body)
    }

    pub(super) async fn items(
        &self,
        id: &str,
        node: &str,
        request: ItemsRequest,
    ) -> Result<wire::NodeList> {
        let ask = Ask::get(&["executions", id, "nodes"])
            .query("under", Some(node))
            .query("status", request.status)
            .query("after", request.after)
            .query("limit", Some(request.limit));
        Ok(self.ask(ask).await?.body)
    }

    /// A page of executions that includes everything committed before, unless that takes too long:
    /// people list what they have just started.
    pub(crate) async fn list(&self, request: &ListRequest) -> Result<wire::ExecutionList> {
        let mut ask = Ask::get(&["executions"])
            .query("workflow", request.workflow.as_ref())
            .query("since", request.since)
            .query("until", request.until)
            .query("text", request.text.as_ref())
            .query("filter", request.condition.as_ref().map(|condition| condition.source()))
            .query("cursor", request.before.map(|before| before.0))
            .query("limit", Some(request.limit))
            .query("consistent", Some(true));
        for status in &request.statuses {
            ask = ask.query("status", Some(status.name()));
        }
        for (name, value) in &request.labels {
            ask = ask.query("label", Some(format!("{name}={value}")));
        }
        Ok(self.ask(ask).await?.body)
    }

    /// As [`list`](Self::list), of open waits.
    pub(super) async fn waits(
        &self,
        kind: Option<&str>,
        behind: Option<WaitId>,
        request: &WaitsRequest,
    ) -> Result<wire::WaitList> {
        let ask = Ask::get(&["waits"])
            .query("kind", kind)
            .query("workflow", request.workflow.as_ref())
            .query("cursor", behind)
            .query("limit", Some(request.limit))
            .query("consistent", Some(true));
        Ok(self.ask(ask).await?.body)
    }

    pub(super) async fn definitions(
        &self,
        workflow: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<wire::DefinitionList> {
        let ask = match workflow {
            Some(name) => Ask::get(&["definitions", name, "versions"]),
            None => Ask::get(&["definitions"]),
        };
        Ok(self.ask(ask.query("cursor", cursor).query("limit", Some(limit))).await?.body)
    }

    pub(super) async fn deploy(
        &self,
        source: &[u8],
        how: Deploy,
        paused: bool,
    ) -> Result<wire::Deployed> {
        // JSON is YAML, too: whatever it is, its places are those of the file.
        let ask = Ask::post(&["definitions"])
            .query("dryRun", (how == Deploy::DryRun).then_some(true))
            .query("keepCurrent", (how == Deploy::KeepCurrent).then_some(true))
            .query("paused", paused.then_some(true))
            .body("application/yaml", source.to_vec());
        Ok(self.ask(ask).await?.body)
    }

    /// Starts an execution. Also returns whether it was started before under the same key.
    pub(crate) async fn start(
        &self,
        start: &wire::Start,
        idempotency_key: Option<&str>,
    ) -> Result<(wire::Started, bool)> {
        let ask =
            Ask::post(&["executions"]).header("idempotency-key", idempotency_key).json(start)?;
        let reply = self.ask(ask).await?;
        Ok((reply.body, reply.headers.contains_key("idempotent-replayed")))
    }

    pub(super) async fn control(
        &self,
        id: &str,
        request: Request,
        message: Option<String>,
    ) -> Result<RequestOutcome> {
        let (path, body) = wire::control::call_of(id, request, message)?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        self.send_control(Ask::post(&path).body("application/json", body)).await
    }

    pub(super) async fn dry_retry(
        &self,
        id: &str,
        budget: Option<SpendingLimits>,
    ) -> Result<RequestOutcome> {
        let budget = budget.map(Into::into);
        let asked = wire::Retry { dry_run: true, budget, ..wire::Retry::default() };
        self.send_control(Ask::post(&["executions", id, "retry"]).json(&asked)?).await
    }

    async fn send_control(&self, ask: Ask<'_>) -> Result<RequestOutcome> {
        let reply = self.ask::<wire::ControlResult>(ask).await?;
        let note = match (reply.status, reply.body.duplicate) {
            (_, true) => Some("this request was accepted before; it changed nothing now"),
            (StatusCode::ACCEPTED, _) => {
                Some("stored; it takes effect when the execution continues")
            }
            _ => None,
        };
        Ok(RequestOutcome { controlled: reply.body, note: note.map(str::to_owned) })
    }
}

/// A span as parameters are written.
fn span(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}
