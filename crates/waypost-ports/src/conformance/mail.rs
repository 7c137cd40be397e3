//! The inbox and waking up. Whichever commits second, the parking owner or the sender, sees the
//! other.

use uuid::Uuid;
use waypost_core::command::{Outcome, Report, Request};
use waypost_core::id::{Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Hand, Rig, START, mail, signal};
use crate::store::{Appended, ControlChange, Mail, MailBody, MailDelivery, Store};

const PARKED: ControlChange = ControlChange::Parked { next_due: None };

pub fn mail_wakes_a_parked_execution<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let hand = rig.park(instance, None);
    assert_eq!(rig.claimed(instance), []);
    rig.send(hand.execution, "m1", signal());
    assert!(rig.control(hand.execution).ready);
    let claims = rig.claim(instance);
    assert_eq!(claims.claimed.len(), 1);
    assert_eq!(claims.claimed[0].mail, [mail(hand.execution, "m1", signal())]);
}

pub fn mail_before_the_park_wakes_too<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = rig.start(instance);
    rig.send(hand.execution, "m1", signal());
    rig.commit(hand.next(1).control(PARKED));
    assert_eq!(rig.claimed(instance), [hand.execution]);
}

pub fn consumed_mail_does_not_wake<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = rig.start(instance);
    rig.send(hand.execution, "m1", signal());
    rig.commit(hand.next(1).consuming(&["m1", "never sent"]).control(PARKED));
    assert_eq!(rig.claimed(instance), []);
    assert_eq!(rig.load(hand.execution).mail, []);
}

fn hold<B: StoreUnderTest>(rig: &Rig<'_, B>, hand: &mut Hand) {
    let held = ControlChange::Held { reason: "paused".to_owned(), next_due: None };
    rig.commit(hand.next(1).control(held));
}

pub fn a_held_execution_is_woken_by_resume_and_cancel_only<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    for waker in [Request::Resume { reason: None }, Request::Cancel { reason: None }] {
        let mut hand = rig.start(instance);
        hold(&rig, &mut hand);
        rig.send(hand.execution, "m1", signal());
        rig.send(hand.execution, "m2", Request::Pause { now: true, reason: None });
        assert_eq!(rig.claimed(instance), []);
        rig.send(hand.execution, "m3", waker);
        let claims = rig.claim(instance);
        assert_eq!(claims.claimed.len(), 1);
        assert_eq!(claims.claimed[0].mail.len(), 3);
        rig.commit(Hand::of(&claims.claimed[0]).next(1).control(ControlChange::Ended));
    }
}

pub fn held_with_old_mail_is_ready_only_for_the_right_kind<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut asleep = rig.start(instance);
    rig.send(asleep.execution, "m1", signal());
    hold(&rig, &mut asleep);
    let mut awake = rig.start(instance);
    rig.send(awake.execution, "m1", Request::Cancel { reason: Some("late".to_owned()) });
    hold(&rig, &mut awake);
    assert_eq!(rig.claimed(instance), [awake.execution]);
}

pub fn a_message_is_taken_once<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let (mut one, two) = (rig.start(instance), rig.start(instance));
    let batch = [
        mail(one.execution, "m1", signal()),
        mail(one.execution, "m1", Request::Resume { reason: None }),
    ];
    let deliveries = rig.store().deliver(&batch).expect("the mail is answered");
    assert_eq!(
        deliveries,
        [MailDelivery::Accepted { owner: Some(instance) }, MailDelivery::Duplicate]
    );
    assert_eq!(rig.deliver(mail(one.execution, "m1", signal())), MailDelivery::Duplicate);
    rig.send(two.execution, "m1", signal());
    assert_eq!(rig.load(one.execution).mail.len(), 1);
    rig.commit(one.next(1).consuming(&["m1"]));
    assert_eq!(rig.load(two.execution).mail.len(), 1, "ids are per execution");
}

pub fn ended_and_unknown_addressees_are_told_apart<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut ended = rig.start(instance);
    rig.commit(ended.next(1).control(ControlChange::Ended));
    let alive = rig.start(instance);
    let unknown = rig.number(instance);
    let batch = [ended.execution, unknown, alive.execution].map(|to| mail(to, "m1", signal()));
    let deliveries = rig.store().deliver(&batch).expect("the mail is answered");
    let accepted = MailDelivery::Accepted { owner: Some(instance) };
    assert_eq!(deliveries, [MailDelivery::Ended, MailDelivery::Unknown, accepted]);
}

pub fn the_owner_is_named<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.park(one, Some(START));
    assert_eq!(
        rig.deliver(mail(hand.execution, "m1", signal())),
        MailDelivery::Accepted { owner: None }
    );
    rig.claim(two);
    assert_eq!(
        rig.deliver(mail(hand.execution, "m2", signal())),
        MailDelivery::Accepted { owner: Some(two) }
    );
}

pub fn owners_collect_their_mail<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let (one, two) = (rig.instance(1), rig.instance(2));
    let (mut mine, other, parked) = (rig.start(one), rig.start(two), rig.park(one, None));
    let collect = |owner, limit| rig.store().collect(owner, limit).expect("it is answered");
    assert_eq!(collect(one, 10), []);
    for hand in [&mine, &other, &parked] {
        rig.send(hand.execution, "m1", signal());
    }
    rig.send(mine.execution, "m2", Request::Resume { reason: None });
    let expected = [
        mail(mine.execution, "m1", signal()),
        mail(mine.execution, "m2", Request::Resume { reason: None }),
    ];
    assert_eq!(collect(one, 10), expected);
    assert_eq!(collect(one, 1), expected[..1]);
    assert_eq!(collect(two, 10), [mail(other.execution, "m1", signal())]);
    rig.commit(mine.next(1).consuming(&["m1"]));
    assert_eq!(collect(one, 10), expected[1..]);
}

pub fn mail_is_kept_exactly_and_in_order<B: StoreUnderTest>(backend: &B) {
    let mut rig = Rig::new(backend);
    let hand = rig.start(rig.instance(1));
    let body = Json::parse(r#"{"b":"\u0000","a":9007199254740993}"#).expect("it is JSON");
    let bodies = [
        MailBody::from(Request::Signal { name: "zoë".into(), body }),
        MailBody::from(Request::Cancel { reason: Some("no \"reason\"".to_owned()) }),
        MailBody::from(Request::Pause { now: true, reason: None }),
        MailBody::from(Request::Resume { reason: None }),
        MailBody::from(Request::CompleteWait { wait: 7, body: Json::null() }),
        Request::Resume { reason: Some("fixed".to_owned()) }.into(),
        Request::Pause { now: false, reason: Some("maintenance".to_owned()) }.into(),
        Request::Retry { reason: None }.into(),
        MailBody::Report(Report {
            node: "zoë".into(),
            attempt: 3,
            token: Token(u128::MAX),
            worker: Some(WorkerId(Uuid::from_u128(5))),
            outcome: Outcome::Completed(Json::parse("[1, 2.50]").expect("it is JSON")),
        }),
    ];
    let sent: Vec<Mail> = ["m9", "m1", "m5", "", "m2", "m7", "m4", "m8", "m3"]
        .into_iter()
        .zip(bodies)
        .map(|(message, body)| Mail {
            actor: Some("ann".into()),
            ..mail(hand.execution, message, body)
        })
        .collect();
    rig.store().deliver(&sent).expect("the mail is answered");
    rig.reopen();
    assert_eq!(rig.load(hand.execution).mail, sent);
}

pub fn the_end_discards_mail<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let mut hand = rig.start(instance);
    rig.send(hand.execution, "m1", signal());
    rig.commit(hand.next(1).control(ControlChange::Ended));
    assert_eq!(rig.load(hand.execution).mail, []);
    assert_eq!(rig.store().collect(instance, 10).expect("it is answered"), []);
}

pub fn a_fenced_frame_consumes_nothing<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.park(one, Some(Timestamp(0)));
    let stale = hand.frame(1).consuming(&["m1"]).control(PARKED);
    rig.send(hand.execution, "m1", signal());
    let mut taker = Hand::of(&rig.claim(two).claimed[0]);
    rig.commit(taker.next(1).control(ControlChange::Owned));
    assert_eq!(rig.append(stale), Appended::Fenced);
    assert_eq!(rig.load(hand.execution).mail.len(), 1);
    assert_eq!(rig.control(hand.execution).owner, Some(two));
}
