//! Each script of its own, by hand: what it says, and what it does with garbage under its keys.

use waypost_testbed::{Redis, RedisReply};

use crate::support::text;

const OWN: &str = include_str!("../../scripts/own.lua");

/// Runs a script and gives what it says: first how many things it repaired.
#[track_caller]
fn run(redis: &Redis, script: &str, keys: &[&str], arguments: &[&str]) -> Vec<RedisReply> {
    let (script, count) = (format!("{OWN}{script}"), keys.len().to_string());
    let mut words = vec!["EVAL", &script, &count];
    words.extend(keys);
    words.extend(arguments);
    match redis.command(&words) {
        RedisReply::Many(said) => said,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn numbers(said: &[RedisReply]) -> Vec<i64> {
    let number = |reply: &RedisReply| match reply {
        RedisReply::Number(number) => *number,
        other => panic!("{other:?}"),
    };
    said.iter().map(number).collect()
}

/// Every type that a key can have, by the command that makes one.
const TYPES: &[&[&str]] = &[
    &["SET", "k", "garbage"],
    &["SET", "k", "{\"instanceId\":7}"],
    &["RPUSH", "k", "x"],
    &["SADD", "k", "x"],
    &["ZADD", "k", "1", "x"],
    &["HSET", "k", "f", "x"],
    &["XADD", "k", "*", "f", "x"],
    &["PFADD", "k", "x"],
    &["SETBIT", "k", "7", "1"],
];

#[test]
fn locks_are_acquired_renewed_and_released_by_their_owner_alone() {
    let redis = Redis::start();
    let acquire = |owner: &str, now: &str| {
        let script = include_str!("../../scripts/acquire.lua");
        numbers(&run(&redis, script, &["k"], &[owner, now, "later", "30000"]))
    };
    let renew = |owner: &str, ms: &str| {
        numbers(&run(&redis, include_str!("../../scripts/renew.lua"), &["k"], &[owner, "then", ms]))
    };
    let release = |owner: &str| {
        numbers(&run(&redis, include_str!("../../scripts/release.lua"), &["k"], &[owner]))
    };
    let value = || text(redis.command(&["GET", "k"]));
    let fields = |since: &str, until: &str| {
        let value = value();
        for (name, field) in [("acquiredAt", since), ("expiresAt", until), ("instanceId", "a")] {
            assert!(value.contains(&format!("\"{name}\":\"{field}\"")), "{value}");
        }
    };

    assert_eq!(renew("a", "30000"), [0, 0], "there is no owner");
    assert_eq!(acquire("a", "first"), [0, 1]);
    fields("first", "later");
    assert_eq!(acquire("a", "second"), [0, 1], "again changes nothing but the end");
    fields("first", "later");
    assert_eq!(acquire("b", "second"), [0, 0]);
    assert_eq!(renew("b", "30000"), [0, 0]);
    assert_eq!(renew("a", "60000"), [0, 1]);
    fields("first", "then");
    assert!(numbers(&[redis.command(&["PTTL", "k"])])[0] > 30_000);
    assert_eq!(release("b"), [0, 0]);
    fields("first", "then");
    assert_eq!(release("a"), [0, 1]);
    assert_eq!(release("a"), [0, 0]);
    assert_eq!(acquire("b", "third"), [0, 1]);
}

#[test]
fn locks_survive_every_kind_of_garbage() {
    let redis = Redis::start();
    let long = "x".repeat(5_000);
    let nested = "[".repeat(2_000);
    let mut garbage: Vec<Vec<&str>> = TYPES.iter().map(|words| words.to_vec()).collect();
    garbage.push(vec!["SET", "k", &long]);
    garbage.push(vec!["SET", "k", &nested]);
    garbage.push(vec!["SET", "k", "null"]);
    garbage.push(vec!["SET", "k", "{\"instanceId\":\"b\"}"]);
    for words in &garbage {
        let spoil = || {
            assert_ne!(redis.command(&["DEL", "k"]), RedisReply::Number(-1));
            assert!(!matches!(redis.command(words), RedisReply::Error(_)));
        };
        spoil();
        let script = include_str!("../../scripts/acquire.lua");
        let said = numbers(&run(&redis, script, &["k"], &["a", "now", "later", "30000"]));
        assert_eq!(said, [1, 1], "{words:.40?}");
        let good = words == garbage.last().unwrap();
        for script in
            [include_str!("../../scripts/renew.lua"), include_str!("../../scripts/release.lua")]
        {
            spoil();
            let said = numbers(&run(&redis, script, &["k"], &["a", "later", "30000"]));
            assert_eq!(said, [i64::from(!good), 0], "{words:.40?}");
            assert_eq!(redis.command(&["EXISTS", "k"]), RedisReply::Number(i64::from(good)));
        }
    }
}

#[test]
fn offers_go_in_once_and_only_where_there_is_room() {
    let redis = Redis::start();
    let offer = |name: &str| {
        let script = include_str!("../../scripts/offer.lua");
        numbers(&run(&redis, script, &["s", "m"], &["g", name, "body", "2", "60000"]))
    };
    assert_eq!(offer("a"), [0, 1]);
    assert_eq!(offer("a"), [0, 0]);
    assert_eq!(offer("b"), [0, 1]);
    assert_eq!(offer("c"), [0, 2]);
    assert_eq!(offer("b"), [0, 0], "full, and out");
    assert!(numbers(&[redis.command(&["PTTL", "s"])])[0] > 0);
    assert!(numbers(&[redis.command(&["PTTL", "m"])])[0] > 0);
    // The entry goes without its mark, and the mark without its entry.
    assert_eq!(redis.command(&["DEL", "s"]), RedisReply::Number(1));
    assert_eq!(offer("a"), [0, 1]);
    assert_eq!(redis.command(&["DEL", "m"]), RedisReply::Number(1));
    assert_eq!(offer("a"), [0, 1], "a duplicate costs a refused report");
    // A mark that points nowhere, and one that points to another's entry.
    assert_eq!(redis.command(&["HSET", "m", "x", "no id"]), RedisReply::Number(1));
    assert_eq!(redis.command(&["DEL", "s"]), RedisReply::Number(1));
    assert_eq!(offer("x"), [1, 1]);
    let entry = text(redis.command(&["HGET", "m", "x"]));
    assert_eq!(redis.command(&["HSET", "m", "y", &entry]), RedisReply::Number(1));
    assert_eq!(offer("y"), [0, 1]);
}

#[test]
fn offers_survive_every_kind_of_garbage() {
    let redis = Redis::start();
    let offer = || {
        let script = include_str!("../../scripts/offer.lua");
        numbers(&run(&redis, script, &["s", "m"], &["g", "a", "body", "9", "60000"]))
    };
    for words in TYPES {
        for (key, kind) in [("s", "stream"), ("m", "hash")] {
            redis.flush_all();
            let spoilt: Vec<&str> =
                words.iter().map(|word| if *word == "k" { key } else { *word }).collect();
            assert!(!matches!(redis.command(&spoilt), RedisReply::Error(_)));
            let wrong = text(redis.command(&["TYPE", key])) != kind;
            assert_eq!(offer(), [i64::from(wrong), 1], "{spoilt:?}");
            assert_eq!(offer(), [0, 0]);
        }
    }
    // A stream that takes nothing more.
    redis.flush_all();
    let last = "18446744073709551615-18446744073709551615";
    assert!(!matches!(redis.command(&["XADD", "s", last, "f", "x"]), RedisReply::Error(_)));
    assert_eq!(offer(), [1, 1]);
    assert_eq!(offer(), [0, 0]);
}

#[test]
fn takes_set_right_what_was_done_to_their_group() {
    let redis = Redis::start();
    let take = || {
        let script = include_str!("../../scripts/take.lua");
        let said = run(&redis, script, &["s"], &["g", "me", "10", "100", "1000"]);
        let [RedisReply::Number(repaired), RedisReply::Many(taken)] = &said[..] else {
            panic!("{said:?}")
        };
        (*repaired, taken.len())
    };
    let add = |fields: &[&str]| {
        let words = [&["XADD", "s", "*"], fields].concat();
        assert!(!matches!(redis.command(&words), RedisReply::Error(_)));
    };
    assert_eq!(take(), (0, 0));
    add(&["i", "a", "b", "x"]);
    assert_eq!(take(), (0, 1), "no group yet");
    assert_eq!(take(), (0, 0));
    add(&["i", "a", "b", "x"]);
    assert_eq!(redis.command(&["XGROUP", "DESTROY", "s", "g"]), RedisReply::Number(1));
    assert_eq!(take(), (0, 2), "no longer: all that is there is taken again");
    add(&["i", "a", "b", "x"]);
    let end = "18446744073709551615-18446744073709551615";
    for moved in [end, "9999999999999-0", "$"] {
        assert_eq!(
            redis.command(&["XGROUP", "SETID", "s", "g", moved]),
            RedisReply::Status("OK".into())
        );
        let (repaired, taken) = take();
        assert!(repaired == 1 && taken >= 1, "{moved}: {repaired} {taken}");
        add(&["i", "a", "b", "x"]);
    }
    redis.flush_all();
    let long = "y".repeat(101);
    for fields in
        [&["i", "a"][..], &["x", "a", "b", "x"], &["i", "a", "b", &long], &["i", &long, "b", "x"]]
    {
        add(fields);
    }
    add(&["i", "a", "b", "x"]);
    assert_eq!(take(), (4, 1));
    assert_eq!(redis.command(&["XLEN", "s"]), RedisReply::Number(1));
}
