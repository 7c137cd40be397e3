//! The log: parent links, repeats, batches, bytes, time.

use uuid::Uuid;
use waypost_core::id::{AppendId, InstanceId};
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig, START, signal};
use crate::store::{Append, Appended, ControlChange, Store};

pub fn a_frame_on_the_last_one_is_committed<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.commit(hand.next(1));
    rig.commit(hand.next(5));
    let seqs: Vec<_> = rig.load(hand.execution).frames.iter().map(|frame| frame.header).collect();
    let seqs: Vec<_> = seqs.iter().map(|header| (header.first_seq, header.last_seq)).collect();
    assert_eq!(seqs, [(1, 2), (3, 3), (4, 8)]);
}

/// The zombie has sent two frames without waiting; the first one loses against a takeover that is
/// longer, so the second one's seq lies inside of it.
pub fn a_pipelined_zombie_is_fenced<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut owner = rig.start(ONE);
    let mut zombie = owner.clone();
    let (first, second) = (zombie.next(1), zombie.next(1));
    rig.commit(owner.next(3));
    assert_eq!(rig.append(first), Appended::Fenced);
    assert_eq!(rig.append(second), Appended::Fenced);
    assert_eq!(rig.load(owner.execution).frames.len(), 2);
    rig.commit(owner.next(1));
}

/// The takeover is as long as the zombie's first frame, so the second one fits by its numbers.
pub fn a_takeover_of_the_same_length_fences<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut owner = rig.start(ONE);
    let mut zombie = owner.clone();
    let (first, second) = (zombie.next(1), zombie.next(1));
    rig.commit(owner.next(1));
    let outcomes = rig.append_all(&[first.into(), second.into()]);
    assert_eq!(outcomes, [Appended::Fenced, Appended::Fenced]);
}

pub fn a_wrong_parent_id_is_fenced<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let Draft(mut append) = hand.clone().next(1);
    let parent = append.header.parent.as_mut().expect("it is not the first frame");
    parent.append_id = AppendId(Uuid::max());
    assert_eq!(rig.append(append), Appended::Fenced);
    rig.commit(hand.next(1));
}

pub fn a_gap_is_fenced<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let mut ahead = hand.clone();
    ahead.next_seq += 1;
    assert_eq!(rig.append(ahead.next(1)), Appended::Fenced, "a seq is left out");
    let mut lost = hand.clone();
    drop(lost.next(1));
    assert_eq!(rig.append(lost.next(1)), Appended::Fenced, "the parent was never stored");
    let fork = hand.frame(2);
    rig.commit(hand.next(1));
    assert_eq!(rig.append(fork), Appended::Fenced, "the parent is not the last one");
}

pub fn a_first_frame_must_be_first<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.start(ONE);
    assert_eq!(rig.append(Hand::new(hand.execution, ONE).next(1)), Appended::Fenced);
    let mut orphan = rig.hand(ONE);
    orphan.next_seq = 2;
    assert_eq!(rig.append(orphan.next(1)), Appended::Fenced);
    assert!(rig.store().load(orphan.execution).expect("the load is answered").is_none());
}

pub fn a_repeat_is_committed_at_the_same_time<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let frame = hand.next(2);
    let at = rig.commit(frame.clone());
    rig.advance(500);
    assert_eq!(rig.append(frame), Appended::Committed { at });
    assert_eq!(rig.load(hand.execution).frames.len(), 2);
}

/// The reply was lost, and so was the knowledge that more frames went in.
pub fn a_repeat_from_the_middle_is_committed<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let frame = hand.next(2);
    let at = rig.commit(frame.clone());
    rig.advance(500);
    rig.commit(hand.next(1));
    assert_eq!(rig.append(frame), Appended::Committed { at });
}

pub fn a_mixed_batch_refuses_one_frame_only<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hands = [rig.start(ONE), rig.start(ONE), rig.start(ONE)];
    let stale = hands[1].clone().next(1);
    rig.commit(hands[1].next(1));
    let [left, _, right] = &mut hands;
    let outcomes = rig.append_all(&[left.next(1).into(), stale.into(), right.next(2).into()]);
    let at = START;
    let committed = Appended::Committed { at };
    assert_eq!(outcomes, [committed.clone(), Appended::Fenced, committed]);
}

pub fn one_batch_may_hold_a_whole_chain<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.hand(ONE);
    let batch: Vec<Append> = vec![
        hand.next(2).control(ControlChange::Owned).into(),
        hand.next(3).into(),
        hand.next(1).control(ControlChange::Ended).into(),
    ];
    rig.commit_all(&batch);
    let history = rig.load(hand.execution);
    assert_eq!(history.frames.len(), 3);
    assert_eq!(history.control, None);
}

pub fn side_rows_come_only_with_their_frame<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.send(hand.execution, "m1", signal());
    let stale = hand.frame(1);
    rig.commit(hand.next(1));
    let before = rig.load(hand.execution);
    for change in [ControlChange::Ended, ControlChange::Parked { next_due: Some(START) }] {
        let frame = stale.clone().control(change).consuming(&["m1"]).snapshot(b"state");
        assert_eq!(rig.append(frame), Appended::Fenced);
    }
    let after = rig.load(hand.execution);
    assert_eq!(after.control, before.control);
    assert_eq!(after.mail, before.mail);
    assert!(after.snapshot.is_none());
}

pub fn a_poisoned_frame_leaves_the_others_alone<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut left, mut right) = (rig.start(ONE), rig.start(ONE));
    let mut bad = rig.hand(ONE);
    let Draft(mut backwards) = bad.create("bad", "welcome");
    backwards.header.last_seq = 0;
    let outcomes = rig.append_all(&[left.next(1).into(), backwards, right.next(1).into()]);
    assert!(matches!(&outcomes[0], Appended::Committed { .. }), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Appended::Poisoned { .. }), "{outcomes:?}");
    assert!(matches!(&outcomes[2], Appended::Committed { .. }), "{outcomes:?}");
    assert!(rig.store().load(bad.execution).expect("the load is answered").is_none());
    rig.create("bad", "welcome");
}

pub fn bytes_are_kept_exactly<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let bodies = [
        br#"[{"X":{"output":"\u0000"}}]"#.to_vec(),
        br#"[{"X":{"output":1e400,"b":1,"a":9007199254740993}}]"#.to_vec(),
        Vec::new(),
        every_byte.repeat(1_000),
    ];
    for body in &bodies {
        let mut draft = hand.next(1);
        draft.0.body.clone_from(body);
        rig.commit(draft);
    }
    let frames = rig.load(hand.execution).frames;
    for (frame, body) in frames[1..].iter().zip(&bodies) {
        assert_eq!(frame.body.as_ref().expect("the body is intact"), body);
    }
}

pub fn headers_are_kept_exactly<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let mut expected = Vec::new();
    for epoch in 1..4u32 {
        hand.instance = InstanceId(Uuid::from_u128(u128::from(epoch) << 64));
        hand.epoch = epoch;
        let Draft(mut append) = hand.next(u64::from(epoch));
        append.header.decided_at = Timestamp(i64::from(epoch) - 2);
        append.header.requires = u16::try_from(epoch).unwrap_or(0);
        expected.push(append.header);
        rig.commit(append);
    }
    let frames = rig.load(hand.execution).frames;
    let headers: Vec<_> = frames[1..].iter().map(|frame| frame.header).collect();
    assert_eq!(headers, expected);
}

pub fn time_never_goes_back<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.advance(5_000);
    let high = rig.commit(hand.next(1));
    assert_eq!(high, Timestamp(START.0 + 5_000));
    rig.clock.set(START);
    assert_eq!(rig.commit(hand.next(1)), high);
    rig.reopen();
    assert_eq!(rig.commit(hand.next(1)), high, "also after the store was opened again");
    // It may continue meanwhile, or wait for the clock; it is not behind the clock.
    rig.clock.set(Timestamp(high.0 + 1));
    assert!(rig.commit(hand.next(1)) > high);
}
