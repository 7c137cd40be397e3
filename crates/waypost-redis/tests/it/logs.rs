//! What is logged of an outage: one line when it begins, one for each other reason, and one when it ends.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;
use waypost_ports::tasks::Tasks;
use waypost_redis::{RedisConfig, RedisTasks};

use crate::support::{Beneath, PATIENCE, connect, instance, offer, patient};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn an_outage_is_a_line_for_each_reason_and_one_for_its_end() {
    let lines = Lines::default();
    tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).init();
    let mut server = waypost_testbed::Redis::start_with_password("hunter2");
    let redis = connect(&RedisConfig { limits: patient(), ..RedisConfig::new(server.url()) });
    let tasks = RedisTasks::new(&redis, Arc::new(Beneath::default()), instance(1));
    // Other tests of this process may log, too: theirs is another port.
    let port = server.port().to_string();
    let logged = || {
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let own = text.lines().filter(|line| line.contains(&port));
        own.map(|line| match line.contains("redis answers") {
            true => "answers".to_owned(),
            // The reason of the line.
            false => line.split("reason=").nth(1).unwrap().split('"').nth(1).unwrap().to_owned(),
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(logged(), ["answers"]);
    server.kill();
    for attempt in 0..200 {
        tasks.offer(&[offer("h", attempt)]).unwrap();
    }
    // What is logged depends on what was under way when it was killed; never the same twice in a row.
    let during = logged();
    assert!(during.len() >= 2, "{during:?}");
    let mut changes = during.clone();
    changes.dedup();
    assert_eq!(changes, during);
    server.start_again();
    assert!(redis.wait_until_up(PATIENCE));
    let after = logged();
    assert_eq!(after.last().map(String::as_str), Some("answers"));
    assert_eq!(after.iter().filter(|line| *line == "answers").count(), 2);
    assert!(!String::from_utf8_lossy(&lines.0.lock()).contains("hunter2"));
}
