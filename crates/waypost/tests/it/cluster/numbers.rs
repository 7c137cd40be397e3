//! Numbers: what instances count, how long these tests are, and chance.

use std::time::{Duration, SystemTime};

use waypost_ports::store::LEASE;

/// Where a test draws lots, the seed to do it from.
const SEED: &str = "CLUSTER_SEED";
/// Length of the delay in [`pace`], in moments of 5 ms.
const PACE: usize = 5;

/// One of the numbers that an instance tells, summed up over its labels.
pub(super) fn metric(metrics: &str, name: &str) -> u64 {
    let of = |line: &&str| line.starts_with(name) && !line[name.len()..].starts_with('_');
    let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    let sum: f64 = metrics.lines().filter(of).filter_map(value).sum();
    assert!(metrics.lines().any(|line| line.starts_with(name)), "no {name} in {metrics}");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it counts")]
    let count = sum as u64;
    count
}

/// How many of something, by `CLUSTER_PERCENT` of the full count: a part of it in the ordinary tests,
/// all of it in `make cluster`.
pub(super) fn scaled(full: usize) -> usize {
    (full * percent() / 100).max(1)
}

/// The part of its full length that a test has; see [`scaled`].
pub(super) fn percent() -> usize {
    let percent = std::env::var("CLUSTER_PERCENT").ok().and_then(|text| text.parse().ok());
    percent.unwrap_or(2)
}

/// How long an instance owns what it owns after its last sign of life: as in production in `make cluster`,
/// shorter in the ordinary tests, which wait for the end of a lease again and again.
pub(super) fn lease() -> Duration {
    if percent() < 100 { Duration::from_secs(6) } else { LEASE.to_std() }
}

/// Delay of a load client between two executions; none in `make cluster`. The ordinary tests check what is in
/// flight when a component fails, and run beside other tests: they do not have to saturate the machine.
pub(super) async fn pace() {
    if percent() < 100 {
        for _ in 0..PACE {
            waypost_testbed::moment().await;
        }
    }
}

/// Measures something that has to come within a limit. This machine has other things to do: one time out of
/// three is enough, since what is slow by itself is slow every time.
pub(super) fn within(limit: Duration, mut measure: impl FnMut(usize) -> Duration) {
    let mut took = Vec::new();
    while took.len() < 3 {
        let one = measure(took.len());
        if one < limit {
            return;
        }
        took.push(one);
    }
    panic!("never within {limit:?}: {took:?}");
}

/// A small generator, for when to kill whom: a seed repeats it.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Another one each time, or the one of `CLUSTER_SEED`. It is shown with a test that fails.
    #[expect(clippy::print_stderr, reason = "it is shown with a test that fails")]
    pub(super) fn new() -> Self {
        let given = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            u64::from(since.subsec_nanos())
        });
        eprintln!("{SEED}={seed}");
        Self(seed)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
