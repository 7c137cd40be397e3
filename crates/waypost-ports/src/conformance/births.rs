//! Executions that begin with another one's frame, and mail that goes out with it.

use std::collections::BTreeSet;

use waypost_core::blob::BlobDigest;
use waypost_core::id::ExecutionNo;

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, birth, executions, mail, signal};
use crate::blobs::BlobRefs;
use crate::query::{FeedPosition, FeedRequest, Query};
use crate::store::{Append, Appended, ControlChange, Mail, MailOf, Share, Store};

/// Is there nothing of this execution?
fn is_unknown<B: StoreUnderTest>(rig: &Rig<B>, execution: ExecutionNo) -> bool {
    rig.store().load(execution).expect("the load is answered").is_none()
}

fn frames<B: StoreUnderTest>(rig: &Rig<B>, execution: ExecutionNo) -> usize {
    rig.load(execution).frames.len()
}

pub fn execution_born_with_a_frame_is_claimed_by_any_instance<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut parent = rig.create("parent", "flow");
    let children = rig.numbers(ONE, 2);
    let births = vec![birth(children[0], "child-a"), birth(children[1], "child-b")];
    rig.commit(parent.next(1).with(births, Vec::new()));
    let control = rig.control(children[0]);
    assert_eq!((control.owner, control.epoch), (None, 0), "it is born unowned");
    let other = rig.instance(2);
    let claims = rig.claim(other);
    assert_eq!(executions(&claims), children);
    let mut child = Hand::of(&claims.claimed[0]);
    assert_eq!(child.next_seq, 2, "its log has one event");
    rig.commit(child.next(1));
    rig.settle();
    let found = rig.store().find(Some("child-b")).expect("it is answered");
    assert_eq!(found, Some(children[1]), "its name leads to it");
}

pub fn a_repeated_frame_gives_birth_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut parent = rig.start(ONE);
    let child = rig.number(ONE);
    let frame: Append =
        parent.next(1).with(vec![birth(child, "child")], vec![mail(child, "m", signal())]).into();
    let at = rig.commit(frame.clone());
    let mut claimed = rig.take(rig.instance(2), "it is born");
    rig.commit(claimed.next(1).consuming(&["m"]));
    assert_eq!(rig.append(frame.clone()), Appended::Committed { at });
    assert_eq!(rig.append(frame.again()), Appended::Committed { at });
    assert_eq!(frames(rig, child), 2);
    let mail = rig.store().collect(MailOf::Execution(child), 10).expect("it is answered");
    assert!(mail.is_empty(), "what was consumed does not come again");
}

pub fn a_fenced_frame_gives_birth_to_none_and_sends_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut owner = rig.start(ONE);
    let mut zombie = owner.clone();
    let parked = rig.park(ONE, None);
    rig.commit(owner.next(1));
    let child = rig.number(ONE);
    let sent = vec![mail(parked.execution, "m", signal())];
    let frame = zombie.next(1).with(vec![birth(child, "child")], sent);
    assert_eq!(rig.append(frame), Appended::Fenced);
    assert!(is_unknown(rig, child));
    assert_eq!(rig.claimed(rig.instance(2)), []);
    rig.create("child", "flow");
}

/// Appends a frame with two births and mail, of which the second birth is refused.
fn is_unborn<B: StoreUnderTest>(rig: &Rig<B>, second: Append) {
    let mut parent = rig.start(ONE);
    let parked = rig.park(ONE, None);
    let first = rig.number(ONE);
    let births = vec![birth(first, "first"), second];
    let before = parent.clone();
    let frame = parent.next(1).with(births, vec![mail(parked.execution, "m", signal())]);
    assert_eq!(rig.append(frame), Appended::Unborn);
    assert!(is_unknown(rig, first), "none is born");
    assert_eq!(rig.claimed(rig.instance(2)), [], "nothing was sent");
    let mut again = before;
    let first = rig.number(ONE);
    rig.commit(again.next(1).with(vec![birth(first, "first")], Vec::new()));
    assert_eq!(frames(rig, first), 1, "another try has its name");
}

pub fn a_taken_number_refuses_the_frame_and_all_its_births<B: StoreUnderTest>(rig: &Rig<B>) {
    let stranger = rig.create("stranger", "flow");
    is_unborn(rig, birth(stranger.execution, "second"));
    assert_eq!(frames(rig, stranger.execution), 1);
}

pub fn a_taken_name_refuses_the_frame_and_all_its_births<B: StoreUnderTest>(rig: &Rig<B>) {
    rig.create("taken", "flow");
    is_unborn(rig, birth(rig.number(ONE), "taken"));
}

pub fn two_births_of_one_name_are_refused<B: StoreUnderTest>(rig: &Rig<B>) {
    is_unborn(rig, birth(rig.number(ONE), "first"));
}

pub fn the_rest_of_a_batch_does_not_suffer_from_an_unborn<B: StoreUnderTest>(rig: &Rig<B>) {
    rig.create("taken", "flow");
    let mut hands: Vec<Hand> = (0..4).map(|_| rig.start(ONE)).collect();
    let numbers = rig.numbers(ONE, 4);
    let names = ["a", "taken", "b", "a"];
    let births = numbers.iter().zip(names).map(|(number, name)| birth(*number, name));
    let batch: Vec<Append> = hands
        .iter_mut()
        .zip(births)
        .map(|(hand, birth)| hand.next(1).with(vec![birth], Vec::new()).into())
        .collect();
    let outcomes = rig.append_all(&batch);
    let committed: Vec<bool> =
        outcomes.iter().map(|outcome| matches!(outcome, Appended::Committed { .. })).collect();
    assert_eq!(committed, [true, false, true, false], "{outcomes:?}");
    assert_eq!([&outcomes[1], &outcomes[3]], [&Appended::Unborn, &Appended::Unborn]);
    let born: Vec<bool> = numbers.iter().map(|number| !is_unknown(rig, *number)).collect();
    assert_eq!(born, committed);
}

pub fn mail_reaches_what_is_born_with_it<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut parent = rig.start(ONE);
    let child = rig.number(ONE);
    let sent = mail(child, "cancel", signal());
    rig.commit(parent.next(1).with(vec![birth(child, "child")], vec![sent.clone()]));
    let claims = rig.claim(rig.instance(2));
    assert_eq!(executions(&claims), [child]);
    assert_eq!(claims.claimed[0].mail, [sent]);
}

pub fn mail_of_a_frame_wakes_parked_and_reaches_owned_executions<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut sender = rig.start(ONE);
    let two = rig.instance(2);
    let (parked, owned) = (rig.park(ONE, None), rig.start(two));
    let to = |hand: &Hand, name: &str| mail(hand.execution, name, signal());
    let sent = vec![to(&parked, "a"), to(&owned, "b"), to(&owned, "c"), to(&owned, "b")];
    rig.commit(sender.next(1).with(Vec::new(), sent));
    let collected = rig.store().collect(MailOf::Owner(two, Share::ALL), 10);
    let messages = collected.expect("it is answered").into_iter().map(|mail| mail.message);
    assert_eq!(messages.collect::<Vec<_>>(), ["b".into(), "c".into()], "in order, each once");
    assert_eq!(rig.claimed(rig.instance(3)), [parked.execution]);
}

pub fn mail_of_a_frame_to_ended_and_unknown_executions_is_dropped<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut sender = rig.start(ONE);
    let mut ended = rig.start(ONE);
    rig.commit(ended.next(1).control(ControlChange::Ended));
    let unknown = rig.number(ONE);
    let sent = [ended.execution, unknown].map(|to| mail(to, "m", signal()));
    rig.commit(sender.next(1).with(Vec::new(), sent.to_vec()));
    for execution in [ended.execution, unknown] {
        let mail = rig.store().collect(MailOf::Execution(execution), 10).expect("it is answered");
        assert_eq!(mail, []);
    }
    assert!(is_unknown(rig, unknown));
}

pub fn the_last_frame_of_an_execution_may_send_mail<B: StoreUnderTest>(rig: &Rig<B>) {
    let parent = rig.park(ONE, None);
    let mut child = rig.start(ONE);
    let sent = vec![mail(parent.execution, "child-ended", signal())];
    let last = child.next(1).control(ControlChange::Ended);
    rig.commit(last.with(Vec::new(), sent.clone()));
    let claims = rig.claim(rig.instance(2));
    assert_eq!(executions(&claims), [parent.execution]);
    assert_eq!(claims.claimed[0].mail, sent);
}

pub fn many_births_have_places_of_their_own<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut parents: Vec<Hand> = (0..8).map(|_| rig.start(ONE)).collect();
    let numbers = rig.numbers(ONE, 400);
    let batch: Vec<Append> = parents
        .iter_mut()
        .zip(numbers.chunks(50))
        .map(|(hand, numbers)| {
            let births = numbers.iter().map(|number| birth(*number, &format!("c{}", number.0)));
            hand.next(1).with(births.collect(), Vec::new()).into()
        })
        .collect();
    rig.commit_all(&batch);
    rig.settle();
    let mut seen = BTreeSet::new();
    let mut after = FeedPosition::default();
    loop {
        let page = rig.store().feed(&FeedRequest { after, limit: 100 });
        let page = page.expect("the feed is answered");
        let Some(last) = page.last() else { break };
        after = last.position;
        seen.extend(page.iter().map(|fed| fed.frame.header.execution));
    }
    assert!(numbers.iter().all(|number| seen.contains(number)));
}

pub fn blobs_of_births_and_their_mail_are_referenced<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut parent = rig.start(ONE);
    let child = rig.number(ONE);
    let [of_birth, of_mail] = [1, 2].map(|byte| BlobDigest([byte; 32]));
    let mut born = birth(child, "child");
    born.side.blobs = vec![of_birth];
    let sent = Mail { blobs: vec![of_mail], ..mail(child, "m", signal()) };
    rig.commit(parent.next(1).with(vec![born], vec![sent]));
    for digest in [of_birth, of_mail] {
        let named = rig.store().named_by(&digest).expect("it is answered");
        assert_eq!(named, Some(child), "{digest:?}");
    }
}

/// The frame that opens an ended execution again.
fn reopening(ended: &Hand) -> Append {
    let Append { header, body, .. } = ended.frame(1).into();
    Append::reopening(header, body)
}

pub fn an_ended_execution_is_opened_again_with_another_ones_frame<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut parent = rig.start(ONE);
    let mut child = rig.start(ONE);
    rig.commit(child.next(1).control(ControlChange::Ended));
    let frame: Append = parent.next(1).with(vec![reopening(&child)], Vec::new()).into();
    let at = rig.commit(frame.clone());
    let control = rig.control(child.execution);
    assert_eq!((control.owner, control.epoch), (None, child.epoch), "it is unowned");
    assert_eq!(rig.append(frame), Appended::Committed { at }, "a repeat changes nothing");
    let claims = rig.claim(rig.instance(2));
    assert_eq!(executions(&claims), [child.execution]);
    let mut again = Hand::of(&claims.claimed[0]);
    assert_eq!(again.next_seq, child.next_seq + 1);
    rig.commit(again.next(1));
}

pub fn an_execution_that_somebody_else_opened_again_refuses_the_frame<B: StoreUnderTest>(
    rig: &Rig<B>,
) {
    let mut parent = rig.start(ONE);
    let mut child = rig.start(ONE);
    rig.commit(child.next(1).control(ControlChange::Ended));
    let late = reopening(&child);
    rig.commit(child.next(1).control(ControlChange::Owned));
    let before = frames(rig, parent.execution);
    let frame = parent.next(1).with(vec![late], Vec::new());
    assert_eq!(rig.append(frame), Appended::Unborn);
    assert_eq!(frames(rig, parent.execution), before);
    rig.commit(child.next(1));
}

pub fn frame_that_was_decided_on_lost_mail_is_fenced<B: StoreUnderTest>(rig: &Rig<B>) {
    let parent = rig.start(ONE);
    let mut sender = rig.start(ONE);
    let sent = mail(parent.execution, "ended", signal());
    rig.commit(sender.next(1).with(Vec::new(), vec![sent]));
    let decided_on = |messages: &[&str], parent: &Hand| {
        let mut frame: Append = parent.frame(1).into();
        frame.side.consumed = messages.iter().map(|message| (*message).into()).collect();
        frame.side.relied_on = frame.side.consumed.clone();
        frame
    };
    let lost = decided_on(&["ended", "lost"], &parent);
    assert_eq!(rig.append(lost), Appended::Fenced, "one of them is not there");
    let before = frames(rig, parent.execution);
    let frame = decided_on(&["ended"], &parent);
    let at = rig.commit(frame.clone());
    assert_eq!(rig.append(frame), Appended::Committed { at }, "a repeat changes nothing");
    assert_eq!(frames(rig, parent.execution), before + 1);
}
