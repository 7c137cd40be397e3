//! TLS: the protocol is agreed on in the handshake.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use waypost_server::config::{Config, Tls};
use waypost_server::http::listen::Listener;

use crate::support::{Ask, Client, House};

fn tls() -> Tls {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls");
    Tls { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

async fn connect(house: &House, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls().certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(house.address).await.unwrap();
    let name = ServerName::from(house.address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn http_1_and_2_are_spoken_over_tls() {
    let house = House::with(Config { tls: Some(tls()), ..Config::default() }).await;
    for protocols in [&[][..], &["http/1.1"], &["http/1.1", "x"]] {
        let stream = connect(&house, protocols).await.unwrap();
        let mut client = Client::over(stream, house.address);
        let answer = client.ask(&Ask::get("/v1/limits")).await.unwrap();
        assert_eq!(answer.status, 200, "{protocols:?}");
    }
    let stream = connect(&house, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let driving = tokio::spawn(connection);
    for (host, status) in [(house.address.to_string(), 200), ("evil.example".to_owned(), 403)] {
        let request = Request::get(format!("https://{host}/v1/limits")).body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{host}");
        assert!(!answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    driving.abort();
}

#[tokio::test]
async fn http_2_connection_without_preface_is_closed() {
    let header_timeout = Duration::from_millis(50);
    let house = House::with(Config { tls: Some(tls()), header_timeout, ..Config::default() }).await;
    for begun in ["", "PRI * HTTP/2.0\r\n"] {
        let mut stream = connect(&house, &["h2"]).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        // A connection that is cut off ends, one way or the other; a patient one would not.
        let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut received));
        end.await.expect("the server closes it").ok();
        assert!(received.is_empty(), "{received:?}");
    }
}

#[tokio::test]
async fn plain_connection_to_tls_port_is_closed() {
    let house = House::with(Config { tls: Some(tls()), ..Config::default() }).await;
    let mut plain = house.connect().await;
    plain.send(&Ask::get("/livez").bytes(house.address)).await.unwrap();
    let received = plain.until_closed().await;
    assert!(!String::from_utf8_lossy(&received).contains("HTTP"));
    let stream = connect(&house, &["spdy/3"]).await;
    assert!(stream.is_err(), "there is no protocol in common");
    let stream = connect(&house, &[]).await.unwrap();
    Client::over(stream, house.address).ask(&Ask::get("/livez")).await.unwrap().expect(200);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_named() {
    for (certificate, key, culprit) in [
        ("nowhere.pem", "key.pem", "nowhere.pem"),
        ("certificate.pem", "nowhere.pem", "nowhere.pem"),
        ("certificate.pem", "certificate.pem", "certificate.pem"),
    ] {
        let folder = tls().certificate.with_file_name("");
        let tls = Tls { certificate: folder.join(certificate), key: folder.join(key) };
        let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let config = Config { address, tls: Some(tls), ..Config::default() };
        let error = Listener::bind(&config).await.err().unwrap().to_string();
        assert!(error.contains(culprit), "{error}");
    }
}
