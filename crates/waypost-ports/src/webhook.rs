//! Sending messages to webhook endpoints.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use waypost_core::outbox::delivery::Delivered;
use waypost_core::time::{Millis, Timestamp};

use crate::outbox::SigningSecret;

/// How long an endpoint may take to answer, unless the settings say otherwise.
pub const DELIVERY_TIMEOUT: Millis = Millis::from_secs(20);

/// One attempt to deliver a message.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    pub url: Arc<str>,
    /// Equal for all attempts at a message.
    pub id: String,
    /// When this attempt is made.
    pub at: Timestamp,
    /// JSON.
    pub body: String,
    /// Each of them signs it.
    pub secrets: Vec<SigningSecret>,
}

/// The interface of the dispatcher to the network.
pub trait WebhookSender: Send + Sync {
    /// Why this URL can never be called from here, as far as that shows without looking its name up.
    fn refuse(&self, url: &str) -> Option<String>;

    /// Makes the attempt; the result comes within its timeout. Never follows a redirect.
    fn send(&self, request: WebhookRequest) -> BoxFuture<'static, Delivered>;
}
