use parking_lot::Mutex;
use uuid::Uuid;
use waypost_core::callback::OperationRef;
use waypost_core::time::Timestamp;
use waypost_ports::clock::ManualClock;
use waypost_ports::memory::MemoryTasks;
use waypost_ports::nudge::OnNudge;
use waypost_ports::tasks::{Depth, Holds, WorkerRow};

use super::*;
use crate::links::Links;

/// Tasks that people cannot list, as when too many of them read, and whose cancellations only a
/// thorough read finds.
pub(in crate::shell) struct Unseen(pub(in crate::shell) MemoryTasks);

impl Tasks for Unseen {
    fn offer(&self, offers: &[Offer]) -> Result<(), StoreError> {
        self.0.offer(offers)
    }
    fn withdraw(&self, offers: &[OfferId]) -> Result<(), StoreError> {
        self.0.withdraw(offers)
    }
    fn take(&self, handlers: &[Arc<str>], limit: usize) -> Result<Vec<Offer>, StoreError> {
        self.0.take(handlers, limit)
    }
    fn record_presence(&self, sign: &SignOfLife) -> Result<Vec<Token>, StoreError> {
        let cancelled = self.0.record_presence(sign)?;
        if sign.thorough {
            return Ok(cancelled);
        }
        let kept: Vec<_> = cancelled.into_iter().map(|token| (sign.worker, token)).collect();
        self.0.cancel(&kept).map(|_| Vec::new())
    }
    fn cancel(&self, cancels: &[(WorkerId, Token)]) -> Result<Vec<InstanceId>, StoreError> {
        self.0.cancel(cancels)
    }
    fn who_holds(&self, asked: &[(WorkerId, Token)]) -> Result<Vec<Holds>, StoreError> {
        self.0.who_holds(asked)
    }
    fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        Err(StoreError::Unavailable("too many read".into()))
    }
    fn depths(&self) -> Result<Vec<Depth>, StoreError> {
        Err(StoreError::Unavailable("too many read".into()))
    }
    fn cluster_key(&self) -> Result<[u8; 32], StoreError> {
        self.0.cluster_key()
    }
}

/// Nudges that go nowhere and are remembered.
#[derive(Default)]
struct Sent(Mutex<Vec<Nudge>>);

impl Nudges for Sent {
    fn send(&self, nudge: Nudge) {
        self.0.lock().push(nudge);
    }
    fn listen(&self, _: InstanceId, _: OnNudge) {}
}

#[test]
fn cancellation_nudges_the_instance_of_an_unlisted_worker_once() {
    let tasks = MemoryTasks::new(Arc::new(ManualClock::at(Timestamp(0))), [7; 32]);
    let sent = Arc::new(Sent::default());
    let remote_tasks = |instance: u128| RemoteTasks {
        tasks: Arc::new(Unseen(tasks.clone())),
        nudges: Arc::clone(&sent) as Arc<dyn Nudges>,
        issuer: TokenIssuer::new(&[7; 32]),
        seal: Seal::new(&[7; 32]),
        callbacks: CallbackLinks { links: Links::new(&[7; 32]), public_url: None },
        instance: InstanceId(Uuid::from_u128(instance)),
    };
    let (owner, other) = (remote_tasks(1), remote_tasks(2));
    let poll = |worker: u128| WorkerPoll {
        worker: WorkerId(Uuid::from_u128(worker)),
        name: "w".into(),
        handlers: vec!["far".into()],
        capacity: 1,
        running: 1,
        max: 0,
        leaving: false,
        tasks: None,
        public_key: None,
        key: None,
    };
    other.record_presence(&poll(1), Millis(0), false).unwrap();
    other.record_presence(&poll(2), Millis(0), false).unwrap();
    owner.record_presence(&poll(3), Millis(0), false).unwrap();
    let cancels = [1, 2, 3].map(|worker| (WorkerId(Uuid::from_u128(worker)), Token(worker)));
    owner.cancel(&cancels).unwrap();
    assert_eq!(*sent.0.lock(), [Nudge::Cancelled(other.instance)], "once, and not to oneself");
}

/// Secrets go where they belong, before and after the link of a callback.
#[test]
fn places_of_secrets_move_with_the_link_before_them() {
    let tasks = MemoryTasks::new(Arc::new(ManualClock::at(Timestamp(0))), [7; 32]);
    let public_url = Some("https://waypost.example".to_owned());
    let remote_tasks = RemoteTasks {
        tasks: Arc::new(tasks),
        nudges: Arc::new(Sent::default()),
        issuer: TokenIssuer::new(&[7; 32]),
        seal: Seal::new(&[7; 32]),
        callbacks: CallbackLinks { links: Links::new(&[7; 32]), public_url },
        instance: InstanceId(Uuid::from_u128(1)),
    };
    let place = |at, name: &str| Placeholder { at, name: name.into() };
    let task = OfferedTask {
        execution: ExecutionId("exe_1".into()),
        workflow: "flow".into(),
        input: Json::parse(r#"["","",""]"#).unwrap(),
        timeout: None,
        heartbeat: None,
        idempotency_key: "exe_1/a/1".to_owned(),
        checkpoint: None,
        placeholders: vec![
            place(2, "one"),
            place(5, "two"),
            place(5, "callback.url"),
            place(5, "three"),
            place(8, "four"),
        ],
        operation: Some(OperationRef { node: "a".into(), operation: "a/1".into() }),
        at_most_once: false,
    };
    let (input, places) = remote_tasks.with_callback(&task);
    let filled = secrets::fill(&input, &places, |place| Some(format!("<{}>", place.name)));
    let filled: Vec<String> = serde_json::from_str(filled.unwrap().text()).unwrap();
    assert_eq!((&*filled[0], &*filled[2]), ("<one>", "<four>"));
    assert!(filled[1].starts_with("<two>https://waypost.example/v1/callbacks/"), "{filled:?}");
    assert!(filled[1].ends_with("<three>"), "{filled:?}");
}
