//! Signals by key. Whichever commits second, the wait or the signal, finds the other.

use std::sync::Arc;

use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::limits::PUBLISHED_PER_KEY_MAX;
use waypost_core::published::{PublishedSignal, WaitRef};
use waypost_core::time::Millis;

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, repair_of};
use crate::inspect::{DerivedRow, Remedy};
use crate::store::{
    Append, Appended, ControlChange, Publication, Published, Store, Subscription, signal_mail,
};

const PARKED: ControlChange = ControlChange::Parked { next_due: None };
const HOUR: Millis = Millis::from_secs(3_600);

fn published(name: &str, message: &str) -> PublishedSignal {
    let body = Json::parse(r#"{"zoë": [1, null]}"#).expect("it is JSON");
    PublishedSignal { name: name.into(), message: message.into(), body, keep: HOUR }
}

fn wait(wait: u64, which: u32) -> WaitRef {
    WaitRef { wait, which }
}

/// This frame, with which a wait for a signal begins.
fn opening(append: impl Into<Append>, at: WaitRef, name: &str) -> Append {
    let mut append = append.into();
    append
        .side
        .topics
        .get_or_insert_default()
        .opened
        .push(Subscription { wait: at, name: name.into() });
    append
}

fn emitting(append: impl Into<Append>, name: &str, message: &str) -> Append {
    let mut append = append.into();
    append.side.topics.get_or_insert_default().published.push(published(name, message));
    append
}

/// This frame, with which such a wait is over.
fn closing(append: impl Into<Append>, at: WaitRef) -> Append {
    let mut append = append.into();
    append.side.topics.get_or_insert_default().closed.push(at);
    append
}

fn publish<B: StoreUnderTest>(rig: &Rig<B>, name: &str, message: &str) -> Published {
    let publication = Publication { signal: published(name, message), actor: Some("ada".into()) };
    rig.store().publish(&publication).expect("the signal is published")
}

/// The messages in an execution's inbox.
fn inbox<B: StoreUnderTest>(rig: &Rig<B>, execution: ExecutionNo) -> Vec<Arc<str>> {
    rig.load(execution).mail.into_iter().map(|mail| mail.message).collect()
}

/// A parked execution that waits for a signal.
fn waiting<B: StoreUnderTest>(rig: &Rig<B>, name: &str) -> Hand {
    let mut hand = rig.start(ONE);
    rig.commit(opening(hand.next(1).control(PARKED), wait(2, 0), name));
    hand
}

pub fn a_published_signal_reaches_all_that_wait<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (waiting(rig, "paid[1]"), waiting(rig, "paid[1]"));
    let other = waiting(rig, "paid[2]");
    let receivers = vec![(one.execution, None), (two.execution, None)];
    assert_eq!(publish(rig, "paid[1]", "m1"), Published::Accepted { receivers });
    let mail = signal_mail(one.execution, &published("paid[1]", "m1"), Some("ada".into()));
    assert_eq!(rig.load(one.execution).mail, [mail]);
    assert_eq!(rig.claimed(ONE), [one.execution, two.execution]);
    assert_eq!(inbox(rig, other.execution), []);
}

pub fn a_frame_publishes_to_those_who_wait<B: StoreUnderTest>(rig: &Rig<B>) {
    let (parked, mut sender) = (waiting(rig, "paid[1]"), rig.start(ONE));
    let mut owned = rig.start(ONE);
    rig.commit(opening(owned.next(1), wait(2, 3), "paid[1]"));
    rig.commit(emitting(sender.next(1), "paid[1]", "m1"));
    assert_eq!(inbox(rig, owned.execution), ["m1".into()]);
    assert_eq!(rig.claimed(ONE), [parked.execution]);
}

pub fn owners_of_those_who_get_a_signal_are_known<B: StoreUnderTest>(rig: &Rig<B>) {
    let other = rig.instance(2);
    let mut receiver = rig.start(other);
    rig.commit(opening(receiver.next(1), wait(2, 0), "paid[1]"));
    waiting(rig, "paid[1]");
    let mut bystander = rig.start(ONE);
    rig.commit(opening(bystander.next(1), wait(2, 0), "paid[2]"));
    let owners = || {
        let names: Vec<Arc<str>> = ["paid[1]", "paid[2]", "paid[3]"].map(Arc::from).to_vec();
        rig.store().signal_owners(&names).expect("the store answers")
    };
    assert_eq!(owners(), [], "nothing is on its way");
    let mut sender = rig.start(ONE);
    rig.commit(emitting(sender.next(1), "paid[1]", "m1"));
    assert_eq!(owners(), [other], "the parked one has no owner");
    rig.commit(closing(receiver.next(1), wait(2, 0)));
    assert_eq!(owners(), [], "it has got it");
    assert_eq!(rig.store().signal_owners(&[]).expect("the store answers"), []);
}

pub fn a_signal_is_kept_for_the_first_that_waits<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let mut sender = rig.start(ONE);
    rig.commit(emitting(sender.next(1), "paid[1]", "m1"));
    let accepted = Published::Accepted { receivers: Vec::new() };
    assert_eq!(publish(rig, "paid[2]", "m2"), accepted);
    rig.reopen();
    rig.announce(ONE);
    for (name, message) in [("paid[1]", "m1"), ("paid[2]", "m2")] {
        let first = waiting(rig, name);
        assert_eq!(inbox(rig, first.execution), [message.into()]);
        let second = waiting(rig, name);
        assert_eq!(inbox(rig, second.execution), []);
    }
}

pub fn signals_come_one_at_a_time_and_in_order<B: StoreUnderTest>(rig: &Rig<B>) {
    for message in ["m1", "m2", "m3"] {
        publish(rig, "paid[1]", message);
    }
    let mut hand = rig.start(ONE);
    rig.commit(opening(hand.next(1), wait(2, 0), "paid[1]"));
    assert_eq!(inbox(rig, hand.execution), ["m1".into()]);
    rig.commit(not_taking(&mut hand, &["m1"], "paid[1]"));
    assert_eq!(inbox(rig, hand.execution), ["m2".into()]);
    rig.commit(closing(hand.next(1).consuming(&["m2"]), wait(2, 0)));
    assert_eq!(inbox(rig, hand.execution), []);
    let next = waiting(rig, "paid[1]");
    assert_eq!(inbox(rig, next.execution), ["m3".into()]);
}

/// The next frame of an execution that did not take these signals, and waits on.
fn not_taking(hand: &mut Hand, messages: &[&str], name: &str) -> Append {
    let mut frame = Append::from(hand.next(1).consuming(messages));
    frame.side.topics.get_or_insert_default().open.push(name.into());
    frame
}

pub fn a_signal_stays_for_those_to_whom_another_is_on_its_way<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let (mut quick, mut slow) = (rig.start(ONE), rig.start(ONE));
    rig.commit(opening(quick.next(1), wait(2, 0), "paid[1]"));
    rig.commit(opening(slow.next(1), wait(2, 0), "paid[1]"));
    let mut gone = waiting(rig, "paid[1]");
    for message in ["m1", "m2", "m3"] {
        publish(rig, "paid[1]", message);
    }
    rig.commit(not_taking(&mut quick, &["m1"], "paid[1]"));
    rig.commit(not_taking(&mut quick, &["m2"], "paid[1]"));
    assert_eq!(inbox(rig, quick.execution), ["m3".into()]);
    // What was given to others is not for those who come later.
    let late = waiting(rig, "paid[1]");
    assert_eq!(inbox(rig, late.execution), []);
    rig.commit(closing(gone.next(1).consuming(&["m1"]), wait(2, 0)));
    rig.commit(closing(quick.next(1).consuming(&["m3"]), wait(2, 0)));
    // It waited all the time, longer than signals are kept.
    rig.advance(HOUR.0 + 1);
    publish(rig, "paid[9]", "m9");
    rig.reopen();
    rig.announce(ONE);
    for message in ["m1", "m2"] {
        assert_eq!(inbox(rig, slow.execution), [message.into()]);
        rig.commit(not_taking(&mut slow, &[message], "paid[1]"));
    }
    assert_eq!(inbox(rig, slow.execution), ["m3".into()]);
    rig.commit(not_taking(&mut slow, &["m3"], "paid[1]"));
    publish(rig, "paid[1]", "m4");
    for waits in [&slow, &late] {
        assert_eq!(inbox(rig, waits.execution), ["m4".into()]);
    }
}

pub fn a_signal_is_for_those_who_waited_before_it<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut busy = rig.start(ONE);
    rig.commit(opening(busy.next(1), wait(2, 0), "paid[1]"));
    publish(rig, "paid[1]", "m1");
    publish(rig, "paid[1]", "m2");
    rig.advance(HOUR.0 + 1);
    // This one forgets what is kept no longer.
    publish(rig, "paid[2]", "m3");
    let late = waiting(rig, "paid[1]");
    rig.commit(not_taking(&mut busy, &["m1"], "paid[1]"));
    assert_eq!(inbox(rig, busy.execution), ["m2".into()]);
    assert_eq!(inbox(rig, late.execution), []);
}

pub fn what_an_execution_got_was_for_all_of_its_waits<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut two, mut other) = (rig.start(ONE), rig.start(ONE));
    rig.commit(opening(two.next(1), wait(2, 0), "paid[1]"));
    rig.commit(opening(other.next(1), wait(2, 0), "paid[1]"));
    publish(rig, "paid[1]", "m1");
    // Another wait of the execution begins while a signal is on its way to the first.
    rig.commit(opening(two.next(1), wait(3, 0), "paid[1]"));
    publish(rig, "paid[1]", "m2");
    assert_eq!(inbox(rig, two.execution), ["m1".into(), "m2".into()]);
    rig.commit(not_taking(&mut two, &["m1"], "paid[1]"));
    assert_eq!(inbox(rig, two.execution), ["m2".into()]);
    publish(rig, "paid[1]", "m3");
    assert_eq!(inbox(rig, two.execution), ["m2".into(), "m3".into()]);
    rig.commit(not_taking(&mut other, &["m1"], "paid[1]"));
    assert_eq!(inbox(rig, other.execution), ["m2".into()]);
}

pub fn signals_that_nothing_takes_are_limited<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut sender = rig.start(ONE);
    let emit = |frame, n: u64| emitting(frame, "paid[1]", &format!("m{n}"));
    rig.commit((0..PUBLISHED_PER_KEY_MAX).fold(sender.next(1).into(), emit));
    assert_eq!(publish(rig, "paid[1]", "more"), Published::Full);
    assert_eq!(publish(rig, "paid[1]", "m1"), Published::Duplicate, "it is one of them");
    let kept = Published::Accepted { receivers: Vec::new() };
    assert_eq!(publish(rig, "paid[2]", "more"), kept);
    rig.advance(1);
    let taker = waiting(rig, "paid[1]");
    assert_eq!(inbox(rig, taker.execution), ["m0".into()]);
    assert_eq!(publish(rig, "paid[1]", "more"), kept);
    assert_eq!(publish(rig, "paid[1]", "too-many"), Published::Full);
    // Nothing else is published meanwhile, and nothing is swept. All but one came before the wait.
    rig.advance(HOUR.0 + 1);
    assert_eq!(publish(rig, "paid[1]", "later"), kept, "those are kept no longer");
}

pub fn waits_of_one_execution_share_a_signal<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let frame = opening(hand.next(1), wait(2, 0), "paid[1]");
    rig.commit(opening(opening(frame, wait(2, 1), "paid[1]"), wait(3, 0), "paid[2]"));
    publish(rig, "paid[1]", "m1");
    publish(rig, "paid[2]", "m2");
    publish(rig, "paid[2]", "m3");
    assert_eq!(inbox(rig, hand.execution), ["m1".into(), "m2".into()]);
}

pub fn a_closed_wait_gets_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut closed, mut ended) = (waiting(rig, "paid[1]"), waiting(rig, "paid[1]"));
    rig.commit(closing(closed.next(1), wait(2, 0)));
    rig.commit(closing(ended.next(1).control(ControlChange::Ended), wait(2, 0)));
    let accepted = Published::Accepted { receivers: Vec::new() };
    assert_eq!(publish(rig, "paid[1]", "m1"), accepted);
    assert_eq!(inbox(rig, waiting(rig, "paid[1]").execution), ["m1".into()]);
}

pub fn a_signal_is_kept_for_its_time<B: StoreUnderTest>(rig: &Rig<B>) {
    publish(rig, "paid[1]", "m1");
    rig.advance(HOUR.0 - 1);
    assert_eq!(publish(rig, "paid[1]", "m1"), Published::Duplicate);
    rig.advance(2);
    let late = waiting(rig, "paid[1]");
    assert_eq!(inbox(rig, late.execution), []);
}

pub fn a_message_is_published_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let one = waiting(rig, "paid[1]");
    publish(rig, "paid[1]", "m1");
    assert_eq!(publish(rig, "paid[1]", "m1"), Published::Duplicate);
    // Another topic has message ids of its own.
    assert_eq!(publish(rig, "paid[2]", "m1"), Published::Accepted { receivers: Vec::new() });
    assert_eq!(inbox(rig, one.execution), ["m1".into()]);
    let next = waiting(rig, "paid[1]");
    assert_eq!(inbox(rig, next.execution), []);
}

pub fn a_fenced_frame_changes_no_topic<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = waiting(rig, "paid[1]");
    let mut stale = hand.clone();
    rig.commit(hand.next(1));
    let frame = opening(emitting(stale.next(1), "paid[2]", "m2"), wait(9, 0), "paid[3]");
    assert_eq!(rig.append(closing(frame, wait(2, 0))), Appended::Fenced);
    publish(rig, "paid[1]", "m1");
    publish(rig, "paid[3]", "m3");
    assert_eq!(inbox(rig, hand.execution), ["m1".into()]);
    assert_eq!(inbox(rig, waiting(rig, "paid[2]").execution), []);
}

pub fn both_sides_may_be_in_one_batch<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut sender, mut receiver) = (rig.start(ONE), rig.start(ONE));
    let (mut again, mut late) = (rig.start(ONE), rig.start(ONE));
    rig.commit_all(&[
        emitting(sender.next(1), "paid[1]", "m1"),
        opening(receiver.next(1).control(PARKED), wait(2, 0), "paid[1]"),
        opening(again.next(1).control(PARKED), wait(2, 0), "paid[2]"),
        emitting(late.next(1), "paid[2]", "m2"),
    ]);
    assert_eq!(rig.claimed(ONE), [receiver.execution, again.execution]);
}

pub fn a_repeated_frame_publishes_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut sender = rig.start(ONE);
    let frame = emitting(sender.next(1), "paid[1]", "m1");
    rig.commit(frame.clone());
    let one = waiting(rig, "paid[1]");
    rig.commit(frame);
    let two = waiting(rig, "paid[1]");
    assert_eq!(inbox(rig, one.execution), ["m1".into()]);
    assert_eq!(inbox(rig, two.execution), []);
}

pub fn subscriptions_are_examined_and_repaired<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = waiting(rig, "paid[1]");
    let examined = rig.examine(hand.execution);
    let known = Subscription { wait: wait(2, 0), name: "paid[1]".into() };
    assert_eq!(examined.subscriptions, std::slice::from_ref(&known));
    let other = Subscription { wait: wait(2, 1), name: "paid[2]".into() };
    for subscriptions in [vec![known, other.clone()], vec![other]] {
        let (row, permit) = (DerivedRow::Parked { next_due: None }, None);
        let repaired = subscriptions.clone();
        let remedy = Remedy::Control { row, epoch: 1, requires: 1, permit, subscriptions };
        assert!(rig.repair(&repair_of(&rig.examine(hand.execution), remedy)));
        assert_eq!(rig.examine(hand.execution).subscriptions, repaired);
    }
    publish(rig, "paid[1]", "m1");
    publish(rig, "paid[2]", "m2");
    assert_eq!(inbox(rig, hand.execution), ["m2".into()]);
}

pub fn waits_are_found_by_bounds_of_their_names<B: StoreUnderTest>(rig: &Rig<B>) {
    let one = waiting(rig, "e[a]");
    let mut two = rig.start(ONE);
    let append = opening(two.next(1), wait(2, 0), "e[a {1}]");
    rig.commit(opening(opening(append, wait(2, 1), "e[a {1}]"), wait(2, 2), "e[b]"));
    let found = |between: &[(&str, &str)]| -> Vec<(ExecutionNo, String)> {
        let range = |(from, to): &(&str, &str)| (*from).to_owned()..(*to).to_owned();
        let between: Vec<_> = between.iter().map(range).collect();
        let mut found = rig.store().subscribed(&between).expect("the store answers");
        found.sort();
        found.into_iter().map(|(execution, name)| (execution, name.to_string())).collect()
    };
    let of = |hand: &Hand, name: &str| (hand.execution, name.to_owned());
    assert_eq!(found(&[]), []);
    assert_eq!(found(&[("e[a]", "e[a]\u{1}")]), [of(&one, "e[a]")]);
    assert_eq!(found(&[("e[a ", "e[a!")]), [of(&two, "e[a {1}]")], "several waits are one");
    let all = [of(&one, "e[a]"), of(&two, "e[a {1}]"), of(&two, "e[b]")];
    assert_eq!(found(&[("e[a", "e[c"), ("e[b]", "f")]), all);
    rig.commit(closing(two.next(1), wait(2, 2)));
    assert_eq!(found(&[("e[b", "e[c")]), []);
}
