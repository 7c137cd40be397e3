//! Signals by key.

use std::sync::Arc;

use crate::http::call::{Call, Reply};
use crate::problem::Problem;
use crate::server::Server;
use crate::wire;

pub(crate) async fn publish(server: Arc<Server>, call: Call) -> Result<Reply, Problem> {
    let asked: wire::Publish = call.json()?;
    let (actor, subject) = (call.actor(), format!("{}[{}]", asked.name.0, asked.key.0));
    let published = server.blocking(move |server| server.reader.publish(asked, actor)).await?;
    server.engine.announce_mail(published.receivers.iter().map(|(_, owner)| *owner));
    Ok(Reply::ok(&published.result)?.about(subject))
}
