//! The rate limit: one token bucket per caller, filled at a steady rate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Buckets in memory; above it the full ones, whose owners have been idle, are dropped.
const BUCKETS_MAX: usize = 10_000;

/// A limit, each identity for itself.
pub struct RateLimit {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<Arc<str>, Bucket>>,
}

struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

impl RateLimit {
    /// So many requests a second, and twice as many at once.
    pub fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self { per_second, burst: per_second * 2.0, buckets: Mutex::default() }
    }

    /// Takes a token, or returns how long there is none.
    pub fn take(&self, who: &Arc<str>, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(who) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
        }
        let fresh = || Bucket { tokens: self.burst, filled_at: now };
        let bucket = buckets.entry(Arc::clone(who)).or_insert_with(fresh);
        let tokens = self.filled(bucket, now);
        *bucket = Bucket { tokens, filled_at: now };
        if tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - tokens) / self.per_second))
    }

    /// Is there a token, which is not taken?
    pub fn check(&self, who: &Arc<str>, now: Instant) -> Result<(), Duration> {
        let buckets = self.buckets.lock();
        let tokens = buckets.get(who).map_or(self.burst, |bucket| self.filled(bucket, now));
        if tokens >= 1.0 {
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - tokens) / self.per_second))
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_bucket_that_fills_with_time() {
        let limit = RateLimit::new(10);
        let (one, other, start) = (Arc::from("one"), Arc::from("other"), Instant::now());
        let taken = (0..25).filter(|_| limit.take(&one, start).is_ok()).count();
        assert_eq!(taken, 20, "the burst");
        assert!(limit.take(&other, start).is_ok(), "others are not concerned");
        assert!(limit.check(&one, start).is_err() && limit.check(&other, start).is_ok());
        let wait = limit.take(&one, start).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(100));
        assert!(limit.take(&one, start + Duration::from_millis(101)).is_ok());
        let later = start + Duration::from_secs(3_600);
        assert_eq!((0..25).filter(|_| limit.take(&one, later).is_ok()).count(), 20, "no more");
    }
}
