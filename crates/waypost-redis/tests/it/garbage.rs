//! Everything in Redis is input from outside: of the wrong type, forged, copied, old, huge.

use std::sync::Arc;

use waypost_core::id::{ExecutionId, Token};
use waypost_core::time::Timestamp;
use waypost_ports::mirror::{Context, Health, Mirror, Presence};
use waypost_ports::tasks::Tasks;
use waypost_redis::{BadConfig, Redis, RedisConfig, RedisMirror, RedisTasks};
use waypost_testbed::{Direction, Proxy};

use crate::support::{
    KEY, NONE, PATIENCE, World, alive, connect, connect_with, eventually, instance, offer, sign,
    worker,
};

/// Does a bit of everything, so that every key is there.
fn use_everything(world: &World, tasks: &RedisTasks, mirror: &RedisMirror) {
    let key = ExecutionId("exe_1".into());
    tasks.offer(&[offer("h", 1)]).unwrap();
    tasks.record_presence(&sign(1)).unwrap();
    tasks.cancel(&[(worker(2), Token(9))]).unwrap();
    mirror.owned(instance(1), std::slice::from_ref(&key));
    mirror.alive(&Presence {
        instance: instance(1),
        version: "1".into(),
        address: None,
        owned: 1,
        running: 0,
        at: Timestamp(0),
    });
    mirror.keep(vec![context("exe_1")]);
    let names = ["execution:context", "lock", "heartbeat:instance"];
    let copies = names.map(|name| format!("waypost:{name}"));
    eventually("all copies are made", || {
        let keys = world.keys();
        copies.iter().all(|copy| keys.iter().any(|key| key.starts_with(copy)))
    });
}

fn context(key: &str) -> Context {
    Context {
        execution: ExecutionId(key.into()),
        workflow: "welcome".into(),
        started_at: Timestamp(0),
        current_nodes: vec!["cool-off".into()],
        path: vec!["profile".into()],
        seq: 7,
        outputs: vec![("profile".into(), 12)],
        variables: vec![("x".into(), 1)],
        state: format!("the state of {key}").into_bytes(),
    }
}

#[test]
fn a_wrong_type_in_every_key_is_set_right() {
    let world = World::new();
    let a = world.instance(1);
    let mirror = RedisMirror::new(&a.redis);
    use_everything(&world, &a.tasks, &mirror);
    let all = world.keys();
    for kind in ["tasks", "offered", "handlers", "heartbeat:worker", "cancels", "probe"] {
        assert!(
            all.iter().any(|key| key.starts_with(&format!("waypost:{kind}"))),
            "{kind}: {all:?}"
        );
    }
    for key in &all {
        world.spoil(key);
    }
    assert_eq!(mirror.contexts(&[ExecutionId("exe_1".into())]), [None]);
    assert_eq!(alive(&a.tasks, &[worker(1)]), [worker(1)]);
    assert_eq!(a.take("h", 1), NONE, "it was deleted, and its owner offers it again");
    use_everything(&world, &a.tasks, &mirror);
    assert_eq!(a.tasks.record_presence(&sign(2)).unwrap(), [Token(9)]);
    a.tasks.sweep();
    assert_eq!(a.take("h", 10), [1]);
    assert_eq!(a.tasks.depths().unwrap(), []);
    eventually("the context is kept again", || {
        mirror.contexts(&[ExecutionId("exe_1".into())])[0].is_some()
    });
    assert_eq!(a.redis.health(), Health::Up);
    assert_eq!(world.store.waiting(), NONE, "none of it had to go beneath");
    assert!(a.redis.counters().repaired.get() >= 7, "{:?}", a.redis.counters());
    // The probe is written when an instance connects.
    for key in world.keys().into_iter().filter(|key| key != "waypost:probe") {
        let kind = crate::support::text(world.server.command(&["TYPE", &key]));
        assert_ne!(kind, "list", "{key} is still wrong");
    }
}

#[test]
fn garbage_entries_are_removed_and_the_rest_is_taken() {
    let world = World::new();
    let a = world.instance(1);
    let stream = "waypost:tasks:{h}";
    world.ok(&["XADD", stream, "*", "task", "rm -rf"]);
    world.ok(&["XADD", stream, "*", "i", "0123", "b", "forged"]);
    a.tasks.offer(&[offer("h", 1), offer("g", 2)]).unwrap();
    // A task of another handler, moved here; and one of another cluster.
    world.ok(&["COPY", "waypost:tasks:{g}", "waypost:tasks:{x}"]);
    let other = connect_with(&world.config(), &[1; 32]);
    RedisTasks::new(&other, world.store.clone(), instance(9)).offer(&[offer("h", 3)]).unwrap();
    world.ok(&["XADD", stream, "*", "i", "a", "b", &"x".repeat(3 << 20)]);
    assert_eq!(a.take("h", 10), [1]);
    assert_eq!(a.take("x", 10), NONE);
    assert_eq!(a.take("g", 10), [2]);
    a.tasks.acknowledge();
    for handler in ["h", "x", "g"] {
        assert_eq!(
            world.number(&["XLEN", &format!("waypost:tasks:{{{handler}}}")]),
            0,
            "{handler}"
        );
    }
    assert_eq!(a.redis.counters().repaired.get(), 5);
}

#[test]
fn contexts_that_were_copied_forged_or_cut_are_refused_and_deleted() {
    let world = World::new();
    let redis = world.connect();
    let mirror = RedisMirror::new(&redis);
    let executions: Vec<ExecutionId> =
        ["a", "b", "c", "d", "e"].map(|key| ExecutionId(key.into())).into();
    let key = |at: usize| redis.keys().context(&executions[at]);
    mirror.keep(vec![context("a"), context("d")]);
    eventually("they are kept", || mirror.contexts(&executions[3..4])[0].is_some());
    world.ok(&["COPY", &key(0), &key(1)]);
    world.ok(&["SET", &key(2), "{\"state\":\"AAAA\",\"seq\":7}"]);
    world.ok(&["SETRANGE", &key(3), "40", "x"]);
    world.ok(&["SET", &key(4), &"[".repeat(1 << 20)]);
    let states = mirror.contexts(&executions);
    assert_eq!(states, [Some(b"the state of a".to_vec()), None, None, None, None]);
    assert_eq!(redis.counters().repaired.get(), 4);
    assert_eq!(world.number(&["EXISTS", &key(1), &key(2), &key(3), &key(4)]), 0);
}

#[test]
fn a_value_larger_than_our_memory_should_be_is_not_read() {
    let world = World::new();
    let execution = ExecutionId("a".into());
    let proxy = Proxy::start(world.server.port());
    let url = world.server.url_through(proxy.port());
    let redis = connect(&RedisConfig { url, ..world.config() });
    let (keys, mirror) = (redis.keys(), RedisMirror::new(&redis));
    let all = [&keys.context(&execution), &keys.worker(worker(1)), &keys.lock(&execution)];
    for key in all {
        world.ok(&["SETRANGE", key, &(40_u64 << 20).to_string(), "x"]);
    }
    // To make such a value may take the server so long that it seems to be gone.
    assert!(redis.wait_until_up(PATIENCE));
    let tasks = RedisTasks::new(&redis, world.store.clone(), instance(1));
    eventually("they are looked at and deleted", || {
        assert_eq!(mirror.contexts(std::slice::from_ref(&execution)), [None]);
        assert_eq!(alive(&tasks, &[worker(1)]), []);
        mirror.owned(instance(1), std::slice::from_ref(&execution));
        all.iter().all(|key| world.number(&["STRLEN", key]) < 1_000)
    });
    let read = proxy.bytes(Direction::ToClient);
    assert!(read < 1 << 20, "{read} bytes were read");
}

#[test]
fn an_old_backup_that_comes_back_gives_nothing_twice_that_matters() {
    let mut world = World::new();
    let a = world.instance(1);
    let mirror = RedisMirror::new(&a.redis);
    a.tasks.offer(&[offer("h", 1), offer("h", 2)]).unwrap();
    mirror.keep(vec![context("a")]);
    let execution = [ExecutionId("a".into())];
    eventually("it is kept", || mirror.contexts(&execution)[0].is_some());
    let backup = world.server.backup();
    assert_eq!(a.take("h", 1), [1]);
    a.tasks.acknowledge();
    a.tasks.offer(&[offer("h", 3)]).unwrap();
    mirror.forget(&execution);
    eventually("it is forgotten", || mirror.contexts(&execution)[0].is_none());
    world.server.restore(&backup);
    // The next caller finds the old connection closed.
    a.tasks.depths().unwrap();
    assert!(a.redis.counters().outages.get() == 1);
    a.wait_until_up();
    // What was taken is there again: its start is refused by its owner. What was offered since is
    // offered again by its owner.
    a.tasks.offer(&[offer("h", 3)]).unwrap();
    assert_eq!(a.take("h", 10), [1, 2, 3]);
    assert_eq!(mirror.contexts(&execution), [Some(b"the state of a".to_vec())], "digest decides");
}

#[test]
fn a_prefix_that_would_mislead_is_refused_before_anything_connects() {
    for prefix in ["{x}", "a}", "*", "a b", "\r\nFLUSHALL\r\n"] {
        let config =
            RedisConfig { prefix: prefix.into(), ..RedisConfig::new("redis://127.0.0.1:1") };
        let refused = Redis::connect(&config, &KEY).unwrap_err();
        assert_eq!(refused, BadConfig::Prefix(prefix.into()));
    }
}

#[test]
fn a_prefix_of_ones_own_and_hostile_names_keep_to_themselves() {
    let world = World::new();
    let config = RedisConfig { prefix: "team-a/".into(), ..world.config() };
    let redis = connect(&config);
    let tasks = RedisTasks::new(&redis, world.store.clone(), instance(1));
    let names = ["}", "{h}", "a b", "\r\nFLUSHALL\r\n", "*", ""];
    for (name, attempt) in names.iter().zip(1..) {
        tasks.offer(&[offer(name, attempt)]).unwrap();
    }
    for (name, attempt) in names.iter().zip(1..) {
        let taken = tasks.take(&[Arc::from(*name)], 10).unwrap();
        assert_eq!(taken, [offer(name, attempt)]);
    }
    assert!(world.keys().iter().all(|key| key.starts_with("team-a/")), "{:?}", world.keys());
}
