use uuid::Uuid;
use waypost_core::id::ExecutionNo;
use waypost_ports::blobs::MemoryBlobs;
use waypost_ports::clock::{Clock, ManualClock};
use waypost_ports::conformance::rig::Hand;
use waypost_ports::memory::MemoryStore;
use waypost_ports::store::Store as _;

use super::*;

const HOUR: Millis = Millis::from_secs(3_600);
const DAY: Millis = Millis::from_secs(24 * 3_600);
const ONE: InstanceId = InstanceId(Uuid::from_u128(1));
const TWO: InstanceId = InstanceId(Uuid::from_u128(2));

#[test]
fn verdict_follows_references_ages_and_passes() {
    const H: i64 = 3_600_000;
    let day = 24 * H;
    // Touched at, referenced, a candidate since, now.
    for (title, touched, referenced, since, now, expected) in [
        ("young", 0, false, None, day - 1, BlobVerdict::Keep),
        ("old and referenced", 0, true, None, 9 * day, BlobVerdict::Keep),
        ("old", 0, false, None, day, BlobVerdict::Candidate),
        ("found a moment ago", 0, false, Some(day), day + 1, BlobVerdict::Candidate),
        ("found almost an hour ago", 0, false, Some(day), day + H - 1, BlobVerdict::Candidate),
        ("found an hour ago", 0, false, Some(day), day + H, BlobVerdict::Delete),
        ("found, then referenced", 0, true, Some(day), day + H, BlobVerdict::Keep),
        ("found, then touched", day + 1, false, Some(day), day + H, BlobVerdict::Keep),
        (
            "found, touched, and old again",
            day + 1,
            false,
            Some(day),
            3 * day,
            BlobVerdict::Candidate,
        ),
        ("touched by a clock that is ahead", 2 * day, false, None, day, BlobVerdict::Keep),
    ] {
        let at = (Timestamp(now), SweepSpans::default());
        let verdict = judge(Timestamp(touched), referenced, since.map(Timestamp), at);
        assert_eq!(verdict, expected, "{title}");
    }
}

struct World {
    clock: Arc<ManualClock>,
    blobs: MemoryBlobs,
    store: MemoryStore,
    metrics: Arc<EngineMetrics>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000_000_000)));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        Self {
            blobs: MemoryBlobs::new(Arc::clone(&shared)),
            store: MemoryStore::new(shared),
            metrics: Arc::default(),
            clock,
        }
    }

    fn sweep(&self, instance: InstanceId) -> BlobSweep {
        let (blobs, refs) = (Arc::new(self.blobs.clone()), Arc::new(self.store.clone()));
        BlobSweep::new(blobs, refs, instance, Arc::clone(&self.metrics))
    }

    fn put(&self, content: &[u8]) -> BlobDigest {
        self.blobs.put(&mut &*content, u64::MAX).unwrap().digest
    }

    fn name(&self, number: i64, digest: BlobDigest) {
        let frame = Hand::new(ExecutionNo(number), ONE).next(1).blobs(&[digest]);
        self.store.append(&[frame.into()]).unwrap();
    }

    fn left(&self) -> Vec<BlobDigest> {
        self.blobs.list(None, 10).unwrap().into_iter().map(|blob| blob.digest).collect()
    }
}

fn tick(sweep: &mut BlobSweep) {
    sweep.tick(&|| false).unwrap();
}

#[test]
fn unnamed_blob_is_deleted_by_the_second_pass_and_a_named_one_stays() {
    let world = World::new();
    let mut sweep = world.sweep(ONE);
    let named = world.put(b"named");
    world.name(1, named);
    world.put(b"unnamed");
    tick(&mut sweep);
    world.clock.advance(DAY);
    tick(&mut sweep);
    assert_eq!(world.left().len(), 2);
    world.clock.advance(Millis(HOUR.0 - 1));
    tick(&mut sweep);
    assert_eq!(world.left().len(), 2, "too early for the second pass");
    world.clock.advance(Millis(1));
    tick(&mut sweep);
    assert_eq!(world.left(), [named]);
    let mut page = String::new();
    world.metrics.render(&mut page);
    assert!(page.contains("waypost_blobs_swept_total 1\n"), "{page}");
}

#[test]
fn blob_named_or_put_between_the_passes_stays() {
    let world = World::new();
    let mut sweep = world.sweep(ONE);
    let (named, again) = (world.put(b"named late"), world.put(b"put again"));
    world.clock.advance(DAY);
    tick(&mut sweep);
    world.name(1, named);
    world.put(b"put again");
    world.clock.advance(HOUR);
    tick(&mut sweep);
    let mut expected = [named, again];
    expected.sort();
    assert_eq!(world.left(), expected);
    // The first one for good, the second for another day and two passes.
    world.clock.advance(DAY);
    tick(&mut sweep);
    assert_eq!(world.left(), expected);
    world.clock.advance(HOUR);
    tick(&mut sweep);
    assert_eq!(world.left(), [named]);
}

#[test]
fn instance_that_takes_the_lease_over_starts_with_the_first_pass() {
    let world = World::new();
    let (mut one, mut two) = (world.sweep(ONE), world.sweep(TWO));
    world.put(b"unnamed");
    world.clock.advance(DAY);
    tick(&mut one);
    tick(&mut two);
    world.clock.advance(HOUR);
    tick(&mut two);
    assert_eq!(world.left().len(), 1, "its first pass");
    tick(&mut one);
    assert_eq!(world.left().len(), 1, "it has lost the lease");
    world.clock.advance(HOUR);
    tick(&mut two);
    assert!(world.left().is_empty());
}

#[test]
fn dropped_sweeper_ends_its_thread() {
    let world = World::new();
    let sweeper = BlobSweeper::start(world.sweep(ONE)).unwrap();
    drop(sweeper);
    assert_eq!(Arc::strong_count(&world.metrics), 1);
}
