//! What the clients send, and what they must get.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use uuid::Uuid;
use waypost_nodes::webhook::signatures;
use waypost_ports::outbox::SigningSecret;

use super::client::{Client, HttpReply, ServerAddress};
use crate::flows;

/// Requests that each start an execution and wait for its end.
pub(super) enum Traffic {
    /// To the API: the same bytes each time.
    Starts(Vec<u8>),
    /// To a webhook trigger: each is a delivery with an id and a signature of its own.
    Deliveries(Deliveries),
}

/// A sender that signs what it sends.
pub(super) struct Deliveries {
    target: ServerAddress,
    secret: SigningSecret,
    /// Tells deliveries of this run from those of others to the same server.
    run: Uuid,
    sent: AtomicU64,
}

impl Traffic {
    /// Deploys chains of so many noops, which are started by their name.
    pub(super) async fn starts(target: &ServerAddress, nodes: u64) -> Result<Self> {
        Client::connect(target).await?.deploy(target, &flows::chain(nodes)).await?;
        let body = "{\"workflow\":\"bench-chain\"}";
        Ok(Self::Starts(target.post("/v1/executions?wait=30s", "application/json", body)))
    }

    /// Deploys the same chains with a webhook trigger.
    pub(super) async fn deliveries(
        target: &ServerAddress,
        nodes: u64,
        secret: SigningSecret,
    ) -> Result<Self> {
        Client::connect(target).await?.deploy(target, &flows::hooked(nodes)).await?;
        let (target, run, sent) = (target.clone(), Uuid::now_v7(), AtomicU64::new(0));
        Ok(Self::Deliveries(Deliveries { target, secret, run, sent }))
    }

    /// The bytes of the next request.
    pub(super) fn next(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Starts(request) => request.into(),
            Self::Deliveries(deliveries) => deliveries.next().into(),
        }
    }

    /// Whether the execution was started by this request, and has completed.
    pub(super) fn is_completed(&self, reply: &HttpReply<'_>) -> bool {
        let says = |text: &[u8]| reply.body.windows(text.len()).any(|window| window == text);
        match self {
            Self::Starts(_) => reply.status == 201 && says(b"\"status\":\"COMPLETED\""),
            // The output of the chain. Everything else has an outcome, a repeat for example.
            Self::Deliveries(_) => reply.status == 200 && !says(b"\"outcome\""),
        }
    }
}

impl Deliveries {
    fn next(&self) -> Vec<u8> {
        let n = self.sent.fetch_add(1, Ordering::Relaxed);
        let (id, body) = (format!("msg_{}_{n}", self.run.simple()), format!("{{\"n\":{n}}}"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = now.as_secs().to_string();
        let signature = signatures(std::slice::from_ref(&self.secret), &id, &now, &body);
        let headers = format!(
            "Content-Type: application/json\r\nwebhook-id: {id}\r\n\
             webhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\n"
        );
        self.target.post_with("/v1/hooks/bench-hook/hook", &headers, &body)
    }
}
