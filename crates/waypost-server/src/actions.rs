//! The functions of routes, one file per heading of the API. Each takes an admitted request and
//! returns a reply or a problem; rights, limits and forms are checked in `http`.

pub(crate) mod administration;
pub(crate) mod approval_links;
pub(crate) mod approvals;
pub(crate) mod blobs;
pub(crate) mod breakers;
pub(crate) mod callbacks;
pub(crate) mod control;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod hooks;
mod payloads;
pub(crate) mod signals;
pub(crate) mod starting;
pub(crate) mod system;
pub(crate) mod triggers;
pub(crate) mod webhooks;
pub(crate) mod workers;

use crate::http::call::Call;
use crate::reader::PAGE_DEFAULT;

/// The requested page size.
fn page_size(call: &Call) -> usize {
    let asked = call.values.number("limit").and_then(|limit| usize::try_from(limit).ok());
    asked.unwrap_or(PAGE_DEFAULT)
}
