//! Lists of instances.

use waypost_core::id::InstanceId;
use waypost_core::time::Millis;

use super::StoreUnderTest;
use super::rig::{FOLD, ONE, Rig, START, heartbeat, signal};
use crate::query::{Backlog, InstanceRow, Query};
use crate::store::{About, ControlChange, Heartbeat, LEASE};

fn list<B: StoreUnderTest>(rig: &Rig<B>) -> Vec<InstanceRow> {
    rig.store().instances().expect("the list is answered")
}

/// An instance whose last sign of life was then, and that has been silent for so long.
fn alive(instance: InstanceId, since: u64, silent: u64, owned: u64) -> InstanceRow {
    InstanceRow {
        instance,
        alive_until: Some(START.plus(Millis(since)).plus(LEASE)),
        alive: true,
        fold: FOLD,
        owned,
        about: About::default(),
        silent: Some(Millis(silent)),
    }
}

pub fn live_instances_are_listed<B: StoreUnderTest>(rig: &Rig<B>) {
    assert_eq!(list(rig), []);
    let (two, one) = (rig.instance(2), rig.instance(1));
    let mut ended = rig.start(two);
    rig.start(two);
    rig.park(two, None);
    rig.commit(ended.next(1).control(ControlChange::Ended));
    rig.advance(10);
    rig.announce(one);
    assert_eq!(list(rig), [alive(one, 10, 0, 0), alive(two, 0, 10, 1)]);
    rig.leave(one);
    assert_eq!(list(rig), [alive(two, 0, 10, 1)]);
}

pub fn the_dead_are_listed_while_they_own_something<B: StoreUnderTest>(rig: &Rig<B>) {
    let (owner, idle) = (rig.instance(1), rig.instance(2));
    rig.start(owner);
    rig.advance(LEASE.0);
    let dead = InstanceRow { alive: false, ..alive(owner, 0, LEASE.0, 1) };
    assert_eq!(list(rig), [dead], "a lease that ends now has ended");
    rig.announce(idle);
    assert_eq!(rig.claimed(idle).len(), 1);
    assert_eq!(list(rig), [alive(idle, LEASE.0, 0, 1)]);
}

pub fn heartbeat_description_is_kept<B: StoreUnderTest>(rig: &mut Rig<B>) {
    rig.start(ONE);
    let about = About {
        version: "1.2.3'; --".into(),
        address: Some("http://10.0.0.7:8080".into()),
        running: 12,
    };
    rig.advance(7);
    let beat = Heartbeat { about: about.clone(), ..heartbeat(ONE) };
    rig.beat(&beat);
    assert_eq!(list(rig), [InstanceRow { about: about.clone(), ..alive(ONE, 7, 0, 1) }]);
    rig.advance(LEASE.0);
    let dead = InstanceRow { alive: false, about: about.clone(), ..alive(ONE, 7, LEASE.0, 1) };
    assert_eq!(list(rig), [dead]);
    rig.announce(ONE);
    rig.reopen();
    rig.beat(&beat);
    assert_eq!(list(rig).first().map(|row| row.about.clone()), Some(about));
}

pub fn backlog_counts_unclaimed_executions<B: StoreUnderTest>(rig: &Rig<B>) {
    let backlog = || {
        let Backlog { executions, oldest } = rig.store().backlog().expect("it is answered");
        (executions, oldest.0)
    };
    rig.start(ONE);
    rig.park(ONE, None);
    rig.park(ONE, Some(START.plus(Millis(100))));
    rig.park(ONE, Some(START.plus(Millis(250))));
    let waits = rig.park(ONE, Some(START.plus(Millis(9_000))));
    assert_eq!(backlog(), (0, 0), "owned, or not due yet");
    rig.advance(100);
    assert_eq!(backlog(), (1, 0), "due now");
    rig.advance(200);
    assert_eq!(backlog(), (2, 200));
    rig.send(waits.execution, "m1", signal());
    assert_eq!(backlog(), (3, 200), "mail makes it ready");
    assert_eq!(rig.claimed(ONE).len(), 3);
    assert_eq!(backlog(), (0, 0));
}
