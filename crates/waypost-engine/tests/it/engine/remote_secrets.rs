//! Secrets for remote workers: sealed to the key of the worker that polls, for one delivery, and removed
//! from what it reports.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waypost_core::command::{Mark, Outcome};
use waypost_core::event::{Event, NodeEvent};
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::sealed_secrets::{PublicKey, SealError, SealedFor, WorkerKeys};
use waypost_engine::{Engine, EngineError, Polled, RemoteTask, Reported, WorkerPoll};
use waypost_ports::secret::{Grant, NamePattern, SecretRefused, SecretText, Secrets, WorkerGrants};
use waypost_ports::tasks::Tasks;

use super::remote::{LONG, poll, report};
use crate::support::lab::Lab;

const CANARY: &str = "canary-7f3a";
const FLOW: &str =
    r#"a = worker({"input":{"n":1},"secrets":{"TOKEN":"${{ secrets.key }}"}}) retry 3"#;

/// A secret `key`, whose value and grants change; and `bank`, for workers of any handler with the API key
/// `bank`.
struct Vault(Mutex<(String, WorkerGrants, bool)>);

/// The value of a secret whose source cannot be read.
const UNREADABLE: &str = "";

impl Vault {
    fn new(handlers: &[&str], keys: &[&str]) -> Arc<Self> {
        let names = |names: &[&str]| names.iter().filter_map(|n| NamePattern::parse(n)).collect();
        let workers = WorkerGrants { handlers: names(handlers), keys: names(keys) };
        Arc::new(Self(Mutex::new((CANARY.to_owned(), workers, true))))
    }
}

impl Secrets for Vault {
    fn resolve(&self, name: &str, _: &str) -> Result<Grant, SecretRefused> {
        let (text, workers, is_there) = &*self.0.lock();
        let patterns = |text| [NamePattern::parse(text).unwrap()].into();
        let workers = match name {
            "key" if *is_there => workers.clone(),
            "bank" => WorkerGrants { handlers: patterns("*"), keys: patterns("bank") },
            _ => return Err(SecretRefused::Unknown(name.into())),
        };
        if name == "key" && text == UNREADABLE {
            let reason = "its file: entity not found".to_owned();
            return Err(SecretRefused::Unusable { name: name.into(), reason });
        }
        let value = SecretText::new(text).unwrap();
        let hosts = [].into();
        Ok(Grant { name: name.into(), value, hosts, shell: false, workers, verify: false })
    }
}

fn engine(lab: &Lab, vault: &Arc<Vault>) -> Engine {
    lab.engine_with(|parts| parts.secrets = Arc::clone(vault) as Arc<dyn Secrets>)
}

fn with_key(keys: &WorkerKeys) -> WorkerPoll {
    WorkerPoll { public_key: Some(keys.public()), key: Some("farm".into()), ..poll(1, 1) }
}

async fn one(engine: &Engine, keys: &WorkerKeys) -> RemoteTask {
    let mut polled = engine.poll(with_key(keys), LONG).await.unwrap();
    assert_eq!(polled.tasks.len(), 1);
    polled.tasks.remove(0)
}

fn open(task: &RemoteTask, keys: &WorkerKeys) -> Result<String, SealError> {
    let delivery = SealedFor {
        execution: &task.execution,
        node: &task.node,
        attempt: task.attempt,
        token: task.token,
    };
    let opened = keys.open(&delivery, task.secrets.as_ref().unwrap())?;
    Ok(String::from_utf8(opened).unwrap())
}

#[tokio::test]
async fn task_with_secrets_goes_to_a_worker_with_a_key_sealed_to_it() {
    let (lab, vault) = (Lab::new(), Vault::new(&["fa*"], &["farm"]));
    let engine = engine(&lab, &vault);
    let [keys, other] = [1, 2].map(|_| WorkerKeys::generate().unwrap());
    let started = lab.start(&engine, &format!("{FLOW}; b = worker needs a")).await;
    // A worker without a key takes what has no secrets, and leaves this one.
    let offered = loop {
        let offered = lab.tasks.depths().unwrap();
        if !offered.is_empty() {
            break offered;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((offered.len(), &*offered[0].handler), (1, "far+secrets"));
    assert_eq!(lab.tasks.take(&["far".into()], 9).unwrap(), []);
    assert_eq!(&*engine.depths().await.unwrap()[0].handler, "far");
    let task = one(&engine, &keys).await;
    assert_eq!((&*task.handler, task.input.text()), ("far", r#"{"n":1}"#));
    assert!(!format!("{task:?}").contains(CANARY));
    assert_eq!(open(&task, &keys).unwrap(), format!(r#"{{"TOKEN":"{CANARY}"}}"#));
    assert_eq!(open(&task, &other), Err(SealError::Broken), "another worker's key");
    let mut moved = task.clone();
    moved.attempt = 2;
    assert_eq!(open(&moved, &keys), Err(SealError::Broken), "another attempt");
    let done = Outcome::Completed(Json::null());
    assert_eq!(engine.report(report(&task, done.clone())).await.unwrap(), Reported::Committed);
    let plain = engine.poll(poll(2, 1), LONG).await.unwrap().tasks.remove(0);
    assert_eq!((&*plain.node, &plain.secrets), ("b", &None));
    engine.report(report(&plain, done)).await.unwrap();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn reports_are_stored_without_the_secrets_of_their_task() {
    let (lab, vault) = (Lab::new(), Vault::new(&["far"], &[]));
    let engine = engine(&lab, &vault);
    let keys = WorkerKeys::generate().unwrap();
    let started = lab.start(&engine, FLOW).await;
    let says = |text: &str| Json::parse(&format!(r#"{{"said":"{text}"}}"#)).unwrap();
    let task = one(&engine, &keys).await;
    let mark = Outcome::Checkpoint(Mark::from(says(CANARY)));
    engine.report(report(&task, mark)).await.unwrap();
    let failure = Failure {
        details: Some(says(CANARY)),
        ..Failure::transient(format!("{CANARY}_kind"), format!("no {CANARY} there"))
    };
    engine.report(report(&task, Outcome::Failed(failure))).await.unwrap();
    // Rotated: the next attempt has the new value, which is the one that is searched for.
    vault.0.lock().0 = "rotated-9b1c".to_owned();
    lab.pass(&engine, 600_000);
    let task = one(&engine, &keys).await;
    assert_eq!(task.checkpoint.as_ref().unwrap().text(), r#"{"said":"***"}"#);
    assert_eq!(open(&task, &keys).unwrap(), r#"{"TOKEN":"rotated-9b1c"}"#);
    let base64 = says("cm90YXRlZC05YjFj and rotated-9b1c");
    engine.report(report(&task, Outcome::Completed(base64))).await.unwrap();
    let number = started.execution;
    let end = started.ended().await.unwrap();
    assert_eq!(end.status, Status::Completed);
    let Event::Node(NodeEvent::Completed { output, .. }) = lab.event(number, "NodeCompleted").await
    else {
        unreachable!()
    };
    assert_eq!(output.unwrap().text(), r#"{"said":"*** and ***"}"#);
    let stored = format!("{:?}", lab.all(number, "NodeFailed"));
    assert!(stored.contains("***_kind") && stored.contains("no *** there"), "{stored}");
    for name in ["NodeCheckpointed", "NodeFailed", "NodeCompleted", "NodeStarted"] {
        let events = format!("{:?}", lab.all(number, name));
        assert!(!events.contains("canary") && !events.contains("rotated"), "{events}");
    }
}

#[tokio::test]
async fn task_whose_secret_is_not_granted_fails_and_says_so() {
    let keys = WorkerKeys::generate().unwrap();
    let cases = [
        (Vault::new(&["other"], &[]), true, "secret_not_granted", "handler `far`: an operator"),
        (Vault::new(&["far"], &[]), false, "secret", "there is no secret `key` here"),
    ];
    for (vault, is_there, kind, part) in cases {
        let lab = Lab::new();
        let engine = engine(&lab, &vault);
        vault.0.lock().2 = is_there;
        let started = lab.start(&engine, FLOW).await;
        let polled = engine.poll(with_key(&keys), LONG).await.unwrap();
        assert!(polled.tasks.is_empty(), "{kind}");
        let failure = started.ended().await.unwrap().failure.unwrap();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(part), "{}", failure.message);
    }
}

/// Another team's worker polls for the same handler: it gets nothing, and takes nothing from others.
#[tokio::test]
async fn task_whose_secret_is_for_another_key_stays_for_the_workers_with_that_key() {
    let (lab, vault) = (Lab::new(), Vault::new(&["far"], &["farm"]));
    let engine = engine(&lab, &vault);
    let keys = WorkerKeys::generate().unwrap();
    let started = lab.start(&engine, FLOW).await;
    let staging = || WorkerPoll { key: Some("staging".into()), ..with_key(&keys) };
    // It is answered at once, and says why.
    let polled = engine.poll(staging(), LONG).await.unwrap();
    assert!(polled.tasks.is_empty() && polled.cancel.is_empty(), "{polled:?}");
    let [why] = &polled.withheld[..] else { panic!("{polled:?}") };
    assert!(why.contains("the API key `staging`") && why.contains("`worker_keys`"), "{why}");
    // For a while it is not asked again; without that, it would take the task whenever it polls.
    let polled = engine.poll(staging(), Duration::ZERO).await.unwrap();
    assert_eq!(polled, Polled::default());
    let task = one(&engine, &keys).await;
    assert_eq!((&*task.node, task.attempt), ("a", 1), "no attempt was spent");
    engine.report(report(&task, Outcome::Completed(Json::null()))).await.unwrap();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
    assert!(lab.all(task.number, "NodeFailed").is_empty());
}

#[tokio::test]
async fn worker_finds_the_task_that_it_may_have_behind_those_of_others() {
    let (lab, vault) = (Lab::new(), Vault::new(&["far"], &["farm"]));
    let engine = engine(&lab, &vault);
    let keys = WorkerKeys::generate().unwrap();
    let bank = r#"worker({"input":1,"secrets":{"T":"${{ secrets.bank }}"}})"#;
    let first = lab.start(&engine, &format!("a = {bank}; b = {bank}; c = {bank}")).await;
    let is_offered = |count: u64| {
        let depths = lab.tasks.depths().unwrap();
        depths.iter().map(|depth| depth.waiting).sum::<u64>() == count
    };
    while !is_offered(3) {
        tokio::task::yield_now().await;
    }
    let second = lab.start(&engine, FLOW).await;
    while !is_offered(4) {
        tokio::task::yield_now().await;
    }
    let mut polled = engine.poll(with_key(&keys), LONG).await.unwrap();
    assert_eq!((polled.tasks.len(), polled.withheld.len()), (1, 1), "{polled:?}");
    let task = polled.tasks.remove(0);
    assert_eq!(task.number, second.execution);
    engine.report(report(&task, Outcome::Completed(Json::null()))).await.unwrap();
    assert_eq!(second.ended().await.unwrap().status, Status::Completed);
    for _ in 0..3 {
        let poll = WorkerPoll { key: Some("bank".into()), ..with_key(&keys) };
        let task = engine.poll(poll, LONG).await.unwrap().tasks.remove(0);
        engine.report(report(&task, Outcome::Completed(Json::null()))).await.unwrap();
    }
    assert_eq!(first.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn result_that_cannot_be_searched_is_not_stored() {
    let (lab, vault) = (Lab::new(), Vault::new(&["far"], &[]));
    let engine = engine(&lab, &vault);
    let keys = WorkerKeys::generate().unwrap();
    let started = lab.start(&engine, FLOW).await;
    let task = one(&engine, &keys).await;
    vault.0.lock().2 = false;
    let said = Outcome::Completed(Json::parse(&format!(r#""{CANARY}""#)).unwrap());
    engine.report(report(&task, said)).await.unwrap();
    let end = started.ended().await.unwrap();
    let failure = end.failure.unwrap();
    assert_eq!(failure.kind, "secret");
    assert!(failure.message.contains("so it is not stored"), "{}", failure.message);
}

#[tokio::test]
async fn report_waits_at_its_worker_while_the_secrets_cannot_be_read() {
    let (lab, vault) = (Lab::new(), Vault::new(&["far"], &[]));
    let engine = engine(&lab, &vault);
    let keys = WorkerKeys::generate().unwrap();
    let started = lab.start(&engine, FLOW).await;
    let task = one(&engine, &keys).await;
    vault.0.lock().0 = UNREADABLE.to_owned();
    let said = Outcome::Completed(Json::parse(&format!(r#""{CANARY}""#)).unwrap());
    for _ in 0..2 {
        let refused = engine.report(report(&task, said.clone())).await;
        let Err(EngineError::SecretsUnreadable(reason)) = refused else { panic!("{refused:?}") };
        assert_eq!(reason, "secret `key` cannot be used: its file: entity not found");
    }
    vault.0.lock().0 = CANARY.to_owned();
    assert_eq!(engine.report(report(&task, said)).await.unwrap(), Reported::Committed);
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn poll_with_a_key_that_nothing_can_be_sealed_to_is_refused() {
    let (lab, vault) = (Lab::new(), Vault::new(&["far"], &[]));
    let engine = engine(&lab, &vault);
    lab.start(&engine, FLOW).await;
    let bad = WorkerPoll { public_key: Some(PublicKey([0; 32])), ..poll(1, 1) };
    let polled = engine.poll(bad, LONG).await;
    assert!(matches!(polled, Err(EngineError::BadPublicKey(SealError::BadKey))), "{polled:?}");
}
