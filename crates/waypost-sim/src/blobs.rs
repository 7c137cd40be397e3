//! The blob store of a world, and how small a payload must be to stay in the log.

use std::io::Cursor;
use std::sync::Arc;

use waypost_core::blob::BlobRef;
use waypost_core::event::Event;
use waypost_core::expr::{Contents, FetchedContent, ITEMS_PAGE, Wanted};
use waypost_core::failure::{Failure, kind};
use waypost_core::frame::decode;
use waypost_core::json::{BadJson, Json};
use waypost_core::time::Timestamp;
use waypost_ports::blobs::{Blobs, MemoryBlobs};
use waypost_ports::clock::ManualClock;

use crate::random::Random;

/// What each payload of a world that is too large for its log goes to.
pub struct WorldBlobs {
    blobs: MemoryBlobs,
    inline_max: usize,
}

impl WorldBlobs {
    /// Of a world. In half of the worlds everything stays in the log.
    pub fn new(random: &mut Random) -> Self {
        let inline_max = *random.pick(&[0, 10, 40, usize::MAX, usize::MAX, usize::MAX]);
        Self { blobs: MemoryBlobs::new(Arc::new(ManualClock::at(Timestamp(0)))), inline_max }
    }

    /// As the shell keeps a payload.
    pub fn keep(&self, payload: Json) -> Json {
        if payload.bytes() <= self.inline_max || payload.is_null() {
            return payload;
        }
        let put = self.blobs.put(&mut Cursor::new(payload.text().as_bytes()), u64::MAX);
        Json::reference(put.expect("memory is never full"))
    }

    /// As the shell reads what a decision needs.
    pub fn read(&self, wanted: Wanted) -> FetchedContent {
        let items = |blob| -> Vec<Json> {
            let list = Json::parse_bytes(&self.bytes(blob)).ok();
            list.and_then(|list| serde_json::from_str(list.text()).ok()).unwrap_or_default()
        };
        match wanted {
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
            Wanted::Results { .. } => {
                let what = "the maps of programs have few results";
                FetchedContent::failed(Failure::permanent(kind::BLOB, what))
            }
        }
    }

    /// The contents of the blobs that a payload refers to.
    pub fn contents(&self, payload: &Json) -> Contents {
        let wanted = payload.references().map(Wanted::Content);
        Contents::of(wanted.map(|wanted| (wanted, self.read(wanted))).collect())
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
