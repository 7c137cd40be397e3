//! Sources of items: what a poll reads.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use waypost_core::expr::Placeholder;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::time::Millis;

/// Bytes of one page.
pub const PAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A page to read.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Whose secrets may be used.
    pub workflow: Arc<str>,
    pub trigger: Arc<str>,
    /// The config of an `api-call`, without its secrets.
    pub config: Json,
    /// Where in the config the secrets belong.
    pub secrets: Vec<Placeholder>,
    /// The `ETag` of the page that was read last, if the answer may be that nothing has changed.
    pub etag: Option<String>,
    pub timeout: Millis,
}

/// A page as it came.
#[derive(Clone, Debug)]
pub struct SourcePage {
    pub status: u16,
    /// An object of texts, with names in lower case.
    pub headers: Json,
    pub body: Json,
}

impl SourcePage {
    /// Nothing has changed since the page with the `ETag` of the request.
    pub fn is_unchanged(&self) -> bool {
        self.status == 304
    }
}

/// The interface of polls to the network.
pub trait PageSource: Send + Sync {
    /// Reads a page, within the timeout of the request.
    fn read(&self, request: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>>;
}
