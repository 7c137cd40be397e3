//! Claims of messages, and what follows their results.

use std::collections::BTreeSet;

use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_core::outbox::MessageKind;
use waypost_core::outbox::delivery::{COOLS_AFTER, Delivered, IN_FLIGHT_MAX, PROBE_AFTER};
use waypost_core::time::Millis;

use super::StoreUnderTest;
use super::outbox::{
    LEASE, OK, add, change, claim, claim_as, endpoint, endpoints, failure, rows, seqs, settle,
    settle_as, states, tell, telling,
};
use super::rig::{ONE, Rig, START};
use crate::clock::Clock;
use crate::outbox::{
    ClaimedMessages, EndpointChange, EndpointState, MessageClaim, MessageState, Outbox,
    OutboxMessage, TRIGGER_ENDPOINT_PREFIX,
};
use crate::store::LEASE as INSTANCE_LEASE;

pub fn paused_endpoint_collects_and_disabled_one_does_not<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    assert!(change(rig, "a", &EndpointChange::Pause));
    tell(rig, 1);
    assert_eq!(claim(rig), []);
    assert!(change(rig, "a", &EndpointChange::Resume));
    let claimed = claim(rig);
    assert_eq!(claimed.len(), 1);
    settle(rig, &claimed, &Delivered::Gone);
    assert_eq!(endpoints(rig)[0].state, EndpointState::Disabled);
    assert_eq!(states(rig), [MessageState::Dead]);
    tell(rig, 1);
    assert_eq!(states(rig), [MessageState::Dead]);
    assert!(change(rig, "a", &EndpointChange::Resume));
    tell(rig, 1);
    assert_eq!(claim(rig).len(), 1);
}

pub fn message_is_claimed_once_until_the_claim_ends<B: StoreUnderTest>(rig: &Rig<B>) {
    assert!(!claim_as(rig, 1, 64).endpoints);
    add(rig, &endpoint("a"));
    tell(rig, 1);
    let first = claim_as(rig, 1, 64);
    assert!(first.endpoints);
    assert_eq!((first.messages.len(), first.at), (1, START));
    assert_eq!(first.next_due, Some(START.plus(LEASE)));
    assert_eq!(*first.messages[0].1, endpoints(rig)[0]);
    assert_eq!(claim_as(rig, 2, 64).messages, []);
    rig.advance(LEASE.0);
    let messages = vec![first.messages[0].0.clone()];
    let second = claim_as(rig, 2, 64);
    assert_eq!(second.messages.len(), 1);
    settle_as(rig, 1, &messages, &OK);
    assert_eq!(states(rig), [MessageState::Pending], "another claim has it");
    settle_as(rig, 2, &messages, &OK);
    assert_eq!(states(rig), [MessageState::Delivered]);
    assert_eq!(claim_as(rig, 3, 64).next_due, None);
}

pub fn messages_of_one_execution_are_claimed_in_order<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    let mut hand = rig.start(ONE);
    for kind in [MessageKind::Paused, MessageKind::Resumed, MessageKind::Completed] {
        rig.commit(telling(&mut hand, kind));
    }
    let first = claim(rig);
    assert_eq!(seqs(&first), [3]);
    assert_eq!(claim(rig), []);
    settle(rig, &first, &failure());
    assert_eq!(claim(rig), [], "the others wait for the first one");
    rig.advance(5_000);
    let first = claim(rig);
    assert_eq!(seqs(&first), [3]);
    settle(rig, &first, &OK);
    for seq in [4, 5] {
        let next = claim(rig);
        assert_eq!(seqs(&next), [seq]);
        settle(rig, &next, &OK);
    }
    assert_eq!(claim(rig), []);
}

/// An instance that fires no triggers takes none of their messages, and waits for none of them.
pub fn messages_for_triggers_are_left_to_others<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint(&format!("{TRIGGER_ENDPOINT_PREFIX}1-a")));
    tell(rig, 2);
    let (claim_no, instance) = (Uuid::from_u128(7), InstanceId(Uuid::from_u128(900)));
    let without =
        MessageClaim { claim: claim_no, instance, limit: 64, lease: LEASE, for_triggers: false };
    let claim_without = || rig.store().claim_messages(&without).expect("the claim is answered");
    let claimed = claim_without();
    assert_eq!((claimed.messages.len(), claimed.next_due), (0, None));
    add(rig, &endpoint("a"));
    tell(rig, 1);
    let claimed = claim_without().messages;
    let names: Vec<&str> = claimed.iter().map(|(message, _)| &*message.name.endpoint).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(claim(rig).len(), 3, "another one takes them at once");
}

/// The first messages of their executions are due later than hundreds that wait for them.
pub fn messages_of_a_dead_instance_are_claimed_before_those_that_wait_for_them<
    B: StoreUnderTest,
>(
    rig: &Rig<B>,
) {
    add(rig, &endpoint("a"));
    let mut hands: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| rig.start(ONE)).collect();
    for round in 0..24 {
        let kind = if round % 2 == 0 { MessageKind::Paused } else { MessageKind::Resumed };
        for hand in &mut hands {
            rig.commit(telling(hand, kind));
        }
        rig.advance(1);
    }
    let first = claim_as(rig, 1, 64).messages;
    assert_eq!(first.len(), IN_FLIGHT_MAX);
    rig.advance(LEASE.0);
    let again = claim_as(rig, 2, 64).messages;
    let executions = |claimed: &[(OutboxMessage, _)]| -> BTreeSet<_> {
        claimed.iter().map(|(message, _)| (message.name.execution, message.name.seq)).collect()
    };
    assert_eq!(executions(&again), executions(&first));
}

pub fn dead_message_does_not_hold_up_later_ones<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    let mut hand = rig.start(ONE);
    rig.commit(telling(&mut hand, MessageKind::Paused));
    rig.commit(telling(&mut hand, MessageKind::Resumed));
    let mut attempts = 0;
    loop {
        let due = claim_as(rig, 2, 0).next_due.expect("a message waits");
        rig.clock.advance(due.since(rig.clock.now()));
        let claimed = claim(rig);
        match seqs(&claimed)[..] {
            // The second one was due, and is put off.
            [] => continue,
            [3] => attempts += 1,
            ref seqs => {
                assert_eq!(*seqs, [4]);
                break;
            }
        }
        settle(rig, &claimed, &failure());
    }
    assert_eq!(attempts, 10);
    let first = rows(rig).remove(0);
    assert_eq!((first.state, first.attempts), (MessageState::Dead, 10));
}

pub fn results_are_recorded<B: StoreUnderTest>(rig: &mut Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 1);
    settle(rig, &claim(rig), &failure());
    rig.reopen();
    let row = rows(rig).remove(0);
    let last = row.last.expect("it was tried");
    assert_eq!(
        (last.status, last.took, last.reason.as_deref()),
        (Some(503), Millis(7), Some("busy"))
    );
    assert_eq!((row.attempts, row.due), (1, START.plus(Millis(5_000))));
    assert_eq!((row.state, row.settled_at), (MessageState::Pending, None));
    assert_eq!(endpoints(rig)[0].health.failures, 1);
    rig.advance(5_000);
    settle(rig, &claim(rig), &OK);
    let row = rows(rig).remove(0);
    assert_eq!(
        (row.state, row.settled_at),
        (MessageState::Delivered, Some(START.plus(Millis(5_000))))
    );
    assert_eq!(row.attempts, 2);
    assert_eq!(endpoints(rig)[0].health, Default::default());
}

pub fn claims_keep_to_the_limits_of_caller_and_endpoint<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    add(rig, &endpoint("b"));
    tell(rig, 12);
    let by_endpoint = |claimed: &ClaimedMessages, id: &str| {
        claimed.messages.iter().filter(|(message, _)| *message.name.endpoint == *id).count()
    };
    assert_eq!(claim_as(rig, 1, 3).messages.len(), 3);
    let second = claim_as(rig, 2, 64);
    assert_eq!(second.messages.len(), 2 * IN_FLIGHT_MAX - 3);
    assert_eq!(claim_as(rig, 3, 64).messages, [], "the limit is for all instances together");
    let done: Vec<OutboxMessage> =
        second.messages.iter().take(2).map(|(message, _)| message.clone()).collect();
    settle_as(rig, 2, &done, &OK);
    let third = claim_as(rig, 3, 64);
    assert_eq!(third.messages.len(), 2);
    assert!(by_endpoint(&third, "a") + by_endpoint(&third, "b") == 2);
}

pub fn cooling_endpoint_gets_one_probe_and_spends_no_other_attempts<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    add(rig, &endpoint("a"));
    tell(rig, 20);
    let sent = claim_as(rig, 1, COOLS_AFTER as usize);
    let sent: Vec<OutboxMessage> = sent.messages.into_iter().map(|(message, _)| message).collect();
    settle(rig, &sent, &failure());
    assert_eq!(claim(rig), []);
    let probe_at = START.plus(PROBE_AFTER);
    assert_eq!(claim_as(rig, 2, 64).next_due, Some(probe_at));
    rig.advance(PROBE_AFTER.0);
    let probe = claim(rig);
    assert_eq!(probe.len(), 1);
    assert_eq!(claim_as(rig, 2, 64).messages, [], "one probe at a time");
    settle(rig, &probe, &failure());
    assert_eq!(claim(rig), []);
    let attempts: u32 = rows(rig).iter().map(|row| row.attempts).sum();
    assert_eq!(attempts, COOLS_AFTER + 1);
    rig.advance(2 * PROBE_AFTER.0);
    settle(rig, &claim(rig), &OK);
    assert_eq!(claim(rig).len(), IN_FLIGHT_MAX, "it is well again");
}

pub fn probe_of_a_dead_instance_is_sent_by_another<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 10);
    let sent = claim(rig);
    settle(rig, &sent, &failure());
    rig.advance(PROBE_AFTER.0);
    assert_eq!(claim_as(rig, 2, 64).messages.len(), 1);
    rig.advance(LEASE.0);
    assert_eq!(claim_as(rig, 3, 64).messages.len(), 1);
}

fn claim_by<B: StoreUnderTest>(
    rig: &Rig<B>,
    instance: InstanceId,
    claim: u128,
    limit: usize,
) -> ClaimedMessages {
    let request = MessageClaim {
        claim: Uuid::from_u128(claim),
        instance,
        limit,
        lease: LEASE,
        for_triggers: true,
    };
    rig.store().claim_messages(&request).expect("the claim is answered")
}

/// Its messages, and its probe, are due when its lease has expired, and not when its claims end.
pub fn claims_of_a_dead_instance_are_released_with_its_lease<B: StoreUnderTest>(rig: &Rig<B>) {
    let (dead, live) = (rig.instance(1), rig.instance(2));
    add(rig, &endpoint("a"));
    let mut hand = rig.start(ONE);
    rig.commit(telling(&mut hand, MessageKind::Paused));
    rig.commit(telling(&mut hand, MessageKind::Resumed));
    let sent: Vec<_> = claim_by(rig, dead, 1, 64).messages;
    let sent: Vec<OutboxMessage> = sent.into_iter().map(|(message, _)| message).collect();
    assert_eq!(sent.len(), 1);
    rig.advance(INSTANCE_LEASE.0 - 1);
    rig.announce(live);
    assert_eq!(claim_by(rig, live, 2, 64).messages, [], "its lease lasts");
    rig.advance(1);
    assert_eq!(claim_by(rig, dead, 3, 64).messages, [], "its own lease has expired");
    let again = claim_by(rig, live, 4, 64);
    let names: Vec<_> = again.messages.iter().map(|(message, _)| &message.name).collect();
    assert_eq!(names, [&sent[0].name]);
    settle_as(rig, 1, &sent, &OK);
    assert_eq!(states(rig), [MessageState::Pending; 2], "another claim has it");
    settle_as(rig, 4, &sent, &OK);
    assert_eq!(claim_by(rig, live, 5, 64).messages.len(), 1, "the next one about the execution");
    rig.leave(live);
    assert_eq!(claim_by(rig, dead, 6, 64).messages, [], "one that left records its results");
}

pub fn probe_of_a_dead_instance_is_released_with_its_lease<B: StoreUnderTest>(rig: &Rig<B>) {
    add(rig, &endpoint("a"));
    tell(rig, 10);
    let sent = claim(rig);
    settle(rig, &sent, &failure());
    rig.advance(PROBE_AFTER.0);
    let (dead, live) = (rig.instance(1), rig.instance(2));
    assert_eq!(claim_by(rig, dead, 2, 64).messages.len(), 1);
    rig.advance(INSTANCE_LEASE.0);
    rig.announce(live);
    assert_eq!(claim_by(rig, live, 3, 64).messages.len(), 1);
    assert_eq!(claim_by(rig, live, 4, 64).messages, [], "one probe at a time");
}
