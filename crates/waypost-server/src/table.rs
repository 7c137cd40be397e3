//! Every route, one row each. A path without a row does not exist; what a row does not allow is
//! rejected.
//!
//! The router, the rights, the checks of parameters and bodies, the description at `/openapi.json`,
//! the reference in the docs and the tests of all these use this table, which has one file for each
//! of its headings.

mod administration;
mod approvals;
mod blobs;
mod breakers;
mod callbacks;
mod control;
mod definitions;
mod executions;
mod signals;
mod system;
mod triggers;
mod webhooks;
mod workers;

use std::sync::LazyLock;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::http::parameter::{Form, Parameter, in_path, in_query};
use crate::http::route::Route;
use crate::reader::PAGE_MAX;

const MAX_U32: u64 = 2_147_483_647;
const MAX_I64: u64 = i64::MAX as u64;
const EXECUTION: Parameter = in_path("id", Form::Id, "The execution.");
const WORKFLOW: Parameter = in_path("name", Form::Workflow, "The workflow.");
const LIMIT: Parameter =
    in_query("limit", Form::Integer(1, PAGE_MAX as u64), "Page size; default 50.");

const FOLLOW: Parameter =
    in_query("follow", Form::Flag, "`false` ends the stream with what there is now.");

static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let tables = [
        definitions::ROUTES,
        executions::ROUTES,
        control::ROUTES,
        approvals::ROUTES,
        callbacks::ROUTES,
        workers::ROUTES,
        blobs::ROUTES,
        breakers::ROUTES,
        signals::ROUTES,
        system::ROUTES,
        triggers::ROUTES,
        webhooks::ROUTES,
        administration::ROUTES,
    ];
    tables.concat()
});

/// Every route.
pub fn routes() -> &'static [Route] {
    &ROUTES
}

fn any_json(_: &mut SchemaGenerator) -> Schema {
    json_schema!({})
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}
