//! The instruments: atomics that one thread adds to and another reads. Reading is not a snapshot:
//! two of them may be a moment apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::text::{Decimal, Metric, Sample};

/// The resolution of a histogram, as parts of one: seconds are stored in microseconds, and sums
/// stay whole numbers that one instruction can add to.
pub(super) const PARTS: u64 = 1_000_000;

/// Upper bounds for spans, in microseconds, listed in tens of them: from a commit on a fast disk to
/// five minutes.
pub const SECONDS: &[u64] = &times(
    10,
    [
        10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
        500_000, 1_000_000, 3_000_000, 6_000_000, 30_000_000,
    ],
);

/// Upper bounds for numbers of things, in millionths of one: the powers of two up to 1,024.
pub const POWERS_OF_TWO: &[u64] = &times(PARTS, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]);

const fn times<const N: usize>(unit: u64, mut bounds: [u64; N]) -> [u64; N] {
    let mut at = 0;
    while at < N {
        bounds[at] *= unit;
        at += 1;
    }
    bounds
}

/// Something that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is this now.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// One of several that add up to it was `part` and is this now.
    pub(crate) fn change(&self, part: &mut u64, value: u64) {
        if *part != value {
            self.0.fetch_add(value.wrapping_sub(*part), Ordering::Relaxed);
            *part = value;
        }
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A gauge of a span of time, in seconds.
#[derive(Debug, Default)]
pub struct SecondsGauge(AtomicU64);

impl SecondsGauge {
    /// It is this long now.
    pub fn set(&self, span: Duration) {
        self.0.store(micros(span), Ordering::Relaxed);
    }

    /// It is at least this long from now on.
    pub fn raise(&self, span: Duration) {
        self.0.fetch_max(micros(span), Ordering::Relaxed);
    }
}

macro_rules! instruments_of_one_value {
    ($($Instrument:ident, $kind:literal, $decimal:path;)*) => {$(
        impl Metric for $Instrument {
            fn kind(&self) -> &'static str {
                $kind
            }

            fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
                each(Sample::plain($decimal(self.0.load(Ordering::Relaxed))));
            }
        }
    )*};
}

instruments_of_one_value! {
    Counter, "counter", Decimal::whole;
    Gauge, "gauge", Decimal::whole;
    SecondsGauge, "gauge", Decimal::parts;
}

/// One counter for each value of a label. The values are fixed, so that none is absent until it
/// happens, and no caller can make them grow without end.
#[derive(Debug)]
pub struct CounterFamily {
    label: &'static str,
    counters: Box<[(&'static str, Counter)]>,
}

impl CounterFamily {
    /// Counters at 0.
    pub fn new(label: &'static str, values: &[&'static str]) -> Self {
        let counters = values.iter().map(|value| (*value, Counter::default())).collect();
        Self { label, counters }
    }

    /// Adds to this value. One that is not of the family is not counted.
    pub fn add(&self, value: &str, more: u64) {
        let counter = self.counters.iter().find(|(of, _)| *of == value);
        debug_assert!(counter.is_some(), "{} has no value {value:?}", self.label);
        if let Some((_, counter)) = counter {
            counter.add(more);
        }
    }

    /// How many of this value so far.
    pub fn get(&self, value: &str) -> u64 {
        let counter = self.counters.iter().find(|(of, _)| *of == value);
        counter.map_or(0, |(_, counter)| counter.get())
    }
}

impl Metric for CounterFamily {
    fn kind(&self) -> &'static str {
        "counter"
    }

    fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
        for (value, counter) in &self.counters {
            let label = Some((self.label, *value));
            each(Sample { suffix: "", label, value: Decimal::whole(counter.get()) });
        }
    }
}

/// How often values fell into each of some ranges.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds, themselves included, in millionths.
    bounds: &'static [u64],
    /// One more than there are bounds: the last is for what lies above them.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// An empty one, over bounds that ascend, in millionths of one: [`SECONDS`],
    /// [`POWERS_OF_TWO`] or others.
    pub fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.is_sorted(), "bounds ascend");
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// A span was measured.
    pub fn observe(&self, span: Duration) {
        self.observe_parts(micros(span));
    }

    /// Things were counted.
    pub fn observe_number(&self, number: u64) {
        self.observe_parts(number.saturating_mul(PARTS));
    }

    fn observe_parts(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

impl Metric for Histogram {
    fn kind(&self) -> &'static str {
        "histogram"
    }

    /// Each bucket also counts those before it. The total is the last one's, so that the two agree
    /// although others add meanwhile.
    fn samples(&self, each: &mut dyn FnMut(Sample<'_>)) {
        let mut count = 0;
        let above = std::iter::once("+Inf".to_owned());
        let bounds = self.bounds.iter().map(|bound| Decimal::parts(*bound).to_string());
        for (bound, bucket) in bounds.chain(above).zip(&self.buckets) {
            count += bucket.load(Ordering::Relaxed);
            let label = Some(("le", bound.as_str()));
            each(Sample { suffix: "_bucket", label, value: Decimal::whole(count) });
        }
        let sum = Decimal::parts(self.sum.load(Ordering::Relaxed));
        each(Sample { suffix: "_sum", label: None, value: sum });
        each(Sample { suffix: "_count", label: None, value: Decimal::whole(count) });
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metric: &dyn Metric) -> Vec<String> {
        let mut lines = Vec::new();
        metric.samples(&mut |sample| {
            let label =
                sample.label.map_or(String::new(), |(name, value)| format!("{name}={value} "));
            lines.push(format!("{}{label}{}", sample.suffix, sample.value));
        });
        lines
    }

    #[test]
    fn a_bound_belongs_to_its_bucket_and_buckets_add_up() {
        let histogram = Histogram::new(&[1_000, 5_000]);
        for us in [0, 1_000, 1_001, 5_000, 5_001, 9_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let expected = [
            "_bucketle=0.001 2",
            "_bucketle=0.005 4",
            "_bucketle=+Inf 6",
            "_sum9.012002",
            "_count6",
        ];
        assert_eq!(shown(&histogram), expected);
        assert_eq!(histogram.count(), 6);
    }

    #[test]
    fn numbers_are_counted_whole() {
        let histogram = Histogram::new(POWERS_OF_TWO);
        for number in [1, 2, 3, 5_000] {
            histogram.observe_number(number);
        }
        let lines = shown(&histogram);
        assert_eq!(lines[..3], ["_bucketle=1 1", "_bucketle=2 2", "_bucketle=4 3"]);
        assert_eq!(lines[10..], ["_bucketle=1024 3", "_bucketle=+Inf 4", "_sum5006", "_count4"]);
    }

    #[test]
    fn a_family_shows_all_of_its_values() {
        let family = CounterFamily::new("status", &["a", "b"]);
        family.add("b", 2);
        assert_eq!(shown(&family), ["status=a 0", "status=b 2"]);
        assert_eq!((family.get("b"), family.get("c")), (2, 0));
    }

    #[test]
    fn the_usual_bounds_ascend() {
        assert!(SECONDS.is_sorted() && POWERS_OF_TWO.is_sorted());
    }
}
