//! Links by which people decide approvals without an API key: making them, showing what is asked, deciding.
//!
//! A link is for one wait and one approver. Opening it shows what is to be decided and changes nothing, so a
//! mail program that follows links decides nothing; only a POST decides. Whether the bearer may decide is
//! settled by the execution's own state, as for every decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::{StatusCode, header};
use waypost_core::command::{ApprovalDecision, Request};
use waypost_core::event::{ApprovalWait, Wait};
use waypost_core::id::{ExecutionNo, WaitId};
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_engine::links::{ApprovalLink, LinkPurpose, digest};
use waypost_ports::access::Role;

use super::approvals::{check_form, decided, may_be_late};
use super::control::{find_wait, send};
use super::payloads::{Claimant, adopt};
use crate::access::Identity;
use crate::html::fields::{Posted, posted, value};
use crate::html::{self, approval};
use crate::http::body::FORM;
use crate::http::call::{Call, Reply};
use crate::problem::{Code, Problem};
use crate::reader::Found;
use crate::server::Server;
use crate::wire;
use crate::wire::payload::{Prose, Time};

/// Makes links for the approvers of an open approval, or for one of them.
pub(crate) async fn create(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::NewApprovalLinks = call.json()?;
    let id = call.values.text("id").to_owned();
    let (wait, execution) = find_wait(&server, &id).await?;
    let found = server.load(execution).await?;
    let approval = open(&found, wait.seq)
        .ok_or_else(|| Problem::new(Code::UnknownWait, format!("{id} is not an open approval")))?;
    let now = server.clock.now();
    let expires_at = match asked.expires_at {
        None => ApprovalLink::expiry(approval.due, now),
        Some(at) if at.0 > now => at.0,
        Some(_) => return Err(Problem::new(Code::BadBody, "`expiresAt` is in the past")),
    };
    let base = server.engine.public_url().ok_or_else(|| {
        Problem::new(Code::IllegalTransition, "this server does not know its own address")
            .hint("the setting `public_url` is what links begin with")
    })?;
    let named = may_be_for(&call.identity, asked.approver.map(|name| name.0))?;
    let mut links = Vec::new();
    let mut made = Vec::new();
    for approver in approvers(approval, named)? {
        let link = ApprovalLink { wait: wait.clone(), approver, expires_at };
        let url = link.url(server.engine.links(), base).ok_or_else(|| {
            let detail = "the name of an approver is too long for a link";
            Problem::new(Code::InvalidInput, detail)
        })?;
        let approver = link.approver.to_string();
        // The decision by this link has the same digest in its sender.
        let digest = url.rsplit('/').next().map(digest).unwrap_or_default();
        made.push(format!("{}:{digest} for {approver}", LinkPurpose::Approval.name()));
        links.push(wire::ApprovalLinkOf { approver, url, expires_at: Time(expires_at) });
    }
    let subject = format!("{id}: {}; until {expires_at}", made.join(", "));
    let reply = Reply::json(StatusCode::CREATED, &wire::ApprovalLinks { wait: id, links })?;
    Ok(reply.about(subject).with(header::CACHE_CONTROL, "no-store"))
}

/// The name that the caller asks for, if it may have links in that name. An administrator may have
/// links for all; another key decides in its own name alone, so it gets no link for another one.
fn may_be_for(caller: &Identity, named: Option<String>) -> Result<Option<String>, Problem> {
    let own = &caller.name;
    match named {
        named if caller.role == Role::Admin => Ok(named),
        Some(named) if *named != **own => {
            let detail = format!("the API key {own:?} cannot make a link for {named:?}");
            Err(Problem::new(Code::NotAnApprover, detail)
                .hint("a key of the role `operator` makes links for its own name; use a key of the role `admin`"))
        }
        _ => Ok(Some(own.to_string())),
    }
}

/// Whom links are made for.
fn approvers(
    approval: &ApprovalWait,
    named: Option<String>,
) -> Result<BTreeSet<Arc<str>>, Problem> {
    match named {
        Some(name) if name.is_empty() => Err(Problem::new(Code::BadBody, "`approver` is empty")),
        Some(name) if approval.is_for(&name) => Ok([name.into()].into()),
        Some(name) => {
            let all = approval.approvers.join(", ");
            let detail = format!("{name} may not decide this approval; its approvers are {all}");
            Err(Problem::new(Code::NotAnApprover, detail))
        }
        None if approval.approvers.is_empty() => {
            let detail = "the approval names no approvers";
            Err(Problem::new(Code::BadBody, detail).hint("say whom the link is for in `approver`"))
        }
        None => Ok(approval.approvers.iter().cloned().collect()),
    }
}

/// The approval that waits since this event.
fn open(found: &Found, wait: u64) -> Option<&ApprovalWait> {
    match &found.state.node(found.state.waiting_since(wait)?).wait {
        Some(Wait::Approval(approval)) => Some(approval),
        _ => None,
    }
}

/// An approval that a link leads to.
struct Linked {
    link: ApprovalLink,
    execution: ExecutionNo,
    shown: wire::LinkedApproval,
}

/// What the link of a request is about, or why nothing can be decided by it any more.
async fn linked(server: &Arc<Server>, call: &Call) -> Result<Linked, Problem> {
    let link = call.link.as_ref().and_then(ApprovalLink::of).ok_or_else(over)?;
    let WaitId { execution: id, seq } = &link.wait;
    let execution = server
        .find(id.as_str())
        .await
        .map_err(|problem| if problem.code == Code::UnknownExecution { over() } else { problem })?;
    let found = server.load(execution).await?;
    let Some(approval) = open(&found, *seq).filter(|_| !found.state.status.is_end()) else {
        return Err(ended(server, execution, *seq).await?);
    };
    if !approval.is_for(&link.approver) {
        let detail = format!("{} may not decide this approval any more", link.approver);
        return Err(Problem::new(Code::NotAnApprover, detail));
    }
    let at = found.state.waiting_since(*seq).ok_or_else(over)?;
    let form = match &found.plan.node(at.node).behaviour {
        Behaviour::Approval(spec) => spec.form.clone(),
        _ => None,
    };
    let shown = wire::LinkedApproval {
        execution: id.to_string(),
        workflow: found.state.created.workflow.to_string(),
        node: found.state.path(&found.plan, at).to_string(),
        title: approval.title.to_string(),
        description: approval.description.as_deref().map(str::to_owned),
        approver: link.approver.to_string(),
        form: form.map(wire::Payload),
        due: approval.due.map(Time),
        expires_at: Time(link.expires_at),
    };
    Ok(Linked { link, execution, shown })
}

/// Why a wait is not open any more: it was decided, or it ended otherwise.
async fn ended(
    server: &Arc<Server>,
    execution: ExecutionNo,
    wait: u64,
) -> Result<Problem, Problem> {
    let first = decided(server, execution, wait).await?;
    Ok(first.filter(|decided| decided.by.is_some()).map_or_else(over, |first| first.problem()))
}

fn over() -> Problem {
    Problem::new(Code::LinkExpired, "the approval is over, and was not decided")
}

/// Shows what is to be decided. Changes nothing.
pub(crate) async fn show(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let Linked { shown, .. } = linked(&server, &call).await?;
    if html::is_json_asked_for(&call.headers) {
        let reply = Reply::ok(&shown)?.with(header::CACHE_CONTROL, "no-store");
        return Ok(reply.with(header::REFERRER_POLICY, "no-referrer"));
    }
    Ok(approval::question(&shown, &Posted::new(), None))
}

/// Decides, by the form of the page or by JSON.
pub(crate) async fn decide(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let linked = linked(&server, &call).await?;
    if !is_form(&call) {
        let asked: wire::DecideByLink = call.json()?;
        return decide_as(&server, &call, &linked, asked).await;
    }
    let posted = posted(&call.body)
        .ok_or_else(|| Problem::new(Code::BadBody, "the body is not a form of this page"))?;
    match decide_posted(&server, &call, &linked, &posted).await {
        // The person can put it right.
        Err(problem) if matches!(problem.code, Code::InvalidInput | Code::BadBody) => {
            Ok(approval::question(&linked.shown, &posted, Some(&problem)))
        }
        decided => decided,
    }
}

async fn decide_posted(
    server: &Arc<Server>,
    call: &Call,
    linked: &Linked,
    posted: &Posted,
) -> Result<Reply, Problem> {
    let asked = asked(&linked.shown, posted)?;
    let decision = asked.decision;
    let reply = decide_as(server, call, linked, asked).await?;
    Ok(approval::decided(decision, reply.status == StatusCode::OK))
}

fn is_form(call: &Call) -> bool {
    let given = call.headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok());
    let kind = given.and_then(|given| given.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(FORM)
}

/// The decision in a form of the page.
fn asked(shown: &wire::LinkedApproval, posted: &Posted) -> Result<wire::DecideByLink, Problem> {
    let bad = |detail: String| Problem::new(Code::BadBody, detail);
    let decision = match posted.get("decision").map(String::as_str) {
        Some("approved") => wire::DecisionWord::Approved,
        Some("rejected") => wire::DecisionWord::Rejected,
        _ => return Err(bad("press Approve or Reject".to_owned())),
    };
    let comment = posted.get("comment").filter(|comment| !comment.trim().is_empty()).cloned();
    let comment = comment.map(Prose::checked).transpose();
    let comment = comment.map_err(|message| bad(format!("the comment: {message}")))?;
    // A rejection may come without a form, and half of one would be no use.
    let form = match (&shown.form, decision) {
        (Some(schema), wire::DecisionWord::Approved) => {
            let schema = serde_json::from_str(schema.0.text()).unwrap_or_default();
            let text = value(&schema, posted).map_err(bad)?;
            Json::parse(&text).map_err(|error| bad(format!("the form is not JSON: {error}")))?
        }
        _ => Json::null(),
    };
    Ok(wire::DecideByLink { decision, comment, form: wire::Payload(form) })
}

async fn decide_as(
    server: &Arc<Server>,
    call: &Call,
    linked: &Linked,
    asked: wire::DecideByLink,
) -> Result<Reply, Problem> {
    let Linked { link: ApprovalLink { wait, approver, .. }, execution, .. } = linked;
    let verdict = asked.decision.into();
    check_form(server, (*execution, wait.seq), verdict, &asked.form.0).await?;
    let decision = Box::new(ApprovalDecision {
        verdict,
        approver: Arc::clone(approver),
        link: true,
        comment: asked.comment.map(|comment| comment.0),
        form: adopt(server, asked.form.0, Claimant::Approver).await?,
    });
    let request = Request::Decide { wait: wait.seq, decision };
    let addressee = (wait.execution.as_str(), *execution);
    match send(server, call, addressee, request, None).await {
        Err(problem) if may_be_late(&problem) => {
            // An owner that refuses mail only says that the wait is not open; it may also be paused.
            let is_open = problem.code == Code::IllegalTransition
                && open(&server.load(*execution).await?, wait.seq).is_some();
            Err(if is_open { problem } else { ended(server, *execution, wait.seq).await? })
        }
        sent => sent,
    }
}
