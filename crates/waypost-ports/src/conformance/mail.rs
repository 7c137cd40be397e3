//! The inbox and waking up. Whichever commits second, the parking owner or the sender, sees the
//! other.

use uuid::Uuid;
use waypost_core::command::{ApprovalDecision, ApprovalVerdict, Outcome, Report, Request, Tuning};
use waypost_core::id::{ExecutionId, ExecutionNo, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::time::Timestamp;

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, START, mail, signal};
use crate::store::{
    Appended, ControlChange, Mail, MailBody, MailDelivery, MailOf, Receiver, Share, Store,
    TREE_KEPT,
};

const PARKED: ControlChange = ControlChange::Parked { next_due: None };

pub fn mail_wakes_a_parked_execution<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.park(ONE, None);
    assert_eq!(rig.claimed(ONE), []);
    rig.send(hand.execution, "m1", signal());
    assert!(rig.control(hand.execution).ready);
    let claims = rig.claim(ONE);
    assert_eq!(claims.claimed.len(), 1);
    assert_eq!(claims.claimed[0].mail, [mail(hand.execution, "m1", signal())]);
}

pub fn mail_before_the_park_wakes_too<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.send(hand.execution, "m1", signal());
    rig.commit(hand.next(1).control(PARKED));
    assert_eq!(rig.claimed(ONE), [hand.execution]);
}

pub fn consumed_mail_does_not_wake<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.send(hand.execution, "m1", signal());
    rig.commit(hand.next(1).consuming(&["m1", "never sent"]).control(PARKED));
    assert_eq!(rig.claimed(ONE), []);
    assert_eq!(rig.load(hand.execution).mail, []);
}

pub fn receivers_are_found_by_their_ids<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.create("exe_a", "flow");
    let execution = hand.execution;
    let found = |key: &str| rig.store().receiver(key).expect("the store answers");
    assert_eq!(found("exe_a"), Some(Receiver { execution, ended: false }));
    assert_eq!(found("exe_b"), None);
    rig.commit(hand.next(1).control(ControlChange::Ended));
    assert_eq!(found("exe_a"), Some(Receiver { execution, ended: true }));
}

pub fn owners_are_those_of_now<B: StoreUnderTest>(rig: &Rig<B>) {
    let other = rig.instance(2);
    let (mut one, two) = (rig.start(ONE), rig.start(other));
    let asked = [two.execution, one.execution, ExecutionNo(i64::MAX)];
    let owners = || {
        let mut owners = rig.store().owners(&asked).expect("the store answers");
        owners.sort_unstable();
        owners
    };
    let mut both = [(one.execution, ONE), (two.execution, other)];
    both.sort_unstable();
    assert_eq!(owners(), both);
    rig.commit(one.next(1).control(PARKED));
    assert_eq!(owners(), [(two.execution, other)]);
    assert_eq!(rig.store().owners(&[]).expect("the store answers"), []);
}

pub fn births_are_reserved_by_root<B: StoreUnderTest>(rig: &Rig<B>) {
    let [one, other] = ["exe_one", "exe_other"].map(|id| ExecutionId(id.into()));
    let reserve = |root: &ExecutionId, count: u64| {
        rig.store().reserve_births(root, count).expect("the store answers")
    };
    assert_eq!(reserve(&one, 64), 0);
    assert_eq!(reserve(&one, 1), 64);
    assert_eq!(reserve(&other, 7), 0);
    assert_eq!((reserve(&one, 0), reserve(&other, 0)), (65, 7));
}

pub fn counts_of_trees_that_ended_long_ago_are_deleted<B: StoreUnderTest>(rig: &Rig<B>) {
    let id = |id: &str| ExecutionId(id.into());
    let reserve = |root: &str, count: u64| {
        rig.store().reserve_births(&id(root), count).expect("the store answers")
    };
    let mut ended = rig.create("ended", "flow");
    rig.commit(ended.next(1).control(ControlChange::Ended));
    let mut busy = rig.create("busy", "flow");
    rig.commit(busy.next(1).control(ControlChange::Ended));
    rig.create("open", "flow");
    for root in ["ended", "busy", "open"] {
        assert_eq!(reserve(root, 64), 0);
    }
    rig.advance(TREE_KEPT.0);
    assert_eq!(reserve("busy", 1), 64, "an ended root may have children that go on");
    rig.advance(1);
    assert_eq!(reserve("new", 1), 0);
    assert_eq!((reserve("busy", 0), reserve("open", 0)), (65, 64), "they are in use");
    assert_eq!(reserve("ended", 0), 0, "it was deleted");
}

fn hold<B: StoreUnderTest>(rig: &Rig<B>, hand: &mut Hand) {
    let held = ControlChange::Held { reason: "paused".to_owned(), next_due: None };
    rig.commit(hand.next(1).control(held));
}

pub fn a_held_execution_is_woken_by_resume_and_cancel_only<B: StoreUnderTest>(rig: &Rig<B>) {
    for waker in [Request::Resume { reason: None }, Request::Cancel { reason: None }] {
        let mut hand = rig.start(ONE);
        hold(rig, &mut hand);
        rig.send(hand.execution, "m1", signal());
        rig.send(hand.execution, "m2", Request::Pause { now: true, reason: None });
        assert_eq!(rig.claimed(ONE), []);
        rig.send(hand.execution, "m3", waker);
        let claims = rig.claim(ONE);
        assert_eq!(claims.claimed.len(), 1);
        assert_eq!(claims.claimed[0].mail.len(), 3);
        rig.commit(Hand::of(&claims.claimed[0]).next(1).control(ControlChange::Ended));
    }
}

pub fn held_with_old_mail_is_ready_only_for_the_right_kind<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut asleep = rig.start(ONE);
    rig.send(asleep.execution, "m1", signal());
    hold(rig, &mut asleep);
    let mut awake = rig.start(ONE);
    rig.send(awake.execution, "m1", Request::Cancel { reason: Some("late".to_owned()) });
    hold(rig, &mut awake);
    assert_eq!(rig.claimed(ONE), [awake.execution]);
}

pub fn a_message_is_taken_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let (mut one, two) = (rig.start(ONE), rig.start(ONE));
    let batch = [
        mail(one.execution, "m1", signal()),
        mail(one.execution, "m1", Request::Resume { reason: None }),
    ];
    let deliveries = rig.store().deliver(&batch).expect("the mail is answered");
    assert_eq!(deliveries, [MailDelivery::Accepted { owner: Some(ONE) }, MailDelivery::Duplicate]);
    assert_eq!(rig.deliver(mail(one.execution, "m1", signal())), MailDelivery::Duplicate);
    rig.send(two.execution, "m1", signal());
    assert_eq!(rig.load(one.execution).mail.len(), 1);
    rig.commit(one.next(1).consuming(&["m1"]));
    assert_eq!(rig.load(two.execution).mail.len(), 1, "ids are per execution");
}

pub fn delivery_distinguishes_ended_and_unknown_executions<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut ended = rig.start(ONE);
    rig.commit(ended.next(1).control(ControlChange::Ended));
    let alive = rig.start(ONE);
    let unknown = rig.number(ONE);
    let batch = [ended.execution, unknown, alive.execution].map(|to| mail(to, "m1", signal()));
    let deliveries = rig.store().deliver(&batch).expect("the mail is answered");
    let accepted = MailDelivery::Accepted { owner: Some(ONE) };
    assert_eq!(deliveries, [MailDelivery::Ended, MailDelivery::Unknown, accepted]);
}

pub fn the_owner_is_named<B: StoreUnderTest>(rig: &Rig<B>) {
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

pub fn owners_collect_their_mail<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let (mut mine, other, parked) = (rig.start(one), rig.start(two), rig.park(one, None));
    let collect = |owner, limit| {
        rig.store().collect(MailOf::Owner(owner, Share::ALL), limit).expect("it is answered")
    };
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

pub fn mail_is_kept_exactly_and_in_order<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let hand = rig.start(ONE);
    let body = Json::parse(r#"{"b":"\u0000","a":9007199254740993}"#).expect("it is JSON");
    let bodies = [
        MailBody::from(Request::Signal { name: "zoë".into(), body }),
        MailBody::from(Request::Cancel { reason: Some("no \"reason\"".to_owned()) }),
        MailBody::from(Request::Pause { now: true, reason: None }),
        MailBody::from(Request::Resume { reason: None }),
        MailBody::from(Request::CompleteWait { wait: 7, body: Json::null() }),
        MailBody::from(Request::Decide {
            wait: 7,
            decision: Box::new(ApprovalDecision {
                verdict: ApprovalVerdict::Approved,
                approver: "ann".into(),
                link: true,
                comment: Some("as agreed".to_owned()),
                form: Json::parse(r#"{"n":1.50}"#).expect("it is JSON"),
            }),
        }),
        MailBody::from(Request::CancelItem { node: "m[3]".into(), reason: None }),
        MailBody::from(Request::Tune {
            node: "m".into(),
            tuning: Tuning { held: Some(true), concurrency: Some(5) },
            reason: Some("slow".to_owned()),
        }),
        Request::Resume { reason: Some("fixed".to_owned()) }.into(),
        Request::Pause { now: false, reason: Some("maintenance".to_owned()) }.into(),
        Request::Retry { reason: None, budget: None }.into(),
        MailBody::Report(Report {
            node: "zoë".into(),
            attempt: 3,
            token: Token(u128::MAX),
            worker: Some(WorkerId(Uuid::from_u128(5))),
            outcome: Outcome::Completed(Json::parse("[1, 2.50]").expect("it is JSON")),
        }),
    ];
    let sent: Vec<Mail> = ["m9", "m1", "m5", "", "m2", "m7", "m4", "m8", "m3", "m6", "m0"]
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

pub fn the_end_discards_mail<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    rig.send(hand.execution, "m1", signal());
    rig.commit(hand.next(1).control(ControlChange::Ended));
    assert_eq!(rig.load(hand.execution).mail, []);
    assert_eq!(
        rig.store().collect(MailOf::Owner(ONE, Share::ALL), 10).expect("it is answered"),
        []
    );
}

pub fn a_fenced_frame_consumes_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let hand = rig.park(one, Some(Timestamp(0)));
    let stale = hand.frame(1).consuming(&["m1"]).control(PARKED);
    rig.send(hand.execution, "m1", signal());
    let mut taker = rig.take(two, "it is due");
    rig.commit(taker.next(1).control(ControlChange::Owned));
    assert_eq!(rig.append(stale), Appended::Fenced);
    assert_eq!(rig.load(hand.execution).mail.len(), 1);
    assert_eq!(rig.control(hand.execution).owner, Some(two));
}
