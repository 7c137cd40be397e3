//! However an attempt with a secret ends, its outcome has none.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;
use waypost_core::expr::Placeholder;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, Token};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::blobs::MemoryBlobs;
use waypost_ports::clock::{ManualClock, SystemClock};
use waypost_ports::handler::Marks;
use waypost_ports::memory::MemoryStore;
use waypost_ports::secret::{Grant, SecretRefused, SecretText, Secrets};

use super::*;
use crate::config::Config;

const CANARY: &str = "canary-7f3a";

struct OneSecret;

impl Secrets for OneSecret {
    fn resolve(&self, name: &str, _: &str) -> Result<Grant, SecretRefused> {
        let value = SecretText::new(CANARY).unwrap();
        Ok(Grant {
            name: name.into(),
            value,
            hosts: [].into(),
            shell: false,
            workers: Default::default(),
            verify: false,
        })
    }
}

/// Keeps the marks that were reported.
#[derive(Default)]
struct Collected(Mutex<Vec<Mark>>);

impl MarkReporter for Collected {
    fn report_mark(&self, mark: Mark) -> BoxFuture<'_, ()> {
        self.0.lock().push(mark);
        Box::pin(async {})
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
        operation: None,
        secrets: Vec::new(),
        heartbeat: None,
        breaker: None,
        marks: Marks::none(),
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
        let marks = Collected::default();
        let secrets = Arc::new(OneSecret);
        let outcome = attempt_outcome(Some(handler), secrets, task(), cancel, &marks).await;
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
    let shared = Shared::new(InstanceId(Uuid::nil()), &Config::default(), clock);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let worker = LocalWorker {
        handlers: Handlers::from([("does", Arc::new(Brittle(Arc::clone(&begun))) as _)]),
        supplies: Supplies::from(Arc::new(OneSecret)),
        runtime: tokio::runtime::Handle::current(),
        tasks: tokio_util::task::TaskTracker::new(),
        breakers: Arc::new(BreakerGate::new(Arc::clone(&store), Arc::clone(&shared))),
        shared,
        store,
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

/// Takes so many steps, of so long each, and does something at each of them.
struct Steps {
    count: u32,
    pause: Millis,
    at_each: fn(&Task),
    then: fn(&Task) -> Result<Json, Failure>,
}

impl Handler for Steps {
    fn checks_secrets(&self) -> bool {
        true
    }

    fn run(
        &self,
        task: Task,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Json, Failure>> {
        let Self { count, pause, at_each, then } = *self;
        Box::pin(async move {
            for _ in 0..count {
                let slept = tokio::time::sleep_until(tokio::time::Instant::now() + pause.to_std());
                if cancel.run_until_cancelled(slept).await.is_none() {
                    return Err(Failure::permanent("stopped", "cancelled"));
                }
                at_each(&task);
            }
            then(&task)
        })
    }
}

async fn outcome_of(steps: Steps, task: Task) -> (Outcome, Vec<Mark>) {
    let marks = Collected::default();
    let handler: Arc<dyn Handler> = Arc::new(steps);
    let (secrets, cancel) = (Arc::new(OneSecret), CancellationToken::new());
    let outcome = attempt_outcome(Some(handler), secrets, task, cancel, &marks).await;
    (outcome, marks.0.into_inner())
}

#[tokio::test(start_paused = true)]
async fn attempt_without_a_sign_of_life_is_given_up() {
    type Row = (fn(&Task), u64, Option<u64>, &'static str);
    let record = |task: &Task| task.marks.record(Json::null()).unwrap();
    let rows: [Row; 6] = [
        (|task| task.marks.beat(), 9, Some(10), "Completed"),
        (record, 9, Some(10), "Completed"),
        (|_| {}, 9, Some(10), "no sign of life for 10ms"),
        (|task| task.marks.beat(), 11, Some(10), "no sign of life for 10ms"),
        (record, 11, Some(10), "no sign of life for 10ms"),
        (|_| {}, 11, None, "Completed"),
    ];
    for (row, (at_each, pause, heartbeat, expected)) in rows.into_iter().enumerate() {
        let steps = Steps { count: 5, pause: Millis(pause), at_each, then: |_| Ok(Json::null()) };
        let heartbeat = heartbeat.map(Millis);
        let (outcome, _) = outcome_of(steps, Task { heartbeat, timeout: None, ..task() }).await;
        if let Outcome::Failed(failure) = &outcome {
            assert_eq!((&*failure.kind, failure.retryable), (kind::TIMEOUT, true), "row {row}");
        }
        let shown = format!("{outcome:?}");
        assert!(shown.contains(expected), "row {row}: {shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_that_is_given_up_keeps_the_details_of_its_failure() {
    struct Stops;
    impl Handler for Stops {
        fn run(
            &self,
            _: Task,
            cancel: CancellationToken,
        ) -> BoxFuture<'static, Result<Json, Failure>> {
            Box::pin(async move {
                cancel.cancelled().await;
                let details = Some(Json::parse("7").unwrap());
                Err(Failure { details, ..Failure::permanent("stopped", "cancelled") })
            })
        }
    }
    let task = Task { heartbeat: Some(Millis(5)), placeholders: Vec::new(), ..task() };
    let (secrets, cancel) = (Arc::new(OneSecret), CancellationToken::new());
    let marks = Collected::default();
    let outcome = attempt_outcome(Some(Arc::new(Stops)), secrets, task, cancel, &marks).await;
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!((&*failure.kind, &*failure.message), (kind::TIMEOUT, "no sign of life for 5ms"));
    assert_eq!(failure.details, Some(Json::parse("7").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn marks_are_numbered_and_have_no_secret() {
    let steps = Steps {
        count: 3,
        pause: Millis(1),
        at_each: |task| task.marks.record(task.config.clone()).unwrap(),
        then: |_| Ok(Json::null()),
    };
    let (_, marks) = outcome_of(steps, task()).await;
    // The handler completes right after its third mark, which is of no use then.
    let expected: Vec<Mark> = (1..=2)
        .map(|number| Mark { data: Json::parse(r#"{"key":"Bearer ***"}"#).unwrap(), number })
        .collect();
    assert_eq!(marks.get(..2), Some(&*expected));
    assert!(!format!("{marks:?}").contains(CANARY));
}

#[tokio::test(start_paused = true)]
async fn last_mark_of_a_failed_attempt_is_reported_before_its_outcome() {
    let steps = Steps {
        count: 0,
        pause: Millis(1),
        at_each: |_| {},
        then: |task| {
            for step in 1..=3 {
                task.marks.record(Json::from_value(&step.into()))?;
            }
            Err(Failure::transient("odd", "failed"))
        },
    };
    let (outcome, marks) = outcome_of(steps, task()).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(marks, [Mark { data: Json::parse("3").unwrap(), number: 3 }]);
}

#[tokio::test(start_paused = true)]
async fn mark_above_the_limit_is_refused() {
    let steps = Steps {
        count: 0,
        pause: Millis(1),
        at_each: |_| {},
        then: |task| {
            let large = "x".repeat(waypost_core::limits::PAYLOAD_BYTES_MAX);
            task.marks.record(Json::from_value(&large.into()))?;
            Ok(Json::null())
        },
    };
    let (outcome, marks) = outcome_of(steps, task()).await;
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!((&*failure.kind, failure.retryable), (kind::TOO_LARGE, false));
    assert_eq!(marks, []);
}
