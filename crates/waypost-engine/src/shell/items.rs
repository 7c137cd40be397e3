//! Items of a map that are in a blob: a JSON list, or lines of JSON. The blob is read once to count
//! them and to note where each page begins; after that, a page costs one read of a range.

use std::collections::VecDeque;
use std::io::Cursor;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::expr::ITEMS_PAGE;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::limits::{ITEM_BYTES_MAX, ITEMS_MAX};
use waypost_ports::blobs::{BlobError, Blobs};

/// Lists whose pages are known. What is not in it is read again.
const INDEXES_MAX: usize = 16;

/// Why items cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadItems {
    #[error("`items` is blob {digest}, which is neither a JSON list nor lines of JSON: {reason}")]
    NotItems { digest: BlobDigest, reason: String },
    #[error("`items` is blob {digest}, which has more than {ITEMS_MAX} items")]
    TooMany { digest: BlobDigest },
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl From<BadItems> for Failure {
    /// The failure of the map.
    fn from(error: BadItems) -> Self {
        let kind = match &error {
            BadItems::NotItems { .. } => kind::INVALID_CONFIG,
            BadItems::TooMany { .. } => kind::TOO_MANY_ITEMS,
            BadItems::Blob(_) => kind::BLOB,
        };
        Self::permanent(kind, error.to_string())
    }
}

/// The lists that were read.
#[derive(Clone, Default)]
pub struct ItemLists(Arc<Mutex<VecDeque<KnownList>>>);

type KnownList = (BlobDigest, Arc<ItemIndex>);

/// Where the pages of a list begin.
#[derive(Debug, Default, PartialEq, Eq)]
struct ItemIndex {
    count: u64,
    /// The first byte of each page.
    pages: Vec<u64>,
    /// The byte after the last item.
    end: u64,
    is_lines: bool,
}

impl ItemLists {
    /// How many items a blob has.
    pub fn count(&self, blobs: &dyn Blobs, blob: BlobRef) -> Result<u64, BadItems> {
        Ok(self.index(blobs, blob)?.count)
    }

    /// A page of its items. Those that are large become blobs of their own.
    pub fn page(&self, blobs: &dyn Blobs, blob: BlobRef, page: u64) -> Result<Vec<Json>, BadItems> {
        let bad = |reason: String| BadItems::NotItems { digest: blob.digest, reason };
        let index = self.index(blobs, blob)?;
        let at = usize::try_from(page).unwrap_or(usize::MAX);
        let Some(start) = index.pages.get(at).copied() else { return Ok(Vec::new()) };
        let end = index.pages.get(at + 1).copied().unwrap_or(index.end);
        let mut bytes = Vec::new();
        for piece in blobs.open(&blob.digest)?.read(start..end) {
            bytes.extend(piece?);
        }
        let text = String::from_utf8(bytes).map_err(|error| bad(error.to_string()))?;
        let items = match index.is_lines {
            true => text.lines().filter(|line| !line.trim().is_empty()).map(Json::parse).collect(),
            false => list(&text),
        };
        let items: Vec<Json> = items.map_err(|error| bad(error.to_string()))?;
        items.into_iter().map(|item| kept(blobs, item)).collect()
    }

    fn index(&self, blobs: &dyn Blobs, blob: BlobRef) -> Result<Arc<ItemIndex>, BadItems> {
        let known = self.0.lock().iter().find(|(digest, _)| *digest == blob.digest).cloned();
        if let Some((_, index)) = known {
            return Ok(index);
        }
        let mut scanner = Scanner::default();
        for piece in blobs.open(&blob.digest)?.read(..) {
            scanner.scan(&piece?);
            if scanner.index.count > ITEMS_MAX {
                return Err(BadItems::TooMany { digest: blob.digest });
            }
        }
        let index = scanner
            .finish()
            .map_err(|reason| BadItems::NotItems { digest: blob.digest, reason })?;
        let index = Arc::new(index);
        let mut known = self.0.lock();
        known.truncate(INDEXES_MAX - 1);
        known.push_front((blob.digest, Arc::clone(&index)));
        Ok(index)
    }
}

/// The items between two commas of a list, each checked.
fn list(text: &str) -> Result<Vec<Json>, waypost_core::json::BadJson> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    let whole = Json::parse(&format!("[{text}]"))?;
    let items: Vec<Json> = serde_json::from_str(whole.text()).unwrap_or_default();
    Ok(items)
}

/// The item as an event has it.
fn kept(blobs: &dyn Blobs, item: Json) -> Result<Json, BadItems> {
    if item.bytes() <= ITEM_BYTES_MAX {
        return Ok(item);
    }
    let content = &mut Cursor::new(item.text().as_bytes());
    Ok(Json::reference(blobs.put(content, waypost_core::limits::BLOB_BYTES_MAX)?))
}

/// Finds where items begin, byte by byte. What is in them is checked when their page is read.
#[derive(Default)]
struct Scanner {
    index: ItemIndex,
    at: u64,
    /// Is it known whether this is a list or lines?
    begun: bool,
    /// How many brackets are open, that of the list included.
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// Has the item at hand begun?
    in_item: bool,
    closed: bool,
    fault: Option<String>,
}

impl Scanner {
    fn scan(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if !self.begun && !byte.is_ascii_whitespace() {
                self.begun = true;
                self.index.is_lines = *byte != b'[';
                if *byte == b'[' {
                    self.depth = 1;
                    self.at += 1;
                    continue;
                }
            }
            match self.index.is_lines {
                true => self.line(*byte),
                false => self.list(*byte),
            }
            self.at += 1;
        }
    }

    fn begin_item(&mut self) {
        if !self.in_item {
            self.in_item = true;
            if self.index.count.is_multiple_of(ITEMS_PAGE) {
                self.index.pages.push(self.at);
            }
            self.index.count += 1;
        }
    }

    fn line(&mut self, byte: u8) {
        match byte {
            b'\n' => self.in_item = false,
            byte if byte.is_ascii_whitespace() => {}
            _ => self.begin_item(),
        }
        self.index.end = self.at + 1;
    }

    fn list(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        if self.closed || self.depth == 0 {
            self.fault.get_or_insert_with(|| "something follows the list".to_owned());
            return;
        }
        match byte {
            b',' if self.depth == 1 => {
                if !self.in_item {
                    self.fault.get_or_insert_with(|| "a comma without an item".to_owned());
                }
                self.in_item = false;
                return;
            }
            b']' if self.depth == 1 => {
                self.closed = true;
                self.index.end = self.at;
                return;
            }
            _ => self.begin_item(),
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth -= 1,
            _ => {}
        }
    }

    fn finish(self) -> Result<ItemIndex, String> {
        match (self.fault, self.begun) {
            (Some(fault), _) => Err(fault),
            (None, false) => Err("it is empty".to_owned()),
            (None, true) if !self.index.is_lines && !self.closed => {
                Err("the list does not end".to_owned())
            }
            (None, true) => Ok(self.index),
        }
    }
}

#[cfg(test)]
mod tests {
    use waypost_ports::blobs::MemoryBlobs;
    use waypost_ports::clock::SystemClock;

    use super::*;

    fn stored(content: &str) -> (MemoryBlobs, BlobRef) {
        let blobs = MemoryBlobs::new(Arc::new(SystemClock));
        let blob = blobs.put(&mut Cursor::new(content.as_bytes()), u64::MAX).unwrap();
        (blobs, blob)
    }

    #[test]
    fn items_are_those_that_a_parser_finds_whatever_is_in_them() {
        let odd = r#" [ 1 , "a,]\"\\" ,[2,[3]],{"k":"}],"}, null ,"é" , -1.5e3 ] "#;
        let many: Vec<String> = (0..600).map(|n| format!(r#"{{"n":{n},"s":"[,{n}]"}}"#)).collect();
        let list = format!("[{}]", many.join(",\n"));
        let lines = format!("\n{}\n\n", many.join("\r\n"));
        for text in [odd.to_owned(), list, lines, "[]".to_owned(), "7".to_owned()] {
            let expected: Vec<serde_json::Value> = match text.trim_start().starts_with('[') {
                true => serde_json::from_str(&text).unwrap(),
                false => serde_json::Deserializer::from_str(&text)
                    .into_iter()
                    .map(Result::unwrap)
                    .collect(),
            };
            let (blobs, blob) = stored(&text);
            let lists = ItemLists::default();
            let count = lists.count(&blobs, blob).unwrap();
            assert_eq!(count, expected.len() as u64, "{text}");
            let pages = count.div_ceil(ITEMS_PAGE);
            let items = (0..=pages).flat_map(|page| lists.page(&blobs, blob, page).unwrap());
            let items: Vec<_> = items.map(|item| item.to_value().unwrap()).collect();
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn what_is_no_list_is_named_and_what_is_large_becomes_a_blob() {
        for (text, reason) in [
            ("", "it is empty"),
            ("[1,2", "the list does not end"),
            ("[1] 2", "something follows the list"),
            ("[1,,2]", "a comma without an item"),
        ] {
            let (blobs, blob) = stored(text);
            let error = ItemLists::default().count(&blobs, blob).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(&blob.digest.to_string()), "{error}");
        }
        let (blobs, blob) = stored("[nonsense]");
        assert!(ItemLists::default().page(&blobs, blob, 0).is_err());
        let (blobs, blob) = stored(&format!("[1,\"{}\"]", "x".repeat(ITEM_BYTES_MAX)));
        let items = ItemLists::default().page(&blobs, blob, 0).unwrap();
        let large = items[1].as_reference().expect("a reference");
        assert_eq!(large.bytes, ITEM_BYTES_MAX as u64 + 2);
    }
}
