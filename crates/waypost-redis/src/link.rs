//! One server, or a cluster of them, behind one trait. It does not interpret commands, and never
//! waits longer than the limits allow.

use futures_util::future::{BoxFuture, FutureExt, join_all};
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::config::{BadConfig, Limits, Servers};

pub(crate) trait Link: Send + Sync {
    /// Sends commands together and returns their answers in order, errors among them. They must not
    /// depend on each other's order: in a cluster they go to different servers.
    fn run(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<Value>>>;
}

pub(crate) struct Dialer {
    servers: Servers,
    limits: Limits,
    authority: Option<redis::TlsCertificates>,
}

impl Dialer {
    pub(crate) fn new(
        servers: Servers,
        limits: Limits,
        authority: Option<Vec<u8>>,
    ) -> Result<Self, BadConfig> {
        // The client uses the process's default provider, and panics if several are compiled in and
        // none was installed. A provider that was installed before is fine, too.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let authority =
            authority.map(|pem| redis::TlsCertificates { client_tls: None, root_cert: Some(pem) });
        if let Some(pem) = authority.as_ref().and_then(|authority| authority.root_cert.as_ref()) {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let count = all.map_err(|error| BadConfig::Authority(error.to_string()))?.len();
            // With an empty file every certificate would be rejected, but only at connect time.
            if count == 0 {
                return Err(BadConfig::Authority("there is none in it".to_owned()));
            }
        }
        let dialer = Self { servers, limits, authority };
        for at in 0..dialer.servers.all.len() {
            dialer.client(at).map_err(|error| BadConfig::Authority(error.to_string()))?;
        }
        Ok(dialer)
    }

    /// Where it connects to, without anything secret.
    pub(crate) fn address(&self) -> String {
        self.servers.to_string()
    }

    /// Does a message that is published reach only the subscribers that are counted?
    pub(crate) fn counts_subscribers(&self) -> bool {
        !self.servers.cluster
    }

    /// A connection for commands.
    pub(crate) async fn link(&self) -> RedisResult<Box<dyn Link>> {
        if !self.servers.cluster {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(self.limits.connect))
                .set_response_timeout(Some(self.limits.response));
            let client = self.client(0)?;
            return Ok(Box::new(One(client
                .get_multiplexed_async_connection_with_config(&config)
                .await?)));
        }
        let mut builder = ClusterClientBuilder::new(self.servers.all.iter().cloned())
            .connection_timeout(self.limits.connect)
            .response_timeout(self.limits.response)
            .overall_response_timeout(Some(self.limits.response))
            .retries(1);
        if let Some(authority) = &self.authority {
            builder = builder.certs(authority.clone());
        }
        let connecting = builder.build()?;
        // The client reads the slots of every server before it is ready.
        let connected =
            tokio::time::timeout(self.limits.connect, connecting.get_async_connection());
        match connected.await {
            Ok(connection) => Ok(Box::new(Many(connection?))),
            Err(_) => Err(too_slow()),
        }
    }

    /// A connection for subscriptions. A message published in a cluster reaches all of its servers,
    /// so any will do; `attempt` goes round.
    pub(crate) async fn subscriptions(&self, attempt: usize) -> RedisResult<PubSub> {
        let client = self.client(attempt % self.servers.all.len())?;
        match tokio::time::timeout(self.limits.connect, client.get_async_pubsub()).await {
            Ok(connection) => connection,
            Err(_) => Err(too_slow()),
        }
    }

    fn client(&self, at: usize) -> RedisResult<Client> {
        let server = self.servers.all[at].clone();
        match &self.authority {
            Some(authority) => Client::build_with_tls(server, authority.clone()),
            None => Client::open(server),
        }
    }
}

fn too_slow() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

struct One(MultiplexedConnection);

impl Link for One {
    fn run(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<Value>>> {
        let mut connection = self.0.clone();
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command);
        }
        let count = pipeline.len();
        async move { connection.send_packed_commands(&pipeline, 0, count).await }.boxed()
    }
}

struct Many(ClusterConnection);

impl Link for Many {
    fn run(&self, commands: Vec<Cmd>) -> BoxFuture<'static, RedisResult<Vec<Value>>> {
        let connection = self.0.clone();
        let one = move |command: Cmd| {
            let mut connection = connection.clone();
            async move {
                let answer = connection.req_packed_command(&command).await;
                // A refusal is an answer here, as it is in a pipeline to one server.
                answer.or_else(|error| {
                    let refusals = error.clone().into_server_errors();
                    let refusal = refusals.and_then(|all| all.first().map(|(_, one)| one.clone()));
                    refusal.map(Value::ServerError).ok_or(error)
                })
            }
        };
        async move { join_all(commands.into_iter().map(one)).await.into_iter().collect() }.boxed()
    }
}
