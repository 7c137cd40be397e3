//! Lists of instances.

use waypost_core::id::InstanceId;
use waypost_core::time::Timestamp;

use super::Backend;
use super::rig::{FOLD, Rig, START};
use crate::query::{InstanceRow, Query};
use crate::store::{About, ControlChange, Heartbeat, LEASE, Store};

fn list<B: Backend>(rig: &Rig<'_, B>) -> Vec<InstanceRow> {
    rig.store().instances().expect("the list is answered")
}

fn alive(instance: InstanceId, since: i64, owned: u64) -> InstanceRow {
    let renewed_at = Timestamp(START.0 + since);
    InstanceRow {
        instance,
        alive_until: Some(renewed_at.plus(LEASE)),
        alive: true,
        fold: FOLD,
        owned,
        about: About::default(),
        renewed_at: Some(renewed_at),
    }
}

pub fn those_that_are_alive_are_listed<B: Backend>(backend: &B) {
    let rig = Rig::new(backend);
    assert_eq!(list(&rig), []);
    let (two, one) = (rig.instance(2), rig.instance(1));
    let mut ended = rig.start(two);
    rig.start(two);
    rig.park(two, None);
    rig.commit(ended.next(1).control(ControlChange::Ended));
    rig.advance(10);
    rig.announce(one);
    assert_eq!(list(&rig), [alive(one, 10, 0), alive(two, 0, 1)]);
    rig.leave(one);
    assert_eq!(list(&rig), [alive(two, 0, 1)]);
}

pub fn the_dead_are_listed_while_they_own_something<B: Backend>(backend: &B) {
    let rig = Rig::new(backend);
    let (owner, idle) = (rig.instance(1), rig.instance(2));
    rig.start(owner);
    rig.advance(LEASE.0);
    let dead = InstanceRow { alive: false, ..alive(owner, 0, 1) };
    assert_eq!(list(&rig), [dead], "a lease that ends now has ended");
    rig.announce(idle);
    assert_eq!(rig.claimed(idle).len(), 1);
    let since = i64::try_from(LEASE.0).expect("a lease is short");
    assert_eq!(list(&rig), [alive(idle, since, 1)]);
}

pub fn what_instances_tell_is_kept<B: Backend>(backend: &B) {
    let mut rig = Rig::new(backend);
    let instance = rig.instance(1);
    rig.start(instance);
    let about = About {
        version: "1.2.3'; --".into(),
        address: Some("http://10.0.0.7:8080".into()),
        running: 12,
    };
    rig.advance(7);
    let beat =
        Heartbeat { instance, numbers: 0, fold: FOLD, lease: Some(LEASE), about: about.clone() };
    rig.store().heartbeat(&beat).expect("a heartbeat is taken");
    assert_eq!(list(&rig), [InstanceRow { about: about.clone(), ..alive(instance, 7, 1) }]);
    rig.advance(LEASE.0);
    let dead = InstanceRow { alive: false, about: about.clone(), ..alive(instance, 7, 1) };
    assert_eq!(list(&rig), [dead]);
    rig.announce(instance);
    rig.reopen();
    rig.store().heartbeat(&beat).expect("a heartbeat is taken");
    assert_eq!(list(&rig).first().map(|row| row.about.clone()), Some(about));
}
