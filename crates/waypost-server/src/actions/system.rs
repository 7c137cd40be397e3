//! Probes, metrics, the description of the API, limits, instances.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use waypost_core::time::Millis;
use waypost_ports::breakers::BREAKERS_PAGE_MAX;
use waypost_ports::mirror::Health;

use crate::http::call::{Call, Reply};
use crate::metrics::Readings;
use crate::problem::{self, Problem};
use crate::server::Server;
use crate::wire;

/// How long a page of metrics waits for values from the store.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn livez(_: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", "alive\n"))
}

/// Ready means: not about to stop, the store answers and accepts writes, this instance's lease is
/// renewed, and the engine's thread makes progress.
pub(crate) async fn readyz(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    if server.is_draining() {
        return Err(problem::draining());
    }
    server.probe.look(&server).await?;
    let text = match server.engine.mirror_health() {
        Health::Absent | Health::Up => "ready\n".to_owned(),
        // It still takes work: a balancer that removed it would make things worse.
        Health::Down { since, .. } => {
            format!("degraded: Redis has not answered for {since}; everything goes on without it\n")
        }
    };
    Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", text))
}

pub(crate) async fn metrics(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let mut text = String::new();
    server.engine.metrics().render(&mut text);
    // Values that cannot be read now are left out: the rest of the page matters most just then.
    let lag = server.blocking(|server| Ok(server.reader.backend().lag()?));
    let backlog = server.blocking(|server| Ok(server.reader.backend().backlog()?));
    let outbox = server.blocking(|server| Ok(server.reader.backend().outbox_stats()?));
    let breakers = server
        .blocking(|server| Ok(server.reader.backend().list_breakers(None, BREAKERS_PAGE_MAX)?));
    let depths = server.engine.depths();
    let (lag, backlog, outbox, breakers, depths) = tokio::join!(
        server.wait_for(PATIENCE, lag),
        server.wait_for(PATIENCE, backlog),
        server.wait_for(PATIENCE, outbox),
        server.wait_for(PATIENCE, breakers),
        server.wait_for(PATIENCE, depths),
    );
    let mut readings = Readings::default();
    if let Some(Ok(lag)) = lag {
        readings.projection_lag_frames.set(lag.frames);
    }
    if let Some(Ok(backlog)) = backlog {
        readings.executions_due_unclaimed.set(backlog.executions);
        readings.executions_due_oldest_lateness_seconds.set_seconds(backlog.oldest);
    }
    if let Some(Ok(outbox)) = outbox {
        readings.outbox_depth.set(outbox.pending);
        let oldest = outbox.oldest.map_or(Millis(0), |since| outbox.at.since(since));
        readings.outbox_oldest_seconds.set_seconds(oldest);
        readings.dead_letters.set(outbox.dead);
        let active = outbox.active.saturating_sub(outbox.cooling);
        readings.webhook_endpoints.set([active, outbox.cooling, outbox.paused, outbox.disabled]);
    }
    if let Some(Ok(breakers)) = breakers {
        let open = breakers.iter().filter(|row| row.state.open.is_some()).count();
        readings.breakers_open.set(u64::try_from(open).unwrap_or(u64::MAX));
    }
    for depth in depths.and_then(Result::ok).unwrap_or_default() {
        readings.tasks_waiting.add(&depth.handler, depth.waiting);
        readings.tasks_oldest_age_seconds.add_seconds(&depth.handler, depth.oldest);
    }
    readings.lease_seconds.set_seconds(server.engine.lease());
    readings.lease_remaining_seconds.set_seconds(server.engine.lease_remaining());
    match server.engine.mirror_health() {
        Health::Absent => {}
        Health::Up => readings.redis_up.set(1_u64),
        Health::Down { .. } => readings.redis_up.set(0_u64),
    }
    let budget = &server.budget;
    readings.http_reply_bytes.set(budget.in_flight());
    readings.http_reply_bytes_peak.set(budget.peak());
    readings.http_replies_waiting.set(budget.waiting());
    readings.http_slow_connections_closed_total.add(budget.dropped());
    readings.audit_dropped_total.add(server.audit.dropped());
    server.metrics.render(&mut text);
    readings.render(&mut text);
    Ok(Reply::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}

pub(crate) async fn describe(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    Ok(Reply::shared("application/json", server.description.clone()))
}

pub(crate) async fn limits(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let own = server.config.limits();
    let all = server.limits.iter().copied().chain(own);
    let limits: BTreeMap<_, _> = all.map(|(name, value)| (name.to_owned(), value)).collect();
    Reply::ok(&wire::Limits { limits })
}

pub(crate) async fn instances(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let me = Some(server.engine.instance());
    Reply::ok(&server.blocking(move |server| server.reader.instances(me)).await?)
}
