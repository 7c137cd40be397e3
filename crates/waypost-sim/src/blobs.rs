//! The blob store of a world, what is deleted from it, and how small a payload must be to stay in the log.

use std::io::Cursor;
use std::sync::Arc;

use uuid::Uuid;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::event::Event;
use waypost_core::expr::{Contents, FetchedContent, Wanted};
use waypost_core::failure::{Failure, kind};
use waypost_core::frame::decode;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::{BadJson, Json};
use waypost_core::limits::MAP_RESULTS_BYTES_MAX;
use waypost_core::time::Millis;
use waypost_engine::blob_sweep::{BlobSweep, SweepSpans};
use waypost_engine::{BadItems, ItemLists, ResultsOf, StoreCalls, put_results};
use waypost_ports::blobs::{BlobError, Blobs, ListedBlob, MemoryBlobs};

use crate::clock::{MachineClock, TrueTime};
use crate::random::Random;
use crate::store::{Connection, SimStore};

/// A blob is put minutes before it is named, at most: what is on its way when the faults end arrives soon.
const SPANS: SweepSpans =
    SweepSpans { untouched: Millis::from_secs(300), between_passes: Millis::from_secs(20) };

/// What each payload of a world that is too large for its log goes to.
pub struct WorldBlobs {
    blobs: MemoryBlobs,
    clock: Arc<MachineClock>,
    inline_max: usize,
    map_results_bytes_max: u64,
    /// Does it answer no calls?
    pub failing: bool,
    sweep: BlobSweep,
    lists: ItemLists,
    /// For its faults: those of others stay what they are.
    pub random: Random,
}

impl WorldBlobs {
    /// Of a world. In half of the worlds every payload stays in the log, and in a quarter all results of
    /// maps stay in their outputs.
    pub fn new(random: &mut Random, truth: &TrueTime, store: &SimStore) -> Self {
        let inline_max = *random.pick(&[0, 10, 40, usize::MAX, usize::MAX, usize::MAX]);
        let all = MAP_RESULTS_BYTES_MAX;
        let map_results_bytes_max = *random.split("results").pick(&[0, 10, 40, all]);
        let clock = Arc::new(MachineClock::new(truth.clone(), 0, 0));
        let blobs = MemoryBlobs::new(Arc::clone(&clock) as Arc<_>);
        let sweep = sweep(&blobs, store);
        Self {
            blobs,
            clock,
            inline_max,
            map_results_bytes_max,
            failing: false,
            sweep,
            lists: ItemLists::default(),
            random: random.split("faults"),
        }
    }

    /// Bytes of results that the output of a map has, at most.
    pub fn map_results_bytes_max(&self) -> u64 {
        self.map_results_bytes_max
    }

    /// Does this payload stay in the log?
    pub fn is_inline(&self, payload: &Json) -> bool {
        payload.bytes() <= self.inline_max || payload.is_null()
    }

    /// Puts a payload, as the shell does: one try.
    pub fn put(&self, payload: &Json) -> Result<BlobRef, BlobError> {
        self.answers()?;
        self.blobs.put(&mut Cursor::new(payload.text().as_bytes()), u64::MAX)
    }

    fn answers(&self) -> Result<(), BlobError> {
        match self.failing {
            true => Err(BlobError::Unavailable("no connection".to_owned())),
            false => Ok(()),
        }
    }

    /// As the shell reads what a decision needs: one try.
    pub fn read(
        &self,
        calls: &StoreCalls,
        execution: ExecutionNo,
        wanted: Wanted,
    ) -> Result<FetchedContent, BlobError> {
        let content = match wanted {
            Wanted::Content(blob) => {
                self.bytes(blob).map(|content| FetchedContent::read(blob, &content))
            }
            Wanted::Count(blob) => {
                self.answers()?;
                of_items(self.lists.count(&self.blobs, blob).map(FetchedContent::count))
            }
            Wanted::Items { blob, page } => {
                self.answers()?;
                of_items(self.lists.page(&self.blobs, blob, page).map(FetchedContent::items))
            }
            Wanted::Results { map, attempt, count } => {
                self.answers()?;
                let of = ResultsOf { execution, map, attempt, count };
                put_results(&self.blobs, &*calls.store, &calls.plans, of).map(|put| match put {
                    Ok(blob) => FetchedContent::results(blob),
                    Err(damage) => FetchedContent::failed(Failure::permanent(kind::BLOB, damage)),
                })
            }
        };
        match content {
            Err(error) if !error.is_passing() => {
                Ok(FetchedContent::failed(Failure::permanent(kind::BLOB, error.to_string())))
            }
            content => content,
        }
    }

    /// The contents of the blobs that a payload refers to.
    pub fn contents(&self, payload: &Json) -> Result<Contents, BlobError> {
        let content =
            |blob| Ok((Wanted::Content(blob), FetchedContent::read(blob, &self.bytes(blob)?)));
        Ok(Contents::of(payload.references().map(content).collect::<Result<_, BlobError>>()?))
    }

    /// The payload with contents in place of references; as it is where a blob is missing.
    pub fn inline(&self, payload: &Json) -> Json {
        let content = |blob: BlobRef| match self.blobs.get(&blob.digest, u64::MAX) {
            Ok(content) => Json::parse_bytes(&content),
            Err(_) => Ok(Json::reference(blob)),
        };
        payload.resolve::<BadJson>(content).expect("what was kept was JSON")
    }

    /// The events of a frame, with contents in place of references.
    pub fn events(&self, body: &[u8]) -> Vec<Event> {
        let body: Option<Json> = serde_json::from_slice(body).ok();
        let body = body.map(|body| self.inline(&body));
        body.and_then(|body| decode(body.text().as_bytes()).ok()).unwrap_or_default()
    }

    fn bytes(&self, blob: BlobRef) -> Result<Vec<u8>, BlobError> {
        self.answers()?;
        self.blobs.get(&blob.digest, blob.bytes)
    }

    /// A pass of the sweep, if one is due. Now and then by an instance that knows no candidates.
    pub fn sweep(&mut self, store: &SimStore) -> Result<(), BlobError> {
        if self.random.percent(10) {
            self.sweep = sweep(&self.blobs, store);
        }
        self.answers()?;
        self.sweep.tick(&|| false)
    }

    /// Lets blobs become old, and sweeps them.
    pub fn sweep_all(&mut self, store: &SimStore) -> Result<(), BlobError> {
        self.sweep = sweep(&self.blobs, store);
        for span in [SPANS.untouched, SPANS.between_passes] {
            self.clock.step(i64::try_from(span.0).unwrap_or(i64::MAX));
            self.sweep.tick(&|| false)?;
        }
        Ok(())
    }

    /// All blobs.
    pub fn list(&self) -> Vec<ListedBlob> {
        self.blobs.list(None, usize::MAX).unwrap_or_default()
    }

    /// Is this blob there, and whole?
    pub fn has(&self, digest: &BlobDigest) -> bool {
        self.blobs.get(digest, u64::MAX).is_ok()
    }
}

fn of_items(read: Result<FetchedContent, BadItems>) -> Result<FetchedContent, BlobError> {
    match read {
        Err(BadItems::Blob(error)) => Err(error),
        Err(error) => Ok(FetchedContent::failed(error.into())),
        Ok(content) => Ok(content),
    }
}

fn sweep(blobs: &MemoryBlobs, store: &SimStore) -> BlobSweep {
    let (blobs, refs) = (Arc::new(blobs.clone()), Arc::new(Connection(store.clone())));
    let instance = InstanceId(Uuid::from_u128(0xb10b));
    BlobSweep::new(blobs, refs, instance, Arc::default()).with_spans(SPANS)
}
