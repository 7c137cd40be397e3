//! Circuit breakers: their list, and how people close them.

use std::sync::Arc;

use super::page_size;
use crate::http::call::{Call, Reply};
use crate::problem::Problem;
use crate::server::Server;
use crate::wire;

pub(crate) async fn list(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let (after, limit) = (call.values.get("cursor").map(str::to_owned), page_size(&call));
    let read = move |server: &Server| server.reader.breakers(after.as_deref(), limit);
    Reply::ok(&server.blocking(read).await?)
}

pub(crate) async fn reset(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::BreakerReset = call.json()?;
    let key: Arc<str> = asked.key.0.into();
    let subject = Arc::clone(&key);
    server.blocking(move |server| server.reader.reset_breaker(&key)).await?;
    Ok(Reply::empty().about(subject))
}
