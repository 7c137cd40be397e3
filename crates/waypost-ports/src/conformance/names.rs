//! Submissions, numbers, definitions.

use std::sync::Arc;

use waypost_core::id::{DefinitionHash, ExecutionId};

use super::StoreUnderTest;
use super::rig::{Draft, Hand, ONE, Rig};
use crate::query::{Query, Submitted};
use crate::store::{Append, Appended, DefinitionRef, Idempotency, Store, Submission, TakenName};

pub fn a_key_is_given_once<B: StoreUnderTest>(rig: &Rig<B>) {
    let first = rig.create("order-1", "welcome");
    let second = rig.hand(ONE).create("order-1", "welcome");
    let duplicate = Appended::Duplicate { execution: first.execution, taken: TakenName::Id };
    assert_eq!(rig.append(second), duplicate);
}

pub fn a_key_is_given_once_in_one_batch<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hands: Vec<_> = (0..3).map(|_| rig.hand(ONE)).collect();
    let keys = ["same", "same", "other"];
    let batch: Vec<Append> =
        hands.iter_mut().zip(keys).map(|(hand, key)| hand.create(key, "welcome").into()).collect();
    let outcomes = rig.append_all(&batch);
    assert!(matches!(&outcomes[0], Appended::Committed { .. }), "{outcomes:?}");
    let duplicate = Appended::Duplicate { execution: hands[0].execution, taken: TakenName::Id };
    assert_eq!(outcomes[1], duplicate);
    assert!(matches!(&outcomes[2], Appended::Committed { .. }), "{outcomes:?}");
}

fn submit(hand: &mut Hand, key: &str, idempotency: &str, digest: u8) -> Draft {
    let idempotency = Idempotency { key: idempotency.into(), digest: [digest; 32] };
    let submission = Submission {
        key: ExecutionId(key.into()),
        idempotency: Some(Box::new(idempotency)),
        fire: None,
    };
    hand.create(key, "welcome").submission(submission)
}

pub fn the_first_of_a_batch_gets_the_name<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hands: Vec<_> = (0..4).map(|_| rig.hand(ONE)).collect();
    let batch: Vec<Append> = vec![
        submit(&mut hands[0], "z", "y", 1).into(),
        hands[1].create("z", "welcome").into(),
        submit(&mut hands[2], "a", "y", 1).into(),
        hands[3].create("a", "welcome").into(),
    ];
    let outcomes = rig.append_all(&batch);
    let by_first = |taken| Appended::Duplicate { execution: hands[0].execution, taken };
    assert!(matches!(&outcomes[0], Appended::Committed { .. }), "{outcomes:?}");
    assert_eq!(outcomes[1..3], [by_first(TakenName::Id), by_first(TakenName::SameSubmission)]);
    assert!(matches!(&outcomes[3], Appended::Committed { .. }), "who is refused takes no name");
}

pub fn taken_idempotency_key_reports_same_or_other_submission<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = || rig.hand(ONE);
    let mut first = hand();
    rig.commit(submit(&mut first, "k1", "once", 7));
    let duplicate = |taken| Appended::Duplicate { execution: first.execution, taken };
    assert_eq!(
        rig.append(submit(&mut hand(), "k2", "once", 7)),
        duplicate(TakenName::SameSubmission)
    );
    assert_eq!(
        rig.append(submit(&mut hand(), "k3", "once", 8)),
        duplicate(TakenName::IdempotencyKey)
    );
    let mut other = hand();
    rig.commit(submit(&mut other, "k4", "twice", 7));
    let both = rig.append(submit(&mut hand(), "k4", "once", 7));
    assert_eq!(
        both,
        duplicate(TakenName::SameSubmission),
        "the idempotency key counts before the key"
    );
    rig.commit(submit(&mut hand(), "k2", "thrice", 7));
    let known = Submitted { execution: first.execution, digest: [7; 32] };
    assert_eq!(rig.store().submitted("once").expect("the store answers"), Some(known));
    assert_eq!(rig.store().submitted("never").expect("the store answers"), None);
}

pub fn a_refused_start_leaves_nothing<B: StoreUnderTest>(rig: &Rig<B>) {
    let first = rig.create("taken", "welcome");
    let mut refused = rig.hand(ONE);
    let outcome = rig.append(submit(&mut refused, "taken", "fresh", 1));
    assert!(matches!(outcome, Appended::Duplicate { taken: TakenName::Id, .. }), "{outcome:?}");
    assert!(rig.store().load(refused.execution).expect("the load is answered").is_none());
    let mut clash = Hand::new(first.execution, ONE);
    assert_eq!(rig.append(submit(&mut clash, "free", "fresh", 1)), Appended::Fenced);
    let mut third = rig.hand(ONE);
    rig.commit(submit(&mut third, "free", "fresh", 1));
}

pub fn a_repeated_start_is_committed<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.hand(ONE);
    let first = submit(&mut hand, "k1", "once", 7);
    let at = rig.commit(first.clone());
    rig.advance(100);
    rig.commit(hand.next(1));
    assert_eq!(rig.append(first), Appended::Committed { at });
    assert_eq!(rig.store().find(Some("k1")).expect("it is answered"), Some(hand.execution));
}

pub fn numbers_never_repeat<B: StoreUnderTest>(rig: &Rig<B>) {
    let (one, two) = (rig.instance(1), rig.instance(2));
    let mut all = rig.numbers(one, 10);
    all.extend(rig.numbers(two, 1));
    all.extend(rig.numbers(one, 0));
    all.extend(rig.numbers(one, 5));
    assert_eq!(all.len(), 16);
    assert!(all.is_sorted() && all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
    assert!(all[0].0 >= 1);
}

pub fn numbers_never_repeat_after_reopening<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let last = rig.numbers(ONE, 10).pop().expect("ten numbers were reserved");
    rig.reopen();
    assert!(rig.numbers(ONE, 1)[0] > last);
}

pub fn definitions_are_versioned_by_content<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let first = rig.define("welcome", "{\"a\":1}").definition;
    assert_eq!((first.version, &*first.canonical), (1, "{\"a\":1}"));
    assert_eq!(rig.define("welcome", "{\"a\":2}").definition.version, 2);
    assert_eq!(rig.define("other", "{\"b\":1}").definition.version, 1);
    rig.reopen();
    assert_eq!(rig.define("welcome", "{\"a\":1}").definition, first, "the same content again");
    assert_eq!(rig.define("welcome", "{\"a\":3}").definition.version, 3);
}

pub fn definitions_are_found<B: StoreUnderTest>(rig: &Rig<B>) {
    let first = rig.define("welcome", "{\"a\":1}").definition;
    let second = rig.define("welcome", "{\"a\":2}").definition;
    let name: Arc<str> = "welcome".into();
    let find = |which: DefinitionRef| rig.store().definition(&which).expect("it is answered");
    assert_eq!(find(DefinitionRef::Hash(first.hash)).as_ref(), Some(&first));
    assert_eq!(find(DefinitionRef::Version(name.clone(), 2)).as_ref(), Some(&second));
    assert_eq!(find(DefinitionRef::Version(name.clone(), 1)).as_ref(), Some(&first));
    assert_eq!(find(DefinitionRef::Version(name.clone(), 3)), None);
    assert_eq!(find(DefinitionRef::Current(name)).as_ref(), Some(&second));
    assert_eq!(find(DefinitionRef::Current("unknown".into())), None);
    assert_eq!(find(DefinitionRef::Version("unknown".into(), 1)), None);
    assert_eq!(find(DefinitionRef::Hash(DefinitionHash::of(b"nothing"))), None);
}
