//! Loads, snapshots, lists, events.

use std::collections::BTreeMap;

use waypost_core::command::Request;
use waypost_core::event::{CancelReason, Event, FailureEnd, NodeEvent, RunEvent, Wait};
use waypost_core::failure::Failure;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig, START, delayed, started};
use crate::query::{
    EventsRequest, ExecutionPage, FeedPosition, FeedRequest, ListRequest, MAIL_ROW_BYTES, Query,
    Read, WaitPage, WaitsRequest,
};
use crate::store::{ControlChange, Store};

pub fn nothing_is_known_of_an_unknown_execution<B: StoreUnderTest>(rig: &Rig<B>) {
    assert!(rig.store().load(ExecutionNo(77)).expect("the load is answered").is_none());
    assert_eq!(rig.store().find(Some("unknown")).expect("it is answered"), None);
    assert_eq!(rig.store().find(None).expect("it is answered"), None);
    rig.store().hold(ExecutionNo(77), rig.instance(1), "nothing to hold").expect("it does nothing");
}

pub fn everything_survives_reopening<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let mut hand = rig.create("order-1", "welcome");
    rig.commit(hand.next(3).snapshot(b"state"));
    rig.commit(hand.next(1).control(ControlChange::Parked { next_due: Some(Timestamp(1 << 50)) }));
    let before = rig.load(hand.execution);
    rig.reopen();
    let after = rig.load(hand.execution);
    assert_eq!(after.control, before.control);
    let headers = |history: &crate::store::History| -> Vec<_> {
        history.frames.iter().map(|frame| (frame.header, frame.at, frame.body.clone())).collect()
    };
    assert_eq!(headers(&after), headers(&before));
    assert_eq!(after.snapshot.expect("the snapshot is kept").body, b"state");
    rig.commit(hand.next(1));
}

pub fn the_latest_snapshot_wins<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    assert!(rig.load(hand.execution).snapshot.is_none());
    rig.commit(hand.next(2).snapshot(b"one"));
    rig.commit(hand.next(3).snapshot(b"two"));
    rig.commit(hand.next(1));
    let history = rig.load(hand.execution);
    let snapshot = history.snapshot.expect("there is a snapshot");
    assert_eq!((snapshot.seq, snapshot.body.as_slice()), (7, b"two".as_slice()));
    let firsts: Vec<_> = history.frames.iter().map(|frame| frame.header.first_seq).collect();
    assert_eq!(firsts, [5, 8], "from the last frame that the snapshot covers");
    assert!(history.frames[0].header.parent.is_some(), "its parent is known although not loaded");
}

pub fn claims_start_from_the_snapshot<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1));
    let parked = ControlChange::Parked { next_due: Some(START) };
    rig.commit(hand.next(1).snapshot(b"state").control(parked));
    let history = rig.claim(ONE).claimed.remove(0);
    assert_eq!(history.snapshot.as_ref().expect("there is a snapshot").seq, 4);
    assert_eq!(history.frames.len(), 1);
    rig.commit(Hand::of(&history).next(1).control(ControlChange::Owned));
}

pub fn the_end_discards_an_older_snapshot<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1).snapshot(b"old"));
    rig.commit(hand.next(1).control(ControlChange::Ended));
    let history = rig.load(hand.execution);
    assert!(history.snapshot.is_none());
    assert_eq!(history.frames.len(), 3);
    let mut last = rig.start(ONE);
    rig.commit(last.next(1).snapshot(b"last").control(ControlChange::Ended));
    assert_eq!(rig.load(last.execution).snapshot.expect("it is kept").body, b"last");
}

pub fn executions_are_found_by_key<B: StoreUnderTest>(rig: &Rig<B>) {
    let first = rig.create("order-1", "welcome");
    let second = rig.create("order-2", "welcome");
    let find = |key| rig.store().find(key).expect("it is answered");
    assert_eq!(find(Some("order-1")), Some(first.execution));
    assert_eq!(find(Some("order-3")), None);
    assert_eq!(find(None), Some(second.execution), "the newest");
}

fn numbers(page: &ExecutionPage) -> Vec<ExecutionNo> {
    page.rows.iter().map(|row| row.execution).collect()
}

pub fn lists_are_filtered_and_paged<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut all = Vec::new();
    for (number, workflow) in ["a", "b", "a", "b", "a"].into_iter().enumerate() {
        let mut hand = rig.create(&format!("key-{number}"), workflow);
        if number < 2 {
            rig.commit(hand.write(&[Event::Run(RunEvent::Completed { output: Json::null() })]));
        }
        all.push(hand.execution);
    }
    rig.settle();
    all.reverse();
    let everything = ListRequest { limit: 10, ..ListRequest::default() };
    assert_eq!(numbers(&rig.list(&everything)), all);
    assert_eq!(rig.list(&everything).lag.frames, 0);
    let page = rig.list(&ListRequest { limit: 2, ..ListRequest::default() });
    assert_eq!((numbers(&page), page.next), (all[..2].to_vec(), Some(all[1])));
    let rest = ListRequest { before: page.next, ..everything.clone() };
    let page = rig.list(&rest);
    assert_eq!((numbers(&page), page.next), (all[2..].to_vec(), None));
    let completed = ListRequest { statuses: vec![Status::Completed], ..everything.clone() };
    assert_eq!(numbers(&rig.list(&completed)), all[3..]);
    let of_b = ListRequest { workflow: Some("b".to_owned()), ..everything.clone() };
    assert_eq!(numbers(&rig.list(&of_b)), [all[1], all[3]]);
    let both = ListRequest { workflow: Some("b".to_owned()), ..completed };
    assert_eq!(numbers(&rig.list(&both)), [all[3]]);
    let unknown = ListRequest { workflow: Some("unknown".to_owned()), ..everything };
    assert_eq!(numbers(&rig.list(&unknown)), []);
}

/// A frame with a node that completed, one that is retried and one that waits.
fn busy(hand: &mut Hand) -> Draft {
    let completed = Event::Node(NodeEvent::Completed {
        node: "a".into(),
        attempt: 1,
        output: Some(Json::parse(r#"{"n":1}"#).expect("it is JSON")),
        branch: None,
        variables: BTreeMap::new(),
    });
    let failed = Event::Node(NodeEvent::Failed {
        node: "b".into(),
        attempt: 1,
        failure: Failure::transient("http", "answered 503"),
        end: FailureEnd::RetryAt(Timestamp(START.0 + 500)),
        wait: None,
    });
    let [started_c, waiting, paused] = delayed("c");
    hand.write(&[started("a"), completed, started("b"), failed, started_c, waiting, paused])
}

pub fn lists_show_where_executions_stand<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.create("order-1", "welcome");
    rig.advance(10);
    rig.commit(busy(&mut hand));
    rig.settle();
    let page = rig.list(&ListRequest { limit: 1, ..ListRequest::default() });
    let row = &page.rows[0];
    assert_eq!((&*row.key, &*row.workflow, row.version), ("order-1", "welcome", 1));
    assert_eq!((row.view.status, row.view.nodes_executed), (Status::Waiting, 1));
    assert_eq!((row.created_at, row.view.completed_at), (START, None));
    assert_eq!(row.view.current_node.as_deref(), Some("c"));
    assert_eq!(row.resume_at, Some(Timestamp(START.0 + 500)), "the earlier of two waits");
    let failure = Failure::permanent("http", "answered 404");
    let failed = Event::Run(RunEvent::Failed { failure, nodes: vec!["b".into()], output: None });
    // Lists show when it was decided, as the state does, and not when it was committed.
    hand.now = Timestamp(START.0 + 7);
    rig.commit(hand.write(&[failed]).control(ControlChange::Ended));
    rig.settle();
    let page = rig.list(&ListRequest { limit: 1, ..ListRequest::default() });
    let row = &page.rows[0];
    assert_eq!(
        (row.view.status, row.view.error.as_deref()),
        (Status::Failed, Some("answered 404"))
    );
    assert_eq!(row.view.completed_at, Some(hand.now));
    assert_eq!((row.resume_at, row.view.current_node.as_deref()), (None, None));
}

/// A node starts and waits for this.
fn waits(node: &str, wait: Wait) -> [Event; 2] {
    let (node, attempt) = (node.into(), 1);
    let waiting = NodeEvent::Waiting { node, attempt, wait, span: None, message: None };
    [started(waiting.node()), Event::Node(waiting)]
}

pub fn open_waits_are_listed_filtered_and_paged<B: StoreUnderTest>(rig: &Rig<B>) {
    let due = Timestamp(START.0 + 900);
    let signal = |name: &str| Wait::Signal { name: name.into(), due: Some(due) };
    let several = Wait::Signals { names: vec!["x".into(), "y".into()], need: 2, due: None };
    let mut hands = Vec::new();
    for (number, workflow) in ["a", "b", "a"].into_iter().enumerate() {
        let mut hand = rig.create(&format!("key-{number}"), workflow);
        let all = [
            waits("d", Wait::Delay { due }),
            waits("s", signal("go")),
            waits("m", several.clone()),
        ];
        rig.commit(hand.write(&all.concat()));
        hands.push(hand);
    }
    rig.settle();
    let list = |request: &WaitsRequest| rig.store().waits(request).expect("the list is answered");
    let shown = |page: &WaitPage| -> Vec<String> {
        page.rows.iter().map(|row| format!("{} {}", row.key, row.node)).collect()
    };
    let everything = WaitsRequest { limit: 10, ..WaitsRequest::default() };
    let all = [
        "key-2 m", "key-2 s", "key-2 d", "key-1 m", "key-1 s", "key-1 d", "key-0 m", "key-0 s",
        "key-0 d",
    ];
    let page = list(&everything);
    assert_eq!((shown(&page), &page.next), (all.map(String::from).to_vec(), &None));
    let [several, one, delay] = &page.rows[..3] else { panic!("{page:?}") };
    assert_eq!((&*several.kind, several.due, several.since), ("WAIT_EVENTS", None, START));
    assert_eq!(several.detail.signals, ["x".into(), "y".into()]);
    assert_eq!(
        (&*one.workflow, one.due, &one.detail.signals[..]),
        ("a", Some(due), &["go".into()][..])
    );
    assert_eq!(
        (&*delay.kind, delay.due, delay.execution),
        ("DELAY", Some(due), hands[2].execution)
    );
    for limit in 1..=9 {
        let (mut walked, mut before) = (Vec::new(), None);
        loop {
            let page = list(&WaitsRequest { before, limit, ..everything.clone() });
            walked.extend(shown(&page));
            before = page.next.map(|last| (last.execution, last.seq));
            if before.is_none() {
                break;
            }
        }
        assert_eq!(walked, all, "{limit} a page");
    }
    let delays = WaitsRequest { kind: Some("DELAY"), ..everything.clone() };
    assert_eq!(shown(&list(&delays)), ["key-2 d", "key-1 d", "key-0 d"]);
    let of_b = WaitsRequest { workflow: Some("b".to_owned()), ..everything };
    assert_eq!(shown(&list(&of_b)), ["key-1 m", "key-1 s", "key-1 d"]);
    let unknown = WaitsRequest { workflow: Some("unknown".to_owned()), ..delays };
    assert_eq!(shown(&list(&unknown)), [""; 0]);
    // A wait that is over, and an execution that has ended.
    let cancelled = NodeEvent::Cancelled { node: "s".into(), reason: CancelReason::Join };
    rig.commit(hands[2].write(&[cancelled.into()]));
    let completed = RunEvent::Completed { output: Json::null() };
    rig.commit(hands[1].write(&[completed.into()]).control(ControlChange::Ended));
    rig.settle();
    let left = ["key-2 m", "key-2 d", "key-0 m", "key-0 s", "key-0 d"];
    assert_eq!(shown(&list(&everything)), left);
}

/// The bytes that a read would take into memory are known before it.
pub fn a_read_is_weighed_before_it_is_made<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.create("order-1", "welcome");
    rig.commit(busy(&mut hand));
    rig.commit(hand.next(1));
    let weigh = |read| rig.store().weigh(read).expect("the read is weighed");
    let execution = hand.execution;
    let frames: Vec<u64> = rig
        .load(execution)
        .frames
        .iter()
        .map(|frame| frame.body.as_ref().map_or(0, Vec::len) as u64)
        .collect();
    let all: u64 = frames.iter().sum();
    assert_eq!(weigh(Read::State(execution)), all);
    let page = |after, limit, bytes| weigh(Read::Events { execution, after, limit, bytes });
    assert_eq!(page(0, usize::MAX, usize::MAX), all);
    assert_eq!(page(0, 1, usize::MAX), frames[0]);
    assert_eq!(page(0, usize::MAX, 1), frames[0], "up to the frame that reaches the bytes");
    assert_eq!(page(2, 2, usize::MAX), frames[1] + frames[2]);
    assert_eq!(page(5, 1, 1), frames[1], "the frame that holds the next event");
    assert_eq!(page(hand.next_seq - 1, usize::MAX, usize::MAX), 0, "there is nothing to read");
    assert_eq!(page(u64::MAX, usize::MAX, usize::MAX), 0);
    let feed = |after, limit| weigh(Read::Feed(FeedRequest { after, limit }));
    assert_eq!(feed(FeedPosition::default(), 10), all);
    assert_eq!(feed(FeedPosition::default(), 2), frames[0] + frames[1]);
    assert_eq!(feed(rig.store().feed_end().expect("the end is answered"), 10), 0);
    let nothing = ExecutionNo(99);
    assert_eq!(weigh(Read::State(nothing)), 0);
    // Mail that waits is read with it.
    let body = Json::from_value(&serde_json::json!("x".repeat(1_000)));
    rig.send(execution, "m1", Request::Signal { name: "go".into(), body });
    assert!(weigh(Read::State(execution)) > all + 1_000);
    assert!((1_000 + MAIL_ROW_BYTES as u64..2_000).contains(&weigh(Read::Mail(execution))));
    assert_eq!(weigh(Read::Mail(nothing)), 0);
}

pub fn events_are_filtered<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.create("order-1", "welcome");
    rig.advance(10);
    rig.commit(busy(&mut hand));
    let all = EventsRequest::all(hand.execution);
    let seqs = |request: &EventsRequest| -> Vec<u64> {
        let rows = rig.store().events(request).expect("the events are answered");
        rows.iter().map(|row| row.seq).collect()
    };
    assert_eq!(seqs(&all), (1..=9).collect::<Vec<_>>());
    assert_eq!(seqs(&EventsRequest { after: 1, limit: 3, ..all.clone() }), [2, 3, 4]);
    assert_eq!(seqs(&EventsRequest { node: Some("b".to_owned()), ..all.clone() }), [5, 6]);
    let started = Some("NodeStarted".to_owned());
    assert_eq!(seqs(&EventsRequest { kind: started, ..all.clone() }), [3, 5, 7]);
    assert!(seqs(&EventsRequest { after: 9, ..all.clone() }).is_empty());
    // A page ends with the event that reaches its bytes.
    let bytes: Vec<_> =
        rig.store().events(&all).expect("answered").iter().map(|row| row.fields.bytes()).collect();
    for (count, limit) in [(1, 1), (1, bytes[0]), (2, bytes[0] + 1), (9, bytes.iter().sum())] {
        let page = seqs(&EventsRequest { bytes: limit, ..all.clone() });
        assert_eq!(page, (1..=count).collect::<Vec<_>>(), "of {limit} bytes");
    }
    assert!(seqs(&EventsRequest { execution: ExecutionNo(99), ..all.clone() }).is_empty());
    let rows = rig.store().events(&all).expect("the events are answered");
    let row = &rows[3];
    assert_eq!((row.kind.as_str(), row.node.as_deref()), ("NodeCompleted", Some("a")));
    assert_eq!((row.attempt, row.epoch), (Some(1), 1));
    assert_eq!(row.at, Timestamp(START.0 + 10));
    assert_eq!(row.fields.text(), r#"{"node":"a","attempt":1,"output":{"n":1}}"#);
}

pub fn a_rebuild_changes_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    for number in 0..3 {
        let mut hand = rig.create(&format!("key-{number}"), "welcome");
        rig.commit(busy(&mut hand));
    }
    rig.settle();
    let request = ListRequest { limit: 10, ..ListRequest::default() };
    let before = format!("{:?}", rig.list(&request).rows);
    let mut reports = Vec::new();
    let frames = rig.store().rebuild(&mut |done, all| reports.push((done, all)));
    assert_eq!(frames.expect("it is rebuilt"), 6);
    assert_eq!(reports.last(), Some(&(6, 6)));
    assert_eq!(format!("{:?}", rig.list(&request).rows), before);
}
