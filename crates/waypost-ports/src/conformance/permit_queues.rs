//! What a checker asks of the queues of concurrency keys, what it may put right, and quarantined executions
//! in them.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::PermitRequest;

use super::StoreUnderTest;
use super::permits::{end, permit, permit_for, place, queue, queue_all};
use super::rig::{Hand, Rig};
use crate::inspect::{DerivedPermit, DerivedRow, Examined, Inspect, Remedy, Repair, StrayKind};
use crate::store::{Permit, Store};

fn examine<B: StoreUnderTest>(rig: &Rig<'_, B>, hand: &Hand) -> Examined {
    rig.store().examine(&[hand.execution]).expect("it is examined").remove(0)
}

pub fn lines_are_told<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    assert_eq!(rig.store().permit_queues().expect("it is answered"), []);
    let [_, b, c] = queue_all(&rig, instance, &permit_for("k", 2));
    let other = queue(&rig, instance, &permit_for("j", 3));
    let permit_queues = rig.store().permit_queues().expect("it is answered");
    let told: Vec<_> = permit_queues
        .iter()
        .map(|line| {
            (&*line.key, line.holding, line.limit_max, line.last_holding, line.first_waiting)
        })
        .collect();
    let expected = [
        ("j", 1, 3, Some(other.execution), None),
        ("k", 2, 2, Some(b.execution), Some((c.execution, 2))),
    ];
    assert_eq!(told, expected);
    rig.store().promote().expect("it is answered");
    assert_eq!(
        rig.store().permit_queues().expect("it is answered"),
        permit_queues,
        "there was no room"
    );
    assert_eq!(rig.store().strays().expect("it is answered"), []);
}

pub fn quarantined_execution_given_a_permit_stays_quarantined<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let [mut a, b] = queue_all(&rig, instance, &permit_for("k", 1));
    assert_eq!(rig.claimed(instance), [a.execution]);
    rig.send(b.execution, "r1", Request::Resume { reason: None });
    assert_eq!(rig.claimed(instance), [b.execution]);
    rig.store().hold(b.execution, instance, "damaged").expect("it is quarantined");
    end(&rig, &mut a);
    assert_eq!(place(&rig, &b), (true, 0));
    assert_eq!(rig.control(b.execution).held.as_deref(), Some("damaged"));
    assert_eq!(rig.claimed(instance), []);
    rig.send(b.execution, "r2", Request::Resume { reason: None });
    assert_eq!(rig.claimed(instance), [b.execution], "it has its permit when it is resumed");
}

fn repair<B: StoreUnderTest>(rig: &Rig<'_, B>, hand: &Hand, remedy: Remedy) -> bool {
    let examined = examine(rig, hand);
    let last = examined.history.frames.last().map(|frame| frame.header.as_parent());
    let repair = Repair { execution: hand.execution, last, seen: examined.history.control, remedy };
    rig.store().repair(&repair).expect("it is answered")
}

fn with_permit(row: DerivedRow, request: &PermitRequest, admitted: bool) -> Remedy {
    let permit = Some(DerivedPermit { request: request.clone(), admitted });
    Remedy::Control { row, epoch: 1, requires: 1, permit }
}

pub fn a_missing_place_is_made_again<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let request = permit_for("k", 1);
    let held = || DerivedRow::Held { reason: "waits".to_owned(), next_due: None };
    // One execution has started and another waits; neither has a row.
    let mut began = rig.start(instance);
    let waiting = rig.start(instance);
    assert_eq!(examine(&rig, &began).permit, None);
    assert!(repair(&rig, &began, with_permit(DerivedRow::Ready, &request, true)));
    assert!(repair(&rig, &waiting, with_permit(held(), &request, false)));
    assert_eq!([place(&rig, &began), place(&rig, &waiting)], [(true, 0), (false, 1)]);
    let permit = examine(&rig, &waiting).permit;
    assert_eq!(permit, Some(Permit { key: "k".into(), holding: false, before: 1 }));
    assert_eq!(rig.claimed(instance), [began.execution]);
    // The row of another key is not its own.
    assert!(repair(&rig, &waiting, with_permit(held(), &permit_for("j", 1), false)));
    assert_eq!(permit_key(&rig, &waiting), "j");
    assert_eq!(rig.control(waiting.execution).held, None, "there, it is its turn");
    assert_eq!(rig.claimed(instance), [waiting.execution]);
    let none = Remedy::Control { row: DerivedRow::Ready, epoch: 1, requires: 1, permit: None };
    assert!(repair(&rig, &waiting, none));
    assert_eq!(examine(&rig, &waiting).permit, None);
    began.epoch = 2;
    end(&rig, &mut began);
}

fn permit_key<B: StoreUnderTest>(rig: &Rig<'_, B>, hand: &Hand) -> String {
    permit(rig, hand).key.to_string()
}

pub fn a_place_of_nobody_is_found_and_goes<B: StoreUnderTest>(backend: &B) {
    let rig = Rig::new(backend);
    let instance = rig.instance(1);
    let request = permit_for("k", 1);
    // It has ended, and a repair that came late made its row again.
    let mut ended = rig.start(instance);
    end(&rig, &mut ended);
    assert!(repair(&rig, &ended, with_permit(DerivedRow::Ready, &request, true)));
    let next = queue(&rig, instance, &request);
    assert_eq!(place(&rig, &next), (false, 1));
    assert!(repair(&rig, &ended, Remedy::Nothing));
    assert_eq!(examine(&rig, &ended).permit, None);
    assert_eq!(place(&rig, &next), (true, 0), "what it held is given to the next");
    // A repair of an execution without a log.
    let nobody = ExecutionNo(4_711);
    let remedy = with_permit(DerivedRow::Ready, &request, true);
    let stray = Repair { execution: nobody, last: None, seen: None, remedy };
    assert!(rig.store().repair(&stray).expect("it is answered"));
    let strays = rig.store().strays().expect("it is answered");
    assert!(
        strays.iter().any(|stray| stray.execution == nobody && stray.kind == StrayKind::Permit)
    );
    let sweep = Repair { remedy: Remedy::Nothing, ..stray };
    assert!(rig.store().repair(&sweep).expect("it is answered"));
    assert_eq!(rig.store().strays().expect("it is answered"), []);
}
