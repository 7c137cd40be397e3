//! Pages of polls, read by the handler of `api-call`: with its egress policy and its rules for secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use waypost_core::command::{Mark, Outcome};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionId, Token};
use waypost_core::json::Json;
use waypost_ports::handler::{Handler, Marks, Task};
use waypost_ports::secret::Secrets;
use waypost_ports::source::{PAGE_BYTES_MAX, PageRequest, PageSource, SourcePage};

use crate::shell::{MarkReporter, Supplies, attempt_outcome};

/// Reads pages with a handler.
pub struct HandlerPages {
    /// The handler of `api-call`, which keeps no response outside of its output.
    handler: Arc<dyn Handler>,
    secrets: Arc<dyn Secrets>,
}

impl HandlerPages {
    /// Over the handler of `api-call`, made without a blob store, and the secrets that workflows may use.
    pub fn new(handler: Arc<dyn Handler>, secrets: Arc<dyn Secrets>) -> Self {
        Self { handler, secrets }
    }
}

impl PageSource for HandlerPages {
    fn read(&self, request: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>> {
        let PageRequest { workflow, trigger, config, secrets, etag, timeout } = request;
        let handler = Arc::new(Conditional { inner: Arc::clone(&self.handler), etag });
        let supplies = Supplies::from(Arc::clone(&self.secrets));
        let task = Task {
            execution: ExecutionId("poll".into()),
            workflow,
            path: trigger,
            attempt: 1,
            handler: "api-call".into(),
            config,
            placeholders: secrets,
            operation: None,
            secrets: Vec::new(),
            timeout: Some(timeout),
            heartbeat: None,
            breaker: None,
            marks: Marks::none(),
            checkpoint: None,
            idempotency_key: String::new(),
            token: Token(uuid::Uuid::new_v4().as_u128()),
        };
        async move {
            let cancel = CancellationToken::new();
            match attempt_outcome(Some(handler), supplies, task, cancel, &NoMarks).await {
                Outcome::Completed(output) => page(&output),
                Outcome::Failed(failure) | Outcome::Lost(failure) => Err(failure),
                _ => Err(Failure::transient(kind::CONNECTION, "the read was interrupted")),
            }
        }
        .boxed()
    }
}

fn page(output: &Json) -> Result<SourcePage, Failure> {
    #[derive(Deserialize)]
    struct Output {
        status: u16,
        headers: Json,
        body: Json,
    }
    let read: Output = serde_json::from_str(output.text())
        .map_err(|error| Failure::permanent(kind::HTTP, format!("not a response: {error}")))?;
    Ok(SourcePage { status: read.status, headers: read.headers, body: read.body })
}

/// A call that asks whether something has changed, and reads no more than a page may have. Its config is
/// completed when its secrets are in place.
struct Conditional {
    inner: Arc<dyn Handler>,
    etag: Option<String>,
}

impl Handler for Conditional {
    fn checks_secrets(&self) -> bool {
        self.inner.checks_secrets()
    }

    fn run(
        &self,
        mut task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        match completed(&task.config, self.etag.as_deref()) {
            Ok(config) => task.config = config,
            Err(failure) => return std::future::ready(Err(failure)).boxed(),
        }
        self.inner.run(task, cancel)
    }
}

fn completed(config: &Json, etag: Option<&str>) -> Result<Json, Failure> {
    let wrong = || Failure::permanent(kind::INVALID_CONFIG, "the request must be an object");
    let mut fields: BTreeMap<String, Json> =
        serde_json::from_str(config.text()).map_err(|_| wrong())?;
    let wanted = fields.get("responseBytesMax").and_then(|max| max.text().parse().ok());
    let most = wanted.unwrap_or(PAGE_BYTES_MAX).min(PAGE_BYTES_MAX);
    fields.insert("responseBytesMax".to_owned(), Json::from_value(&most.into()));
    if let Some(etag) = etag {
        let headers = fields.remove("headers");
        let headers = headers.map(|json| serde_json::from_str(json.text())).transpose();
        let mut headers: BTreeMap<String, Json> = headers.map_err(|_| wrong())?.unwrap_or_default();
        headers.insert("if-none-match".to_owned(), Json::from_value(&Value::from(etag)));
        fields.insert("headers".to_owned(), Json::object(headers.into_iter())?);
    }
    Ok(Json::object(fields.into_iter())?)
}

/// A read has no marks.
struct NoMarks;

impl MarkReporter for NoMarks {
    fn report_mark(&self, _: Mark) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}
