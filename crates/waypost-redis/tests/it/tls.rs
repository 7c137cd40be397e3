//! Through TLS: with a certificate that is trusted, and not with any other.

use std::process::Command;

use tempfile::TempDir;
use waypost_redis::{BadConfig, Redis, RedisConfig};
use waypost_testbed::{Process, free_port, make_certificate};

use crate::support::{KEY, PATIENCE, eventually, wait_for_reason};

#[test]
fn a_certificate_that_is_not_trusted_is_refused() {
    let folder = TempDir::new().unwrap();
    make_certificate(folder.path());
    let port = free_port().to_string();
    let mut command = Command::new("redis-server");
    command.current_dir(folder.path()).args(["--port", "0", "--tls-port", &port, "--save", ""]);
    command.args([
        "--bind",
        "127.0.0.1",
        "--tls-cert-file",
        "cert.pem",
        "--tls-key-file",
        "key.pem",
    ]);
    command.args(["--tls-auth-clients", "no"]);
    let _server = Process::start(&command, &folder.path().join("log"));
    eventually("it listens", || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());

    let url = format!("rediss://127.0.0.1:{port}");
    let authority = std::fs::read(folder.path().join("cert.pem")).unwrap();
    let trusting = RedisConfig { authority: Some(authority), ..RedisConfig::new(&url) };
    let trusted = Redis::connect(&trusting, &KEY).unwrap();
    assert!(trusted.wait_until_up(PATIENCE), "{trusted:?}");

    let careful = Redis::connect(&RedisConfig::new(&url), &KEY).unwrap();
    wait_for_reason(&careful, |reason| reason.to_lowercase().contains("certificate"));
    assert!(!careful.wait_until_up(std::time::Duration::from_millis(500)));

    for url in [format!("{url}/#insecure"), format!("{url}#insecure")] {
        let refused = Redis::connect(&RedisConfig::new(url), &KEY).unwrap_err();
        assert!(matches!(refused, BadConfig::Url(_)));
    }
    let broken =
        RedisConfig { authority: Some(b"no certificate".to_vec()), ..RedisConfig::new(url) };
    assert!(Redis::connect(&broken, &KEY).is_err());
}
