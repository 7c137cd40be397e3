//! A private Redis keeps its data over a stop, loses it in a crash, and can be set back.

use waypost_testbed::{Redis, RedisReply};

fn value(redis: &Redis) -> Option<String> {
    match redis.command(&["GET", "k"]) {
        RedisReply::Bytes(bytes) => bytes.map(|bytes| String::from_utf8(bytes).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn set(redis: &Redis, value: &str) {
    assert_eq!(redis.command(&["SET", "k", value]), RedisReply::Status("OK".into()));
}

#[test]
fn it_lives_through_stops_crashes_flushes_and_backups() {
    let mut redis = Redis::start();
    let port = redis.port();
    set(&redis, "one");
    redis.stop();
    redis.start_again();
    assert_eq!((redis.port(), value(&redis).as_deref()), (port, Some("one")));

    let backup = redis.backup();
    set(&redis, "two");
    redis.kill();
    redis.start_again();
    assert_eq!(value(&redis).as_deref(), Some("one"), "what was not saved is lost");

    redis.flush_all();
    assert_eq!(value(&redis), None);
    redis.restore(&backup);
    assert_eq!(value(&redis).as_deref(), Some("one"));
}

#[test]
fn a_password_is_asked_for() {
    let redis = Redis::start_with_password("sesame");
    set(&redis, "one");
    assert_eq!(redis.url(), format!("redis://:sesame@127.0.0.1:{}/", redis.port()));
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    std::io::Write::write_all(&mut stream, b"GET k\r\n").unwrap();
    let mut answer = [0; 7];
    std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
    assert_eq!(&answer, b"-NOAUTH");
}

#[test]
fn two_do_not_get_in_each_others_way() {
    let (one, two) = (Redis::start(), Redis::start());
    set(&one, "one");
    assert_eq!(value(&two), None);
}
