//! Nudges from one instance to another.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use parking_lot::Mutex;
use waypost_core::id::InstanceId;
use waypost_ports::nudge::{Nudge, Nudges, OnNudge};
use waypost_redis::RedisNudges;

use crate::support::{PATIENCE, World, eventually, instance};

/// Nudges beneath: what was sent there.
#[derive(Default)]
struct Beneath(Mutex<Vec<Nudge>>);

impl Nudges for Beneath {
    fn send(&self, nudge: Nudge) {
        self.0.lock().push(nudge);
    }

    fn listen(&self, _: InstanceId, on_nudge: OnNudge) {
        on_nudge(Nudge::Offered("from beneath".into()));
    }
}

/// Listens, and waits until it does.
fn listen(nudges: &RedisNudges, number: u128) -> Receiver<Nudge> {
    let (received, on_nudge) = channel();
    nudges.listen(instance(number), Arc::new(move |nudge| drop(received.send(nudge))));
    // Told when the subscriptions stand: look at everything, once for each channel.
    for _ in 0..2 {
        wait_for(&on_nudge, &Nudge::Mail(instance(number)));
        wait_for(&on_nudge, &Nudge::Claimable);
    }
    on_nudge
}

#[track_caller]
fn wait_for(received: &Receiver<Nudge>, expected: &Nudge) {
    wait_for_all(received, std::slice::from_ref(expected));
}

/// Waits for several, in whatever order they come.
#[track_caller]
fn wait_for_all(received: &Receiver<Nudge>, expected: &[Nudge]) {
    let mut missing = expected.to_vec();
    while !missing.is_empty() {
        let nudge = received.recv_timeout(PATIENCE).unwrap();
        missing.retain(|expected| *expected != nudge);
    }
}

#[test]
fn nudges_reach_those_they_are_for() {
    let world = World::new();
    let beneath = Arc::new(Beneath::default());
    let nudges: Vec<RedisNudges> = (1..=3)
        .map(|number| RedisNudges::new(&world.connect(), beneath.clone(), instance(number)))
        .collect();
    let (two, three) = (listen(&nudges[1], 2), listen(&nudges[2], 3));
    nudges[0].send(Nudge::Mail(instance(2)));
    nudges[0].send(Nudge::Cancelled(instance(3)));
    nudges[0].send(Nudge::Offered("h".into()));
    wait_for_all(&two, &[Nudge::Mail(instance(2)), Nudge::Offered("h".into())]);
    wait_for_all(&three, &[Nudge::Cancelled(instance(3)), Nudge::Offered("h".into())]);
    assert_eq!(*beneath.0.lock(), []);
    // A nudge without a listener is sent beneath.
    nudges[0].send(Nudge::Mail(instance(9)));
    eventually("it went beneath", || *beneath.0.lock() == [Nudge::Mail(instance(9))]);
}

#[test]
fn one_does_not_hear_oneself_and_a_thousand_are_one() {
    let world = World::new();
    let redis = world.connect();
    let nudges = RedisNudges::new(&redis, Arc::new(Beneath::default()), instance(1));
    let other = RedisNudges::new(&world.connect(), Arc::new(Beneath::default()), instance(2));
    let (one, two) = (listen(&nudges, 1), listen(&other, 2));
    for _ in 0..1_000 {
        nudges.send(Nudge::Claimable);
    }
    nudges.send(Nudge::Offered("end".into()));
    let mut count = 0;
    loop {
        match two.recv_timeout(PATIENCE).unwrap() {
            Nudge::Claimable => count += 1,
            nudge if nudge == Nudge::Offered("end".into()) => break,
            _ => {}
        }
    }
    assert!(count <= 100, "{count}");
    other.send(Nudge::Offered("reply".into()));
    let own = |nudge: &Nudge| *nudge == Nudge::Offered("end".into());
    let received: Vec<Nudge> = std::iter::from_fn(|| one.recv_timeout(PATIENCE).ok())
        .take_while(|nudge| *nudge != Nudge::Offered("reply".into()))
        .collect();
    assert!(!received.iter().any(own), "{received:?}");
}

#[test]
fn an_outage_sends_them_beneath_and_ends_with_a_look_at_everything() {
    let mut world = World::new();
    let beneath = Arc::new(Beneath::default());
    let redis = world.connect();
    let nudges = RedisNudges::new(&redis, beneath.clone(), instance(1));
    let received = listen(&nudges, 1);
    world.server.kill();
    eventually("a nudge goes beneath", || {
        nudges.send(Nudge::Claimable);
        beneath.0.lock().contains(&Nudge::Claimable)
    });
    while received.try_recv().is_ok() {}
    world.server.start_again();
    let everything = [Nudge::Mail(instance(1)), Nudge::Cancelled(instance(1)), Nudge::Claimable];
    wait_for_all(&received, &everything);
}

#[test]
fn nudge_that_is_forged_or_garbled_is_ignored() {
    let world = World::new();
    let nudges = RedisNudges::new(&world.connect(), Arc::new(Beneath::default()), instance(1));
    let received = listen(&nudges, 1);
    let from = instance(2).0.to_string();
    for payload in [
        "",
        "x",
        "{}",
        "{\"nudge\":\"mail\"}",
        &format!("{{\"from\":\"{from}\",\"nudge\":\"exit\"}}"),
        &format!("{{\"from\":\"{from}\",\"nudge\":\"mail\",\"to\":\"{from}\"}}"),
        &"[".repeat(1 << 20),
    ] {
        world.ok(&["PUBLISH", "waypost:nudge", payload]);
    }
    let good = format!("{{\"from\":\"{from}\",\"nudge\":\"offered\",\"handler\":\"h\"}}");
    world.ok(&["PUBLISH", "waypost:nudge", &good]);
    let next: Vec<Nudge> = std::iter::from_fn(|| received.recv_timeout(PATIENCE).ok())
        .filter(|nudge| *nudge != Nudge::Cancelled(instance(1)))
        .take(1)
        .collect();
    assert_eq!(next, [Nudge::Offered("h".into())]);
}
