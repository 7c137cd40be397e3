//! Probes, metrics, the description of the API, limits, instances.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use waypost_ports::mirror::Health;

use crate::http::call::{Call, Reply};
use crate::metrics::Around;
use crate::problem::{self, Problem};
use crate::server::Server;
use crate::wire;

/// How long a page of metrics waits for what only the store can tell.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn livez(_: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", "alive\n"))
}

/// Ready means: not about to stop, the store answers and takes writes, it has let this instance renew its
/// lease, and the engine's thread goes on.
pub(crate) async fn readyz(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    if server.is_draining() {
        return Err(problem::draining());
    }
    server.probe.look(&server).await?;
    let text = match server.engine.mirror_health() {
        Health::Absent | Health::Up => "ready\n".to_owned(),
        // It takes work all the same: a balancer that took it out would make things worse.
        Health::Down { since, .. } => {
            format!("degraded: Redis has not answered for {since}; everything goes on without it\n")
        }
    };
    Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", text))
}

pub(crate) async fn metrics(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let mut text = String::new();
    server.engine.metrics().render(&mut text);
    // What cannot be asked for now is left out: the rest of the page matters most just then.
    let lag = server.blocking(|server| Ok(server.reader.backend().lag()?));
    let backlog = server.blocking(|server| Ok(server.reader.backend().backlog()?));
    let depths = server.engine.depths();
    let (lag, backlog, depths) = tokio::join!(
        server.patiently(PATIENCE, lag),
        server.patiently(PATIENCE, backlog),
        server.patiently(PATIENCE, depths),
    );
    let around = Around {
        lag: lag.and_then(Result::ok),
        backlog: backlog.and_then(Result::ok),
        depths: depths.and_then(Result::ok).unwrap_or_default(),
        lease: (server.engine.lease(), server.engine.lease_remaining()),
        redis_up: match server.engine.mirror_health() {
            Health::Absent => None,
            Health::Up => Some(true),
            Health::Down { .. } => Some(false),
        },
    };
    server.metrics.render(&around, server.audit.dropped(), &server.budget, &mut text);
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
