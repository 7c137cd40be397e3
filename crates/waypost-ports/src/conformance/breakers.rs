//! Circuit breakers: one state per key, changed as one step, kept no longer than it matters.

use std::sync::atomic::{AtomicU32, Ordering};

use waypost_core::breaker::{BreakerCause, BreakerChange, BreakerPolicy, BreakerVerdict};
use waypost_core::time::{Millis, Timestamp};

use super::StoreUnderTest;
use super::rig::{Rig, START};
use crate::breakers::{BreakerRow, Breakers};

const POLICY: BreakerPolicy =
    BreakerPolicy { failures: 3, period: Millis(10_000), cooldown: Millis(1_000) };

fn ask<B: StoreUnderTest>(rig: &Rig<B>, key: &str) -> BreakerVerdict {
    let ask = BreakerChange::Ask { policy: POLICY, timeout: Some(Millis(100)) };
    rig.store().change_breaker(key, &ask).expect("the breaker answers").verdict
}

fn fail<B: StoreUnderTest>(rig: &Rig<B>, key: &str, probe: Option<u64>) -> BreakerVerdict {
    let failed = BreakerChange::Failed { policy: POLICY, probe, message: "it's \"down\"".into() };
    rig.store().change_breaker(key, &failed).expect("the breaker takes it").verdict
}

fn change<B: StoreUnderTest>(rig: &Rig<B>, key: &str, change: &BreakerChange) -> bool {
    rig.store().change_breaker(key, change).expect("the breaker takes it").known
}

fn open<B: StoreUnderTest>(rig: &Rig<B>, key: &str) {
    (0..3).for_each(|_| drop(fail(rig, key, None)));
}

fn list<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<BreakerRow> {
    rig.store().list_breakers(None, 100).expect("the list is answered")
}

/// A key, its status and the number of its recent failures.
fn shown<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<(String, &'static str, usize)> {
    let line =
        |row: BreakerRow| (row.key.to_string(), row.state.status(row.at), row.state.failures.len());
    list(rig).into_iter().map(line).collect()
}

fn until(verdict: &BreakerVerdict) -> Option<Timestamp> {
    match verdict {
        BreakerVerdict::Wait(hold) => Some(hold.until),
        BreakerVerdict::Pass | BreakerVerdict::Probe(_) | BreakerVerdict::Ask => None,
    }
}

pub fn breaker_that_never_failed_has_no_row<B: StoreUnderTest>(rig: &Rig<B>) {
    assert_eq!(ask(rig, "a"), BreakerVerdict::Pass);
    assert_eq!(list(rig), []);
    assert!(!change(rig, "a", &BreakerChange::Reset), "there was nothing to reset");
}

pub fn breaker_opens_probes_and_closes<B: StoreUnderTest>(rig: &mut Rig<B>) {
    assert_eq!(fail(rig, "a", None), BreakerVerdict::Pass);
    assert_eq!(fail(rig, "a", None), BreakerVerdict::Pass);
    assert_eq!(shown(rig), [("a".to_owned(), "closed", 2)]);
    let opened = START.plus(POLICY.cooldown);
    let verdict = fail(rig, "a", None);
    assert_eq!(until(&verdict), Some(opened));
    let BreakerVerdict::Wait(hold) = ask(rig, "a") else { panic!("it is open") };
    let cause = BreakerCause::Open {
        until: opened,
        failures: 3,
        period: POLICY.period,
        last: Some("it's \"down\"".into()),
    };
    assert_eq!((hold.until, hold.cause, &*hold.key), (opened, cause, "a"));
    assert_eq!(shown(rig), [("a".to_owned(), "open", 0)]);
    rig.advance(POLICY.cooldown.0);
    assert_eq!(shown(rig), [("a".to_owned(), "half-open", 0)]);
    assert_eq!(ask(rig, "a"), BreakerVerdict::Probe(1));
    assert!(until(&ask(rig, "a")).is_some(), "there is one probe at a time");
    fail(rig, "a", Some(1));
    assert_eq!(until(&ask(rig, "a")), Some(opened.plus(POLICY.cooldown)));
    rig.advance(POLICY.cooldown.0);
    rig.reopen();
    assert_eq!(ask(rig, "a"), BreakerVerdict::Probe(2), "the state outlives the process");
    assert!(change(rig, "a", &BreakerChange::Answered { probe: 2 }));
    assert_eq!(ask(rig, "a"), BreakerVerdict::Pass);
    assert_eq!(list(rig), [], "nothing is kept of it");
}

pub fn breakers_of_other_keys_are_not_affected<B: StoreUnderTest>(rig: &Rig<B>) {
    for key in ["", "a'; --", "ä\u{0}ö", "%"] {
        open(rig, key);
        assert!(until(&ask(rig, key)).is_some(), "{key:?}");
        assert_eq!(ask(rig, "b"), BreakerVerdict::Pass);
    }
    assert_eq!(list(rig).len(), 4);
}

pub fn breaker_is_reset<B: StoreUnderTest>(rig: &Rig<B>) {
    open(rig, "a");
    open(rig, "b");
    assert!(change(rig, "a", &BreakerChange::Reset));
    assert_eq!(ask(rig, "a"), BreakerVerdict::Pass);
    assert_eq!(shown(rig), [("b".to_owned(), "open", 0)]);
}

pub fn breakers_are_listed_in_pages_by_key<B: StoreUnderTest>(rig: &Rig<B>) {
    let keys = ["B", "a", "b", "é"];
    keys.iter().rev().for_each(|key| drop(fail(rig, key, None)));
    let page = |after: Option<&str>| {
        let rows = rig.store().list_breakers(after, 3).expect("the list is answered");
        rows.iter().map(|row| row.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None), ["B", "a", "b"]);
    assert_eq!(page(Some("b")), ["é"]);
    assert!(page(Some("é")).is_empty());
}

pub fn breakers_that_mean_nothing_any_more_are_dropped<B: StoreUnderTest>(rig: &Rig<B>) {
    fail(rig, "a", None);
    open(rig, "b");
    rig.advance(POLICY.period.0);
    assert_eq!(shown(rig), [("b".to_owned(), "half-open", 0)]);
    rig.advance(24 * 3_600 * 1_000);
    assert_eq!(list(rig), []);
    assert!(change(rig, "a", &BreakerChange::Reset), "the row is there until others fail");
    fail(rig, "c", None);
    assert!(!change(rig, "b", &BreakerChange::Reset), "it was deleted");
}

pub fn concurrent_failures_are_all_counted_and_one_asker_is_the_probe<B: StoreUnderTest>(
    rig: &Rig<B>,
) where
    B::Store: Sync,
{
    let policy = BreakerPolicy { failures: 40, ..POLICY };
    let failed = BreakerChange::Failed { policy, probe: None, message: "down".into() };
    let store = rig.store();
    let each = |action: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| (0..10).for_each(|_| action()))));
        });
    };
    each(&|| drop(store.change_breaker("a", &failed).expect("the failure is counted")));
    assert_eq!(shown(rig), [("a".to_owned(), "open", 0)], "all 40 were counted");
    rig.advance(POLICY.cooldown.0);
    let probes = AtomicU32::new(0);
    let asked = BreakerChange::Ask { policy, timeout: None };
    each(&|| {
        let answer = store.change_breaker("a", &asked).expect("the breaker answers");
        if matches!(answer.verdict, BreakerVerdict::Probe(_)) {
            probes.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(probes.into_inner(), 1);
}
