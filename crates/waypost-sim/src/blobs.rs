//! The blob store of a world, and how small a payload must be to stay in the log.

use std::io::Cursor;
use std::sync::Arc;

use waypost_core::blob::BlobRef;
use waypost_core::event::Event;
use waypost_core::expr::{Contents, FetchedContent, ITEMS_PAGE, Wanted};
use waypost_core::failure::{Failure, kind};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::json::{BadJson, Json};
use waypost_core::limits::MAP_RESULTS_BYTES_MAX;
use waypost_core::time::Timestamp;
use waypost_engine::{ResultsOf, StoreCalls, put_results};
use waypost_ports::blobs::{BlobError, Blobs, MemoryBlobs};
use waypost_ports::clock::ManualClock;

use crate::random::Random;

/// What each payload of a world that is too large for its log goes to.
pub struct WorldBlobs {
    blobs: MemoryBlobs,
    inline_max: usize,
    map_results_bytes_max: u64,
}

impl WorldBlobs {
    /// Of a world. In half of the worlds every payload stays in the log, and in another half all results
    /// of maps stay in their outputs.
    pub fn new(random: &mut Random) -> Self {
        let inline_max = *random.pick(&[0, 10, 40, usize::MAX, usize::MAX, usize::MAX]);
        let all = MAP_RESULTS_BYTES_MAX;
        let map_results_bytes_max = *random.split("results").pick(&[0, 10, 40, all, all, all]);
        let blobs = MemoryBlobs::new(Arc::new(ManualClock::at(Timestamp(0))));
        Self { blobs, inline_max, map_results_bytes_max }
    }

    /// Bytes of results that the output of a map has, at most.
    pub fn map_results_bytes_max(&self) -> u64 {
        self.map_results_bytes_max
    }

    /// As the shell keeps a payload.
    pub fn keep(&self, payload: Json) -> Json {
        if payload.bytes() <= self.inline_max || payload.is_null() {
            return payload;
        }
        let put = self.blobs.put(&mut Cursor::new(payload.text().as_bytes()), u64::MAX);
        Json::reference(put.expect("memory is never full"))
    }

    /// As the shell reads what a decision needs: one try.
    pub fn read(
        &self,
        calls: &StoreCalls,
        execution: ExecutionNo,
        wanted: Wanted,
    ) -> Result<FetchedContent, BlobError> {
        let items = |blob| -> Vec<Json> {
            let list = Json::parse_bytes(&self.bytes(blob)).ok();
            list.and_then(|list| serde_json::from_str(list.text()).ok()).unwrap_or_default()
        };
        Ok(match wanted {
            Wanted::Content(blob) => FetchedContent::read(blob, &self.bytes(blob)),
            Wanted::Count(blob) => FetchedContent::count(items(blob).len() as u64),
            Wanted::Items { blob, page } => {
                let page = usize::try_from(page * ITEMS_PAGE).unwrap_or(usize::MAX);
                let items = items(blob).into_iter().skip(page);
                FetchedContent::items(
                    items
                        .take(usize::try_from(ITEMS_PAGE).unwrap_or(usize::MAX))
                        .collect::<Vec<_>>(),
                )
            }
            Wanted::Results { map, attempt, count } => {
                let of = ResultsOf { execution, map, attempt, count };
                match put_results(&self.blobs, &*calls.store, &calls.plans, of)? {
                    Ok(blob) => FetchedContent::results(blob),
                    Err(damage) => FetchedContent::failed(Failure::permanent(kind::BLOB, damage)),
                }
            }
        })
    }

    /// The contents of the blobs that a payload refers to.
    pub fn contents(&self, payload: &Json) -> Contents {
        let content = |blob| FetchedContent::read(blob, &self.bytes(blob));
        let known = payload.references().map(|blob| (Wanted::Content(blob), content(blob)));
        Contents::of(known.collect())
    }

    /// The payload with contents in place of references.
    pub fn inline(&self, payload: &Json) -> Json {
        let content = |blob| Json::parse_bytes(&self.bytes(blob));
        payload.resolve::<BadJson>(content).expect("what was kept was JSON")
    }

    /// The events of a frame, with contents in place of references.
    pub fn events(&self, body: &[u8]) -> Vec<Event> {
        let body: Option<Json> = serde_json::from_slice(body).ok();
        let body = body.map(|body| self.inline(&body));
        body.and_then(|body| decode(body.text().as_bytes()).ok()).unwrap_or_default()
    }

    fn bytes(&self, blob: BlobRef) -> Vec<u8> {
        self.blobs.get(&blob.digest, u64::MAX).expect("no blob is swept in a world")
    }
}
