//! Deaths of owners, and the executions in hand at them.

use waypost_core::id::{ExecutionNo, InstanceId};

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, START, claim_request, executions};
use crate::store::{ClaimRequest, ControlChange, LEASE, Settled, Store};

/// Longer than any lease.
const LONG: u64 = LEASE.0 + 1;

/// Deaths that count against an execution, and whether it is in doubt.
fn suspicion<B: StoreUnderTest>(rig: &Rig<B>, execution: ExecutionNo) -> (u32, bool) {
    let control = rig.control(execution);
    (control.crashes, control.doubt)
}

/// The owner dies, and the next instance takes its executions.
fn die_and_claim<B: StoreUnderTest>(rig: &Rig<B>, next: u128) -> (InstanceId, Vec<Hand>) {
    rig.advance(LONG);
    let instance = rig.instance(next);
    let claims = rig.claim(instance);
    (instance, claims.claimed.iter().map(Hand::of).collect())
}

/// The only one of a claim.
fn only(mut hands: Vec<Hand>) -> Hand {
    assert_eq!(hands.len(), 1);
    hands.remove(0)
}

fn without_suspects(instance: InstanceId) -> ClaimRequest {
    ClaimRequest { suspects: false, ..claim_request(instance) }
}

pub fn death_counts_against_executions_in_hand<B: StoreUnderTest>(rig: &Rig<B>) {
    let in_hand = rig.start(ONE).execution;
    let parked = rig.park(ONE, None).execution;
    assert_eq!(suspicion(rig, in_hand), (0, false));
    die_and_claim(rig, 2);
    assert_eq!((suspicion(rig, in_hand), suspicion(rig, parked)), ((1, true), (0, false)));
}

pub fn a_death_counts_when_its_data_is_opened_again<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let execution = rig.start(ONE).execution;
    rig.reopen();
    let (_, hands) = die_and_claim(rig, 2);
    assert_eq!(only(hands).execution, execution);
    assert_eq!(suspicion(rig, execution), (1, true));
}

pub fn an_orderly_end_counts_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let execution = rig.start(ONE).execution;
    rig.leave(ONE);
    let two = rig.instance(2);
    assert_eq!(rig.claimed(two), [execution]);
    assert_eq!(suspicion(rig, execution), (0, false));
    rig.advance(LONG);
    let three = rig.instance(3);
    assert_eq!(rig.claimed(three), [execution]);
    rig.leave(three);
    assert_eq!(rig.claimed(rig.instance(4)), [execution]);
    assert_eq!(suspicion(rig, execution), (1, true), "neither more nor less");
}

/// After a failover to a store that lacks the last heartbeats, all leases have expired and all
/// instances live. Each of them would take the executions of the others, and each take-over would
/// count as a death.
pub fn a_claimer_whose_lease_is_over_takes_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let in_hand = rig.start(one).execution;
    let due = rig.park(one, Some(START)).execution;
    rig.advance(LONG);
    let claims = rig.claim(two);
    assert_eq!((executions(&claims), claims.lapsed), (Vec::new(), true));
    assert_eq!(suspicion(rig, in_hand), (0, false));
    rig.announce(two);
    let claims = rig.claim(two);
    assert_eq!((executions(&claims), claims.lapsed), (vec![in_hand, due], false));
}

pub fn only_a_death_in_doubt_counts_again<B: StoreUnderTest>(rig: &Rig<B>) {
    let execution = rig.start(ONE).execution;
    let (_, hands) = die_and_claim(rig, 2);
    rig.commit(only(hands).next(1).settled(Settled::Decided));
    assert_eq!(suspicion(rig, execution), (1, false));
    let (_, hands) = die_and_claim(rig, 3);
    assert_eq!(suspicion(rig, execution), (1, true), "it was not in doubt");
    rig.commit(only(hands).next(1));
    let (_, hands) = die_and_claim(rig, 4);
    assert_eq!(suspicion(rig, execution), (2, true), "its frame settled nothing");
    assert_eq!(only(hands).execution, execution);
    die_and_claim(rig, 5);
    assert_eq!(suspicion(rig, execution), (3, true));
}

pub fn execution_about_to_be_decided_is_in_doubt_again<B: StoreUnderTest>(rig: &Rig<B>) {
    let executions = [rig.start(ONE).execution, rig.start(ONE).execution];
    let (two, hands) = die_and_claim(rig, 2);
    for mut hand in hands {
        rig.commit(hand.next(1).settled(Settled::Decided));
    }
    let fresh = rig.start(two).execution;
    let doubt = |owner, executions: &[ExecutionNo]| {
        let mut owned = rig.store().doubt(owner, executions).expect("it is marked");
        owned.sort_unstable();
        owned
    };
    assert_eq!(doubt(ONE, &executions), [], "it owns them no more");
    assert_eq!(suspicion(rig, executions[0]), (1, false));
    assert_eq!(doubt(two, &[executions[1], ExecutionNo(i64::MAX), fresh]), [executions[1], fresh]);
    assert_eq!(suspicion(rig, executions[1]), (1, true));
    assert_eq!(suspicion(rig, fresh), (0, false), "it was in hand at no death");
    die_and_claim(rig, 3);
    assert_eq!(executions.map(|execution| suspicion(rig, execution).0), [1, 2]);
}

pub fn suspects_are_taken_alone_and_last<B: StoreUnderTest>(rig: &Rig<B>) {
    let suspects: Vec<_> = (0..3).map(|_| rig.start(ONE).execution).collect();
    die_and_claim(rig, 2);
    let fresh = rig.start(rig.instance(2)).execution;
    rig.advance(LONG);
    let three = rig.instance(3);
    let claims = rig.claim_as(&without_suspects(three));
    assert_eq!((executions(&claims), claims.more), (vec![fresh], true));
    let claims = rig.claim(three);
    assert_eq!((executions(&claims), claims.more), (vec![suspects[0]], true));
    // It dies with the first of them: the others come before it now.
    rig.commit(
        Hand::of(&rig.load(fresh)).next(1).control(ControlChange::Parked { next_due: None }),
    );
    rig.advance(LONG);
    let four = rig.instance(4);
    let order: Vec<_> = (0..3).map(|_| rig.claim(four)).collect();
    let taken: Vec<_> = order.iter().map(executions).collect();
    assert_eq!(taken, [vec![suspects[1]], vec![suspects[2]], vec![suspects[0]]]);
    assert_eq!(order.iter().map(|claims| claims.more).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(suspicion(rig, suspects[0]), (3, true));
    assert_eq!(suspicion(rig, suspects[1]), (2, true));
}

pub fn progress_clears_the_count<B: StoreUnderTest>(rig: &Rig<B>) {
    let execution = rig.start(ONE).execution;
    let (_, hands) = die_and_claim(rig, 2);
    let mut hand = only(hands);
    rig.commit(hand.next(1).control(ControlChange::Owned));
    assert_eq!(suspicion(rig, execution), (1, true), "a take-over is no progress");
    rig.commit(hand.next(1).control(ControlChange::Owned).settled(Settled::Decided));
    assert_eq!(suspicion(rig, execution), (1, false));
    rig.commit(hand.next(1).settled(Settled::Progress));
    assert_eq!(suspicion(rig, execution), (0, false));
    let (two, hands) = die_and_claim(rig, 3);
    rig.commit(only(hands).next(1).control(ControlChange::Owned).settled(Settled::Progress));
    let control = rig.control(execution);
    assert_eq!((control.crashes, control.doubt, control.owner), (0, false, Some(two)));
}

pub fn a_park_clears_the_count<B: StoreUnderTest>(rig: &Rig<B>) {
    let execution = rig.start(ONE).execution;
    let (_, hands) = die_and_claim(rig, 2);
    rig.commit(only(hands).next(1).control(ControlChange::Parked { next_due: None }));
    assert_eq!(suspicion(rig, execution), (0, false));
}

pub fn holding_clears_the_count<B: StoreUnderTest>(rig: &Rig<B>) {
    let execution = rig.start(ONE).execution;
    let (two, _) = die_and_claim(rig, 2);
    rig.store().hold(execution, two, "it kills").expect("the store works");
    assert_eq!(suspicion(rig, execution), (0, false));
    rig.advance(LONG);
    assert_eq!(rig.claimed(rig.instance(3)), []);
}

pub fn a_fenced_frame_settles_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let first = rig.start(ONE);
    let (_, hands) = die_and_claim(rig, 2);
    rig.commit(only(hands).next(1));
    let late = first.frame(1).settled(Settled::Progress);
    assert_eq!(rig.append(late), crate::store::Appended::Fenced);
    assert_eq!(suspicion(rig, first.execution), (1, true));
}

pub fn a_reconciliation_counts_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let execution = rig.start(ONE).execution;
    let reconcile = ClaimRequest { held: Some(Vec::new()), ..without_suspects(ONE) };
    assert_eq!(executions(&rig.claim_as(&reconcile)), [execution]);
    assert_eq!(suspicion(rig, execution), (0, false));
}
