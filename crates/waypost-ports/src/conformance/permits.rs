//! The queues of concurrency keys: their order, and the policies for one more. A checker's view of
//! them is in `permit_queues`.

use waypost_core::command::Request;
use waypost_core::id::ExecutionId;
use waypost_core::permits::PermitRequest;
use waypost_core::plan::ConcurrencyPolicy;
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig, START, signal};
use crate::store::{
    Append, Appended, ControlChange, Idempotency, LEASE, MailBody, Permit, Store, Submission,
    TakenName,
};

pub(super) fn permit_for(key: &str, limit: u32) -> PermitRequest {
    PermitRequest { key: key.into(), limit, policy: ConcurrencyPolicy::Queue }
}

fn under(policy: ConcurrencyPolicy) -> PermitRequest {
    PermitRequest { policy, ..permit_for("k", 1) }
}

/// A frame with which an execution is queued.
pub(super) fn waits(draft: Draft, request: &PermitRequest) -> Draft {
    let held = ControlChange::Held { reason: "waits".to_owned(), next_due: None };
    draft.control(held).permit(request.clone())
}

/// Starts an execution that is queued.
pub(super) fn queue<B: StoreUnderTest>(rig: &Rig<B>, request: &PermitRequest) -> Hand {
    let mut hand = rig.hand(ONE);
    rig.commit(waits(hand.next(3), request));
    hand
}

/// Queues several executions.
pub(super) fn queue_all<const N: usize, B: StoreUnderTest>(
    rig: &Rig<B>,
    request: &PermitRequest,
) -> [Hand; N] {
    std::array::from_fn(|_| queue(rig, request))
}

pub(super) fn end<B: StoreUnderTest>(rig: &Rig<B>, hand: &mut Hand) {
    rig.commit(hand.next(1).control(ControlChange::Ended));
}

pub(super) fn permit<B: StoreUnderTest>(rig: &Rig<B>, hand: &Hand) -> Permit {
    rig.control(hand.execution).permit.expect("it is queued")
}

/// Does it hold a permit, and how many are before it?
pub(super) fn place<B: StoreUnderTest>(rig: &Rig<B>, hand: &Hand) -> (bool, u64) {
    let permit = permit(rig, hand);
    (permit.holding, permit.before)
}

/// As [`place`], of several.
pub(super) fn places<const N: usize, B: StoreUnderTest>(
    rig: &Rig<B>,
    hands: [&Hand; N],
) -> [(bool, u64); N] {
    hands.map(|hand| place(rig, hand))
}

pub fn a_free_permit_is_given_at_birth<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = queue(rig, &permit_for("k", 1));
    let control = rig.control(hand.execution);
    assert_eq!((control.owner, control.ready, control.held), (None, true, None));
    assert_eq!(control.permit, Some(Permit { key: "k".into(), holding: true, before: 0 }));
    let claims = rig.claim(ONE);
    let claimed = claims.claimed.first().expect("it is ready");
    let permit = claimed.control.as_ref().and_then(|control| control.permit.clone());
    assert_eq!(permit.map(|permit| permit.holding), Some(true), "and the claimer sees it");
    assert_eq!(rig.control(rig.start(ONE).execution).permit, None, "others have none");
}

pub fn permits_are_given_in_queue_order<B: StoreUnderTest>(rig: &Rig<B>) {
    let [mut a, mut b, mut c] = queue_all(rig, &permit_for("k", 1));
    assert_eq!(places(rig, [&a, &b, &c]), [(true, 0), (false, 1), (false, 2)]);
    let control = rig.control(b.execution);
    assert_eq!((control.ready, control.held.as_deref()), (false, Some("waits")));
    assert_eq!(rig.claimed(ONE), [a.execution]);
    end(rig, &mut a);
    assert_eq!(places(rig, [&b, &c]), [(true, 0), (false, 1)]);
    assert_eq!(rig.claimed(ONE), [b.execution]);
    end(rig, &mut b);
    assert_eq!(rig.claimed(ONE), [c.execution]);
    end(rig, &mut c);
    assert_eq!(rig.claimed(ONE), []);
}

pub fn the_limit_holds<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hands: [Hand; 5] = queue_all(rig, &permit_for("k", 2));
    let ids = hands.clone().map(|hand| hand.execution);
    assert_eq!(rig.claimed(ONE), ids[..2]);
    end(rig, &mut hands[1]);
    assert_eq!(rig.claimed(ONE), ids[2..3]);
    end(rig, &mut hands[0]);
    end(rig, &mut hands[2]);
    assert_eq!(rig.claimed(ONE), ids[3..]);
}

pub fn one_batch_may_queue_several_executions<B: StoreUnderTest>(rig: &Rig<B>) {
    let numbers = rig.numbers(ONE, 3);
    let mut hands: Vec<_> = numbers.into_iter().map(|id| Hand::new(id, ONE)).collect();
    let request = permit_for("k", 1);
    let mut batch: Vec<Append> =
        hands.iter_mut().map(|hand| waits(hand.next(3), &request).into()).collect();
    // The first one ends in the very batch.
    batch.push(hands[0].next(1).control(ControlChange::Ended).into());
    rig.commit_all(&batch);
    assert_eq!(places(rig, [&hands[1], &hands[2]]), [(true, 0), (false, 1)]);
}

pub fn keys_are_apart<B: StoreUnderTest>(rig: &Rig<B>) {
    let [mut a, _b] = queue_all(rig, &permit_for("k", 1));
    let [c, d] = queue_all(rig, &permit_for("K", 1));
    assert_eq!(places(rig, [&c, &d]), [(true, 0), (false, 1)]);
    end(rig, &mut a);
    assert_eq!(place(rig, &d), (false, 1), "other queues do not change");
}

pub fn a_permit_is_given_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let [mut a, b, c] = queue_all(rig, &permit_for("k", 1));
    let last: Append = a.next(1).control(ControlChange::Ended).into();
    let first = rig.append(last.clone());
    assert_eq!(rig.append(last), first, "the reply was lost, and the append is repeated");
    assert_eq!(places(rig, [&b, &c]), [(true, 0), (false, 1)]);
    assert_eq!(rig.claimed(ONE), [b.execution]);
}

pub fn a_repeated_birth_is_one_place<B: StoreUnderTest>(rig: &Rig<B>) {
    for policy in ConcurrencyPolicy::ALL {
        let key: &str = &format!("{policy:?}");
        let request = PermitRequest { policy, ..permit_for(key, 1) };
        let mut hand = rig.hand(ONE);
        let birth: Append = waits(hand.next(3), &request).into();
        let first = rig.append(birth.clone());
        rig.advance(5);
        assert_eq!(rig.append(birth), first, "{policy:?}");
        assert_eq!(place(rig, &hand), (true, 0), "{policy:?}");
        let next = queue(rig, &permit_for(key, 1));
        assert_eq!(place(rig, &next), (false, 1), "{policy:?}");
        assert_eq!(rig.load(hand.execution).mail, [], "it does not cancel itself");
    }
}

pub fn execution_that_ends_while_queued_frees_its_place<B: StoreUnderTest>(rig: &Rig<B>) {
    let [mut a, b, c] = queue_all(rig, &permit_for("k", 1));
    assert_eq!(rig.claimed(ONE), [a.execution]);
    rig.send(b.execution, "s", signal());
    assert_eq!(rig.claimed(ONE), [], "a signal does not wake a queued execution");
    rig.send(b.execution, "c", Request::Cancel { reason: None });
    let mut b = rig.take(ONE, "a cancellation wakes it");
    assert_eq!(place(rig, &b), (false, 1), "and it has no permit");
    end(rig, &mut b);
    assert_eq!(place(rig, &c), (false, 1));
    end(rig, &mut a);
    assert_eq!(rig.claimed(ONE), [c.execution]);
}

pub fn queued_execution_is_claimed_at_its_deadline<B: StoreUnderTest>(rig: &Rig<B>) {
    let a = queue(rig, &permit_for("k", 1));
    let mut b = rig.hand(ONE);
    let due = Some(Timestamp(START.0 + 100));
    let held = ControlChange::Held { reason: "waits".to_owned(), next_due: due };
    rig.commit(b.next(3).control(held).permit(permit_for("k", 1)));
    assert_eq!(rig.claimed(ONE), [a.execution]);
    assert_eq!(rig.claim(ONE).next_due, due);
    rig.advance(100);
    assert_eq!(rig.claimed(ONE), [b.execution]);
}

pub fn execution_that_queues_again_keeps_its_place<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = permit_for("k", 1);
    let [mut a, b, c] = queue_all(rig, &request);
    assert_eq!(rig.claimed(ONE), [a.execution]);
    let woken = |message: &str| {
        rig.send(b.execution, message, Request::Resume { reason: None });
        rig.take(ONE, "a request to resume wakes it")
    };
    let mut hand = woken("r1");
    rig.commit(waits(hand.next(2), &request).consuming(&["r1"]));
    assert_eq!(places(rig, [&b, &c]), [(false, 1), (false, 2)]);
    assert_eq!(rig.claimed(ONE), [], "it is held as before");
    // Its turn comes while an instance owns it: the permit must not be lost.
    let mut hand = woken("r2");
    end(rig, &mut a);
    assert_eq!(place(rig, &b), (true, 0));
    assert_eq!(rig.claimed(ONE), [], "its owner has it");
    rig.commit(waits(hand.next(2), &request).consuming(&["r2"]));
    assert_eq!(rig.control(b.execution).held, None);
    assert_eq!(rig.claimed(ONE), [b.execution]);
    assert_eq!(place(rig, &c), (false, 1));
}

pub fn a_permit_is_kept_through_everything<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let [a, b] = queue_all(rig, &permit_for("k", 1));
    let still = |what: &str| {
        assert_eq!(places(rig, [&a, &b]), [(true, 0), (false, 1)], "{what}");
    };
    let mut hand = rig.take(one, "it is ready");
    rig.commit(hand.next(1).control(ControlChange::Parked { next_due: None }));
    still("parked");
    rig.send(a.execution, "s", signal());
    let mut hand = rig.take(two, "it has mail");
    rig.commit(hand.next(1).control(ControlChange::Owned).consuming(&["s"]));
    still("taken over");
    rig.advance(LEASE.0 + 1);
    rig.announce(one);
    let mut hand = rig.take(one, "its owner is dead");
    still("orphaned and taken over");
    let held = ControlChange::Held { reason: "paused by a user".to_owned(), next_due: None };
    rig.commit(hand.next(1).control(held));
    assert_eq!(rig.control(a.execution).held.as_deref(), Some("paused by a user"));
    still("held by a user");
    assert_eq!(rig.claimed(one), []);
    rig.send(a.execution, "r", Request::Resume { reason: None });
    let mut hand = rig.take(one, "mail releases it");
    rig.store().hold(a.execution, one, "damaged").expect("it is quarantined");
    still("quarantined");
    rig.commit(hand.next(1).control(ControlChange::Ended));
    assert_eq!(place(rig, &b), (true, 0));
}

pub fn permit_queues_survive_reopening<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let [mut a, b, c] = queue_all(rig, &permit_for("k", 1));
    rig.reopen();
    rig.announce(ONE);
    assert_eq!(places(rig, [&a, &b, &c]), [(true, 0), (false, 1), (false, 2)]);
    end(rig, &mut a);
    assert_eq!(rig.claimed(ONE), [b.execution]);
}

pub fn a_fenced_frame_gets_no_place<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let zombie = hand.clone();
    rig.commit(hand.next(1));
    let outcome = rig.append(waits(zombie.frame(2), &under(ConcurrencyPolicy::CancelOldest)));
    assert_eq!(outcome, Appended::Fenced);
    assert_eq!(rig.control(hand.execution).permit, None);
    let other = queue(rig, &permit_for("k", 1));
    assert_eq!(place(rig, &other), (true, 0));
    let outcome = rig.append(waits(zombie.frame(2), &under(ConcurrencyPolicy::Reject)));
    assert_eq!(outcome, Appended::Fenced, "a fenced frame is not checked for permits");
}

pub fn reopened_execution_queues_last<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = permit_for("k", 1);
    let [mut a, b, c] = queue_all(rig, &request);
    end(rig, &mut a);
    rig.commit(waits(a.next(3), &request));
    assert_eq!(places(rig, [&b, &c, &a]), [(true, 0), (false, 1), (false, 2)]);
}

pub fn the_limit_of_the_first_that_waits_counts<B: StoreUnderTest>(rig: &Rig<B>) {
    let [mut a, mut b] = queue_all(rig, &permit_for("k", 2));
    let narrow = queue(rig, &permit_for("k", 1));
    let wide = queue(rig, &permit_for("k", 5));
    let holds = |hand: &Hand| place(rig, hand).0;
    assert_eq!([holds(&narrow), holds(&wide)], [false, false], "no execution overtakes another");
    end(rig, &mut a);
    assert_eq!([holds(&narrow), holds(&wide)], [false, false]);
    end(rig, &mut b);
    assert_eq!([holds(&narrow), holds(&wide)], [true, true], "and then the next has room, too");
}

pub fn a_start_without_a_permit_is_rejected<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = under(ConcurrencyPolicy::Reject);
    let mut first = queue(rig, &request);
    let submission = Submission {
        key: ExecutionId("order-1".into()),
        idempotency: Some(Box::new(Idempotency { key: "again".into(), digest: [7; 32] })),
        fire: None,
    };
    let start =
        |hand: &mut Hand| rig.append(waits(hand.next(3), &request).submission(submission.clone()));
    let mut refused = rig.hand(ONE);
    assert_eq!(start(&mut refused), Appended::Rejected { holding: 1 });
    let unknown = rig.store().load(refused.execution).expect("it is answered");
    assert!(unknown.is_none(), "nothing was stored");
    end(rig, &mut first);
    let mut second = rig.hand(ONE);
    let accepted = start(&mut second);
    assert!(matches!(accepted, Appended::Committed { .. }), "its names are free: {accepted:?}");
    assert_eq!(place(rig, &second), (true, 0));
    let mut repeat = rig.hand(ONE);
    let same =
        Appended::Duplicate { execution: second.execution, taken: TakenName::SameSubmission };
    assert_eq!(start(&mut repeat), same, "a repeat gets the outcome of the first");
    let waiting = queue(rig, &permit_for("k", 1));
    let mut late = rig.hand(ONE);
    let wide = PermitRequest { limit: 5, ..request };
    let outcome = rig.append(waits(late.next(3), &wide));
    assert_eq!(outcome, Appended::Rejected { holding: 1 }, "an execution is queued before it");
    assert_eq!(place(rig, &waiting), (false, 1));
}

fn cancelled<B: StoreUnderTest>(rig: &Rig<B>, hand: &Hand) -> usize {
    let mail = rig.load(hand.execution).mail;
    mail.iter()
        .filter(|mail| matches!(mail.body, MailBody::Request(Request::Cancel { .. })))
        .count()
}

pub fn the_oldest_is_cancelled<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = under(ConcurrencyPolicy::CancelOldest);
    let a = queue(rig, &request);
    let all = |hands: &[&Hand]| hands.iter().map(|hand| cancelled(rig, hand)).collect::<Vec<_>>();
    assert_eq!(all(&[&a]), [0], "there was room");
    let mut b = rig.hand(ONE);
    let birth: Append = waits(b.next(3), &request).into();
    rig.append_all(std::slice::from_ref(&birth));
    rig.append_all(&[birth]);
    assert_eq!(all(&[&a, &b]), [1, 0], "once, however often the append is repeated");
    assert_eq!(rig.claimed(ONE), [a.execution]);
    let c = queue(rig, &request);
    assert_eq!(all(&[&a, &b, &c]), [1, 1, 0], "each newcomer cancels one");
    let mut b = rig.take(ONE, "it is woken while it is queued");
    end(rig, &mut b);
    let mut a = Hand { next_seq: 4, ..a };
    end(rig, &mut a);
    assert_eq!(place(rig, &c), (true, 0));
}

pub fn only_as_many_are_cancelled_as_needed<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = PermitRequest { limit: 2, ..under(ConcurrencyPolicy::CancelOldest) };
    let [a, b, mut c] = queue_all(rig, &request);
    let all = |hands: &[&Hand]| hands.iter().map(|hand| cancelled(rig, hand)).collect::<Vec<_>>();
    assert_eq!(all(&[&a, &b, &c]), [1, 0, 0]);
    end(rig, &mut c);
    let d = queue(rig, &request);
    assert_eq!(all(&[&a, &b, &d]), [1, 0, 0], "one goes already, and takes its place");
    let e = queue(rig, &request);
    assert_eq!(all(&[&a, &b, &d, &e]), [1, 1, 0, 0]);
}
