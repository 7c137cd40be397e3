//! Streams as sources of triggers, on a real server: what a read gives after trims, deletions and failures.

use waypost_core::trigger::{StreamCursor, StreamStart};
use waypost_ports::source::{STREAM_PAGE_MAX, StreamFault, StreamPage};
use waypost_redis::{RedisConfig, RedisStreams};
use waypost_testbed::{Redis, RedisReply};

/// A server with one stream, and a reader of it that follows its cursor.
struct Followed {
    redis: Redis,
    streams: RedisStreams,
    cursor: StreamCursor,
}

impl Followed {
    fn new() -> Self {
        let redis = Redis::start();
        let streams = RedisStreams::new(&RedisConfig::new(redis.url())).unwrap();
        Self { redis, streams, cursor: StreamCursor::default() }
    }

    fn add(&self, count: usize) {
        for n in 0..count {
            let added = self.redis.command(&["XADD", "s", "*", "n", &n.to_string()]);
            assert!(matches!(added, RedisReply::Bytes(Some(_))), "{added:?}");
        }
    }

    fn run(&self, words: &[&str]) -> i64 {
        match self.redis.command(words) {
            RedisReply::Number(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    async fn try_read(&mut self) -> Result<StreamPage, StreamFault> {
        self.streams.read("s", self.cursor.clone(), &StreamStart::Beginning).await
    }

    /// Reads a page; how many entries and removed entries it has, and whether there are more.
    async fn read(&mut self) -> (usize, u64, bool) {
        let page = self.try_read().await.unwrap();
        self.cursor = page.cursor;
        (page.entries.len(), page.removed, page.more)
    }

    async fn went_back(&mut self) -> String {
        match self.try_read().await {
            Err(StreamFault::WentBack(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn stream_is_read_page_by_page_from_its_beginning() {
    let mut followed = Followed::new();
    assert_eq!(followed.read().await, (0, 0, false), "a stream that is not there yet is empty");
    followed.add(STREAM_PAGE_MAX + 20);
    assert_eq!(followed.read().await, (STREAM_PAGE_MAX, 0, true));
    assert_eq!(followed.cursor.behind, Some(20));
    assert_eq!(followed.read().await, (20, 0, false));
    assert_eq!(followed.read().await, (0, 0, false));
    assert_eq!(followed.cursor.behind, Some(0));
    let now = StreamStart::Now;
    let page = followed.streams.read("s", StreamCursor::default(), &now).await.unwrap();
    assert_eq!((page.entries.len(), page.cursor.place), (0, followed.cursor.place.clone()));
}

#[tokio::test]
async fn trimmed_stream_tells_how_many_entries_were_never_read() {
    let mut followed = Followed::new();
    followed.add(2);
    assert_eq!(followed.read().await, (2, 0, false));
    followed.add(8);
    // Seven go, of which two were read.
    assert_eq!(followed.run(&["XTRIM", "s", "MAXLEN", "3"]), 7);
    assert_eq!(followed.read().await, (3, 5, false));
    // All that is left was read.
    assert_eq!(followed.run(&["XTRIM", "s", "MAXLEN", "0"]), 3);
    assert_eq!(followed.read().await, (0, 0, false));
    followed.add(4);
    assert_eq!(followed.run(&["XTRIM", "s", "MAXLEN", "0"]), 4);
    assert_eq!(followed.read().await, (0, 4, false));
    assert_eq!(followed.read().await, (0, 0, false), "a gap is reported once");
}

#[tokio::test]
async fn stream_that_was_created_again_went_back() {
    let mut followed = Followed::new();
    followed.add(5);
    assert_eq!(followed.read().await, (5, 0, false));
    followed.run(&["DEL", "s"]);
    assert_eq!(followed.read().await, (0, 0, false), "without a stream there is nothing to say");
    // Fewer, as many, and more entries than were read of the old one.
    for count in [1, 4, 10] {
        followed.add(count);
        let why = followed.went_back().await;
        assert!(why.starts_with("the source went back"), "{why}");
    }
    followed.run(&["DEL", "s"]);
    assert!(matches!(
        followed.redis.command(&["XADD", "s", "1-1", "n", "1"]),
        RedisReply::Bytes(_)
    ));
    followed.went_back().await;
}

#[tokio::test]
async fn key_of_another_kind_and_a_server_that_is_away_are_failures_that_pass() {
    let mut followed = Followed::new();
    followed.redis.command(&["SET", "s", "text"]);
    let failed = |read: Result<StreamPage, StreamFault>| match read {
        Err(StreamFault::Failed(failure)) => failure.message,
        other => panic!("{other:?}"),
    };
    let why = failed(followed.try_read().await);
    assert!(why.contains("WRONGTYPE"), "{why}");
    followed.run(&["DEL", "s"]);
    followed.add(3);
    assert_eq!(followed.read().await, (3, 0, false));
    followed.redis.stop();
    failed(followed.try_read().await);
    followed.redis.start_again();
    followed.add(1);
    assert_eq!(followed.read().await, (1, 0, false));
}

#[tokio::test]
async fn large_entries_end_a_page_and_too_large_ones_are_left_out_alone() {
    let mut followed = Followed::new();
    let text = "x".repeat(900_000);
    for _ in 0..6 {
        followed.redis.command(&["XADD", "s", "*", "text", &text]);
    }
    followed.redis.command(&["XADD", "s", "*", "text", &"x".repeat(1_100_000)]);
    assert_eq!(followed.read().await, (4, 0, true), "a page has at most 4 MiB");
    let page = followed.try_read().await.unwrap();
    let readable: Vec<bool> = page.entries.iter().map(|entry| entry.item.is_ok()).collect();
    assert_eq!((readable, page.more), (vec![true, true, false], false));
}
