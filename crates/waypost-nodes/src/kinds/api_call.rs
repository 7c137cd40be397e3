//! `api-call`: an HTTP request as a node.
//!
//! ```text
//!   task ─▶ ApiCall (request.rs) ─▶ crate::http ─▶ reply (reply.rs) ─▶ {status, headers, body}
//!                                                  parsed, judged (verdict.rs)
//! ```

mod reply;
mod request;
mod verdict;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::kind::{Behaviour, ConfigFault, Family, KindSpec, Shape};
use waypost_core::limits::BLOB_BYTES_MAX;
use waypost_core::slot::SlotClass;
use waypost_core::time::Millis;
use waypost_ports::blobs::Blobs;
use waypost_ports::handler::{Handler, Task};

use self::request::ApiCall;
use crate::NodeKind;
use crate::config::{self, ConfigMap, at_most_one, bytes_max, duration, optional, required};
use crate::http::{self, Clients, check_header_is_free, check_header_names};

pub(crate) static KIND: NodeKind = NodeKind {
    spec: &SPEC,
    compile,
    handler: Some(|settings, blobs| {
        let clients = Arc::new(Clients::new(settings.egress.clone()));
        Arc::new(Caller { clients, blobs: blobs.cloned(), timeout: settings.call_timeout })
    }),
};

static SPEC: KindSpec = KindSpec {
    name: "api-call",
    aliases: &["call_external_service"],
    family: Family::Action,
    body: None,
    summary: "Makes an HTTP request; its output is `{status, headers, body}`.",
    fields: &[
        required("url", Shape::Text, "Where to: an http or https URL."),
        optional(
            "method",
            Shape::OneOf(&["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
            "The method; GET if absent.",
        ),
        optional("headers", Shape::Object, "Headers to send; a null value leaves one out."),
        optional(
            "basicAuth",
            Shape::Object,
            "Sends `{username, password}` by Basic authentication.",
        ),
        optional(
            "query",
            Shape::Object,
            "Parameters to add to the URL: scalars, or arrays of scalars; null leaves one out.",
        ),
        optional("body", Shape::Any, "Sent as JSON; null sends nothing."),
        optional("text", Shape::Text, "Sent as it is, instead of `body`."),
        optional(
            "upload",
            Shape::Any,
            "Sends the bytes of a blob, instead of `body`: a payload that is kept as one, such as \
             the `body` of a download.",
        ),
        optional(
            "download",
            Shape::Boolean,
            "Keeps the response's body as a blob, whatever its type and size; false if absent. A \
             body above the inline limit is kept as one anyway.",
        ),
        optional(
            "acceptStatus",
            Shape::Custom,
            "Statuses of 400 and more that are not failures: a list such as [404, \"4xx\"].",
        ),
        optional(
            "failWhen",
            Shape::ExpressionWith("response"),
            "Where it gives true for the `response`, the node fails with `fail_when`, for good.",
        ),
        optional(
            "retryWhen",
            Shape::ExpressionWith("response"),
            "Where it gives true for the `response`, the attempt fails with `retry_when` and is \
             tried again as `retry` says.",
        ),
        optional(
            "followRedirects",
            Shape::Boolean,
            "Whether to follow redirects, up to 5; true if absent.",
        ),
        optional(
            "responseBytesMax",
            Shape::Integer,
            "The largest body to accept, after decompression; 64 MiB if absent, or 5 GiB for a \
             `download`, and 5 GiB at most.",
        ),
        optional("connectTimeout", Shape::Duration, "How long connecting may take; 10s if absent."),
    ],
};

fn compile(config: &ConfigMap) -> Result<Behaviour, Vec<ConfigFault>> {
    let checks = [
        check_url(config),
        check_header_names(config),
        check_basic_auth(config),
        at_most_one(config, "body", "text"),
        at_most_one(config, "body", "upload"),
        at_most_one(config, "text", "upload"),
        check_accept_status(config),
        bytes_max(config, "responseBytesMax", BLOB_BYTES_MAX),
        duration(config, "connectTimeout", None).map(|_| ()),
    ];
    config::task(SPEC.name, SlotClass::Io, &verdict::with_scopes(config)?, checks)
}

fn check_url(config: &ConfigMap) -> Result<(), ConfigFault> {
    match config.contains_key("url") {
        true => http::check_url(config, "url", "https://api.example.com/users"),
        false => Err(config::missing("url")),
    }
}

fn check_basic_auth(config: &ConfigMap) -> Result<(), ConfigFault> {
    let Some(value) = config.get("basicAuth") else { return Ok(()) };
    let hint = "write { username: …, password: \"${{ secrets.name }}\" }";
    let refuse = |message: String| Err(ConfigFault::at("basicAuth", message).hint(hint));
    let Value::Object(fields) = value else { return refuse("must be an object".into()) };
    if let Some(missing) = ["username", "password"].iter().find(|key| !fields.contains_key(**key)) {
        return refuse(format!("`basicAuth` needs `{missing}`"));
    }
    for (key, part) in fields {
        match key.as_str() {
            "username" | "password" if part.is_string() => {}
            "username" | "password" => {
                return Err(config::fault_at(&["basicAuth", key], format!("`{key}` must be text")));
            }
            _ => return refuse(format!("`basicAuth` has no field `{key}`")),
        }
    }
    check_header_is_free(config, "basicAuth", "authorization")
}

fn check_accept_status(config: &ConfigMap) -> Result<(), ConfigFault> {
    let Some(value) = config.get("acceptStatus") else { return Ok(()) };
    let Value::Array(entries) = value else {
        return Err(ConfigFault::at("acceptStatus", "`acceptStatus` must be a list")
            .hint("for example [404] or [\"4xx\"]"));
    };
    for (at, entry) in entries.iter().enumerate() {
        if request::status_matcher(&Json::from_value(entry)).is_none() {
            let path = ["acceptStatus", &at.to_string()];
            return Err(config::fault_at(&path, format!("{entry} is not a status"))
                .hint("a code from 100 to 599, or a class such as \"4xx\""));
        }
    }
    Ok(())
}

struct Caller {
    clients: Arc<Clients>,
    blobs: Option<Arc<dyn Blobs>>,
    timeout: Millis,
}

impl Handler for Caller {
    fn checks_secrets(&self) -> bool {
        true
    }

    fn takes_references(&self) -> bool {
        self.blobs.is_some()
    }

    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        let (clients, blobs) = (Arc::clone(&self.clients), self.blobs.clone());
        let limit = task.timeout.unwrap_or(self.timeout);
        Box::pin(async move {
            let work = async {
                let mut api = ApiCall::prepare(&task, blobs.as_ref()).await?;
                let response = http::exchange(&clients, blobs.as_ref(), &mut api.call).await?;
                reply::read(&api, blobs.as_ref(), response).await
            };
            http::attempt(limit, &cancel, work).await
        })
    }
}
