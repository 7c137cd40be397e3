//! Running one task against a real handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use waypost_core::failure::Failure;
use waypost_core::id::{ExecutionId, Token};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_nodes::Settings;
use waypost_nodes::egress::Egress;
use waypost_ports::handler::{Handler, MarkSink, Marks, Task};

/// Counts the signs of life of an attempt.
#[derive(Default)]
pub(crate) struct Signs(AtomicUsize);

impl Signs {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl MarkSink for Signs {
    fn record(&self, data: Json) {
        panic!("these kinds leave no marks: {data}");
    }

    fn beat(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Settings that allow what tests need: this machine, and commands.
pub(crate) fn settings() -> Settings {
    Settings {
        egress: Egress::new(["127.0.0.0/8".parse().unwrap()]),
        shell_enabled: true,
        call_timeout: Millis::from_secs(20),
        ..Settings::default()
    }
}

pub(crate) fn handler(settings: &Settings, name: &str) -> Arc<dyn Handler> {
    waypost_nodes::handlers(settings, None).remove(name).unwrap()
}

pub(crate) fn task(handler: &str, config: &Value) -> Task {
    Task {
        execution: ExecutionId("exe_test".into()),
        workflow: "welcome".into(),
        path: "profile".into(),
        attempt: 1,
        handler: handler.into(),
        config: Json::from_value(config),
        placeholders: Vec::new(),
        operation: None,
        secrets: Vec::new(),
        timeout: None,
        heartbeat: None,
        breaker: None,
        marks: Marks::none(),
        checkpoint: None,
        idempotency_key: "exe_test/profile/1".into(),
        token: Token(7),
    }
}

pub(crate) async fn run_with(settings: &Settings, task: Task) -> Result<Json, Failure> {
    handler(settings, &task.handler).run(task, CancellationToken::new()).await
}

/// Runs an `api-call`.
pub(crate) async fn call(config: Value) -> Result<Json, Failure> {
    run_with(&settings(), task("api-call", &config)).await
}

/// Runs an `api-call` that must succeed; gives its output.
pub(crate) async fn call_ok(config: Value) -> Value {
    call(config).await.unwrap().to_value().unwrap()
}

/// Runs an `api-call` that must fail.
pub(crate) async fn call_err(config: Value) -> Failure {
    call(config).await.unwrap_err()
}

/// Runs a `shell` command.
pub(crate) async fn shell(config: Value) -> Result<Value, Failure> {
    let output = run_with(&settings(), task("shell", &config)).await?;
    Ok(output.to_value().unwrap())
}

/// The details of a failure.
pub(crate) fn details(failure: &Failure) -> Value {
    failure.details.as_ref().map_or(json!(null), |details| details.to_value().unwrap())
}
