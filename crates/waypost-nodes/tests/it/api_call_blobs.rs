//! `api-call`: bodies that come from the blob store and go to it.

use std::io::{Cursor, Read};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_ports::blobs::{BlobError, BlobReader, BlobStat, Blobs, ListedBlob, MemoryBlobs};
use waypost_ports::clock::SystemClock;
use waypost_ports::handler::Task;

use crate::server::{Reply, Server, head, reply};
use crate::support::{call_err, settings, task};

const MIB: usize = 1 << 20;
/// Bytes of a body from which on it is kept as a blob.
const INLINE_MAX: usize = 768 * 1024;

/// A blob store, and a handler that uses it.
struct Rig(MemoryBlobs);

impl Rig {
    fn new() -> Self {
        Self(MemoryBlobs::new(Arc::new(SystemClock)))
    }

    fn put(&self, content: impl AsRef<[u8]>) -> BlobRef {
        self.0.put(&mut Cursor::new(content.as_ref()), u64::MAX).unwrap()
    }

    fn content(&self, blob: BlobRef) -> Vec<u8> {
        self.0.get(&blob.digest, u64::MAX).unwrap()
    }

    /// Runs a call. `body` is a field whose value is a reference.
    async fn call(&self, config: &Value, body: Option<(&str, BlobRef)>) -> Result<Json, Failure> {
        let mut config = Json::from_value(config).text().to_owned();
        if let Some((field, blob)) = body {
            config.pop();
            config.push_str(&format!(",{}:{}}}", json!(field), Json::reference(blob)));
        }
        call_with(Arc::new(self.0.clone()), &config).await
    }

    /// Runs a call whose response's body is kept as a blob; gives the blob.
    async fn saved(&self, config: &Value) -> BlobRef {
        let output = self.call(config, None).await.unwrap();
        let found: Vec<BlobRef> = output.references().collect();
        assert_eq!(found.len(), 1, "{output}");
        assert!(output.text().ends_with(&format!("\"body\":{}}}", Json::reference(found[0]))));
        found[0]
    }
}

async fn call_with(blobs: Arc<dyn Blobs>, config: &str) -> Result<Json, Failure> {
    let config = Json::parse_own(config).unwrap();
    let handler = waypost_nodes::handlers(&settings(), Some(&blobs)).remove("api-call");
    let task = Task { config, ..task("api-call", &Value::Null) };
    handler.unwrap().run(task, CancellationToken::new()).await
}

/// A blob store that fails every call.
struct Broken(BlobError);

impl Blobs for Broken {
    fn put(&self, content: &mut dyn Read, _: u64) -> Result<BlobRef, BlobError> {
        // Some of it was written before there was no space.
        content.read_exact(&mut [0; 1000]).unwrap();
        Err(self.0.clone())
    }

    fn open(&self, _: &BlobDigest) -> Result<BlobReader, BlobError> {
        Err(self.0.clone())
    }

    fn stat(&self, _: &BlobDigest) -> Result<BlobStat, BlobError> {
        Err(self.0.clone())
    }

    fn touch(&self, _: &BlobDigest) -> Result<(), BlobError> {
        Err(self.0.clone())
    }

    fn list(&self, _: Option<&BlobDigest>, _: usize) -> Result<Vec<ListedBlob>, BlobError> {
        Err(self.0.clone())
    }

    fn delete(&self, _: &BlobDigest, _: Timestamp) -> Result<bool, BlobError> {
        Err(self.0.clone())
    }

    fn discard_uploads(&self, _: Timestamp) -> Result<u64, BlobError> {
        Err(self.0.clone())
    }

    fn now(&self) -> Result<Timestamp, BlobError> {
        Err(self.0.clone())
    }
}

/// Text of this many bytes that does not repeat itself.
fn text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 8);
    for number in 0_u64.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&number.to_string());
        text.push('"');
    }
    text.truncate(bytes);
    text
}

#[tokio::test]
async fn download_of_any_bytes_and_size_is_kept_as_they_are() {
    let rig = Rig::new();
    let binary: Vec<u8> = (0..251).cycle().take(3 * MIB + 5).collect();
    for content in [Vec::new(), vec![0xff], b"{not json".to_vec(), binary] {
        let server =
            Server::fixed("200 OK", &[("content-type", "application/json")], &content).await;
        let saved = rig.saved(&json!({"url": server.url("/"), "download": true})).await;
        assert_eq!(saved.bytes, content.len() as u64);
        assert!(rig.content(saved) == content);
    }
}

#[tokio::test]
async fn body_above_the_inline_limit_is_kept_as_a_blob_of_json() {
    let rig = Rig::new();
    let long = text(INLINE_MAX);
    let cut_in_a_character = format!("{}€{long}", "x".repeat(4095));
    for text in [format!("{long}x"), cut_in_a_character] {
        let server = Server::fixed("200 OK", &[("content-type", "text/plain")], &text).await;
        let saved = rig.saved(&json!({"url": server.url("/")})).await;
        let kept: Value = serde_json::from_slice(&rig.content(saved)).unwrap();
        assert!(kept == text);
    }
    let large = json!({"text": text(2 * MIB)}).to_string();
    let server = Server::fixed("200 OK", &[("content-type", "application/json")], &large).await;
    let saved = rig.saved(&json!({"url": server.url("/")})).await;
    assert!(rig.content(saved) == large.as_bytes());
    let small = Server::fixed("200 OK", &[("content-type", "text/plain")], &long).await;
    let output = rig.call(&json!({"url": small.url("/")}), None).await.unwrap();
    assert_eq!(output.references().count(), 0);
    assert!(output.to_value().unwrap()["body"] == long);
}

#[tokio::test]
async fn body_that_looks_like_a_reference_stays_data() {
    let rig = Rig::new();
    let forged = Json::reference(rig.put("a secret of others"));
    let server =
        Server::fixed("200 OK", &[("content-type", "application/json")], forged.text()).await;
    let output = rig.call(&json!({"url": server.url("/")}), None).await.unwrap();
    assert_eq!(output.references().count(), 0);
    assert_eq!(output.to_value().unwrap()["body"], forged.to_value().unwrap());
}

#[tokio::test]
async fn body_that_is_not_text_fails_and_names_download() {
    let rig = Rig::new();
    let large = [vec![b'x'; INLINE_MAX], vec![0xff, b'x']].concat();
    let cut_off = [vec![b'x'; INLINE_MAX], vec![0xe2, 0x82]].concat();
    for body in [vec![0xff], large, cut_off] {
        let server = Server::fixed("200 OK", &[("content-type", "text/plain")], &body).await;
        let failure = rig.call(&json!({"url": server.url("/")}), None).await.unwrap_err();
        assert_eq!(&*failure.kind, "invalid_response");
        assert!(failure.message.contains("`download: true`"), "{}", failure.message);
    }
    assert_eq!(rig.0.list(None, 10).unwrap(), [], "nothing is left of them");
}

#[tokio::test]
async fn download_that_is_too_large_or_cut_off_leaves_nothing() {
    let rig = Rig::new();
    let server = Server::start(|_| Reply::Endless(head("200 OK", &[]), vec![b'x'; 4096])).await;
    let config = json!({"url": server.url("/"), "download": true, "responseBytesMax": 2 * MIB});
    let failure = rig.call(&config, None).await.unwrap_err();
    assert_eq!(&*failure.kind, "too_large");
    let cut = [head("200 OK", &[("content-length", "5000000")]), vec![b'x'; MIB]].concat();
    let server = Server::start(move |_| Reply::Bytes(cut.clone())).await;
    let config = json!({"url": server.url("/"), "download": true});
    let failure = rig.call(&config, None).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("connection", true));
    assert_eq!(rig.0.list(None, 10).unwrap(), []);
}

#[tokio::test]
async fn upload_sends_the_bytes_of_a_blob_with_their_length() {
    let rig = Rig::new();
    let content = text(2 * MIB + 3);
    let blob = rig.put(&content);
    for (field, content_type) in
        [("upload", "application/octet-stream"), ("body", "application/json")]
    {
        let server = Server::fixed("200 OK", &[], "").await;
        let config = json!({"url": server.url("/"), "method": "PUT"});
        rig.call(&config, Some((field, blob))).await.unwrap();
        let sent = server.request();
        assert!(sent.body == content);
        assert_eq!(sent.header("content-type"), Some(content_type));
        assert_eq!(sent.header("content-length"), Some(&*content.len().to_string()));
        assert_eq!(sent.header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn redirect_that_repeats_the_body_repeats_the_upload() {
    let rig = Rig::new();
    let content = text(MIB + 3);
    let blob = rig.put(&content);
    for (status, repeats) in [("307 Temporary", true), ("308 Permanent", true), ("303 See", false)]
    {
        let server = Server::start(move |request| match request.target.as_str() {
            "/start" => reply(status, &[("location", "/there")], ""),
            _ => reply("200 OK", &[], ""),
        })
        .await;
        let config = json!({"url": server.url("/start"), "method": "PUT"});
        rig.call(&config, Some(("upload", blob))).await.unwrap();
        let sent = server.requests();
        assert_eq!(sent.len(), 2);
        assert!(sent[0].body == content);
        assert_eq!(sent[1].body == content, repeats, "{status}");
    }
}

#[tokio::test]
async fn blob_that_is_damaged_or_missing_fails_the_upload_for_good_and_is_named() {
    let rig = Rig::new();
    let damaged = rig.put(text(3 * MIB));
    rig.0.damage(&damaged.digest);
    let missing = BlobRef { digest: BlobDigest::of(b"missing"), bytes: 7 };
    let server = Server::fixed("200 OK", &[], "").await;
    for blob in [damaged, missing] {
        let config = json!({"url": server.url("/"), "method": "PUT"});
        let failure = rig.call(&config, Some(("upload", blob))).await.unwrap_err();
        assert!(failure.message.contains(&blob.digest.to_string()), "{}", failure.message);
        assert_eq!((&*failure.kind, failure.retryable), ("blob", false));
    }
    assert_eq!(server.requests().len(), 0, "no whole request came");
}

#[tokio::test]
async fn response_that_finds_the_blob_store_full_is_a_failure_of_the_store() {
    let server = Server::fixed("200 OK", &[("content-type", "text/plain")], text(MIB)).await;
    let url = server.url("/");
    let upload = format!(r#"{{"url":"{url}","upload":{}}}"#, Json::reference(Rig::new().put("x")));
    for error in [BlobError::Full("no space".into()), BlobError::Unavailable("away".into())] {
        for (config, unsent) in [
            (json!({"url": url, "download": true}).to_string(), false),
            (json!({"url": url}).to_string(), false),
            (upload.clone(), true),
        ] {
            let failure = call_with(Arc::new(Broken(error.clone())), &config).await.unwrap_err();
            assert_eq!((&*failure.kind, failure.unsent), ("blob_store", unsent), "{config}");
            assert_eq!((failure.message, failure.retryable), (error.to_string(), true));
        }
    }
}

#[tokio::test]
async fn upload_of_what_is_not_a_blob_is_refused() {
    let server = Server::fixed("200 OK", &[], "").await;
    let failure = call_err(json!({"url": server.url("/"), "upload": {"a": 1}})).await;
    assert_eq!(&*failure.kind, "invalid_config");
    assert!(failure.message.contains("`upload`"), "{}", failure.message);
    let failure = call_err(json!({"url": server.url("/"), "download": true})).await;
    assert_eq!(&*failure.kind, "invalid_config");
}
