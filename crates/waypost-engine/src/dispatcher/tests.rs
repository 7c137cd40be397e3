//! A dispatcher over the store in memory, with an endpoint that the test plays.

use std::sync::Mutex;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use waypost_core::json::Json;
use waypost_core::outbox::{MessageData, MessageKind, MessageKinds, Outgoing};
use waypost_ports::clock::SystemClock;
use waypost_ports::conformance::rig::{Hand, ONE};
use waypost_ports::memory::MemoryStore;
use waypost_ports::outbox::{MessageState, MessagesRequest, NewEndpoint};
use waypost_ports::store::{About, Append, Appended, ControlChange, Heartbeat, LEASE};

use super::*;

/// Records requests, and answers with the next result; with success when there is none.
#[derive(Clone, Default)]
struct Endpoint(Arc<Played>);

#[derive(Default)]
struct Played {
    requests: Mutex<Vec<WebhookRequest>>,
    results: Mutex<Vec<Delivered>>,
    came: Notify,
    /// The owners of executions that got mail.
    announced: Mutex<Vec<Option<InstanceId>>>,
}

impl WebhookSender for Endpoint {
    fn refuse(&self, _: &str) -> Option<String> {
        None
    }

    fn send(&self, request: WebhookRequest) -> BoxFuture<'static, Delivered> {
        self.0.requests.lock().unwrap().push(request);
        let result = self.0.results.lock().unwrap().pop();
        self.0.came.notify_one();
        async move { result.unwrap_or(Delivered::Yes { status: 200 }) }.boxed()
    }
}

fn new_endpoint(with_output: bool) -> NewEndpoint {
    NewEndpoint {
        id: "a".into(),
        url: "https://example.com/".into(),
        description: "".into(),
        workflow: None,
        kinds: MessageKinds::ALL,
        with_output,
        with_links: true,
        secret: SigningSecret(vec![1]),
    }
}

/// A store with an endpoint, and an execution whose end was committed with this output.
fn ended(with_output: bool, output: &str) -> MemoryStore {
    let store = MemoryStore::new(Arc::new(SystemClock));
    store.add_endpoint(&new_endpoint(with_output)).unwrap();
    let lease = Some(LEASE);
    let heartbeat =
        Heartbeat { instance: ONE, numbers: 1, fold: 9, lease, about: About::default() };
    let number = store.heartbeat(&heartbeat).unwrap().numbers.start;
    let mut hand = Hand::new(ExecutionNo(number), ONE);
    let output = Json::parse(output).unwrap();
    let completed =
        waypost_core::event::Event::Run(waypost_core::event::RunEvent::Completed { output });
    let tell = |seq, kind| Outgoing {
        seq,
        kind,
        workflow: "flow".into(),
        data: MessageData::Rendered(format!("{{\"seq\":{seq}}}").into_bytes()),
        awaited: false,
    };
    let first = hand.create("key", "flow").messages(vec![tell(1, MessageKind::Created)]);
    let last = hand.write(&[completed]).messages(vec![tell(3, MessageKind::Completed)]);
    let batch: [Append; 2] = [first.into(), last.into()];
    store.append(&batch).unwrap();
    store
}

fn rows(store: &MemoryStore) -> Vec<(u64, MessageState, u32)> {
    let all = MessagesRequest { limit: 10, ..MessagesRequest::default() };
    let rows = store.messages(&all).unwrap().rows.into_iter().rev();
    rows.map(|row| (row.message.name.seq, row.state, row.attempts)).collect()
}

/// Runs a dispatcher until so many requests have come, and stops it.
async fn dispatch(store: &MemoryStore, results: &[Delivered], count: usize) -> Vec<WebhookRequest> {
    let endpoint = dispatch_to(store, results, count).await;
    endpoint.0.requests.lock().unwrap().clone()
}

/// The same; returns what was recorded.
async fn dispatch_to(store: &MemoryStore, results: &[Delivered], count: usize) -> Endpoint {
    let endpoint = Endpoint::default();
    endpoint.0.results.lock().unwrap().extend(results.iter().rev().cloned());
    let stop = CancellationToken::new();
    let dispatcher = Dispatcher {
        instance: ONE,
        outbox: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        sender: Arc::new(endpoint.clone()),
        wakeups: DispatcherWakeups::default(),
        metrics: Arc::default(),
        links: Links::new(&[7; 32]),
        public_url: Some("https://flows.example.com".into()),
        announce_mail: Arc::new({
            let endpoint = endpoint.clone();
            move |owners| endpoint.0.announced.lock().unwrap().extend(owners)
        }),
        ends: None,
        claim: Millis::from_secs(60),
    };
    let running = tokio::spawn(dispatcher.run(stop.clone()));
    while endpoint.0.requests.lock().unwrap().len() < count {
        endpoint.0.came.notified().await;
    }
    stop.cancel();
    running.await.unwrap();
    endpoint
}

/// One execution that its owner has in memory, and a parked one.
#[tokio::test]
async fn results_of_awaited_messages_are_announced_to_the_owners() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    store.add_endpoint(&new_endpoint(false)).unwrap();
    let lease = Some(LEASE);
    let heartbeat =
        Heartbeat { instance: ONE, numbers: 2, fold: 9, lease, about: About::default() };
    let first = store.heartbeat(&heartbeat).unwrap().numbers.start;
    for (number, parks) in [(first, false), (first + 1, true)] {
        let mut hand = Hand::new(ExecutionNo(number), ONE);
        let created: Append = hand.create(&format!("key-{number}"), "flow").into();
        let message = Outgoing {
            seq: hand.next_seq,
            kind: MessageKind::Notified,
            workflow: "flow".into(),
            data: MessageData::Rendered(b"{}".to_vec()),
            awaited: true,
        };
        let mut next = hand.next(1).messages(vec![message]);
        if parks {
            next = next.control(ControlChange::Parked { next_due: None });
        }
        for append in [created, next.into()] {
            let appended = store.append(&[append]).unwrap();
            assert!(matches!(appended[..], [Appended::Committed { .. }]), "{appended:?}");
        }
    }
    let endpoint = dispatch_to(&store, &[], 2).await;
    let mut announced = endpoint.0.announced.lock().unwrap().clone();
    announced.sort_unstable();
    assert_eq!(announced, [None, Some(ONE)]);
}

#[tokio::test]
async fn messages_are_sent_in_order_and_recorded() {
    let store = ended(false, "[1]");
    let sent = dispatch(&store, &[], 2).await;
    let delivered = MessageState::Delivered;
    assert_eq!(rows(&store), [(1, delivered, 1), (3, delivered, 1)]);
    let body: serde_json::Value = serde_json::from_str(&sent[1].body).unwrap();
    assert_eq!(body["type"], "execution.completed");
    assert_eq!(body["data"], serde_json::json!({"seq": 3}));
    assert!(Timestamp::parse(body["timestamp"].as_str().unwrap()).is_some());
    assert!(sent[0].id.starts_with("msg_a_1_1_"), "{}", sent[0].id);
    assert_ne!(sent[0].id, sent[1].id);
}

#[tokio::test]
async fn failed_message_holds_up_the_later_one_and_keeps_its_place() {
    let store = ended(false, "[1]");
    let failure = Delivered::No { status: Some(500), retry_after: None, reason: "busy".to_owned() };
    dispatch(&store, &[failure], 1).await;
    let pending = MessageState::Pending;
    assert_eq!(rows(&store), [(1, pending, 1), (3, pending, 0)]);
}

#[tokio::test]
async fn output_is_part_of_the_message_if_it_is_small_and_asked_for() {
    let table = [
        ("{\"a\":[1,null]}".to_owned(), "{\"a\":[1,null]}".to_owned(), false),
        (format!("\"{}\"", "x".repeat(body::OUTPUT_BYTES_MAX)), "null".to_owned(), true),
    ];
    for (output, expected, omitted) in table {
        let store = ended(true, &output);
        let sent = dispatch(&store, &[], 2).await;
        let body: serde_json::Value = serde_json::from_str(&sent[1].body).unwrap();
        assert_eq!(body["data"]["output"].to_string(), expected);
        assert_eq!(body["data"]["outputOmitted"] == true, omitted);
        assert!(!sent[0].body.contains("output"), "it is about no end: {}", sent[0].body);
    }
}

#[test]
fn former_secret_signs_until_its_time() {
    let (new, old) = (SigningSecret(vec![1]), SigningSecret(vec![2]));
    let row = EndpointRow {
        endpoint: new_endpoint(false),
        state: waypost_ports::outbox::EndpointState::Active,
        health: Default::default(),
        former: Some((old.clone(), Timestamp(100))),
        created_at: Timestamp(0),
    };
    assert_eq!(secrets(&row, Timestamp(99)), [new.clone(), old]);
    assert_eq!(secrets(&row, Timestamp(100)), [new]);
}

#[tokio::test]
async fn message_about_an_approval_has_a_link_for_each_approver_and_the_same_for_every_attempt() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    store.add_endpoint(&new_endpoint(false)).unwrap();
    let lease = Some(LEASE);
    let heartbeat =
        Heartbeat { instance: ONE, numbers: 1, fold: 9, lease, about: About::default() };
    let number = store.heartbeat(&heartbeat).unwrap().numbers.start;
    let mut hand = Hand::new(waypost_core::id::ExecutionNo(number), ONE);
    let asked = Outgoing {
        seq: 1,
        kind: MessageKind::ApprovalRequested,
        workflow: "flow".into(),
        data: MessageData::Rendered(
            br#"{"wait":"key~5","approvers":["bob","ann","bob"],"due":"2026-01-31T09:00:00.000Z"}"#
                .to_vec(),
        ),
        awaited: false,
    };
    let first: Append = hand.create("key", "flow").messages(vec![asked]).into();
    store.append(&[first]).unwrap();
    let sent = dispatch(&store, &[], 1).await;
    store.replay_messages("a", &waypost_ports::outbox::Replay::Since(Timestamp(0))).unwrap();
    let again = dispatch(&store, &[], 1).await;
    assert_eq!(sent[0].body, again[0].body);
    let body: serde_json::Value = serde_json::from_str(&sent[0].body).unwrap();
    let links = body["data"]["links"].as_array().unwrap();
    let approvers: Vec<_> = links.iter().map(|link| link["approver"].as_str().unwrap()).collect();
    assert_eq!(approvers, ["ann", "bob"]);
    for link in links {
        assert_eq!(link["expiresAt"], "2026-01-31T09:00:00.000Z");
        let token = link["url"].as_str().unwrap().rsplit('/').next().unwrap();
        let purpose = crate::links::LinkPurpose::Approval;
        let verified = Links::new(&[7; 32]).verify(purpose, token, Timestamp(0)).unwrap();
        let verified = crate::links::ApprovalLink::of(&verified).unwrap();
        assert_eq!(
            (verified.wait.to_string(), &*verified.approver),
            ("key~5".to_owned(), link["approver"].as_str().unwrap())
        );
    }
}
