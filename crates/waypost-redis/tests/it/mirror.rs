//! Copies for speed and for people.

use serde_json::Value;
use waypost_core::id::ExecutionId;
use waypost_core::time::Timestamp;
use waypost_ports::mirror::{Context, Health, Mirror, Presence};
use waypost_redis::{Limits, RedisConfig, RedisMirror};
use waypost_testbed::RedisReply;

use crate::support::{World, connect, eventually, instance, text};

fn key(name: &str) -> ExecutionId {
    ExecutionId(name.into())
}

fn context(name: &str, state: Vec<u8>) -> Context {
    Context {
        execution: key(name),
        workflow: "welcome".into(),
        started_at: Timestamp(1_800_000_000_000),
        current_nodes: vec!["cool-off".into(), "reply".into()],
        path: vec!["profile".into(), "adult".into()],
        seq: 7,
        outputs: vec![("profile".into(), 12), ("adult".into(), 4)],
        variables: vec![("total".into(), 2)],
        state,
    }
}

/// What is shown under a key, if anything is.
fn json(world: &World, key: &str) -> Value {
    match world.server.command(&["GET", key]) {
        RedisReply::Bytes(None) => Value::Null,
        value => serde_json::from_str(&text(value)).unwrap(),
    }
}

#[test]
fn a_context_is_readable_but_for_what_it_holds() {
    let world = World::new();
    let mirror = RedisMirror::new(&world.connect());
    mirror.keep(vec![context("exe_1", b"{\"card\": 4711}".to_vec()), context("exe_2", Vec::new())]);
    let other = RedisMirror::new(&world.connect());
    eventually("both are kept", || {
        let states = other.contexts(&[key("exe_2"), key("nobody"), key("exe_1")]);
        states == [Some(Vec::new()), None, Some(b"{\"card\": 4711}".to_vec())]
    });
    let mut shown = json(&world, "waypost:execution:context:{exe_1}");
    assert!(shown["state"].as_str().unwrap().len() > 40);
    assert!(!shown.to_string().contains("4711"));
    shown["state"] = Value::Null;
    let expected = serde_json::json!({
        "executionId": "exe_1",
        "workflowId": "welcome",
        "triggerId": null,
        "triggerNodeId": null,
        "currentNodeId": "cool-off",
        "seq": 7,
        "nodeOutputs": {"profile": {"bytes": 12}, "adult": {"bytes": 4}},
        "variables": {"total": {"bytes": 2}},
        "metadata": {
            "startedAt": "2027-01-15T08:00:00.000Z",
            "executionPath": ["profile", "adult"],
            "currentNodeIds": ["cool-off", "reply"],
            "keptAt": "2027-01-15T08:00:00.000Z",
            "stateBytes": 14,
        },
        "state": null,
    });
    assert_eq!(shown, expected);
    let left = world.number(&["PTTL", "waypost:execution:context:{exe_1}"]);
    assert!(left > 86_000_000 && left <= 86_400_000, "{left}");
    other.forget(&[key("exe_1")]);
    eventually("it is forgotten", || mirror.contexts(&[key("exe_1")])[0].is_none());
    assert!(mirror.contexts(&[key("exe_2")])[0].is_some());
}

#[test]
fn a_thousand_contexts_come_in_their_order() {
    let world = World::new();
    let mirror = RedisMirror::new(&world.connect());
    let names: Vec<String> = (0..1_000).map(|number| format!("exe_{number}")).collect();
    let all = names.iter().map(|name| context(name, name.as_bytes().to_vec()));
    mirror.keep(all.collect());
    let keys: Vec<ExecutionId> = names.iter().map(|name| key(name)).collect();
    let expected: Vec<_> = names.iter().map(|name| Some(name.as_bytes().to_vec())).collect();
    eventually("all are kept", || mirror.contexts(&keys) == expected);
}

#[test]
fn locks_show_who_owns_what() {
    let world = World::new();
    let mirror = RedisMirror::new(&world.connect());
    let (one, two) = (instance(1), instance(2));
    mirror.owned(one, &[key("a"), key("b")]);
    eventually("they are shown", || world.number(&["EXISTS", "waypost:lock:execution:{b}"]) == 1);
    assert_eq!(mirror.owner(&key("a")), Some(one));
    assert_eq!(mirror.owner(&key("nobody's")), None);
    let lock = json(&world, "waypost:lock:execution:{a}");
    let expected = serde_json::json!({
        "instanceId": one.to_string(),
        "acquiredAt": "2027-01-15T08:00:00.000Z",
        "expiresAt": "2027-01-15T08:00:30.000Z",
    });
    assert_eq!(lock, expected);
    // Another that says so is shown when the first is not any more.
    mirror.owned(two, &[key("a")]);
    mirror.released(two, &[key("a")]);
    world.clock.advance(waypost_core::time::Millis(10_000));
    mirror.owned(one, &[key("a")]);
    eventually("it is renewed", || {
        json(&world, "waypost:lock:execution:{a}")["expiresAt"] == "2027-01-15T08:00:40.000Z"
    });
    assert_eq!(
        json(&world, "waypost:lock:execution:{a}")["acquiredAt"],
        "2027-01-15T08:00:00.000Z"
    );
    mirror.released(one, &[key("a")]);
    mirror.owned(two, &[key("a")]);
    eventually("the other is shown", || {
        json(&world, "waypost:lock:execution:{a}")["instanceId"] == two.to_string()
    });
    assert!(world.number(&["PTTL", "waypost:lock:execution:{a}"]) <= 30_000);
}

#[test]
fn lock_of_unknown_format_shows_no_owner() {
    let world = World::new();
    let mirror = RedisMirror::new(&world.connect());
    let lock = "waypost:lock:execution:{a}";
    let long = format!("{{\"instanceId\": \"{}\"{}}}", instance(1), " ".repeat(5_000));
    for garbage in ["", "null", "{}", "{\"instanceId\": \"me\"}", "{\"instanceId\": 1}", &long] {
        world.ok(&["SET", lock, garbage]);
        assert_eq!(mirror.owner(&key("a")), None, "{garbage}");
    }
    world.spoil(lock);
    assert_eq!(mirror.owner(&key("a")), None);
    mirror.owned(instance(2), &[key("a")]);
    eventually("it is set right", || mirror.owner(&key("a")) == Some(instance(2)));
}

#[test]
fn an_instance_shows_that_it_is_alive() {
    let world = World::new();
    let mirror = RedisMirror::new(&world.connect());
    mirror.alive(&Presence {
        instance: instance(1),
        version: "0.1.0".into(),
        address: Some("http://10.0.0.1:8080".into()),
        owned: 3,
        running: 2,
        at: Timestamp(0),
    });
    let key = format!("waypost:heartbeat:instance:{{{}}}", instance(1));
    eventually("it is shown", || world.number(&["EXISTS", &key]) == 1);
    assert_eq!(json(&world, &key)["address"], "http://10.0.0.1:8080");
    assert!(world.number(&["PTTL", &key]) <= 15_000);
}

#[test]
fn copy_that_is_too_large_or_does_not_fit_is_dropped_and_counted() {
    let mut world = World::new();
    let limits =
        Limits { context_bytes_max: 1_000, copies_bytes_max: 20_000, ..world.config().limits };
    let redis = connect(&RedisConfig { limits, ..world.config() });
    let mirror = RedisMirror::new(&redis);
    mirror.keep(vec![context("large", vec![0; 1_001]), context("small", vec![1; 1_000])]);
    eventually("the small one is kept", || mirror.contexts(&[key("small")])[0].is_some());
    assert_eq!(mirror.contexts(&[key("large")]), [None]);
    assert_eq!(redis.counters().dropped.get(), 1);
    mirror.keep((0..20).map(|_| context("many", vec![0; 900])).collect());
    assert_eq!(redis.counters().dropped.get(), 2);
    world.server.process().freeze();
    for _ in 0..10_000 {
        mirror.keep(vec![context("small", vec![1; 1_000])]);
    }
    assert!(redis.counters().dropped.get() > 9_900, "{:?}", redis.counters());
    world.server.process().thaw();
    eventually("it works again", || {
        mirror.keep(vec![context("later", vec![1])]);
        mirror.contexts(&[key("later")])[0].is_some()
    });
    assert_eq!(mirror.health(), Health::Up);
}
