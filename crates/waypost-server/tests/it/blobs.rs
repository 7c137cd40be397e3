//! Blobs over HTTP: streamed both ways, in ranges, for those who may read them.

use std::io::Read as _;
use std::time::Duration;

use waypost_core::blob::BlobDigest;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_ports::access::Role;
use waypost_ports::blobs::Blobs as _;
use waypost_ports::store::{Append, Side, Store as _};
use waypost_server::config::Config;

use crate::support::{Ask, House};

const MIB: usize = 1 << 20;

/// Content that does not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    noise
}

fn upload(content: &[u8]) -> Ask {
    Ask::new("PUT", "/v1/blobs").body(content)
}

fn path(digest: &BlobDigest) -> String {
    format!("/v1/blobs/{digest}")
}

#[tokio::test]
async fn blob_put_is_returned_as_an_attachment_that_browsers_leave_alone() {
    let house = House::open().await;
    for content in [noise(0), noise(10), noise(3 * MIB + 5)] {
        let digest = BlobDigest::of(&content);
        let put =
            house.ask(&upload(&content).header("content-type", "text/html")).await.expect(201);
        assert_eq!(put.json()["digest"], digest.to_string());
        assert_eq!(put.json()["bytes"], content.len());
        assert_eq!(put.header("location"), Some(&*path(&digest)));
        let got = house.get(&path(&digest)).await.expect(200);
        assert!(got.body == content);
        for (name, value) in [
            ("content-type", "application/octet-stream"),
            ("content-disposition", &format!("attachment; filename=\"{digest}\"")),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
            ("content-length", &content.len().to_string()),
            ("accept-ranges", "bytes"),
        ] {
            assert_eq!(got.header(name), Some(value), "{name}");
        }
    }
    let metrics = house.get("/metrics").await.expect(200).text();
    let put = 10 + 3 * MIB + 5;
    assert!(metrics.contains(&format!("waypost_blob_bytes_put_total {put}\n")), "{metrics}");
}

#[tokio::test]
async fn range_is_returned_as_206_and_one_beyond_the_end_as_416() {
    let house = House::open().await;
    let content = noise(2 * MIB + 100);
    house.ask(&upload(&content)).await.expect(201);
    let ask = |range: &str| Ask::get(&path(&BlobDigest::of(&content))).header("range", range);
    let all = content.len();
    for (range, first, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=1048570-1048580", MIB - 6, MIB + 5),
        ("bytes=2097152-", 2 * MIB, all),
        ("bytes=-7", all - 7, all),
    ] {
        let got = house.ask(&ask(range)).await.expect(206);
        assert!(got.body == content[first..end], "{range}");
        let said = format!("bytes {first}-{}/{all}", end - 1);
        assert_eq!(got.header("content-range"), Some(&*said));
    }
    let refused = house.ask(&ask("bytes=99999999-")).await.refused(416, "range_not_satisfiable");
    assert_eq!(refused.header("content-range"), Some(&*format!("bytes */{all}")));
    assert!(house.ask(&ask("bytes=0-1,5-6")).await.expect(200).body == content);
}

#[tokio::test]
async fn head_tells_the_length_without_the_content() {
    let house = House::open().await;
    house.ask(&upload(b"content")).await.expect(201);
    let path = path(&BlobDigest::of(b"content"));
    let head = house.ask(&Ask::new("HEAD", &path)).await.expect(200);
    assert_eq!(head.header("content-length"), Some("7"));
    assert!(head.body.is_empty());
    let unknown = super::blobs::path(&BlobDigest::of(b"unknown"));
    house.ask(&Ask::new("HEAD", &unknown)).await.expect(404);
    house.get(&unknown).await.refused(404, "unknown_blob");
    house.get("/v1/blobs/nothing").await.refused(400, "bad_parameter");
}

#[tokio::test]
async fn viewer_reads_only_blobs_that_an_execution_names() {
    let house = House::locked().await;
    let key = |role| house.key(role);
    for role in [Role::Admin, Role::Operator, Role::Worker] {
        house.ask(&upload(b"content").key(&key(role))).await.expect(201);
    }
    house.ask(&upload(b"content").key(&key(Role::Viewer))).await.refused(403, "forbidden");
    house.ask(&upload(b"content")).await.refused(401, "unauthenticated");
    let digest = BlobDigest::of(b"content");
    let read = |role| Ask::get(&path(&digest)).key(&key(role));
    for role in [Role::Admin, Role::Operator, Role::Worker] {
        house.ask(&read(role)).await.expect(200);
    }
    house.ask(&read(Role::Viewer)).await.refused(404, "unknown_blob");
    name(&house, digest);
    assert_eq!(house.ask(&read(Role::Viewer)).await.expect(200).body, b"content");
    house.get(&path(&digest)).await.refused(401, "unauthenticated");
}

/// An execution names a blob.
fn name(house: &House, digest: BlobDigest) {
    let header = waypost_core::frame::FrameHeader {
        execution: ExecutionNo(1_000_000),
        first_seq: 1,
        last_seq: 1,
        append_id: waypost_core::id::AppendId(uuid::Uuid::from_u128(1)),
        parent: None,
        instance: InstanceId(uuid::Uuid::from_u128(1)),
        epoch: 1,
        decided_at: waypost_core::time::Timestamp(1),
        requires: 1,
    };
    let side = Side { blobs: vec![digest], ..Side::default() };
    house.store.append(&[Append { header, body: b"[]".to_vec(), side }]).unwrap();
}

#[tokio::test]
async fn upload_above_the_limit_is_refused_whether_or_not_its_length_is_announced() {
    let house = House::with(Config { blob_bytes_max: 1_000, ..Config::default() }).await;
    house.ask(&upload(&noise(1_000))).await.expect(201);
    house.ask(&upload(&noise(1_001))).await.refused(413, "body_too_large");
    let mut client = house.connect().await;
    let host = house.address;
    let head =
        format!("PUT /v1/blobs HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(head.as_bytes()).await.unwrap();
    let chunk = noise(800);
    for _ in 0..2 {
        client.send(b"320\r\n").await.unwrap();
        client.send(&chunk).await.unwrap();
        client.send(b"\r\n").await.unwrap();
    }
    client.send(b"0\r\n\r\n").await.unwrap();
    client.answer(&upload(b"")).await.unwrap().refused(413, "body_too_large");
    assert_eq!(house.blobs.list(None, 10).unwrap().len(), 1);
}

#[tokio::test]
async fn upload_that_breaks_off_or_stalls_stores_nothing() {
    let timeout = Duration::from_millis(300);
    let house = House::with(Config { body_timeout: timeout, ..Config::default() }).await;
    let host = house.address;
    let head = format!("PUT /v1/blobs HTTP/1.1\r\nhost: {host}\r\ncontent-length: 100\r\n\r\nhalf");
    let mut stalled = house.connect().await;
    stalled.send(head.as_bytes()).await.unwrap();
    stalled.answer(&upload(b"")).await.unwrap().refused(408, "body_timeout");
    let mut broken = house.connect().await;
    broken.send(head.as_bytes()).await.unwrap();
    drop(broken);
    house.ask(&upload(b"another")).await.expect(201);
    assert_eq!(house.blobs.list(None, 10).unwrap().len(), 1);
}

#[tokio::test]
async fn compressed_upload_is_refused() {
    let house = House::open().await;
    let compressed = upload(b"content").header("content-encoding", "gzip");
    house.ask(&compressed).await.refused(415, "unsupported_media_type");
}

#[tokio::test]
async fn damaged_blob_is_a_problem_or_a_reply_that_breaks_off() {
    let house = House::open().await;
    house.ask(&upload(b"small")).await.expect(201);
    let small = BlobDigest::of(b"small");
    house.blobs.damage(&small);
    let refused = house.get(&path(&small)).await.refused(500, "blob_damaged");
    assert!(refused.text().contains(&small.to_string()));
    // The first of two parts is whole, the second is not.
    let content = noise(MIB + 10);
    let digest = BlobDigest::of(&content);
    house.ask(&upload(&content)).await.expect(201);
    house.blobs.damage(&digest);
    let mut client = house.connect().await;
    assert!(client.ask(&Ask::get(&path(&digest))).await.is_err(), "it looks whole");
}

#[tokio::test]
async fn transfers_beyond_the_limit_wait_for_their_turn() {
    let house = House::with(Config { blob_transfers_max: 1, ..Config::default() }).await;
    house.ask(&upload(&noise(10))).await.expect(201);
    let content = noise(8 * MIB);
    house.ask(&upload(&content)).await.expect(201);
    let digest = BlobDigest::of(&content);
    let path = path(&digest);
    let (one, two) = tokio::join!(house.get(&path), house.get(&path));
    assert!(one.expect(200).body == content && two.expect(200).body == content);
}
