//! What a checker asks of the queues of concurrency keys, what it may put right, and quarantined executions
//! in them.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::PermitRequest;

use super::StoreUnderTest;
use super::permits::{end, permit, permit_for, place, places, queue, queue_all};
use super::rig::{Hand, ONE, Rig, repair_of};
use crate::inspect::{DerivedPermit, DerivedRow, Inspect, Remedy, Repair, StrayKind};
use crate::store::{Permit, Store};

pub fn permit_queues_show_holders_and_the_first_waiting<B: StoreUnderTest>(rig: &Rig<B>) {
    assert_eq!(rig.store().permit_queues().expect("it is answered"), []);
    let [_, b, c] = queue_all(rig, &permit_for("k", 2));
    let other = queue(rig, &permit_for("j", 3));
    let permit_queues = rig.store().permit_queues().expect("it is answered");
    let shown: Vec<_> = permit_queues
        .iter()
        .map(|queue| {
            (&*queue.key, queue.holding, queue.limit_max, queue.last_holding, queue.first_waiting)
        })
        .collect();
    let expected = [
        ("j", 1, 3, Some(other.execution), None),
        ("k", 2, 2, Some(b.execution), Some((c.execution, 2))),
    ];
    assert_eq!(shown, expected);
    rig.store().promote().expect("it is answered");
    assert_eq!(
        rig.store().permit_queues().expect("it is answered"),
        permit_queues,
        "there was no room"
    );
    assert_eq!(rig.store().strays().expect("it is answered"), []);
}

pub fn quarantined_execution_given_a_permit_stays_quarantined<B: StoreUnderTest>(rig: &Rig<B>) {
    let [mut a, b] = queue_all(rig, &permit_for("k", 1));
    assert_eq!(rig.claimed(ONE), [a.execution]);
    rig.send(b.execution, "r1", Request::Resume { reason: None });
    assert_eq!(rig.claimed(ONE), [b.execution]);
    rig.store().hold(b.execution, ONE, "damaged").expect("it is quarantined");
    end(rig, &mut a);
    assert_eq!(place(rig, &b), (true, 0));
    assert_eq!(rig.control(b.execution).held.as_deref(), Some("damaged"));
    assert_eq!(rig.claimed(ONE), []);
    rig.send(b.execution, "r2", Request::Resume { reason: None });
    assert_eq!(rig.claimed(ONE), [b.execution], "it has its permit when it is resumed");
}

fn repair<B: StoreUnderTest>(rig: &Rig<B>, hand: &Hand, remedy: Remedy) -> bool {
    rig.repair(&repair_of(&rig.examine(hand.execution), remedy))
}

fn with_permit(row: DerivedRow, request: &PermitRequest, admitted: bool) -> Remedy {
    let permit = Some(DerivedPermit { request: request.clone(), admitted });
    Remedy::Control { row, epoch: 1, requires: 1, permit, subscriptions: Vec::new() }
}

pub fn a_missing_place_is_made_again<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = permit_for("k", 1);
    let held = || DerivedRow::Held { reason: "waits".to_owned(), next_due: None };
    // One execution has started and another waits; neither has a row.
    let mut began = rig.start(ONE);
    let waiting = rig.start(ONE);
    assert_eq!(rig.examine(began.execution).permit, None);
    assert!(repair(rig, &began, with_permit(DerivedRow::Ready, &request, true)));
    assert!(repair(rig, &waiting, with_permit(held(), &request, false)));
    assert_eq!(places(rig, [&began, &waiting]), [(true, 0), (false, 1)]);
    let stored = rig.examine(waiting.execution).permit;
    assert_eq!(stored, Some(Permit { key: "k".into(), holding: false, before: 1 }));
    assert_eq!(rig.claimed(ONE), [began.execution]);
    // The row of another key is not its own.
    assert!(repair(rig, &waiting, with_permit(held(), &permit_for("j", 1), false)));
    assert_eq!(&*permit(rig, &waiting).key, "j");
    assert_eq!(rig.control(waiting.execution).held, None, "there, it is its turn");
    assert_eq!(rig.claimed(ONE), [waiting.execution]);
    let none = Remedy::Control {
        row: DerivedRow::Ready,
        epoch: 1,
        requires: 1,
        permit: None,
        subscriptions: Vec::new(),
    };
    assert!(repair(rig, &waiting, none));
    assert_eq!(rig.examine(waiting.execution).permit, None);
    began.epoch = 2;
    end(rig, &mut began);
}

pub fn permit_row_without_execution_is_found_and_removed<B: StoreUnderTest>(rig: &Rig<B>) {
    let request = permit_for("k", 1);
    // It has ended, and a repair that came late made its row again.
    let mut ended = rig.start(ONE);
    end(rig, &mut ended);
    assert!(repair(rig, &ended, with_permit(DerivedRow::Ready, &request, true)));
    let next = queue(rig, &request);
    assert_eq!(place(rig, &next), (false, 1));
    assert!(repair(rig, &ended, Remedy::Nothing));
    assert_eq!(rig.examine(ended.execution).permit, None);
    assert_eq!(place(rig, &next), (true, 0), "what it held is given to the next");
    // A repair of an execution without a log.
    let unknown = ExecutionNo(4_711);
    let remedy = with_permit(DerivedRow::Ready, &request, true);
    let stray = Repair { execution: unknown, last: None, seen: None, remedy };
    assert!(rig.repair(&stray));
    let strays = rig.store().strays().expect("it is answered");
    assert!(
        strays.iter().any(|stray| stray.execution == unknown && stray.kind == StrayKind::Permit)
    );
    let sweep = Repair { remedy: Remedy::Nothing, ..stray };
    assert!(rig.repair(&sweep));
    assert_eq!(rig.store().strays().expect("it is answered"), []);
}
