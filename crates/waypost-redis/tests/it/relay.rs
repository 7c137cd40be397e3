//! Mail straight to its owner.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use parking_lot::Mutex;
use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_ports::relay::{Relay, RelayAnswer, Relayed};
use waypost_ports::store::Mail;
use waypost_redis::{Limits, RedisConfig, RedisRelay};

use crate::support::{PATIENCE, World, connect, eventually, instance};

pub(crate) fn mail(number: i64) -> Mail {
    let body =
        Request::Signal { name: "paid".into(), body: Json::parse("{\"sum\": 1.50}").unwrap() };
    Mail {
        execution: ExecutionNo(number),
        message: format!("m{number}").into(),
        actor: Some("somebody".into()),
        body: body.into(),
        blobs: Vec::new(),
    }
}

/// Listens, and waits until its bell can be received.
fn listen(world: &World, relay: &RedisRelay, number: u128) -> Receiver<(Mail, RelayAnswer)> {
    let (received, hear) = channel();
    let received = Mutex::new(received);
    relay.listen(
        instance(number),
        Arc::new(move |mail, answer| drop(received.lock().send((mail, answer)))),
    );
    let bell = format!("waypost:bell:{{{}}}", instance(number));
    eventually("the bell is received", || {
        format!("{:?}", world.server.command(&["PUBSUB", "NUMSUB", &bell])).contains("Number(1)")
    });
    hear
}

fn stream(number: u128) -> String {
    format!("waypost:results:{{{}}}", instance(number))
}

#[test]
fn mail_is_answered_after_the_commit_and_not_before() {
    let world = World::new();
    let (sender, owner) = (world.connect(), world.connect());
    let relay = RedisRelay::new(&sender, instance(1));
    let received = listen(&world, &RedisRelay::new(&owner, instance(2)), 2);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| relay.send(instance(2), mail(7)).unwrap());
        let (got, answer) = received.recv_timeout(PATIENCE).unwrap();
        assert_eq!(got, mail(7));
        assert!(!sent.is_finished());
        assert_eq!(world.number(&["XLEN", &stream(2)]), 1, "kept until the commit");
        answer.committed();
        assert_eq!(sent.join().unwrap(), Relayed::Committed);
        let sent = scope.spawn(|| relay.send(instance(2), mail(8)).unwrap());
        received.recv_timeout(PATIENCE).unwrap().1.refused("it has ended");
        assert_eq!(sent.join().unwrap(), Relayed::Refused("it has ended".into()));
    });
    eventually("the stream is empty", || world.number(&["XLEN", &stream(2)]) == 0);
    let left = world.number(&["PTTL", &stream(2)]);
    assert!((1..=60_000).contains(&left), "deleted a minute after the last entry: {left}");
}

#[test]
fn many_senders_get_each_their_own_answer() {
    let world = World::new();
    let redis = world.connect();
    let owner = RedisRelay::new(&world.connect(), instance(2));
    owner.listen(
        instance(2),
        Arc::new(|mail: Mail, answer: RelayAnswer| match mail.execution.0 % 2 {
            0 => answer.committed(),
            _ => answer.refused(mail.execution.0.to_string()),
        }),
    );
    let relay = RedisRelay::new(&redis, instance(1));
    eventually("it is answered", || {
        relay.send(instance(2), mail(0)).unwrap() == Relayed::Committed
    });
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let relay = &relay;
            scope.spawn(move || {
                for number in 0..20 {
                    let number = thread * 20 + number;
                    let expected = match number % 2 {
                        0 => Relayed::Committed,
                        _ => Relayed::Refused(number.to_string()),
                    };
                    assert_eq!(relay.send(instance(2), mail(number)).unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn relay_without_a_listener_returns_at_once() {
    let world = World::new();
    let relay = RedisRelay::new(&world.connect(), instance(1));
    let begun = Instant::now();
    assert_eq!(relay.send(instance(2), mail(1)).unwrap(), Relayed::Unknown);
    assert!(begun.elapsed() < world.config().limits.answer / 2);
}

#[test]
fn relay_avoids_a_silent_owner_until_its_next_sign_of_life() {
    let world = World::new();
    let answer = std::time::Duration::from_millis(300);
    let limits = Limits { answer, ..world.config().limits };
    let redis = connect(&RedisConfig { limits, ..world.config() });
    let relay = RedisRelay::new(&redis, instance(1));
    let owner = world.connect();
    let received = listen(&world, &RedisRelay::new(&owner, instance(2)), 2);
    let begun = Instant::now();
    assert_eq!(relay.send(instance(2), mail(1)).unwrap(), Relayed::Unknown);
    assert!(begun.elapsed() >= answer);
    // It stands still, for all that is known: the next is not even sent.
    let (first, late) = received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first, mail(1));
    assert_eq!(relay.send(instance(2), mail(2)).unwrap(), Relayed::Unknown);
    assert_eq!(world.number(&["XLEN", &stream(2)]), 1, "the first alone");
    // An answer that comes too late goes nowhere, but tells that its sender is there.
    late.committed();
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            eventually("it is sent to again", || {
                relay.send(instance(2), mail(3)).unwrap() == Relayed::Committed
            });
        });
        while !sent.is_finished() {
            if let Ok((next, answer)) = received.recv_timeout(answer) {
                assert_eq!(next, mail(3));
                answer.committed();
            }
        }
    });
}

#[test]
fn relay_waiting_when_redis_stops_returns_unknown() {
    let mut world = World::new();
    let redis = world.connect();
    let relay = RedisRelay::new(&redis, instance(1));
    let owner = world.connect();
    let received = listen(&world, &RedisRelay::new(&owner, instance(2)), 2);
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let sent = scope.spawn(|| relay.send(instance(2), mail(1)).unwrap());
        let (_, answer) = received.recv_timeout(PATIENCE).unwrap();
        world.server.kill();
        answer.committed();
        let probe = RedisRelay::new(&redis, instance(3));
        assert_eq!(probe.send(instance(2), mail(2)).unwrap(), Relayed::Unknown);
        assert_eq!(sent.join().unwrap(), Relayed::Unknown);
        assert!(begun.elapsed() < world.config().limits.answer, "{:?}", begun.elapsed());
    });
}

#[test]
fn relay_drops_mail_that_is_forged_copied_or_garbled() {
    let world = World::new();
    let redis = world.connect();
    let relay = RedisRelay::new(&redis, instance(1));
    assert_eq!(relay.send(instance(3), mail(3)).unwrap(), Relayed::Unknown);
    // Another's mail, sealed by this cluster, and garbage of several kinds.
    world.ok(&["COPY", &stream(3), &stream(2)]);
    world.ok(&["XADD", &stream(2), "*", "i", "0", "b", "x"]);
    world.ok(&["XADD", &stream(2), "*", "mail", "x"]);
    world.ok(&["PUBLISH", &format!("waypost:acks:{{{}}}", instance(1)), "yes"]);
    let owner = world.connect();
    let received = listen(&world, &RedisRelay::new(&owner, instance(2)), 2);
    eventually("the stream is empty", || world.number(&["XLEN", &stream(2)]) == 0);
    world.spoil(&stream(2));
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| relay.send(instance(2), mail(4)).unwrap());
        let (got, answer) = received.recv_timeout(PATIENCE).unwrap();
        assert_eq!(got, mail(4), "the first that is received");
        answer.committed();
        assert_eq!(sent.join().unwrap(), Relayed::Committed);
    });
    assert_eq!(owner.counters().repaired.get() + redis.counters().repaired.get(), 5);
}
