//! However an attempt with a secret ends, its outcome has none.

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use uuid::Uuid;
use waypost_core::expr::Placeholder;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::blobs::MemoryBlobs;
use waypost_ports::clock::{ManualClock, SystemClock};
use waypost_ports::memory::MemoryStore;
use waypost_ports::secret::{Grant, SecretRefused, SecretText};

use super::*;
use crate::config::Config;

const CANARY: &str = "canary-7f3a";

struct OneSecret;

impl Secrets for OneSecret {
    fn resolve(&self, name: &str, _: &str) -> Result<Grant, SecretRefused> {
        let value = SecretText::new(CANARY).unwrap();
        Ok(Grant { name: name.into(), value, hosts: [].into(), shell: false })
    }
}

/// What a handler does with its input.
#[derive(Clone, Copy, Debug)]
enum Does {
    Gives,
    Fails,
    Panics,
    PanicsAtOnce,
    GivesWhenStopped,
    Hangs,
    HangsAndBreaks,
}

/// Panics when it is dropped.
struct Breaks(Json);

impl Drop for Breaks {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "{}", self.0);
    }
}

impl Handler for Does {
    fn checks_secrets(&self) -> bool {
        true
    }

    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        let does = *self;
        assert!(task.config.text().contains(CANARY) && task.placeholders.is_empty());
        assert!(holds_secrets());
        assert!(!matches!(does, Self::PanicsAtOnce), "{}", task.config);
        Box::pin(async move {
            match does {
                Self::Gives | Self::PanicsAtOnce => Ok(task.config),
                Self::Fails => Err(Failure::permanent("odd", task.config.text())),
                Self::Panics => panic!("{}", task.config),
                Self::GivesWhenStopped => {
                    cancel.cancelled().await;
                    Ok(task.config)
                }
                Self::Hangs => std::future::pending().await,
                Self::HangsAndBreaks => {
                    let _breaks = Breaks(task.config);
                    std::future::pending().await
                }
            }
        })
    }
}

fn task() -> Task {
    Task {
        execution: ExecutionId("exe_test".into()),
        workflow: "flow".into(),
        path: "a".into(),
        attempt: 1,
        handler: "does".into(),
        config: Json::parse(r#"{"key":"Bearer "}"#).unwrap(),
        placeholders: vec![Placeholder { at: 15, name: "key".into() }],
        secrets: Vec::new(),
        checkpoint: None,
        timeout: Some(Millis(10)),
        idempotency_key: String::new(),
        token: Token(1),
    }
}

#[tokio::test(start_paused = true)]
async fn no_outcome_has_a_secret() {
    let scrubbed = r#"{"key":"Bearer ***"}"#;
    for (does, expected) in [
        (Does::Gives, scrubbed),
        (Does::Fails, "Bearer ***"),
        (Does::Panics, "panicked: {\\\"key\\\":\\\"Bearer ***"),
        (Does::PanicsAtOnce, "panicked: {\\\"key\\\":\\\"Bearer ***"),
        (Does::GivesWhenStopped, scrubbed),
        (Does::Hangs, "took longer than"),
        (Does::HangsAndBreaks, "panicked: {\\\"key\\\":\\\"Bearer ***"),
    ] {
        let handler: Arc<dyn Handler> = Arc::new(does);
        let cancel = CancellationToken::new();
        let outcome = attempt_outcome(Some(handler), Arc::new(OneSecret), task(), cancel).await;
        let shown = format!("{outcome:?}");
        assert!(!shown.contains(CANARY), "{does:?}: {shown}");
        assert!(shown.contains(expected), "{does:?}: {shown}");
    }
    assert!(!holds_secrets());
}

/// Signals that it runs, never ends, and panics when it is dropped.
struct Brittle(Arc<Notify>);

impl Handler for Brittle {
    fn run(&self, _: Task, _: CancellationToken) -> BoxFuture<'static, Result<Json, Failure>> {
        let begun = Arc::clone(&self.0);
        Box::pin(async move {
            let _breaks = Breaks(Json::null());
            begun.notify_one();
            std::future::pending().await
        })
    }
}

/// Without a report its slot would be taken for ever.
#[tokio::test(start_paused = true)]
async fn bug_an_attempt_whose_handler_panics_when_dropped_was_not_reported() {
    let begun = Arc::new(Notify::new());
    let clock = Arc::new(ManualClock::at(Timestamp(0)));
    let worker = LocalWorker {
        handlers: Handlers::from([("does", Arc::new(Brittle(Arc::clone(&begun))) as _)]),
        secrets: Arc::new(OneSecret),
        runtime: tokio::runtime::Handle::current(),
        tasks: tokio_util::task::TaskTracker::new(),
        shared: Shared::new(InstanceId(Uuid::nil()), &Config::default(), clock),
        store: Arc::new(MemoryStore::new(Arc::new(SystemClock))),
        plans: Arc::new(Plans::new(Box::new(|_| Err("there are none".to_owned())))),
        payloads: Payloads::new(Arc::new(MemoryBlobs::new(Arc::new(SystemClock))), 1 << 20),
    };
    let task = Task { placeholders: Vec::new(), timeout: None, ..task() };
    let order = TaskOrder { execution: ExecutionNo(1), task, since: Timestamp(0) };
    let cancel = worker.start(order);
    begun.notified().await;
    cancel.cancel();
    worker.tasks.close();
    worker.tasks.wait().await; // the grace passes at once
    let mut said = Vec::new();
    worker.shared.inputs.of(0).take(&mut said, std::time::Instant::now());
    let [Input::Report { report, token_free: true, .. }] = said.as_slice() else {
        panic!("{said:?}")
    };
    let Outcome::Lost(failure) = &report.outcome else { panic!("{report:?}") };
    assert_eq!(&*failure.kind, kind::PANIC);
}
