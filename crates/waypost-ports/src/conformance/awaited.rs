//! Messages that nodes wait for: what became of them is mail, once.

use waypost_core::command::Request;
use waypost_core::outbox::delivery::Delivered;
use waypost_core::outbox::{MessageKind, Outgoing};

use super::StoreUnderTest;
use super::outbox::{OK, add, claim, claim_as, endpoint, of, settle_as, trim};
use super::rig::{Hand, ONE, Rig};
use crate::outbox::{DEAD_KEPT, DELIVERED_KEPT, EndpointChange, Outbox, PENDING_KEPT, PENDING_MAX};
use crate::store::{MailBody, MailOf, Store};

/// Appends a frame with a message that a node waits for; gives its seq.
fn ask<B: StoreUnderTest>(rig: &Rig<B>, hand: &mut Hand) -> u64 {
    let seq = hand.next_seq;
    let message = Outgoing { awaited: true, ..of("flow", seq, MessageKind::Notified) };
    rig.commit(hand.next(1).messages(vec![message]));
    seq
}

/// The results of messages in the inbox of an execution, in words.
fn reports<B: StoreUnderTest>(rig: &Rig<B>, hand: &Hand) -> Vec<String> {
    let of = MailOf::Execution(hand.execution);
    let mail = rig.store().collect(of, 100).expect("the mail is answered");
    mail.iter()
        .map(|mail| match &mail.body {
            MailBody::Request(Request::MessageSettled { wait, delivered, failed }) => {
                format!("{wait}: {delivered} delivered, {failed} failed")
            }
            other => panic!("{other:?} is no result of a message"),
        })
        .collect()
}

/// Without an endpoint the frame itself says so.
pub fn awaited_message_without_endpoints_is_reported_with_its_frame<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    let mut hand = rig.start(ONE);
    let seq = ask(rig, &mut hand);
    assert_eq!(reports(rig, &hand), [format!("{seq}: 0 delivered, 0 failed")]);
    claim(rig);
    assert_eq!(reports(rig, &hand).len(), 1, "once");
}

/// The mail comes with the last of several deliveries, and other messages cause none.
pub fn awaited_message_is_reported_when_its_last_delivery_is_settled<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    add(rig, &endpoint("a"));
    add(rig, &endpoint("b"));
    let (mut hand, mut other) = (rig.start(ONE), rig.start(ONE));
    let seq = ask(rig, &mut hand);
    let seq_of_other = other.next_seq;
    let message = of("flow", seq_of_other, MessageKind::Notified);
    rig.commit(other.next(1).messages(vec![message]));
    let claimed = claim(rig);
    assert_eq!(claimed.len(), 4);
    let (first, last): (Vec<_>, Vec<_>) =
        claimed.into_iter().partition(|message| &*message.name.endpoint == "a");
    assert_eq!(settle_as(rig, 1, &first, &OK), []);
    assert_eq!(reports(rig, &hand), [""; 0]);
    assert_eq!(settle_as(rig, 1, &last, &Delivered::Gone), [hand.execution]);
    let expected = [format!("{seq}: 1 delivered, 1 failed")];
    assert_eq!(reports(rig, &hand), expected);
    assert_eq!(reports(rig, &other), [""; 0]);
    claim(rig);
    assert_eq!(reports(rig, &hand), expected, "once");
}

/// An endpoint that is deleted takes its messages with it: the next claim reports.
pub fn awaited_message_of_a_deleted_endpoint_is_reported_by_the_next_claim<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    add(rig, &endpoint("a"));
    add(rig, &endpoint("b"));
    let mut hand = rig.start(ONE);
    let seq = ask(rig, &mut hand);
    let claimed = claim(rig);
    let first: Vec<_> =
        claimed.into_iter().filter(|message| &*message.name.endpoint == "a").collect();
    settle_as(rig, 1, &first, &OK);
    rig.store().delete_endpoint("b").expect("it is deleted");
    assert_eq!(reports(rig, &hand), [""; 0]);
    assert_eq!(claim_as(rig, 2, 0).reported, [hand.execution]);
    assert_eq!(claim_as(rig, 3, 0).reported, [], "once");
    let expected = [format!("{seq}: 1 delivered, 1 failed")];
    assert_eq!(reports(rig, &hand), expected, "it did not get the message");
}

/// An endpoint that accepted the message counts after its end; also where no other one is left.
pub fn awaited_message_counts_deliveries_to_endpoints_that_are_deleted<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    for id in ["a", "b", "c"] {
        add(rig, &endpoint(id));
    }
    let mut hand = rig.start(ONE);
    let seq = ask(rig, &mut hand);
    for message in claim(rig) {
        match &*message.name.endpoint {
            "a" => settle_as(rig, 1, &[message], &OK),
            "b" => settle_as(rig, 1, &[message], &Delivered::Gone),
            _ => continue,
        };
    }
    for id in ["a", "b", "c"] {
        rig.store().delete_endpoint(id).expect("it is deleted");
    }
    claim_as(rig, 2, 0);
    assert_eq!(reports(rig, &hand), [format!("{seq}: 1 delivered, 2 failed")]);
}

/// One endpoint accepts at once, the other is paused until the message expires. By then the first delivery
/// is as old as those that are forgotten.
pub fn awaited_message_is_reported_with_deliveries_of_long_ago<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    add(rig, &endpoint("b"));
    let mut hand = rig.start(ONE);
    let seq = ask(rig, &mut hand);
    rig.store().change_endpoint("b", &EndpointChange::Pause).expect("it is paused");
    settle_as(rig, 1, &claim(rig), &OK);
    assert_eq!(reports(rig, &hand), [""; 0]);
    rig.advance(PENDING_KEPT.0.max(DELIVERED_KEPT.0) + 1);
    assert_eq!(
        trim(rig, PENDING_MAX),
        1,
        "only the message that waits for the endpoint is given up"
    );
    claim_as(rig, 2, 0);
    assert_eq!(reports(rig, &hand), [format!("{seq}: 1 delivered, 1 failed")]);
    // Nothing waits for it any more.
    assert_eq!(trim(rig, PENDING_MAX), 1, "the delivered one is forgotten");
    rig.advance(DEAD_KEPT.0 + 1);
    assert_eq!(trim(rig, PENDING_MAX), 1, "and so is the other");
}
