//! Counting who has come.

use waypost_core::time::Millis;
use waypost_redis::{Arrivals, Arrived};

use crate::support::World;

#[test]
fn the_last_is_told_once_whoever_asks() {
    let world = World::new();
    let arrivals: Vec<_> =
        (0..3).map(|_| Arrivals::new(&world.connect(), Millis::from_secs(60))).collect();
    let mut last = 0;
    for round in 0..3 {
        for member in 0..50 {
            let arrived = arrivals[(member + round) % 3].arrive("p", &member.to_string(), 50);
            match (round, member) {
                (0, 49) => assert_eq!(arrived, Arrived::Last),
                (0, _) => assert_eq!(arrived, Arrived::Missing(49 - member as u64)),
                _ => assert_eq!(arrived, Arrived::Again),
            }
            last += usize::from(arrived == Arrived::Last);
        }
    }
    assert_eq!(last, 1);
    assert_eq!(arrivals[0].arrive("q", "0", 1), Arrived::Last);
    assert!(world.number(&["PTTL", "waypost:arrivals:{p}"]) > 0);
}

#[test]
fn many_at_once_have_one_last() {
    let world = World::new();
    let redis = world.connect();
    let arrive = |member: usize| {
        Arrivals::new(&redis, Millis::from_secs(60)).arrive("p", &member.to_string(), 64)
    };
    let last = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let arrive = &arrive;
                scope.spawn(move || {
                    let own = (0..8).map(|one| arrive(thread * 8 + one));
                    own.filter(|arrived| *arrived == Arrived::Last).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(last, 1);
}

#[test]
fn a_key_of_the_wrong_type_or_none_costs_a_look_and_no_more() {
    let mut world = World::new();
    let redis = world.connect();
    let arrivals = Arrivals::new(&redis, Millis::from_secs(60));
    world.ok(&["SET", "waypost:arrivals:{p}", "x"]);
    assert_eq!(arrivals.arrive("p", "a", 2), Arrived::Missing(1));
    assert_eq!(redis.counters().repaired.get(), 1);
    world.server.flush_all();
    assert_eq!(arrivals.arrive("p", "b", 2), Arrived::Missing(1));
    world.server.kill();
    assert_eq!(arrivals.arrive("p", "c", 2), Arrived::Unknown);
}
