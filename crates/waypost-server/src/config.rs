//! Every limit and interval of the server, with its default and the reason for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use waypost_core::limits::{BLOB_BYTES_MAX, PAYLOAD_BYTES_MAX};
use waypost_core::time::Millis;
use waypost_ports::webhook::DELIVERY_TIMEOUT;

use crate::cloud_events::{EVENT_BYTES_MAX, EVENTS_BYTES_MAX, EVENTS_MAX};
use crate::http::upload::UPLOAD_BYTES_PER_SECOND_MIN;

/// Bytes of the body of a request with a link: the largest payload, for those who have no key.
pub const LINK_BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

/// Bytes of the body of a request to a webhook trigger; a trigger may allow less.
pub const HOOK_BODY_BYTES_MAX: usize = 5 << 20;

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub address: SocketAddr,
    /// Where others reach it, where that is not where it listens: a URL without a path.
    pub advertise_url: Option<String>,
    /// Further names that it is known by, for requests to loopback.
    pub hosts: Vec<String>,
    /// Must every request carry a key? Always so off loopback.
    pub require_keys: bool,
    /// Certificate and key, PEM, if it uses TLS.
    pub tls: Option<Tls>,
    pub body_bytes_max: usize,
    /// Bytes of one blob.
    pub blob_bytes_max: u64,
    /// Blobs that are sent and received at once. Each takes a thread, and up to 3 MiB of memory.
    pub blob_transfers_max: usize,
    /// How long a body may take to come.
    pub body_timeout: Duration,
    /// How long the head of a request may take to come, and a connection may idle.
    pub header_timeout: Duration,
    /// Bytes of a request's head.
    pub header_bytes_max: usize,
    /// How long a peer may stop reading a response.
    pub stall_timeout: Duration,
    pub connections_max: usize,
    /// Connections at once from one address, off loopback.
    pub connections_per_address_max: usize,
    pub streams_max: usize,
    /// How long the reader of a stream may read nothing.
    pub stream_slow_after: Duration,
    /// How often an idle stream sends a sign of life.
    pub stream_sign_of_life_every: Duration,
    /// Reads of the store at once.
    pub reads_max: usize,
    /// Bytes of replies and streams that are on their way at once, over all connections.
    pub reply_bytes_max: usize,
    /// Bytes of memory that reads of the store may take at once.
    pub read_bytes_max: usize,
    /// Requests a second of one identity; twice as many may come at once.
    pub requests_per_second: u32,
    /// Requests a second with one link, and from one address with links that were never issued; twice as
    /// many may come at once.
    pub link_requests_per_second: u32,
    /// Proxies whose header `X-Forwarded-For` names the sender of a request.
    pub trusted_proxies: Vec<IpNet>,
    /// Does it leave schedules, polls, windows and ends to other instances?
    pub no_triggers: bool,
    /// May webhook triggers without a scheme be fired from other machines?
    pub allow_unsigned_hooks: bool,
    /// Requests a second that fire one webhook trigger; twice as many may come at once.
    pub hook_requests_per_second: u32,
    /// Requests to webhook triggers that are not taken, a second and from one address.
    pub hook_failures_per_second: u32,
    /// How long a change may take to become durable before its sender gets an error.
    pub commit_timeout: Duration,
    /// The longest that `?wait` waits.
    pub wait_max: Duration,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// How long a webhook endpoint may take to answer.
    pub webhook_timeout: Millis,
}

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
            advertise_url: None,
            hosts: Vec::new(),
            require_keys: false,
            tls: None,
            // A definition may have 4 MiB, and a payload 1 MiB.
            body_bytes_max: 5 * 1024 * 1024,
            blob_bytes_max: BLOB_BYTES_MAX,
            blob_transfers_max: 32,
            body_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(20),
            header_bytes_max: 32 * 1024,
            stall_timeout: Duration::from_secs(30),
            connections_max: 10_000,
            connections_per_address_max: 1_000,
            streams_max: 2_000,
            stream_slow_after: Duration::from_secs(10),
            // Proxies customarily close connections that are silent for 30 s or 60 s.
            stream_sign_of_life_every: Duration::from_secs(15),
            reads_max: 16,
            // A few dozen of the largest payloads, and thousands of small replies.
            reply_bytes_max: 32 << 20,
            read_bytes_max: 32 << 20,
            requests_per_second: 20_000,
            // A link is used once or a few times; its sender may repeat it.
            link_requests_per_second: 10,
            trusted_proxies: Vec::new(),
            no_triggers: false,
            allow_unsigned_hooks: false,
            hook_requests_per_second: 1_000,
            hook_failures_per_second: 10,
            commit_timeout: Duration::from_secs(30),
            wait_max: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            webhook_timeout: DELIVERY_TIMEOUT,
        }
    }
}

impl Config {
    /// Does the server listen on loopback alone?
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// The limits by name, each ending in its unit.
    pub fn limits(&self) -> Vec<(&'static str, u64)> {
        let seconds = |span: Duration| span.as_secs();
        vec![
            ("http_body_bytes_max", self.body_bytes_max as u64),
            ("http_blob_bytes_max", self.blob_bytes_max),
            ("http_blob_transfers_max", self.blob_transfers_max as u64),
            ("http_upload_bytes_per_second_min", UPLOAD_BYTES_PER_SECOND_MIN),
            ("http_body_timeout_seconds", seconds(self.body_timeout)),
            ("http_header_timeout_seconds", seconds(self.header_timeout)),
            ("http_header_bytes_max", self.header_bytes_max as u64),
            ("http_stall_timeout_seconds", seconds(self.stall_timeout)),
            ("http_connections_max", self.connections_max as u64),
            ("http_connections_per_address_max", self.connections_per_address_max as u64),
            ("http_streams_max", self.streams_max as u64),
            ("http_stream_slow_after_seconds", seconds(self.stream_slow_after)),
            ("http_stream_sign_of_life_seconds", seconds(self.stream_sign_of_life_every)),
            ("http_reads_max", self.reads_max as u64),
            ("http_reply_bytes_max", self.reply_bytes_max as u64),
            ("http_read_bytes_max", self.read_bytes_max as u64),
            ("http_requests_per_second", u64::from(self.requests_per_second)),
            ("http_link_requests_per_second", u64::from(self.link_requests_per_second)),
            ("http_link_body_bytes_max", LINK_BODY_BYTES_MAX as u64),
            ("hook_body_bytes_max", HOOK_BODY_BYTES_MAX as u64),
            ("hook_requests_per_second", u64::from(self.hook_requests_per_second)),
            ("hook_failures_per_second", u64::from(self.hook_failures_per_second)),
            ("events_bytes_max", EVENTS_BYTES_MAX as u64),
            ("event_bytes_max", EVENT_BYTES_MAX as u64),
            ("events_max", EVENTS_MAX as u64),
            ("http_commit_timeout_seconds", seconds(self.commit_timeout)),
            ("http_wait_max_seconds", seconds(self.wait_max)),
            ("http_page_max", crate::reader::PAGE_MAX as u64),
            ("webhook_endpoints_max", crate::actions::webhooks::ENDPOINTS_MAX as u64),
            ("webhook_replay_ids_max", crate::actions::webhooks::REPLAY_IDS_MAX as u64),
            ("labels_max", crate::wire::payload::LABELS_MAX as u64),
        ]
    }

    /// Must every request carry a key?
    pub fn needs_keys(&self) -> bool {
        self.require_keys || !self.is_loopback()
    }
}
