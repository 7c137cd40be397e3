//! What the bodies of a map call: a handler that completes at once, and a server that takes a second.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::{BoxFuture, ready};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_ports::handler::{Handler, Task};

/// Bytes of the output of a task, as JSON.
const OUTPUT_BYTES: usize = 100;

/// How long the server takes to answer.
const REPLY_AFTER: Duration = Duration::from_secs(1);

/// Connections that wait to be accepted. All items connect at once, and the system repeats a request to
/// connect that found no room only after a second.
const BACKLOG: u32 = 4_096;

/// Completes each task at once.
pub(super) struct Immediate(Json);

impl Immediate {
    pub(super) fn handler() -> Arc<dyn Handler> {
        let text = "x".repeat(OUTPUT_BYTES - 2);
        Arc::new(Self(Json::from_value(&text.into())))
    }
}

impl Handler for Immediate {
    fn run(&self, _: Task, _: CancellationToken) -> BoxFuture<'static, Result<Json, Failure>> {
        Box::pin(ready(Ok(self.0.clone())))
    }
}

/// A server on a port of this machine, for as long as this value lives.
pub(super) struct SlowServer {
    pub(super) address: String,
    _connections: JoinSet<()>,
}

impl SlowServer {
    pub(super) async fn start() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?.to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                // A client that breaks off its connection shows in the benchmark as a failed item.
                connections.spawn(async move { drop(serve(connection).await) });
            }
        });
        Ok(Self { address, _connections: tasks })
    }
}

/// Answers the requests of one connection, which have no body.
async fn serve(connection: TcpStream) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut line = String::new();
    while connection.read_line(&mut line).await? > 0 {
        if line == "\r\n" {
            tokio::time::sleep(REPLY_AFTER).await;
            let reply = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                         content-length: 11\r\n\r\n{\"ok\":true}";
            connection.get_mut().write_all(reply.as_bytes()).await?;
        }
        line.clear();
    }
    Ok(())
}
