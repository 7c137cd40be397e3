//! `api-call` over TLS: certificates are always verified, against what the machine trusts.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::server::{Server, answer, read_request, reply};
use crate::support::{call_err, call_ok};

/// Set in the process that trusts the test's certificate.
const TRUSTING: &str = "WAYPOST_TEST_TRUSTING";

async fn https_server() -> (SocketAddr, JoinSet<()>) {
    let certificate = CertificateDer::from(&include_bytes!("tls/self-signed.cert.der")[..]);
    let key = PrivateKeyDer::try_from(&include_bytes!("tls/self-signed.key.der")[..]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            if read_request(&mut stream).await.is_some() {
                answer(&mut stream, reply("200 OK", &[], "over TLS")).await;
            }
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused_for_good() {
    let (address, _tasks) = https_server().await;
    let failure = call_err(json!({"url": format!("https://{address}/")})).await;
    assert_eq!((&*failure.kind, failure.retryable), ("connection", false), "{failure:?}");
    assert!(failure.message.contains("certificate"), "{}", failure.message);
}

#[tokio::test]
async fn a_trusted_certificate_is_accepted() {
    if std::env::var_os(TRUSTING).is_some() {
        let (address, _tasks) = https_server().await;
        let output = call_ok(json!({"url": format!("https://{address}/")})).await;
        assert_eq!(output["body"], "over TLS");
        return;
    }
    // What a process trusts comes from its environment, so this needs a process of its own.
    let trusted = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/self-signed.pem");
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::a_trusted_certificate_is_accepted"])
        .env("SSL_CERT_FILE", trusted)
        .env(TRUSTING, "1")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn a_machine_without_certificates_can_still_call_http() {
    if std::env::var_os(TRUSTING).is_some() {
        let server = Server::fixed("200 OK", &[], "plain").await;
        assert_eq!(call_ok(json!({"url": server.url("/")})).await["body"], "plain");
        let (address, _tasks) = https_server().await;
        let failure = call_err(json!({"url": format!("https://{address}/")})).await;
        assert_eq!((&*failure.kind, failure.retryable), ("connection", false));
        return;
    }
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::a_machine_without_certificates_can_still_call_http"])
        .env("SSL_CERT_FILE", "/nonexistent/bundle.pem")
        .env(TRUSTING, "1")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_a_connection_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, reply("400 Bad Request", &[], "")).await;
    };
    let (failure, ()) = tokio::join!(call_err(json!({"url": url})), serve);
    assert_eq!((&*failure.kind, failure.retryable), ("connection", true));
}
