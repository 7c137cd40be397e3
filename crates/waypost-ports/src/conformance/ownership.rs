//! Control rows, claims, leases, holding.

use uuid::Uuid;
use waypost_core::command::Request;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::time::{Millis, Timestamp};

use super::StoreUnderTest;
use super::rig::{FOLD, Hand, ONE, Rig, START, claim_request, executions, heartbeat, signal};
use crate::store::{Appended, ClaimRequest, ControlChange, Heartbeat, LEASE, MailOf, Share, Store};

/// Longer than any lease.
const LONG: u64 = LEASE.0 + 1;

fn due(after: i64) -> Option<Timestamp> {
    Some(Timestamp(START.0 + after))
}

pub fn a_first_frame_makes_an_owned_row<B: StoreUnderTest>(rig: &Rig<B>) {
    let control = rig.control(rig.start(ONE).execution);
    assert_eq!((control.owner, control.epoch), (Some(ONE), 1));
    assert_eq!((control.ready, control.next_due, control.held), (false, None, None));
}

pub fn owned_execution_is_not_claimed<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.start(one);
    rig.send(hand.execution, "m1", signal());
    let claims = rig.claim(two);
    assert!(claims.claimed.is_empty() && !claims.more);
}

pub fn a_parked_execution_is_claimed_when_due<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.park(ONE, due(1_000));
    rig.advance(999);
    assert_eq!(rig.claimed(ONE), []);
    rig.advance(1);
    let claims = rig.claim(ONE);
    assert_eq!(executions(&claims), [hand.execution]);
    assert_eq!(claims.claimed[0].frames.len(), 2);
    let control = claims.claimed[0].control.as_ref().expect("it has a control row");
    assert_eq!((control.owner, control.epoch, control.ready), (Some(ONE), 2, false));
    let mut owner = Hand::of(&claims.claimed[0]);
    rig.commit(owner.next(1).control(ControlChange::Owned));
    assert_eq!(rig.control(hand.execution).epoch, 2);
}

pub fn a_claim_is_exclusive_and_raises_the_epoch<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.park(one, due(0));
    let claims = rig.claim(two);
    assert_eq!(executions(&claims), [hand.execution]);
    assert_eq!(rig.claimed(one), []);
    assert_eq!(rig.claimed(two), []);
    let mut taker = Hand::of(&claims.claimed[0]);
    assert_eq!(taker.epoch, 2);
    rig.commit(taker.next(1).control(ControlChange::Owned));
    assert_eq!(rig.append(hand.frame(1)), Appended::Fenced, "the former owner is fenced off");
    rig.commit(taker.next(1).control(ControlChange::Parked { next_due: due(0) }));
    assert_eq!(rig.take(one, "it is due").epoch, 3);
}

pub fn claims_come_in_order_and_in_batches<B: StoreUnderTest>(rig: &Rig<B>) {
    let late = rig.park(ONE, due(20)).execution;
    let early = rig.park(ONE, due(10)).execution;
    let first_ready = rig.park(ONE, due(15)).execution;
    let never = rig.park(ONE, None).execution;
    let second_ready = rig.park(ONE, None).execution;
    rig.send(second_ready, "m1", signal());
    rig.send(first_ready, "m1", signal());
    rig.advance(100);
    let request = ClaimRequest { limit: 3, ..claim_request(ONE) };
    let claims = rig.claim_as(&request);
    assert_eq!(executions(&claims), [first_ready, second_ready, early]);
    assert!(claims.more);
    let claims = rig.claim_as(&request);
    assert_eq!(executions(&claims), [late]);
    assert!(!claims.more);
    assert_eq!(rig.control(never).owner, None);
}

/// Overdue executions come first, and the claim returns when the rest is due.
pub fn claims_reach_ahead_as_far_as_they_are_asked_to<B: StoreUnderTest>(rig: &Rig<B>) {
    let later = rig.park(ONE, due(900_000));
    let soon = rig.park(ONE, due(300_000)).execution;
    let overdue = rig.park(ONE, due(0)).execution;
    let request = ClaimRequest { limit: 1, ahead: Millis(400_000), ..claim_request(ONE) };
    let claims = rig.claim_as(&request);
    assert_eq!((executions(&claims), claims.more), (vec![overdue], true));
    let claims = rig.claim_as(&request);
    assert_eq!((executions(&claims), claims.more), (vec![soon], false));
    let within = |due: Timestamp| claims.at < due && due <= claims.at.plus(request.ahead);
    assert!(rig.control(soon).next_due.is_some_and(within), "a claim gives the store's time");
    assert_eq!(claims.next_due, rig.control(later.execution).next_due);
    assert_eq!(rig.control(soon).owner, Some(ONE));
    assert_eq!(executions(&rig.claim_as(&request)), [], "it is further away");
}

pub fn claims_can_be_limited_to_some<B: StoreUnderTest>(rig: &Rig<B>) {
    let hands: Vec<_> = (0..4).map(|_| rig.park(ONE, due(0)).execution).collect();
    let parked = rig.park(ONE, due(50)).execution;
    let only = |only| ClaimRequest { limit: 10, only: Some(only), ..claim_request(ONE) };
    let claims = rig.claim_as(&only(vec![hands[2], hands[1], parked]));
    assert_eq!(executions(&claims), [hands[1], hands[2]]);
    assert_eq!((claims.more, claims.next_due), (false, due(50)));
    assert_eq!(executions(&rig.claim_as(&only(Vec::new()))), []);
    assert_eq!(rig.claimed(ONE), [hands[0], hands[3]]);
}

pub fn claim_skips_executions_of_a_newer_log_format<B: StoreUnderTest>(rig: &Rig<B>) {
    let (old, new) = (rig.instance(1), rig.instance(2));
    let mut hand = rig.start(new);
    let mut needs_more = hand.next(1);
    needs_more.0.header.requires = FOLD + 1;
    rig.commit(needs_more);
    rig.commit(hand.next(1).control(ControlChange::Parked { next_due: due(0) }));
    let claims = rig.claim(old);
    assert_eq!((claims.claimed.len(), claims.more), (0, false));
    let request = ClaimRequest { fold: FOLD + 1, limit: 10, ..claim_request(new) };
    assert_eq!(executions(&rig.claim_as(&request)), [hand.execution]);
}

pub fn a_dead_owner_loses_its_executions<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hands = [rig.start(one), rig.start(one)];
    rig.advance(LEASE.0 - 1);
    rig.announce(two);
    assert_eq!(rig.claimed(two), [], "its lease has not run out");
    rig.advance(1);
    let claims = rig.claim(two);
    assert_eq!(executions(&claims), [hands[0].execution, hands[1].execution]);
    let mut taker = Hand::of(&claims.claimed[0]);
    assert_eq!(taker.epoch, 2);
    rig.commit(taker.next(1).control(ControlChange::Owned));
    assert_eq!(rig.append(hands[0].frame(1)), Appended::Fenced);
}

pub fn a_lease_is_as_long_as_was_asked_for<B: StoreUnderTest>(rig: &Rig<B>) {
    let (short, other) = (rig.instance(1), rig.instance(2));
    let execution = rig.start(short).execution;
    let lease = Some(Millis(2_000));
    rig.beat(&Heartbeat { lease, ..heartbeat(short) });
    rig.advance(1_999);
    assert_eq!(executions(&rig.claim(other)), []);
    rig.advance(1);
    assert_eq!(executions(&rig.claim(other)), [execution]);
}

pub fn heartbeat_returns_the_log_format_all_live_instances_read<B: StoreUnderTest>(rig: &Rig<B>) {
    let [old, new] = [1, 2].map(|number| InstanceId(Uuid::from_u128(number)));
    let beat = |instance, fold| rig.beat(&Heartbeat { fold, ..heartbeat(instance) }).fold;
    assert_eq!(beat(new, 7), 7);
    assert_eq!(beat(old, 5), 5);
    assert_eq!(beat(new, 7), 5, "while the older one lives");
    rig.advance(LEASE.0 - 1);
    assert_eq!(beat(new, 7), 5);
    rig.advance(1);
    assert_eq!(beat(new, 7), 7);
    assert_eq!(beat(old, 5), 5);
    rig.leave(old);
    assert_eq!(beat(new, 7), 7);
}

pub fn a_leaving_owner_hands_over_at_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.start(one);
    rig.leave(one);
    assert_eq!(rig.claimed(two), [hand.execution]);
}

/// After a long sleep of the machine the only instance must not take itself for dead.
pub fn an_instance_keeps_its_own<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.advance(LONG);
    assert_eq!(rig.claimed(ONE), []);
    rig.commit(hand.next(1));
    assert_eq!(rig.control(hand.execution).owner, Some(ONE));
}

/// A zombie whose lease has expired may still win the race for one frame; an execution that it then
/// owns must not be lost.
pub fn an_owner_that_never_announced_itself_is_dead<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let mut hand = rig.park(one, None);
    rig.leave(one);
    rig.commit(hand.next(1).control(ControlChange::Owned));
    assert_eq!(rig.claimed(two), [hand.execution]);
}

pub fn an_epoch_never_goes_back<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    rig.park(one, due(0));
    let mut slow = rig.take(one, "it is due");
    rig.leave(one);
    let quick = rig.take(two, "its owner has left");
    assert_eq!((slow.epoch, quick.epoch), (2, 3));
    rig.announce(one);
    rig.commit(slow.next(1).control(ControlChange::Owned));
    assert_eq!(rig.append(quick.frame(1)), Appended::Fenced);
    assert_eq!(rig.control(slow.execution).epoch, 3);
}

pub fn an_ended_execution_has_no_row<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1).control(ControlChange::Ended));
    assert_eq!(rig.load(hand.execution).control, None);
    rig.leave(ONE);
    assert_eq!(rig.claimed(rig.instance(2)), []);
}

pub fn a_reopened_execution_has_a_row_again<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1).control(ControlChange::Ended));
    hand.epoch = 2;
    rig.commit(hand.next(1).control(ControlChange::Owned));
    let control = rig.control(hand.execution);
    assert_eq!((control.owner, control.epoch), (Some(ONE), 2));
}

pub fn claim_returns_the_next_due_time<B: StoreUnderTest>(rig: &Rig<B>) {
    rig.announce(ONE);
    assert_eq!(rig.claim(ONE).next_due, None);
    rig.park(ONE, due(3_000));
    let soon = rig.park(ONE, due(2_000));
    rig.park(ONE, None);
    assert_eq!(rig.claim(ONE).next_due, due(2_000));
    rig.send(soon.execution, "m1", signal());
    assert_eq!(rig.claim(ONE).next_due, due(3_000), "what was claimed does not count");
}

pub fn a_held_execution_waits_for_its_deadline<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let held = ControlChange::Held { reason: "paused by ann".to_owned(), next_due: due(1_000) };
    rig.commit(hand.next(1).control(held));
    let control = rig.control(hand.execution);
    assert_eq!(control.held.as_deref(), Some("paused by ann"));
    assert_eq!((control.owner, control.next_due, control.ready), (None, due(1_000), false));
    assert_eq!(rig.claimed(ONE), []);
    rig.advance(1_000);
    let claims = rig.claim(ONE);
    assert_eq!(executions(&claims), [hand.execution]);
    let mut owner = Hand::of(&claims.claimed[0]);
    rig.commit(owner.next(1).control(ControlChange::Owned));
    assert_eq!(rig.control(hand.execution).held, None);
}

pub fn holding_by_hand_stops_everything_but_resume<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.start(ONE);
    rig.store().hold(hand.execution, ONE, "frame 3 is damaged").expect("it is held");
    let control = rig.control(hand.execution);
    assert_eq!(control.held.as_deref(), Some("frame 3 is damaged"));
    assert_eq!((control.owner, control.ready), (None, false));
    rig.send(hand.execution, "m1", signal());
    rig.send(hand.execution, "m2", Request::Cancel { reason: None });
    assert_eq!(rig.claimed(ONE), []);
    rig.send(hand.execution, "m3", Request::Resume { reason: None });
    assert_eq!(rig.claimed(ONE), [hand.execution]);
}

pub fn holding_again_does_not_spin<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.park(ONE, due(0));
    assert_eq!(rig.claimed(ONE), [hand.execution]);
    rig.store().hold(hand.execution, ONE, "damaged").expect("it is held");
    assert_eq!(rig.claimed(ONE), [], "being due does not count");
    rig.send(hand.execution, "m1", Request::Resume { reason: None });
    assert_eq!(rig.claimed(ONE), [hand.execution]);
    rig.store().hold(hand.execution, ONE, "still damaged").expect("it is held");
    assert_eq!(rig.claimed(ONE), []);
    rig.send(hand.execution, "m2", Request::Resume { reason: None });
    assert_eq!(rig.claimed(ONE), [hand.execution]);
}

/// A repeat of a hold whose response was lost arrives after another instance has claimed the
/// released execution.
pub fn only_the_owner_quarantines<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.start(one);
    rig.store().hold(hand.execution, one, "damaged").expect("it is held");
    rig.send(hand.execution, "m1", Request::Resume { reason: None });
    assert_eq!(rig.claimed(two), [hand.execution]);
    rig.store().hold(hand.execution, one, "damaged").expect("it does nothing");
    assert_eq!(rig.control(hand.execution).owner, Some(two));
}

/// A claim whose response is lost leaves its executions to an owner that never received them.
pub fn reconciliation_returns_owned_executions_not_in_memory<B: StoreUnderTest>(rig: &Rig<B>) {
    let driven = rig.start(ONE);
    let (parked, taken) = (rig.park(ONE, due(0)), rig.park(ONE, due(0)));
    let lost = rig.claim(ONE);
    assert_eq!(executions(&lost), [parked.execution, taken.execution]);
    assert_eq!(rig.claimed(ONE), []);
    rig.commit(Hand::of(&lost.claimed[1]).next(1).control(ControlChange::Owned));
    let held = Some(vec![driven.execution, taken.execution]);
    let again = ClaimRequest { limit: 10, held, ..claim_request(ONE) };
    let claims = rig.claim_as(&again);
    assert_eq!(executions(&claims), [parked.execution], "the others are in memory");
    assert_eq!(Hand::of(&claims.claimed[0]).epoch, Hand::of(&lost.claimed[0]).epoch);
    let all = Some(vec![driven.execution, parked.execution, taken.execution]);
    assert_eq!(executions(&rig.claim_as(&ClaimRequest { held: all, ..again })), []);
    assert_eq!(rig.control(driven.execution).owner, Some(ONE));
}

/// Each driver of an instance claims the executions that it drives.
pub fn claim_for_a_share_takes_nothing_else<B: StoreUnderTest>(rig: &Rig<B>) {
    let one = rig.instance(1);
    let numbers = |hands: &[Hand], share: Share| -> Vec<ExecutionNo> {
        let numbers = hands.iter().map(|hand| hand.execution);
        numbers.filter(|number| share.has(*number)).collect()
    };
    let kept: Vec<Hand> = (0..4).map(|_| rig.start(one)).collect();
    let ready: Vec<Hand> = (0..4).map(|_| rig.park(one, None)).collect();
    for hand in &ready {
        rig.send(hand.execution, "m1", signal());
    }
    let soon: Vec<Hand> = (0..4).map(|_| rig.park(one, due(0))).collect();
    let later: Vec<Hand> = (0..4).map(|at| rig.park(one, due(1_000_000 + at))).collect();
    for at in 0..2 {
        let share = Share { at, of: 2 };
        let request = ClaimRequest { share, ..claim_request(one) };
        let mut rest = later.iter().zip(1_000_000..).filter(|(hand, _)| share.has(hand.execution));
        let claims = rig.claim_as(&ClaimRequest { limit: 3, ..request.clone() });
        let expected = [numbers(&ready, share), numbers(&soon, share)].concat();
        assert_eq!(executions(&claims), expected[..3], "the due ones come last");
        assert!(claims.more, "another one of the share is due");
        let claims = rig.claim_as(&request);
        assert_eq!(executions(&claims), expected[3..]);
        assert!(!claims.more, "the rest is of the other share, or not due");
        assert_eq!(claims.next_due, rest.next().and_then(|(_, after)| due(after)));
        let held = Some(numbers(&soon, share));
        let forgotten = [numbers(&kept, share), numbers(&ready, share)].concat();
        assert_eq!(executions(&rig.claim_as(&ClaimRequest { held, ..request })), forgotten);
        let mail = rig.store().collect(MailOf::Owner(one, share), 10).expect("it is answered");
        let addressees: Vec<ExecutionNo> = mail.iter().map(|mail| mail.execution).collect();
        assert_eq!(addressees, numbers(&ready, share));
    }
    rig.advance(LONG);
    let two = rig.instance(2);
    for at in 0..2 {
        let share = Share { at, of: 2 };
        let orphans = [numbers(&kept, share), numbers(&ready, share), numbers(&soon, share)];
        let request = ClaimRequest { share, suspects: false, ..claim_request(two) };
        assert_eq!(executions(&rig.claim_as(&request)), orphans.concat());
    }
}

/// A process that died is followed by another.
pub fn ownership_survives_reopening_as_claimable<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let hand = rig.start(ONE);
    let parked = rig.park(ONE, due(1_000_000));
    rig.reopen();
    rig.advance(LONG);
    assert_eq!(rig.claimed(rig.instance(2)), [hand.execution]);
    assert_eq!(rig.control(parked.execution).owner, None);
}
