//! Which executions name a blob. The rows are written with the frame or the mail that names it, and
//! with nothing else, and stay as long as the execution's log: a blob that lies in the inbox of a
//! paused execution is as safe as one in a frame.

use waypost_core::blob::BlobDigest;
use waypost_core::time::Millis;

use super::StoreUnderTest;
use super::rig::{ONE, Rig, mail, signal};
use crate::blobs::BlobRefs;
use crate::store::{Append, Appended, ControlChange, Mail, MailDelivery};

fn digest(number: u8) -> BlobDigest {
    BlobDigest([number; 32])
}

/// Those of the first nine blobs that are referenced.
fn referenced<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<u8> {
    let all: Vec<_> = (1..=9).map(digest).collect();
    let mut found: Vec<u8> = rig
        .store()
        .referenced(&all)
        .expect("it is answered")
        .iter()
        .map(|digest| digest.0[0])
        .collect();
    found.sort_unstable();
    found
}

fn with_blobs(mail: Mail, blobs: &[u8]) -> Mail {
    Mail { blobs: blobs.iter().copied().map(digest).collect(), ..mail }
}

pub fn blobs_of_a_frame_are_referenced<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let mut hand = rig.start(ONE);
    assert!(referenced(rig).is_empty());
    rig.commit(hand.next(1).blobs(&[digest(1), digest(3)]));
    assert_eq!(referenced(rig), [1, 3]);
    assert_eq!(rig.store().named_by(&digest(3)).expect("it is answered"), Some(hand.execution));
    assert_eq!(rig.store().named_by(&digest(2)).expect("it is answered"), None);
    rig.reopen();
    assert_eq!(referenced(rig), [1, 3]);
}

pub fn blobs_of_mail_are_referenced_before_it_is_consumed<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.park(ONE, None);
    let delivery = rig.deliver(with_blobs(mail(hand.execution, "m1", signal()), &[1, 2]));
    assert!(matches!(delivery, MailDelivery::Accepted { .. }));
    assert_eq!(referenced(rig), [1, 2]);
    assert_eq!(rig.store().named_by(&digest(1)).expect("it is answered"), Some(hand.execution));
    // The frame that takes the mail need not name them again.
    rig.commit(hand.next(1).consuming(&["m1"]));
    assert_eq!(referenced(rig), [1, 2]);
}

pub fn blobs_of_a_first_frame_are_referenced<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.hand(ONE);
    rig.commit(hand.create("a", "w").blobs(&[digest(4)]));
    assert_eq!(referenced(rig), [4]);
}

pub fn refused_frame_references_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let zombie = hand.clone();
    rig.commit(hand.next(1));
    assert_eq!(rig.append(zombie.frame(1).blobs(&[digest(1)])), Appended::Fenced);
    let mut taken = rig.hand(ONE);
    rig.create("a", "w");
    let refused = rig.append(taken.create("a", "w").blobs(&[digest(2)]));
    assert!(matches!(refused, Appended::Duplicate { .. }));
    assert!(referenced(rig).is_empty());
}

pub fn refused_mail_references_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.send(hand.execution, "m1", signal());
    let again = with_blobs(mail(hand.execution, "m1", signal()), &[1]);
    assert_eq!(rig.deliver(again), MailDelivery::Duplicate);
    rig.commit(hand.next(1).control(ControlChange::Ended));
    let late = with_blobs(mail(hand.execution, "m2", signal()), &[2]);
    assert_eq!(rig.deliver(late), MailDelivery::Ended);
    let unknown = with_blobs(mail(rig.number(ONE), "m3", signal()), &[3]);
    assert_eq!(rig.deliver(unknown), MailDelivery::Unknown);
    assert!(referenced(rig).is_empty());
}

pub fn repeated_frame_references_its_blobs_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let frame = hand.next(1).blobs(&[digest(1), digest(1)]);
    rig.commit(frame.clone());
    rig.commit(frame);
    rig.commit(hand.next(1).blobs(&[digest(1)]));
    let delivery = rig.deliver(with_blobs(mail(hand.execution, "m1", signal()), &[1, 1]));
    assert!(matches!(delivery, MailDelivery::Accepted { .. }));
    assert_eq!(rig.store().named_blobs(None, 10).expect("it is answered"), [digest(1)]);
}

pub fn references_outlive_the_end_of_the_execution<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.deliver(with_blobs(mail(hand.execution, "m1", signal()), &[1]));
    rig.commit(hand.next(1).blobs(&[digest(2)]).control(ControlChange::Ended));
    assert_eq!(referenced(rig), [1, 2]);
}

pub fn frames_with_and_without_blobs_share_a_batch<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hands: Vec<_> = (0..4).map(|_| rig.start(ONE)).collect();
    let zombie = hands[3].clone();
    rig.commit(hands[3].next(1));
    let batch: Vec<Append> = vec![
        hands[0].next(1).into(),
        hands[1].next(1).blobs(&[digest(5), digest(6)]).into(),
        hands[2].next(1).snapshot(b"state").blobs(&[digest(6)]).into(),
        zombie.frame(1).blobs(&[digest(7)]).into(),
    ];
    let outcomes = rig.append_all(&batch);
    assert_eq!(outcomes[3], Appended::Fenced);
    assert!(outcomes[..3].iter().all(|outcome| matches!(outcome, Appended::Committed { .. })));
    assert_eq!(referenced(rig), [5, 6]);
    assert_eq!(rig.load(hands[2].execution).snapshot.expect("it is answered").body, b"state");
}

pub fn named_blobs_are_listed_once_in_order_and_pages<B: StoreUnderTest>(rig: &Rig<B>) {
    for numbers in [[3, 1], [1, 9], [2, 3]] {
        let mut hand = rig.start(ONE);
        rig.commit(hand.next(1).blobs(&numbers.map(digest)));
    }
    let page = |after: Option<u8>| {
        let after = after.map(digest);
        let found = rig.store().named_blobs(after.as_ref(), 3).expect("it is answered");
        found.iter().map(|digest| digest.0[0]).collect::<Vec<_>>()
    };
    assert_eq!(page(None), [1, 2, 3]);
    assert_eq!(page(Some(3)), [9]);
    assert!(page(Some(9)).is_empty());
}

pub fn sweep_of_blobs_is_leased_to_one_instance<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let take =
        |instance| rig.store().take_blob_sweep(instance, Millis(1_000)).expect("it is answered");
    assert!(take(one));
    assert!(take(one), "its holder renews it");
    assert!(!take(two));
    rig.advance(900);
    assert!(take(one));
    rig.advance(900);
    assert!(!take(two));
    rig.advance(200);
    assert!(take(two));
    assert!(!take(one));
}
