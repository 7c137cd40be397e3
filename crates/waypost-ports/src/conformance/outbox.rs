//! Webhook endpoints, and the messages that frames cause.

use std::sync::Arc;

use uuid::Uuid;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::outbox::delivery::{Delivered, Jitter};
use waypost_core::outbox::{MessageData, MessageKind, MessageKinds, Outgoing};
use waypost_core::time::{Millis, Timestamp};

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig, START, birth};
use crate::outbox::{
    ClaimedMessages, DEAD_KEPT, DELIVERED_KEPT, EXPIRED, EndpointChange, EndpointRow,
    EndpointState, FORMER_SECRET_KEPT, MessageClaim, MessageName, MessageResult, MessageRow,
    MessageState, MessagesRequest, NewEndpoint, OVER_QUOTA, Outbox, OutboxMessage, PENDING_KEPT,
    PENDING_MAX, Replay, SigningSecret,
};
use crate::store::{Append, Appended, ControlChange, StoreError};

pub(super) const LEASE: Millis = Millis::from_secs(60);
pub(super) const OK: Delivered = Delivered::Yes { status: 200 };

pub(super) fn endpoint(id: &str) -> NewEndpoint {
    NewEndpoint {
        id: id.into(),
        url: format!("https://example.com/{id}").into(),
        description: "it's a \"test\"".into(),
        workflow: None,
        kinds: MessageKinds::ALL,
        with_output: false,
        with_links: false,
        secret: SigningSecret(vec![0, 1, 255]),
    }
}

pub(super) fn add<B: StoreUnderTest>(rig: &Rig<B>, endpoint: &NewEndpoint) {
    rig.store().add_endpoint(endpoint).expect("the endpoint is kept");
}

pub(super) fn endpoints<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<EndpointRow> {
    rig.store().endpoints().expect("the endpoints are answered")
}

pub(super) fn change<B: StoreUnderTest>(rig: &Rig<B>, id: &str, change: &EndpointChange) -> bool {
    rig.store().change_endpoint(id, change).expect("the change is answered")
}

pub(super) fn of(workflow: &str, seq: u64, kind: MessageKind) -> Outgoing {
    let data = MessageData::Rendered(format!("{{\"seq\":{seq}}}").into_bytes());
    Outgoing { seq, kind, workflow: workflow.into(), data, awaited: false }
}

/// A frame of one event that causes a message about it.
pub(super) fn telling(hand: &mut Hand, kind: MessageKind) -> Draft {
    let seq = hand.next_seq;
    hand.next(1).messages(vec![of("flow", seq, kind)])
}

/// Executions with one message each.
pub(super) fn tell<B: StoreUnderTest>(rig: &Rig<B>, count: usize) -> Vec<ExecutionNo> {
    let mut hands: Vec<Hand> = (0..count).map(|_| rig.start(ONE)).collect();
    let batch: Vec<Append> =
        hands.iter_mut().map(|hand| telling(hand, MessageKind::Completed).into()).collect();
    rig.commit_all(&batch);
    hands.iter().map(|hand| hand.execution).collect()
}

pub(super) fn rows<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<MessageRow> {
    let all = MessagesRequest { limit: 1_000, ..MessagesRequest::default() };
    let mut rows = rig.store().messages(&all).expect("the messages are answered").rows;
    rows.reverse();
    rows
}

/// Every message: its endpoint, its execution and its seq, in the order of commits.
pub(super) fn listed<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<(String, ExecutionNo, u64)> {
    let name = |row: MessageRow| row.message.name;
    let names = rows(rig).into_iter().map(name);
    names.map(|name| (name.endpoint.to_string(), name.execution, name.seq)).collect()
}

pub(super) fn claim_as<B: StoreUnderTest>(
    rig: &Rig<B>,
    claim: u128,
    limit: usize,
) -> ClaimedMessages {
    let (claim, instance) = (Uuid::from_u128(claim), InstanceId(Uuid::from_u128(900)));
    let request = MessageClaim { claim, instance, limit, lease: LEASE, for_triggers: true };
    rig.store().claim_messages(&request).expect("the claim is answered")
}

pub(super) fn claim<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<OutboxMessage> {
    claim_as(rig, 1, 64).messages.into_iter().map(|(message, _)| message).collect()
}

pub(super) fn seqs(messages: &[OutboxMessage]) -> Vec<u64> {
    messages.iter().map(|message| message.name.seq).collect()
}

pub(super) fn settle_as<B: StoreUnderTest>(
    rig: &Rig<B>,
    claim: u128,
    of: &[OutboxMessage],
    result: &Delivered,
) -> Vec<ExecutionNo> {
    let result = |message: &OutboxMessage| MessageResult {
        name: message.name.clone(),
        result: result.clone(),
        took: Millis(7),
        jitter: Jitter::NONE,
    };
    let results: Vec<_> = of.iter().map(result).collect();
    let settled = rig.store().settle_messages(Uuid::from_u128(claim), &results);
    settled.expect("the results are taken")
}

pub(super) fn settle<B: StoreUnderTest>(rig: &Rig<B>, of: &[OutboxMessage], result: &Delivered) {
    settle_as(rig, 1, of, result);
}

pub(super) fn failure() -> Delivered {
    Delivered::No { status: Some(503), retry_after: None, reason: "busy".to_owned() }
}

pub(super) fn states<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<MessageState> {
    rows(rig).into_iter().map(|row| row.state).collect()
}

pub(super) fn trim<B: StoreUnderTest>(rig: &Rig<B>, pending_max: usize) -> u64 {
    rig.store().trim_outbox(pending_max).expect("the outbox is trimmed")
}

pub(super) fn replay<B: StoreUnderTest>(rig: &Rig<B>, which: &Replay) -> u64 {
    rig.store().replay_messages("a", which).expect("the replay is answered")
}

/// Lists may be of one execution, and claims say whether an endpoint asks for handoffs.
pub fn messages_are_listed_by_execution_and_handoffs_are_asked_for<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    assert!(!claim_as(rig, 1, 0).handoffs);
    let kinds = MessageKinds::STATUS;
    add(rig, &NewEndpoint { kinds, ..endpoint("status") });
    assert!(!claim_as(rig, 1, 0).handoffs);
    add(rig, &endpoint("all"));
    assert!(claim_as(rig, 1, 0).handoffs);
    let executions = tell(rig, 3);
    for execution in executions {
        let request =
            MessagesRequest { execution: Some(execution), limit: 10, ..MessagesRequest::default() };
        let rows = rig.store().messages(&request).expect("the messages are answered").rows;
        let mut endpoints: Vec<&str> = rows.iter().map(|row| &*row.message.name.endpoint).collect();
        endpoints.sort_unstable();
        assert_eq!(endpoints, ["all", "status"]);
        assert!(rows.iter().all(|row| row.message.name.execution == execution));
        let one = MessagesRequest { endpoint: Some("all".into()), limit: 1, ..request.clone() };
        assert_eq!(rig.store().messages(&one).expect("the messages are answered").rows.len(), 1);
        let state = Some(MessageState::Dead);
        let dead = MessagesRequest { state, ..request };
        assert_eq!(rig.store().messages(&dead).expect("the messages are answered").rows.len(), 0);
    }
}

pub fn endpoints_are_kept_exactly_and_in_order<B: StoreUnderTest>(rig: &mut Rig<B>) {
    assert_eq!(endpoints(rig), []);
    let z = endpoint("z");
    let a = NewEndpoint {
        workflow: Some("flow's".into()),
        kinds: MessageKind::Failed.into(),
        with_output: true,
        with_links: true,
        ..endpoint("a")
    };
    for endpoint in [&z, &a] {
        add(rig, endpoint);
        rig.advance(10);
    }
    let again = rig.store().add_endpoint(&endpoint("a"));
    assert!(matches!(again, Err(StoreError::Refused(_))), "{again:?}");
    rig.reopen();
    let row = |endpoint: NewEndpoint, created_at| EndpointRow {
        endpoint,
        state: EndpointState::Active,
        health: Default::default(),
        former: None,
        created_at,
    };
    assert_eq!(endpoints(rig), [row(z, START), row(a, START.plus(Millis(10)))]);
}

pub fn rotated_secret_signs_for_a_day_beside_the_new_one<B: StoreUnderTest>(rig: &mut Rig<B>) {
    add(rig, &endpoint("a"));
    assert!(change(rig, "a", &EndpointChange::Rotate(SigningSecret(vec![9]))));
    assert!(!change(rig, "b", &EndpointChange::Pause));
    rig.reopen();
    let row = endpoints(rig).remove(0);
    assert_eq!(row.endpoint.secret, SigningSecret(vec![9]));
    let until = START.plus(FORMER_SECRET_KEPT);
    assert_eq!(row.former, Some((SigningSecret(vec![0, 1, 255]), until)));
}

pub fn frame_enqueues_for_the_endpoints_that_subscribe<B: StoreUnderTest>(rig: &mut Rig<B>) {
    add(rig, &endpoint("all"));
    add(rig, &NewEndpoint { workflow: Some("flow".into()), ..endpoint("flow") });
    add(rig, &NewEndpoint { workflow: Some("other".into()), ..endpoint("other") });
    add(rig, &NewEndpoint { kinds: MessageKind::Failed.into(), ..endpoint("failed") });
    let mut hand = rig.hand(ONE);
    let created = hand
        .create("key", "flow")
        .messages(vec![of("flow", 1, MessageKind::Created), of("flow", 2, MessageKind::Scheduled)]);
    let execution = created.0.header.execution;
    rig.commit(created);
    rig.commit(hand.next(1));
    let ended = telling(&mut hand, MessageKind::Failed).control(ControlChange::Ended);
    let mark = crate::outbox::frame_mark(ended.0.header.append_id.0);
    rig.commit(ended);
    rig.reopen();
    let mut of_endpoints = listed(rig);
    of_endpoints.sort();
    let expected = [("all", 1), ("all", 2), ("all", 4), ("failed", 4), ("flow", 1), ("flow", 2)];
    let expected = expected.into_iter().chain([("flow", 4)]);
    let expected: Vec<_> = expected.map(|(id, seq)| (id.to_owned(), execution, seq)).collect();
    assert_eq!(of_endpoints, expected);
    let last = rows(rig).pop().expect("there are messages").message;
    let name = MessageName { endpoint: Arc::clone(&last.name.endpoint), execution, seq: 4, mark };
    let at = START;
    let data = b"{\"seq\":4}".to_vec();
    assert_eq!(last, OutboxMessage { name, kind: MessageKind::Failed, at, frame_seq: 4, data });
}

pub fn repeated_frame_enqueues_once<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    let mut hand = rig.start(ONE);
    let frame: Append = telling(&mut hand, MessageKind::Completed).into();
    let at = rig.commit(frame.clone());
    assert_eq!(rig.append(frame.clone()), Appended::Committed { at });
    let claimed = claim(rig);
    settle(rig, &claimed, &OK);
    assert_eq!(rig.append(frame.again()), Appended::Committed { at });
    assert_eq!(states(rig), [MessageState::Delivered]);
}

pub fn refused_frame_enqueues_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    let mut owner = rig.start(ONE);
    let mut zombie = owner.clone();
    rig.commit(owner.next(1));
    assert_eq!(rig.append(telling(&mut zombie, MessageKind::Completed)), Appended::Fenced);
    rig.create("taken", "flow");
    let messages = vec![of("flow", 1, MessageKind::Created)];
    let duplicate = rig.append(rig.hand(ONE).create("taken", "flow").messages(messages));
    assert!(matches!(duplicate, Appended::Duplicate { .. }), "{duplicate:?}");
    assert_eq!(listed(rig), []);
}

pub fn births_of_a_frame_enqueue_with_it<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    let mut parent = rig.start(ONE);
    let child = rig.number(ONE);
    let mut born = birth(child, "child");
    born.side.messages = vec![of("child", 1, MessageKind::Created)];
    rig.commit(telling(&mut parent, MessageKind::Paused).with(vec![born], Vec::new()));
    let mut expected = vec![("a".to_owned(), parent.execution, 3), ("a".to_owned(), child, 1)];
    let mut messages = listed(rig);
    expected.sort();
    messages.sort();
    assert_eq!(messages, expected);
}

pub fn messages_are_replayed_under_their_names<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    add(rig, &NewEndpoint { kinds: MessageKind::Failed.into(), ..endpoint("b") });
    tell(rig, 2);
    rig.advance(10);
    tell(rig, 1);
    let claimed = claim(rig);
    settle(rig, &claimed[1..], &OK);
    assert_eq!(replay(rig, &Replay::Dead), 0);
    assert_eq!(
        replay(rig, &Replay::Since(Timestamp(START.0 + 10))),
        1,
        "pending ones stay as they are"
    );
    let again = claim(rig);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0], claimed[2]);
    settle(rig, &again, &Delivered::Gone);
    assert!(change(rig, "a", &EndpointChange::Resume));
    assert_eq!(replay(rig, &Replay::Dead), 1);
    let row = rows(rig).pop().expect("there are messages");
    assert_eq!((row.state, row.attempts), (MessageState::Pending, 0));
    let stranger = MessageName { endpoint: "b".into(), ..claimed[1].name.clone() };
    let only = Replay::Only(vec![claimed[1].name.clone(), stranger]);
    assert_eq!(replay(rig, &only), 1);
    let other = MessageName { mark: claimed[1].name.mark ^ 1, ..claimed[1].name.clone() };
    settle(rig, &claim(rig), &OK);
    assert_eq!(replay(rig, &Replay::Only(vec![other])), 0);
}

pub fn messages_are_listed_in_pages_by_endpoint_and_state<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 3);
    settle(rig, &claim(rig)[..1], &OK);
    add(rig, &endpoint("b"));
    tell(rig, 1);
    let page = |request: &MessagesRequest| {
        let page = rig.store().messages(request).expect("the messages are answered");
        (page.rows.into_iter().map(|row| row.place).collect::<Vec<_>>(), page.more)
    };
    let two = MessagesRequest { limit: 2, ..MessagesRequest::default() };
    let (first, more) = page(&two);
    assert!(more);
    let (second, more) = page(&MessagesRequest { before: first.last().copied(), ..two.clone() });
    assert!(more);
    let last = MessagesRequest { before: second.last().copied(), ..two };
    let (last, more) = page(&last);
    assert!(!more);
    let all: Vec<u64> = [first, second, last].concat();
    assert!(all.windows(2).all(|pair| pair[0] > pair[1]), "{all:?}");
    assert_eq!(all.len(), 5);
    let count = |request: &MessagesRequest| page(request).0.len();
    let ten = MessagesRequest { limit: 10, ..MessagesRequest::default() };
    assert_eq!(count(&MessagesRequest { endpoint: Some("a".into()), ..ten }), 4);
    let delivered = Some(MessageState::Delivered);
    assert_eq!(count(&MessagesRequest { state: delivered, ..ten.clone() }), 1);
    let of_b = Some("b".into());
    assert_eq!(count(&MessagesRequest { endpoint: of_b, state: delivered, ..ten }), 0);
}

pub fn old_messages_are_trimmed<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 3);
    let claimed = claim(rig);
    settle(rig, &claimed[..1], &OK);
    assert_eq!(trim(rig, PENDING_MAX), 0);
    rig.advance(PENDING_KEPT.0 + 1);
    const { assert!(PENDING_KEPT.0 == DELIVERED_KEPT.0) };
    assert_eq!(trim(rig, PENDING_MAX), 3, "one is deleted, two are dead");
    assert_eq!(states(rig), [MessageState::Dead; 2]);
    let last = rows(rig).remove(0).last.expect("there is a reason");
    assert_eq!(last.reason.as_deref(), Some(EXPIRED));
    assert_eq!(replay(rig, &Replay::Dead), 2);
    assert_eq!(trim(rig, PENDING_MAX), 0, "its time begins anew");
    settle(rig, &claim(rig), &Delivered::Gone);
    rig.advance(DEAD_KEPT.0);
    assert_eq!(trim(rig, PENDING_MAX), 0);
    rig.advance(1);
    assert_eq!(trim(rig, PENDING_MAX), 2);
    assert_eq!(rows(rig), []);
}

pub fn oldest_messages_beyond_the_quota_are_dead<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 3);
    add(rig, &endpoint("b"));
    tell(rig, 2);
    assert_eq!(trim(rig, 3), 2);
    let dead: Vec<MessageRow> =
        rows(rig).into_iter().filter(|row| row.state == MessageState::Dead).collect();
    let places: Vec<u64> = rows(rig).iter().take(2).map(|row| row.place).collect();
    assert_eq!(dead.iter().map(|row| row.place).collect::<Vec<_>>(), places);
    let reason = dead[0].last.as_ref().and_then(|last| last.reason.as_deref());
    assert_eq!(reason, Some(OVER_QUOTA));
}

pub fn deleted_endpoint_takes_its_messages_with_it<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 1);
    let claimed = claim(rig);
    let delete = |id| rig.store().delete_endpoint(id).expect("it is answered");
    assert!(delete("a"));
    assert!(!delete("a"));
    assert_eq!((endpoints(rig), rows(rig)), (Vec::new(), Vec::new()));
    settle(rig, &claimed, &OK);
    tell(rig, 1);
    assert_eq!(rows(rig), []);
}

pub fn outbox_is_counted<B: StoreUnderTest>(rig: &Rig<B>) {
    let stats = |rig: &Rig<B>| rig.store().outbox_stats().expect("the counts are answered");
    assert_eq!((stats(rig).pending, stats(rig).oldest, stats(rig).active), (0, None, 0));
    add(rig, &endpoint("a"));
    add(rig, &endpoint("b"));
    tell(rig, 6);
    assert!(change(rig, "b", &EndpointChange::Pause));
    rig.advance(10);
    let claimed = claim(rig);
    settle(rig, &claimed[..1], &OK);
    settle(rig, &claimed[1..], &failure());
    let counted = stats(rig);
    assert_eq!((counted.pending, counted.dead), (11, 0));
    assert_eq!(counted.oldest, Some(START));
    assert_eq!((counted.active, counted.cooling), (1, 1));
    assert_eq!((counted.paused, counted.disabled), (1, 0));
    assert_eq!(counted.at, START.plus(Millis(10)));
}
