//! A route: one row with everything about it, from which requests are routed, allowed, checked and
//! documented. Nothing about a route is defined a second time, so nothing can disagree.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use waypost_engine::links::LinkPurpose;
use waypost_ports::access::Role;

use super::call::{Call, Reply};
use super::parameter::{Form, Parameter};
use crate::problem::{Code, Problem};
use crate::server::Server;

/// A route's function.
pub type Action = fn(Arc<Server>, Call) -> BoxFuture<'static, Result<Reply, Problem>>;

/// Returns the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The methods of routes.
pub const GET: &Method = &Method::GET;
/// See [`GET`].
pub const PUT: &Method = &Method::PUT;
/// See [`GET`].
pub const POST: &Method = &Method::POST;
/// See [`GET`].
pub const DELETE: &Method = &Method::DELETE;

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Its name: `operationId` in the description, `action` in the audit log.
    pub name: &'static str,
    pub method: &'static Method,
    /// Its path; `{name}` matches one segment.
    pub path: &'static str,
    pub access: Access,
    pub effect: Effect,
    pub summary: &'static str,
    pub notes: &'static str,
    /// Under which heading it is found.
    pub tag: &'static str,
    /// Everything in path, query and headers that it reads.
    pub parameters: &'static [Parameter],
    pub body: Body,
    pub replies: &'static [Documented],
    /// Its problems, besides those of every route.
    pub problems: &'static [Code],
    pub action: Action,
}

impl Route {
    /// What the rows of a table share. Each adds its name, path, summary and replies, and what it
    /// reads besides.
    pub const fn new(
        method: &'static Method,
        tag: &'static str,
        (access, effect): (Access, Effect),
        action: Action,
    ) -> Self {
        Self {
            name: "",
            method,
            path: "",
            access,
            effect,
            summary: "",
            notes: "",
            tag,
            parameters: &[],
            body: Body::None,
            replies: &[],
            problems: &[],
            action,
        }
    }
}

/// The required roles of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// No key is needed. For probes, whose responses are only yes or no.
    Public,
    /// No key is needed, but a token in the path as `{token}`, for this purpose.
    Link(LinkPurpose),
    /// No key is needed: the action finds out whether the request is signed as a trigger wants it.
    Signed,
    Roles(&'static [Role]),
}

/// Everything that looks and changes nothing.
pub const LOOK: Access = Access::Roles(&[Role::Admin, Role::Operator, Role::Viewer]);
/// Everything that changes what executions do.
pub const CONTROL: Access = Access::Roles(&[Role::Admin, Role::Operator]);
/// Taking tasks and reporting on them.
pub const WORK: Access = Access::Roles(&[Role::Admin, Role::Worker]);
/// Publishing events.
pub const PUBLISH: Access = Access::Roles(&[Role::Admin, Role::Operator, Role::Publisher]);
/// Storing blobs, for executions to name.
pub const UPLOAD: Access = Access::Roles(&[Role::Admin, Role::Operator, Role::Worker]);
/// Keys and the audit log.
pub const ADMINISTER: Access = Access::Roles(&[Role::Admin]);
/// Open to every key.
pub const ANY_KEY: Access = Access::Roles(&Role::ALL);

impl Access {
    /// May this role use it?
    pub fn allows(self, role: Role) -> bool {
        match self {
            Self::Public | Self::Link(_) | Self::Signed => true,
            Self::Roles(roles) => roles.contains(&role),
        }
    }
}

/// What a request changes. The dispatcher derives from it what happens when the caller hangs up, and
/// whether the audit log has an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Something that only the audit log attributes to its caller.
    Audited,
    /// Something that the log of an execution attributes to its caller, or a heartbeat: there are many,
    /// and the audit log has none of them.
    Unaudited,
    /// The caller gets tasks. One that has hung up must not get any.
    HandsOut,
}

impl Effect {
    /// Does a request end when its caller hangs up?
    pub fn is_dropped_with_caller(self) -> bool {
        matches!(self, Self::Reads | Self::HandsOut)
    }
}

/// A route's body.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// None; a body that is sent anyway must be empty.
    None,
    /// JSON of this form.
    Json { schema: SchemaOf, optional: bool },
    /// JSON of this form, or what the form of a page posts.
    Form { schema: SchemaOf },
    /// A definition, YAML or JSON.
    Definition,
    /// Anything, of any length; passed on as it comes.
    Upload,
    /// Anything up to so many bytes, or nothing.
    Raw { max: usize },
}

/// A reply as it is documented.
#[derive(Clone, Copy, Debug)]
pub struct Documented {
    pub status: u16,
    pub when: &'static str,
    pub content: Content,
}

/// The content of a reply.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Nothing.
    None,
    /// JSON of this form.
    Json(SchemaOf),
    /// Events, as they happen.
    Stream,
    Text,
    Html,
    Bytes,
}

impl Content {
    /// Its media type.
    pub fn media_type(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Json(_) => Some("application/json"),
            Self::Stream => Some("text/event-stream"),
            Self::Text => Some("text/plain"),
            Self::Html => Some("text/html"),
            Self::Bytes => Some("application/octet-stream"),
        }
    }
}

/// A reply of JSON.
pub const fn json<T: JsonSchema>(status: u16, when: &'static str) -> Documented {
    reply(status, when, Content::Json(of::<T>))
}

/// Any reply.
pub const fn reply(status: u16, when: &'static str, content: Content) -> Documented {
    Documented { status, when, content }
}

/// The schema of a type, for the table.
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Where a path leads.
pub enum Matched<'a> {
    /// To a route, with the values of its `{names}`.
    Route(&'a Route, BTreeMap<&'static str, String>),
    /// A path with other methods.
    Methods(Vec<Method>),
    /// Nowhere.
    Nothing,
}

/// Finds the route of a request.
///
/// Paths are compared segment by segment as they were sent: `//`, a dot too many, another case or an
/// encoded slash make another path, which is nowhere. Only the values of `{names}` are decoded, and
/// never into something that would be two segments.
pub fn find<'a>(routes: &'a [Route], method: &Method, path: &str) -> Matched<'a> {
    let mut methods = Vec::new();
    for route in routes {
        let long = route.parameters.iter().find(|of| of.form == Form::NodePath);
        let Some(values) = fit(route.path, path, long.map(|of| of.name)) else { continue };
        // Every GET route that only reads answers HEAD as well.
        let reads = route.method == GET && route.effect == Effect::Reads;
        let head = method == Method::HEAD && reads;
        if route.method == method || head {
            return Matched::Route(route, values);
        }
        methods.push(route.method.clone());
        if reads {
            methods.push(Method::HEAD);
        }
    }
    if methods.is_empty() { Matched::Nothing } else { Matched::Methods(methods) }
}

/// The values of a path. The one named `long` is the path of a node, and takes as many segments as the
/// others leave; a slash in it may be encoded, since that means the same.
fn fit(
    pattern: &'static str,
    path: &str,
    long: Option<&str>,
) -> Option<BTreeMap<&'static str, String>> {
    let mut values = BTreeMap::new();
    let given: Vec<&str> = path.split('/').collect();
    let more = given.len().checked_sub(pattern.split('/').count())?;
    let mut given = given.into_iter();
    for wanted in pattern.split('/') {
        let segment = given.next()?;
        match name_in(wanted) {
            Some(name) if Some(name) == long => {
                let rest = given.by_ref().take(more);
                let steps = std::iter::once(segment).chain(rest).map(decode_steps);
                values.insert(name, steps.collect::<Option<Vec<_>>>()?.join("/"));
            }
            Some(name) => drop(values.insert(name, decode_segment(segment)?)),
            None if wanted == segment => {}
            None => return None,
        }
    }
    given.next().is_none().then_some(values)
}

fn name_in(segment: &'static str) -> Option<&'static str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// The value of one segment; `None` where it cannot be one.
fn decode_segment(text: &str) -> Option<String> {
    decode_steps(text).filter(|value| !value.contains('/'))
}

/// The value of a segment that may have encoded slashes.
fn decode_steps(text: &str) -> Option<String> {
    let value = super::parameter::decode(text, super::parameter::Plus::Literal)?;
    let whole = |step: &str| !step.is_empty() && step != "." && step != "..";
    let plain = !value.contains('\\') && !value.chars().any(char::is_control);
    (plain && value.split('/').all(whole)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_as_they_were_sent() {
        const PATTERN: &str = "/v1/executions/{id}/pause";
        let id = |path| fit(PATTERN, path, None).and_then(|values| values.get("id").cloned());
        assert_eq!(id("/v1/executions/a%20b/pause").as_deref(), Some("a b"));
        for path in [
            "/v1/executions/a/pause/",
            "/v1//executions/a/pause",
            "//v1/executions/a/pause",
            "/V1/executions/a/pause",
            "/v1/executions/a/Pause",
            "/v1/executions/a/pause.",
            "/v1/executions/a/p%61use",
            "/v1/executions//pause",
            "/v1/executions/a%2fb/pause",
            "/v1/executions/a%5Cb/pause",
            "/v1/executions/%2e%2e/pause",
            "/v1/executions/../pause",
            "/v1/executions/a%00/pause",
            "/v1/executions/%zz/pause",
            "/v1/executions/%ff/pause",
            "/v1/executions/a;b=c/pause/x",
            "/v1/executions/a",
            "",
            "/",
        ] {
            assert_eq!(id(path), None, "{path}");
        }
    }

    #[test]
    fn path_of_a_node_may_have_several_segments() {
        const PATTERN: &str = "/v1/executions/{id}/nodes/{node}/cancel";
        let node = |path| fit(PATTERN, path, Some("node")).and_then(|v| v.get("node").cloned());
        for (path, found) in [
            ("/v1/executions/a/nodes/each[17]/cancel", "each[17]"),
            ("/v1/executions/a/nodes/each%5B17%5D/cancel", "each[17]"),
            ("/v1/executions/a/nodes/outer[2]/each[17]/cancel", "outer[2]/each[17]"),
            ("/v1/executions/a/nodes/outer[2]%2Feach[17]/cancel", "outer[2]/each[17]"),
            ("/v1/executions/a/nodes/cancel/cancel", "cancel"),
        ] {
            assert_eq!(node(path).as_deref(), Some(found), "{path}");
        }
        for path in [
            "/v1/executions/a/nodes/cancel",
            "/v1/executions/a/nodes//cancel",
            "/v1/executions/a/nodes/b//c/cancel",
            "/v1/executions/a/nodes/b%2F/cancel",
            "/v1/executions/a/nodes/b/../c/cancel",
            "/v1/executions/a/nodes/b%2F..%2Fc/cancel",
            "/v1/executions/a/nodes/b/cancel/",
            "/v1/executions/a/b/nodes/c/cancel",
        ] {
            assert_eq!(node(path), None, "{path}");
        }
    }
}
