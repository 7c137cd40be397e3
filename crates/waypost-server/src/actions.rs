//! What routes do, one file per heading of the API. Each takes a request that may be made and gives
//! a reply or a problem; none of them judges rights, limits or forms, which `http` has done.

pub(crate) mod administration;
pub(crate) mod control;
pub(crate) mod definitions;
pub(crate) mod executions;
pub(crate) mod starting;
pub(crate) mod system;
pub(crate) mod workers;

use crate::http::call::Call;
use crate::reader::PAGE_DEFAULT;

/// The size of the page that a request asks for.
fn page_size(call: &Call) -> usize {
    let asked = call.values.number("limit").and_then(|limit| usize::try_from(limit).ok());
    asked.unwrap_or(PAGE_DEFAULT)
}
