//! Webhook endpoints and their messages on the wire.

use super::payload::{Short, Time};

wire! {
    /// An endpoint to register.
    #[serde(deny_unknown_fields)]
    pub struct NewWebhookEndpoint {
        /// Where messages are sent: an https URL, or an http URL of a host on the allow-list.
        pub url: Short<2048>,
        /// The workflow whose executions it gets messages about; default: all.
        pub workflow?: Short<128>,
        /// The types of messages that it gets; default: `execution.status_changed`, which is all about the status of executions.
        pub events?: Vec<Short<64>>,
        /// What it is for.
        pub description?: Short<512>,
        /// Whether messages about the end of an execution contain its output; default: no.
        pub include_output?: bool,
        /// Whether messages about approvals contain a link for each approver, by which that person decides without an API key; default: no.
        pub include_links?: bool,
    }

    /// A registered endpoint, without its secret.
    pub struct WebhookEndpoint {
        /// The endpoint's id, which is part of the ids of its messages.
        pub id: String,
        /// Where messages are sent.
        pub url: String,
        /// The workflow whose executions it gets messages about; absent: all.
        pub workflow?: String,
        /// The types of messages that it gets.
        pub events: Vec<String>,
        /// What it is for.
        pub description?: String,
        /// Whether messages about the end of an execution contain its output.
        pub include_output: bool,
        /// Whether messages about approvals contain a link for each approver.
        pub include_links: bool,
        /// `active`, `paused` by a person, or `disabled` because it answered 410.
        pub state: String,
        /// Failed attempts since the last success.
        pub failures: u32,
        /// While it cools after failures: when the next message is tried.
        pub probe_at?: Time,
        /// Until when the secret before the last rotation signs, too.
        pub former_secret_until?: Time,
        /// When it was registered.
        pub created_at: Time,
    }

    /// Every endpoint.
    pub struct WebhookEndpointList {
        /// All endpoints, oldest first.
        pub endpoints: Vec<WebhookEndpoint>,
    }

    /// An endpoint with a new secret.
    pub struct WebhookSecret {
        /// The endpoint.
        pub endpoint: WebhookEndpoint,
        /// The key that signs its messages: shown only in this response.
        pub secret: String,
    }

    /// The result of a test.
    pub struct WebhookTested {
        /// Whether the endpoint answered with a 2xx status.
        pub delivered: bool,
        /// The status of its response.
        pub status?: u16,
        /// How long it took, in milliseconds.
        pub took_ms: u64,
        /// Why it was not delivered.
        pub reason?: String,
    }

    /// Which messages to send again; one of the three.
    #[serde(deny_unknown_fields)]
    pub struct WebhookReplay {
        /// `true`: all dead letters of the endpoint.
        pub dead?: bool,
        /// Messages about what was committed at this time or later, delivered or dead.
        pub since?: Time,
        /// These messages, at most 1,000.
        pub ids?: Vec<Short<256>>,
    }

    /// How many messages will be sent again.
    pub struct WebhookReplayed {
        /// The number of messages.
        pub replayed: u64,
    }

    /// A message to an endpoint.
    pub struct WebhookMessage {
        /// Its id: the header `webhook-id` of every attempt.
        pub id: String,
        /// The endpoint's id.
        pub endpoint: String,
        /// Its type.
        #[serde(rename = "type")]
        pub kind: String,
        /// The execution's id.
        pub execution: String,
        /// The event that it is about.
        pub seq: u64,
        /// When that event was committed.
        pub at: Time,
        /// `pending`, `delivered` or `dead`.
        pub state: String,
        /// Attempts so far.
        pub attempts: u32,
        /// While it is pending: when it may be sent; while it is being sent, when it may be sent again.
        pub due_at?: Time,
        /// When it was delivered or given up.
        pub settled_at?: Time,
        /// The status of the last response.
        pub status?: u16,
        /// How long the last attempt took, in milliseconds.
        pub took_ms?: u64,
        /// Why the last attempt failed, or why there will be none.
        pub reason?: String,
    }

    /// A page of messages, newest first.
    pub struct WebhookMessageList {
        /// The messages on this page.
        pub messages: Vec<WebhookMessage>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }

    /// A page of dead letters, newest first.
    pub struct DeadLetterList {
        /// The messages that were given up.
        pub dead_letters: Vec<WebhookMessage>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }
}
