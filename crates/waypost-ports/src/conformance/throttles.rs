//! Throttles of triggers: events that start at once, wait for their turn, or start nothing.

use std::sync::Arc;

use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{ItemKey, Over, Throttle, WindowMode};

use super::StoreUnderTest;
use super::fires::{fire, start};
use super::rig::Rig;
use super::triggers::{
    LEASE, at, change, claim, dead, deploy, event, history, pause, row, schedule, settle, settled,
    settlement, version,
};
use crate::store::Appended;
use crate::triggers::throttles::{OVER_LIMIT, PERMIT_LEASE, REPLACED};
use crate::triggers::{
    Arrival, Arrived, DueGroup, Fire, FireOutcome, FireRow, GROUP_BYTES_MAX, GROUP_EVENTS_MAX,
    GroupFence, NewTrigger, Settlement, TriggerChange, TriggerRow, TriggerState, Triggers,
    WaitingEvents,
};

/// Long enough that a permit whose instance is gone is claimed by another one meanwhile.
const PER: Millis = Millis(40_000);

fn throttle(limit: u32, over: Over) -> Throttle {
    Throttle { limit, per: PER, over }
}

fn trigger(throttle: Throttle) -> NewTrigger {
    NewTrigger { throttle: Some(throttle), ..event("events", &["t"]) }
}

/// The trigger with its throttle, after a deploy.
fn throttled<B: StoreUnderTest>(rig: &Rig<B>, content: u32, throttle: Throttle) -> TriggerRow {
    deploy(rig, &version("flow", content, vec![trigger(throttle)]));
    row(rig, "flow", "events")
}

fn arrival(row: &TriggerRow, throttle: Throttle, group: &str, item: &str) -> Arrival {
    Arrival {
        at: row.at(),
        group: group.into(),
        item: ItemKey { key: item.into(), incarnation: 0 }.digest(),
        label: item.into(),
        rule: WindowMode::Throttle(throttle),
        payload: format!("\"{item}\"").into(),
    }
}

fn arrive<B: StoreUnderTest>(
    rig: &Rig<B>,
    row: &TriggerRow,
    throttle: Throttle,
    items: &[&str],
) -> Vec<Arrived> {
    let arrivals: Vec<_> = items.iter().map(|item| arrival(row, throttle, "g", item)).collect();
    rig.store().arrive(&arrivals).expect("the arrivals are answered")
}

fn take<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<DueGroup> {
    rig.store().claim_groups(10, LEASE).expect("the claim is answered")
}

fn labels(groups: &[DueGroup]) -> Vec<&str> {
    groups.iter().flat_map(|group| &group.payloads).map(|(_, label)| &**label).collect()
}

fn next<B: StoreUnderTest>(rig: &Rig<B>) -> Option<Timestamp> {
    claim(rig).next_group
}

fn waiting<B: StoreUnderTest>(rig: &Rig<B>, row: &TriggerRow) -> WaitingEvents {
    rig.store().waiting_events(row.number).expect("the count is answered")
}

/// The permit that an arrival has got.
fn permit(arrived: Arrived) -> GroupFence {
    match arrived {
        Arrived::Permitted { seq } => GroupFence { group: "g".into(), seq },
        other => panic!("{other:?}"),
    }
}

fn flush(row: &TriggerRow, fence: &GroupFence, key: &str) -> Fire {
    Fire { group: Some(fence.clone()), ..fire(row, &format!("window {} {key}", fence.seq)) }
}

fn fires<B: StoreUnderTest>(rig: &Rig<B>, row: &TriggerRow, fence: &GroupFence) {
    let (_, outcome) = start(rig, &format!("e{}", fence.seq), flush(row, fence, "it"));
    assert!(matches!(outcome, Appended::Committed { .. }), "{outcome:?}");
}

fn outcomes<B: StoreUnderTest>(
    rig: &Rig<B>,
    row: &TriggerRow,
) -> Vec<(String, FireOutcome, String)> {
    let told = |row: FireRow| {
        (row.label.to_string(), row.outcome, row.reason.unwrap_or_default().to_string())
    };
    history(rig, row.number).into_iter().map(told).collect()
}

pub fn throttle_starts_up_to_its_limit_and_queues_the_rest<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(2, Over::Queue);
    let row = throttled(rig, 1, rule);
    let arrived = arrive(rig, &row, rule, &["a", "b", "c", "a"]);
    let (a, b) = (permit(arrived[0]), permit(arrived[1]));
    assert_eq!(arrived[2..], [Arrived::Held, Arrived::Duplicate]);
    assert_eq!(arrive(rig, &row, rule, &["d", "c"]), [Arrived::Held, Arrived::Duplicate]);
    assert_eq!(rig.store().trigger_stats().expect("the counts are answered").groups, 3);
    assert_eq!(waiting(rig, &row), WaitingEvents { events: 4, next_due: Some(at(0)) });
    assert_eq!(take(rig), [], "the permits are with the caller");
    fires(rig, &row, &a);
    rig.advance(10);
    fires(rig, &row, &b);
    assert_eq!(next(rig), Some(at(0).plus(PER)));
    assert_eq!(waiting(rig, &row), WaitingEvents { events: 2, next_due: next(rig) });
    rig.advance(PER.0 - 11);
    assert_eq!(take(rig), []);
    rig.advance(1);
    let groups = take(rig);
    assert_eq!(labels(&groups), ["c"]);
    assert_eq!(groups[0].row.at(), row.at());
    fires(rig, &row, &groups[0].fence);
    assert_eq!(take(rig), []);
    rig.advance(10);
    rig.reopen();
    assert_eq!(labels(&take(rig)), ["d"]);
    let collected = |label: &str| (label.to_owned(), FireOutcome::Collected, String::new());
    let mut arrived = outcomes(rig, &row);
    arrived.retain(|(_, outcome, _)| *outcome == FireOutcome::Collected);
    assert_eq!(arrived, ["a", "b", "c", "d"].map(collected));
}

pub fn throttle_counts_from_the_start_of_an_execution<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    let arrived = arrive(rig, &row, rule, &["a", "b"]);
    rig.advance(PER.0 - 1);
    assert_eq!(labels(&take(rig)), ["a"], "its instance is gone");
    rig.advance(1);
    assert_eq!(take(rig), [], "its fire may be under way");
    fires(rig, &row, &permit(arrived[0]));
    rig.advance(PER.0 - 1);
    assert_eq!(take(rig), []);
    rig.advance(1);
    assert_eq!(labels(&take(rig)), ["b"]);
}

pub fn keys_of_a_throttle_do_not_hold_each_other_back<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    let arrivals = [("x", "1"), ("y", "2"), ("x", "3"), ("", "4"), ("y", "5")]
        .map(|(group, item)| arrival(&row, rule, group, item));
    let arrived = rig.store().arrive(&arrivals).expect("the arrivals are answered");
    let permitted = |arrived: &Arrived| matches!(arrived, Arrived::Permitted { .. });
    let permitted: Vec<bool> = arrived.iter().map(permitted).collect();
    assert_eq!(permitted, [true, true, false, true, false]);
    assert_eq!((arrived[2], arrived[4]), (Arrived::Held, Arrived::Held));
}

pub fn dropped_event_is_skipped_and_remembered<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Drop);
    let row = throttled(rig, 1, rule);
    let arrived = arrive(rig, &row, rule, &["a", "b", "b"]);
    assert_eq!(arrived[1..], [Arrived::Skipped, Arrived::Duplicate]);
    fires(rig, &row, &permit(arrived[0]));
    rig.advance(PER.0 - 1);
    assert_eq!(arrive(rig, &row, rule, &["c"]), [Arrived::Skipped]);
    rig.advance(1);
    permit(arrive(rig, &row, rule, &["d"])[0]);
    assert_eq!(arrive(rig, &row, rule, &["b"]), [Arrived::Duplicate]);
    let skipped: Vec<_> = outcomes(rig, &row)
        .into_iter()
        .filter(|(_, outcome, _)| *outcome == FireOutcome::Skipped)
        .collect();
    let skip = |label: &str| (label.to_owned(), FireOutcome::Skipped, OVER_LIMIT.to_owned());
    assert_eq!(skipped, ["b", "c"].map(skip));
}

pub fn latest_event_takes_the_place_of_the_one_that_waits<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Latest);
    let row = throttled(rig, 1, rule);
    let arrived = arrive(rig, &row, rule, &["a", "b", "c"]);
    assert_eq!(arrived[1..], [Arrived::Held, Arrived::Replaced]);
    fires(rig, &row, &permit(arrived[0]));
    rig.advance(PER.0 - 1);
    assert_eq!(arrive(rig, &row, rule, &["it's", "b"]), [Arrived::Replaced, Arrived::Duplicate]);
    rig.advance(1);
    assert_eq!(labels(&take(rig)), ["it's"]);
    let skipped: Vec<_> = outcomes(rig, &row)
        .into_iter()
        .filter(|(_, outcome, _)| *outcome == FireOutcome::Skipped)
        .collect();
    let skip = |label: &str| (label.to_owned(), FireOutcome::Skipped, REPLACED.to_owned());
    assert_eq!(skipped, ["b", "c"].map(skip));
}

pub fn permit_of_a_dead_instance_is_claimed_by_another<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Drop);
    let row = throttled(rig, 1, rule);
    let fence = permit(arrive(rig, &row, rule, &["a"])[0]);
    assert_eq!(take(rig), []);
    rig.advance(PERMIT_LEASE.0);
    let groups = take(rig);
    assert_eq!((labels(&groups), &groups[0].fence), (vec!["a"], &fence));
    fires(rig, &row, &fence);
    let (_, outcome) = start(rig, "again", flush(&row, &fence, "again"));
    assert_eq!(outcome, Appended::Stale, "the permit is gone");
    rig.advance(LEASE.0);
    assert_eq!(take(rig), []);
}

pub fn refused_fire_keeps_its_permit_and_a_settled_one_returns_it<B: StoreUnderTest>(
    rig: &mut Rig<B>,
) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    rig.create("taken", "flow");
    let fence = permit(arrive(rig, &row, rule, &["a", "b", "c"])[0]);
    let (_, outcome) = start(rig, "taken", flush(&row, &fence, "x"));
    assert!(matches!(outcome, Appended::Duplicate { .. }), "{outcome:?}");
    assert_eq!(take(rig), []);
    let fires = vec![settled("x", FireOutcome::Dead)];
    let dead = Settlement { advance: None, group: Some(fence), ..settlement(&row, 0, fires) };
    assert!(settle(rig, &dead));
    assert!(!settle(rig, &dead), "the permit is gone");
    let groups = take(rig);
    assert_eq!(labels(&groups), ["b"], "nothing has started");
    assert!(settle(rig, &Settlement { group: Some(groups[0].fence.clone()), ..dead }));
    assert_eq!(labels(&take(rig)), ["c"]);
}

pub fn throttle_that_holds_nothing_back_leaves_nothing<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(3, Over::Queue);
    let row = throttled(rig, 1, rule);
    for fence in arrive(rig, &row, rule, &["a", "b"]).into_iter().map(permit) {
        fires(rig, &row, &fence);
    }
    assert_eq!(next(rig), Some(at(0).plus(PER)));
    assert_eq!(rig.store().trigger_stats().expect("the counts are answered").groups, 0);
    rig.advance(PER.0);
    assert_eq!((take(rig), next(rig)), (Vec::new(), None));
    permit(arrive(rig, &row, rule, &["c"])[0]);
}

pub fn queue_of_a_throttle_is_bounded<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    let items: Vec<String> = (0..GROUP_EVENTS_MAX + 2).map(|n| n.to_string()).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let mut arrived = arrive(rig, &row, rule, &items);
    let first = permit(arrived.remove(0));
    assert_eq!(arrived.pop(), Some(Arrived::Full));
    assert!(arrived.iter().all(|one| *one == Arrived::Held), "{arrived:?}");
    fires(rig, &row, &first);
    rig.advance(PER.0);
    assert_eq!(labels(&take(rig)), ["1"]);
    // What found no room is not remembered: it may come again.
    assert_eq!(arrive(rig, &row, rule, &items[items.len() - 1..]), [Arrived::Held]);

    let large = |group: &str, item: &str| Arrival {
        payload: format!("\"{}\"", "x".repeat(GROUP_BYTES_MAX / 2)).into(),
        ..arrival(&row, rule, group, item)
    };
    let arrivals = ["l1", "l2", "l3"].map(|item| large("large", item));
    let arrived = rig.store().arrive(&arrivals).expect("the arrivals are answered");
    assert_eq!(arrived[1..], [Arrived::Held, Arrived::Full]);
}

pub fn events_of_a_paused_throttle_wait<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    let fence = permit(arrive(rig, &row, rule, &["a", "b"])[0]);
    let paused = change(rig, row.at(), &pause()).expect("it is at this revision");
    let (_, outcome) = start(rig, "k", flush(&row, &fence, "x"));
    assert_eq!(outcome, Appended::Stale);
    rig.advance(PER.0 * 2);
    assert_eq!((take(rig), next(rig)), (Vec::new(), None));
    assert_eq!(waiting(rig, &paused), WaitingEvents { events: 2, next_due: None });
    let resume = TriggerChange::Resume { cursor: paused.cursor.clone(), next_due: None };
    let active = change(rig, paused.at(), &resume).expect("it is at this revision");
    let groups = take(rig);
    assert_eq!(labels(&groups), ["a"]);
    fires(rig, &active, &groups[0].fence);
    rig.advance(PER.0);
    assert_eq!(labels(&take(rig)), ["b"]);
}

pub fn deploy_of_another_throttle_is_for_events_that_wait<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    let items = ["a", "b", "c", "d", "e", "f"];
    fires(rig, &row, &permit(arrive(rig, &row, rule, &items)[0]));
    // The same throttle again changes nothing.
    throttled(rig, 2, rule);
    assert_eq!((take(rig), next(rig)), (Vec::new(), Some(at(0).plus(PER))));
    let row = throttled(rig, 3, throttle(3, Over::Queue));
    let groups = take(rig);
    assert_eq!(labels(&groups), ["b", "c"]);
    groups.iter().for_each(|group| fires(rig, &row, &group.fence));
    // Without a throttle they start at once, one by one.
    deploy(rig, &version("flow", 4, vec![event("events", &["t"])]));
    let groups = take(rig);
    assert_eq!((groups.len(), labels(&groups)), (3, vec!["d", "e", "f"]));
    let row = super::triggers::row(rig, "flow", "events");
    groups.iter().for_each(|group| fires(rig, &row, &group.fence));
    rig.advance(LEASE.0.max(PER.0));
    assert_eq!((take(rig), next(rig)), (Vec::new(), None));
}

pub fn throttle_and_window_of_one_key_are_apart<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let row = throttled(rig, 1, rule);
    arrive(rig, &row, rule, &["a", "b"]);
    deploy(rig, &version("flow", 2, vec![event("events", &["t"])]));
    let row = super::triggers::row(rig, "flow", "events");
    let batch = |item: &str| Arrival {
        rule: WindowMode::Batch { size: 2, wait: Millis(100) },
        ..arrival(&row, rule, "g", item)
    };
    let arrived = rig.store().arrive(&[batch("c"), batch("d")]);
    assert_eq!(arrived.expect("the arrivals are answered"), [Arrived::Held; 2]);
    rig.advance(LEASE.0.max(PERMIT_LEASE.0));
    let mut fired: Vec<String> =
        take(rig).iter().map(|group| labels(std::slice::from_ref(group)).concat()).collect();
    fired.sort();
    assert_eq!(fired, ["a", "b", "cd"]);
}

pub fn events_of_a_retired_throttle_are_dead_letters<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let rule = throttle(1, Over::Queue);
    let before = throttled(rig, 1, rule);
    let fence = permit(arrive(rig, &before, rule, &["a", "b", "c"])[0]);
    deploy(rig, &version("flow", 2, vec![schedule("every", 0)]));
    assert_eq!(row(rig, "flow", "events").state, TriggerState::Retired);
    let mut letters: Vec<_> = dead(rig).into_iter().map(|letter| letter.label).collect();
    letters.sort();
    assert_eq!(letters, ["a".into(), "b".into(), "c".into()] as [Arc<str>; 3]);
    let (_, outcome) = start(rig, "k", flush(&before, &fence, "x"));
    assert_eq!(outcome, Appended::Stale);
    rig.advance(PER.0);
    assert_eq!((take(rig), next(rig)), (Vec::new(), None));
}

/// Arrivals, claims, fires and restarts in an arbitrary order: each event starts once, in the order of its
/// key where one may start at a time, and no window of its length has more starts than the limit.
pub fn throttle_keeps_its_limit_whatever_happens<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let mut total = 0;
    for limit in [1, 3] {
        let rule = throttle(limit, Over::Queue);
        let row = throttled(rig, limit, rule);
        let mut open: Vec<GroupFence> = Vec::new();
        let (mut dice, mut arrived) = (u64::from(limit), 0);
        for _ in 0..200 {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (what, which) = (dice >> 60, usize::try_from(dice >> 32 & 0xff).unwrap_or(0));
            match what {
                0..=3 => {
                    let item = format!("{limit}-{arrived:03}");
                    arrived += 1;
                    if let Arrived::Permitted { seq } = arrive(rig, &row, rule, &[&item])[0] {
                        open.push(GroupFence { group: "g".into(), seq });
                    }
                }
                4..=7 => open.extend(take(rig).into_iter().map(|group| group.fence)),
                8..=11 if !open.is_empty() => {
                    let fence = open.swap_remove(which % open.len());
                    let _repeat = start(rig, &format!("e{}", fence.seq), flush(&row, &fence, "it"));
                }
                12 => open.clear(),
                _ => rig.advance((dice >> 40 & 0xffff) / 4),
            }
        }
        // All that has arrived starts in the end.
        while let Some(due) = next(rig) {
            rig.advance(due.since(claim(rig).at).0);
            take(rig).iter().for_each(|group| fires(rig, &row, &group.fence));
        }
        let mut starts = history(rig, row.number);
        starts.retain(|fire| fire.outcome == FireOutcome::Started);
        total += arrived;
        assert_eq!(starts.len(), total);
        starts.sort_by_key(|fire| fire.place);
        let apart = usize::try_from(limit).unwrap_or(1);
        for (first, last) in starts.iter().zip(starts.iter().skip(apart)) {
            assert!(last.at.since(first.at) >= PER, "{first:?} {last:?}");
        }
        if limit == 1 {
            let label = |fire: &FireRow| fire.label.rsplit(' ').nth(1).map(str::parse::<u64>);
            let seqs: Vec<_> = starts.iter().filter_map(label).flatten().collect();
            assert!(seqs.len() == starts.len() && seqs.is_sorted(), "{seqs:?}");
        }
        rig.advance(PER.0);
    }
}
