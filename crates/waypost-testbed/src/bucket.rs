//! A bucket of S3 in memory: objects, ranges, lists in pages, multipart uploads, copies. It checks no
//! signatures, and its objects can be made older.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::http::{HttpListener, Received, Response};

/// Objects on a page of a list: few, so that tests see several pages.
const PAGE: usize = 3;
/// The least bytes of a part of an upload, but for the last one.
const PART_BYTES_MIN: usize = 5 * 1024 * 1024;

/// A bucket, named `bucket`, on a free port of loopback.
#[derive(Debug)]
pub struct Bucket {
    listener: HttpListener,
    contents: Arc<Mutex<Contents>>,
}

#[derive(Debug, Default)]
struct Contents {
    objects: BTreeMap<String, Object>,
    /// By their ids: the key, and the parts by their numbers.
    uploads: BTreeMap<String, (String, BTreeMap<u32, Vec<u8>>)>,
    uploads_begun: u64,
    failing: bool,
}

#[derive(Debug)]
struct Object {
    body: Vec<u8>,
    modified: Timestamp,
}

impl Bucket {
    /// An empty bucket.
    pub fn start() -> Self {
        let contents = Arc::new(Mutex::new(Contents::default()));
        let serving = Arc::clone(&contents);
        let listener = HttpListener::start(move |request| Some(serving.lock().answer(&request)));
        Self { listener, contents }
    }

    /// Its endpoint.
    pub fn url(&self) -> String {
        self.listener.url("")
    }

    /// The keys of its objects.
    pub fn keys(&self) -> Vec<String> {
        self.contents.lock().objects.keys().cloned().collect()
    }

    /// Uploads that were neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        self.contents.lock().uploads.len()
    }

    /// Uploads in several parts that were ever begun.
    pub fn uploads_begun(&self) -> u64 {
        self.contents.lock().uploads_begun
    }

    /// Makes all objects older.
    pub fn age(&self, by: Duration) {
        for object in self.contents.lock().objects.values_mut() {
            object.modified -= by;
        }
    }

    /// Changes the content of an object.
    pub fn change(&self, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.contents.lock().objects.get_mut(key).expect("the key is known").body);
    }

    /// Adds an object.
    pub fn add(&self, key: &str, body: &[u8]) {
        let object = Object { body: body.to_vec(), modified: Timestamp::now() };
        self.contents.lock().objects.insert(key.to_owned(), object);
    }

    /// From now on requests fail, or are answered again.
    pub fn fail(&self, failing: bool) {
        self.contents.lock().failing = failing;
    }
}

impl Contents {
    fn answer(&mut self, request: &Received) -> Response {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let key =
            decode(path.trim_start_matches('/')).split_once('/').map(|(_, key)| key.to_owned());
        let key = key.unwrap_or_default();
        let query: BTreeMap<String, String> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect();
        if self.failing {
            return response(403, Vec::new(), "<Error><Code>AccessDenied</Code></Error>");
        }
        let upload = query.get("uploadId").cloned();
        match (request.method.as_str(), upload) {
            ("POST", None) if query.contains_key("uploads") => self.begin(key),
            ("POST", None) if query.contains_key("delete") => self.delete_many(&request.body),
            ("POST", Some(upload)) => self.complete(&upload),
            ("PUT", Some(upload)) => self.put_part(&upload, &query, &request.body),
            ("PUT", None) => self.put(key, request),
            ("DELETE", Some(upload)) => {
                self.uploads.remove(&upload);
                response(204, Vec::new(), "")
            }
            ("DELETE", None) => {
                self.objects.remove(&key);
                response(204, Vec::new(), "")
            }
            ("GET", _) if query.contains_key("list-type") => self.list(&query),
            ("GET" | "HEAD", _) => self.get(&key, request.header("range")),
            _ => response(400, Vec::new(), ""),
        }
    }

    fn put(&mut self, key: String, request: &Received) -> Response {
        let body = match request.header("x-amz-copy-source") {
            None => request.body.clone(),
            Some(source) => {
                let source = decode(source.trim_start_matches('/'));
                let source = source.split_once('/').map_or("", |(_, key)| key);
                let Some(object) = self.objects.get(source) else { return missing() };
                object.body.clone()
            }
        };
        self.objects.insert(key, Object { body, modified: Timestamp::now() });
        let result = "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>";
        response(200, vec![("ETag", "\"e\"".to_owned())], result)
    }

    fn begin(&mut self, key: String) -> Response {
        self.uploads_begun += 1;
        let id = format!("upload-{}", self.uploads_begun);
        self.uploads.insert(id.clone(), (key, BTreeMap::new()));
        let result = format!(
            "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
        );
        response(200, Vec::new(), &result)
    }

    fn put_part(
        &mut self,
        upload: &str,
        query: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Response {
        let number = query.get("partNumber").and_then(|number| number.parse().ok()).unwrap_or(0);
        let Some((_, parts)) = self.uploads.get_mut(upload) else { return missing() };
        parts.insert(number, body.to_vec());
        response(200, vec![("ETag", format!("\"part-{number}\""))], "")
    }

    fn complete(&mut self, upload: &str) -> Response {
        let Some((key, parts)) = self.uploads.remove(upload) else { return missing() };
        let last = parts.len().saturating_sub(1);
        if parts.values().take(last).any(|part| part.len() < PART_BYTES_MIN) {
            return response(400, Vec::new(), "<Error><Code>EntityTooSmall</Code></Error>");
        }
        let body = parts.into_values().flatten().collect();
        self.objects.insert(key, Object { body, modified: Timestamp::now() });
        let result =
            "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
        response(200, Vec::new(), result)
    }

    fn delete_many(&mut self, body: &[u8]) -> Response {
        let body = String::from_utf8_lossy(body);
        let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        let mut result = String::from("<DeleteResult>");
        for (key, _) in keys {
            self.objects.remove(key);
            result.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
        }
        result.push_str("</DeleteResult>");
        response(200, Vec::new(), &result)
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Response {
        let asked = |name: &str| query.get(name).map_or("", String::as_str);
        let after = asked("start-after").max(asked("continuation-token"));
        let found: Vec<_> = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(asked("prefix")) && key.as_str() > after)
            .collect();
        let mut result = String::from("<ListBucketResult>");
        for (key, object) in found.iter().take(PAGE) {
            let modified = object.modified.strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
            let size = object.body.len();
            result.push_str(&format!(
                "<Contents><Key>{key}</Key><LastModified>{modified}</LastModified>\
                 <ETag>\"e\"</ETag><Size>{size}</Size></Contents>"
            ));
        }
        if let Some((last, _)) = found.get(PAGE - 1).filter(|_| found.len() > PAGE) {
            let next = format!("<NextContinuationToken>{last}</NextContinuationToken>");
            result.push_str(&next);
        }
        result.push_str("</ListBucketResult>");
        response(200, Vec::new(), &result)
    }

    fn get(&self, key: &str, range: Option<&str>) -> Response {
        let Some(object) = self.objects.get(key) else { return missing() };
        let mut headers = vec![
            ("ETag", "\"e\"".to_owned()),
            ("Last-Modified", object.modified.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()),
        ];
        let all = object.body.len();
        let Some(Range { start, end }) = range.and_then(|range| parse_range(range, all)) else {
            return Response { status: 200, headers, body: object.body.clone() };
        };
        let Some(body) = object.body.get(start..end).filter(|body| !body.is_empty()) else {
            return response(416, Vec::new(), "");
        };
        headers.push(("Content-Range", format!("bytes {start}-{}/{all}", end - 1)));
        Response { status: 206, headers, body: body.to_vec() }
    }
}

/// `bytes=2-5`, `bytes=2-` or `bytes=-5`.
fn parse_range(range: &str, all: usize) -> Option<Range<usize>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some(match (first.parse::<usize>().ok(), last.parse::<usize>().ok()) {
        (Some(first), last) => first..last.map_or(all, |last| (last + 1).min(all)),
        (None, Some(count)) => all.saturating_sub(count)..all,
        (None, None) => return None,
    })
}

fn response(status: u16, mut headers: Vec<(&'static str, String)>, body: &str) -> Response {
    headers.push(("Content-Type", "application/xml".to_owned()));
    Response { status, headers, body: body.as_bytes().to_vec() }
}

fn missing() -> Response {
    response(404, Vec::new(), "<Error><Code>NoSuchKey</Code></Error>")
}

/// Undoes percent-encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = [rest.clone().next(), rest.clone().nth(1)].map(|digit| digit.map(char::from));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                let value = u8::from_str_radix(&format!("{high}{low}"), 16).unwrap_or(b'%');
                bytes.push(value);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
