//! Requests of other systems that fire webhook triggers.
//!
//! The order of the checks: the trigger, the size of the body, the signature and its time, the rate of the
//! trigger, the challenge, the type of the body; then what identifies the delivery, and the fire. What is not
//! taken before the signature fits counts against the rate of its sender's address; only what is signed counts
//! against the rate of the trigger, so that a sender without the secret cannot use it up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::trigger::{
    Challenge, Payload, Respond, TriggerKind, VerifyScheme, WebhookTrigger,
};
use waypost_engine::Started;
use waypost_engine::triggers::{FireResult, Firing, Occurrence, PlannedTrigger, TriggerControl};
use waypost_ports::secret::SecretText;
use waypost_ports::triggers::{FireOutcome, TriggerRow, TriggerState};

use super::triggers::{busy, control, definition, later};
use crate::hooks::verify::{Incoming, Reason, SignedDelivery, verify};
use crate::hooks::{identity, payload};
use crate::http::call::{Call, Reply};
use crate::http::entry::{network, too_many};
use crate::problem::{Code, Problem};
use crate::server::Server;
use crate::wire;

/// How long a request waits for the output of its execution.
const OUTPUT_WAIT: Duration = Duration::from_secs(60);
/// How often a trigger is read again that changes while it fires.
const TRIES: usize = 3;

/// A trigger with its row.
struct Hook {
    row: Arc<TriggerRow>,
    planned: PlannedTrigger,
}

impl Hook {
    fn webhook(&self) -> Result<&WebhookTrigger, Problem> {
        match &self.planned.trigger.kind {
            TriggerKind::Webhook(webhook) => Ok(webhook),
            _ => Err(unknown()),
        }
    }
}

/// A request that may fire a trigger.
struct HookFire {
    occurrence: Occurrence,
    respond: Respond,
}

/// What is done with a verified request.
enum HookStep {
    Fire(Box<HookFire>),
    /// It was a question whether the trigger is there.
    Answer(String),
}

pub(crate) async fn receive(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let control = control(&server)?.clone();
    let name = (call.values.text("workflow").to_owned(), call.values.text("trigger").to_owned());
    let mut use_kept = true;
    for _ in 0..TRIES {
        let found = find(&server, &control, &name, use_kept).await;
        let judged = match found {
            Ok(hook) => judge(&server, &call, &hook).await.map(|verdict| (hook, verdict)),
            Err(problem) => Err(problem),
        };
        let (hook, verdict) =
            judged.inspect_err(|problem| count_failure(&server, &call, problem))?;
        let taken = match verdict {
            HookStep::Answer(text) => {
                return Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", text));
            }
            HookStep::Fire(taken) => taken,
        };
        let result = control.firing.fire(&hook.row, &taken.occurrence, None, None).await;
        let result = result.map_err(definition)?;
        if is_current(&control.firing, &hook.row, &taken.occurrence, &result).await? {
            return answer(&server, &control, &hook, *taken, result).await;
        }
        use_kept = false;
    }
    Err(busy())
}

/// Was the request judged by the trigger as it is now? Its row may be out of date, and the store compares only
/// the rows of what it stores. A request that can start nothing becomes a dead letter here.
async fn is_current(
    firing: &Firing,
    row: &TriggerRow,
    occurrence: &Occurrence,
    result: &FireResult,
) -> Result<bool, Problem> {
    Ok(match result {
        FireResult::Stale => false,
        FireResult::Filtered => {
            let now = firing.row(&row.workflow, &row.name).await?;
            now.is_some_and(|now| now.at() == row.at())
        }
        FireResult::Dead { reason } => {
            firing.settle(row, occurrence, FireOutcome::Dead, Some(reason)).await?
        }
        _ => true,
    })
}

/// What is refused before its signature fits counts against the address that sent it.
fn count_failure(server: &Server, call: &Call, problem: &Problem) {
    let counts = matches!(
        problem.code,
        Code::UnknownHook | Code::BadSignature | Code::StaleTimestamp | Code::BodyTooLarge
    );
    if counts {
        let sender: Arc<str> = network(call.address.ip()).into();
        // The next request of an address without a token is refused before anything is looked at.
        server.hooks.failures.take(&sender, Instant::now()).unwrap_or_default();
    }
}

fn unknown() -> Problem {
    Problem::new(Code::UnknownHook, "no active webhook trigger has this path")
        .hint("GET /v1/triggers lists the triggers with their states")
}

async fn find(
    server: &Server,
    control: &TriggerControl,
    name: &(String, String),
    use_kept: bool,
) -> Result<Hook, Problem> {
    let now = Instant::now();
    let row = match server.hooks.rows.get(name, now).filter(|_| use_kept) {
        Some(row) => row,
        None => {
            let row = control.firing.row(&name.0, &name.1).await?.map(Arc::new);
            server.hooks.rows.keep(name, row.as_ref(), now);
            row.filter(|row| row.state == TriggerState::Active).ok_or_else(unknown)?
        }
    };
    let planned = control.firing.planned(&row).await.map_err(definition)?;
    let hook = Hook { row, planned };
    hook.webhook()?;
    Ok(hook)
}

/// Every check of a request that needs no write.
async fn judge(server: &Arc<Server>, call: &Call, hook: &Hook) -> Result<HookStep, Problem> {
    let webhook = hook.webhook()?;
    let token = call.values.get("token");
    // Whether a path has a token is a part of it.
    let wants_token = webhook.verify.scheme == VerifyScheme::Token;
    let is_get = call.method == Method::GET;
    if token.is_some() != wants_token || is_get && !webhook.allow_get {
        return Err(unknown());
    }
    if call.body.len() > webhook.body_max {
        let detail = format!("the trigger takes bodies of at most {} bytes", webhook.body_max);
        return Err(Problem::new(Code::BodyTooLarge, detail));
    }
    let delivery = check_signature(server, call, hook, webhook).await?;
    let (limit, row) = (server.config.hook_requests_per_second, &hook.row);
    let who: Arc<str> = format!("{}/{}", row.workflow, row.name).into();
    server.hooks.rate.take(&who, Instant::now()).map_err(|wait| too_many(limit, wait))?;
    let body = payload::body(&call.headers, &call.body)?;
    let headers = payload::headers(&call.headers, &webhook.headers);
    let payload = Payload::request(&body, &headers, &payload::query(call.query.as_deref())?);
    if let Some(text) = challenged(webhook.challenge.as_ref(), &payload)? {
        return Ok(HookStep::Answer(text));
    }
    let details = Json::object([("headers", headers)].into_iter());
    let details = details.map_err(|error| Problem::internal(&error))?;
    let occurrence = identity::occurrence(webhook, &delivery, (&call.headers, &body), payload)?;
    let occurrence = occurrence.with_details(details);
    Ok(HookStep::Fire(Box::new(HookFire { occurrence, respond: webhook.respond })))
}

async fn check_signature(
    server: &Arc<Server>,
    call: &Call,
    hook: &Hook,
    webhook: &WebhookTrigger,
) -> Result<SignedDelivery, Problem> {
    let verification = &webhook.verify;
    let is_open = server.config.allow_unsigned_hooks;
    if verification.scheme == VerifyScheme::None && !is_open {
        let is_local = server.guard.is_for_this_machine(&call.headers);
        if !(is_local && call.address.ip().to_canonical().is_loopback()) {
            let detail =
                "the trigger takes unsigned requests, and only from the server's own machine";
            return Err(Problem::new(Code::Forbidden, detail)
                .hint("give the trigger a scheme, or set `allow_unsigned_hooks`"));
        }
    }
    let secrets = match verification.scheme.needs_secret() {
        true => secrets(server, hook, &verification.secrets).await?,
        false => Vec::new(),
    };
    let request = Incoming {
        headers: &call.headers,
        body: &call.body,
        token: call.values.get("token"),
        now: server.engine.time().least,
    };
    verify(&verification.scheme, &secrets, &request).map_err(|refused| match refused.reason {
        Reason::StaleTimestamp => Problem::new(Code::StaleTimestamp, refused.to_string())
            .hint("compare the clock of the sender with that of the store"),
        Reason::BadSecret => {
            tracing::error!(workflow = %hook.row.workflow, trigger = %hook.row.name, %refused, "webhook trigger");
            no_secret()
        }
        _ => Problem::new(Code::BadSignature, refused.to_string()),
    })
}

fn no_secret() -> Problem {
    Problem::new(Code::SecretsUnreadable, "the secrets of the trigger cannot be used")
        .hint("the server's log says why")
        .retry_after(60)
}

/// The secrets of a trigger that can be used: one of them suffices during a rotation.
async fn secrets(
    server: &Arc<Server>,
    hook: &Hook,
    names: &[Arc<str>],
) -> Result<Vec<SecretText>, Problem> {
    let (names, workflow) = (names.to_vec(), Arc::clone(&hook.row.workflow));
    let resolve = move |server: &Server| {
        let mut usable = Vec::new();
        for name in &names {
            match server.secrets.resolve(name, &workflow) {
                Ok(grant) if grant.verify => usable.push(grant.value),
                Ok(_) => {
                    tracing::warn!(%workflow, secret = %name, "secret without `verify = true` in the settings cannot verify requests")
                }
                Err(refused) => tracing::warn!(%workflow, %refused, "secret of a webhook trigger"),
            }
        }
        Ok(usable)
    };
    let usable = server.blocking(resolve).await?;
    if usable.is_empty() { Err(no_secret()) } else { Ok(usable) }
}

/// The answer to a question whether the trigger is there, if the request is one.
fn challenged(challenge: Option<&Challenge>, payload: &Payload) -> Result<Option<String>, Problem> {
    let Some(challenge) = challenge else { return Ok(None) };
    let scope = payload.scope(None);
    if !challenge.condition.eval_bool(&scope).unwrap_or(false) {
        return Ok(None);
    }
    let value = challenge.value.eval(&scope).ok().and_then(|value| value.to_value().ok());
    match value {
        Some(serde_json::Value::String(text)) if text.len() <= 4_096 => Ok(Some(text)),
        _ => {
            let detail = "the trigger's `challenge` must give a text of at most 4096 bytes";
            Err(Problem::new(Code::InvalidInput, detail))
        }
    }
}

async fn answer(
    server: &Arc<Server>,
    control: &TriggerControl,
    hook: &Hook,
    taken: HookFire,
    result: FireResult,
) -> Result<Reply, Problem> {
    let HookFire { occurrence, respond } = taken;
    match result {
        FireResult::Started(started) => match respond {
            Respond::Accepted => accepted(&started),
            Respond::Output => output(server, *started).await,
        },
        FireResult::Known(Some(execution)) => repeated(server, respond, execution).await,
        FireResult::Known(None) => settled(server, control, hook, &occurrence).await,
        FireResult::Filtered => done("filtered", None),
        FireResult::Rejected { holding } => {
            let detail = format!("{holding} executions of its concurrency key are under way");
            Err(Problem::new(Code::ConcurrencyLimit, detail).retry_after(60))
        }
        FireResult::Dead { reason } => Err(dead(&reason)),
        FireResult::Retry { why } => Err(later(why)),
        FireResult::Stale => Err(busy()),
    }
}

fn dead(reason: &str) -> Problem {
    let reason: String = reason.chars().take(500).collect();
    Problem::new(Code::InvalidInput, format!("the trigger can start nothing with it: {reason}"))
        .hint("it is kept as a dead letter of the trigger")
}

fn accepted(started: &Started) -> Result<Reply, Problem> {
    let id = started.new.as_ref().map(|new| new.key.to_string());
    let reply = wire::HookReply { outcome: "started".to_owned(), id };
    Reply::json(StatusCode::ACCEPTED, &reply)
}

fn done(outcome: &str, id: Option<String>) -> Result<Reply, Problem> {
    Reply::ok(&wire::HookReply { outcome: outcome.to_owned(), id })
}

/// Waits for the output.
async fn output(server: &Arc<Server>, started: Started) -> Result<Reply, Problem> {
    let reply = accepted(&started)?;
    match server.wait_for(OUTPUT_WAIT, started.ended()).await.flatten() {
        Some(end) => ended(end.status, end.output),
        None => Ok(reply),
    }
}

fn ended(status: Status, output: Option<Json>) -> Result<Reply, Problem> {
    if status != Status::Completed {
        let detail = format!("the execution ended with status {}", status.name());
        return Err(Problem::new(Code::ExecutionFailed, detail));
    }
    let output = output.unwrap_or_else(Json::null);
    Ok(Reply::text(StatusCode::OK, "application/json", [output.text(), "\n"].concat()))
}

/// The answer to a repeat: what became of the first one.
async fn repeated(
    server: &Arc<Server>,
    respond: Respond,
    execution: ExecutionNo,
) -> Result<Reply, Problem> {
    let found = server.load(execution).await?;
    let id = Some(found.state.created.key.to_string());
    match (respond, &found.state.end) {
        (Respond::Output, Some(end)) => ended(found.status(), end.output.clone()),
        // 200 would say that this is the output.
        (Respond::Output, None) => {
            let reply = wire::HookReply { outcome: "repeated".to_owned(), id };
            Reply::json(StatusCode::ACCEPTED, &reply)
        }
        (Respond::Accepted, _) => done("repeated", id),
    }
}

/// The answer to a repeat of what started nothing.
async fn settled(
    server: &Arc<Server>,
    control: &TriggerControl,
    hook: &Hook,
    occurrence: &Occurrence,
) -> Result<Reply, Problem> {
    let (number, item) = (hook.row.number, occurrence.item(&hook.row));
    let triggers = Arc::clone(&control.firing.triggers);
    let known = server.blocking(move |_| Ok(triggers.fired(number, &[item])?)).await?;
    match known.into_iter().flatten().next().map(|known| (known.outcome, known.reason)) {
        Some((FireOutcome::Dead, reason)) => Err(dead(reason.as_deref().unwrap_or_default())),
        Some((outcome, _)) => done(outcome.name(), None),
        None => done("repeated", None),
    }
}
