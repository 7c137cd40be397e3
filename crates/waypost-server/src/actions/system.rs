//! Probes, metrics, the description of the API, limits, instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;

use crate::http::call::{Call, Reply};
use crate::problem::{self, Code, Problem};
use crate::server::Server;
use crate::wire;

pub(crate) async fn livez(_: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", "alive\n"))
}

/// Ready means: not about to stop, the store answers, and it has let this instance renew its lease,
/// which a full one does not.
pub(crate) async fn readyz(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    if server.is_draining() {
        return Err(problem::draining());
    }
    let me = server.engine.instance();
    let instances = server.blocking_first(|server| Ok(server.reader.home().instances()?)).await?;
    if !instances.iter().any(|row| row.instance == me && row.alive) {
        let detail = "the store does not take this instance's signs of life";
        return Err(Problem::new(Code::StoreUnavailable, detail).retry_after(5));
    }
    Ok(Reply::text(StatusCode::OK, "text/plain; charset=utf-8", "ready\n"))
}

pub(crate) async fn metrics(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    let lag = server.blocking(|server| Ok(server.reader.home().lag()?)).await?;
    let mut text = String::new();
    server.engine.metrics().render(&mut text);
    server.metrics.render(lag, server.trail.dropped(), &mut text);
    Ok(Reply::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}

pub(crate) async fn describe(server: Arc<Server>, _: Call) -> Result<Reply, Problem> {
    Ok(Reply::text(StatusCode::OK, "application/json", server.description.clone()))
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
