//! Webhook triggers at several instances: repeats, rotated secrets, bodies that are too large or never come.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};

use super::numbers::scaled;
use super::rig::{Answer, Cluster, LONG, With};

/// Senders of one delivery at once.
const SENDERS: usize = 50;
/// Deliveries of the full length.
const DELIVERIES: usize = 500;
/// Bytes of a body that is larger than a webhook trigger takes.
const TOO_LARGE: usize = (1 << 20) + 1;

const OLD: &[u8] = b"the secret before the rotation";
const NEW: &[u8] = b"the secret after the rotation";

/// The workflow, with these secrets.
fn definition(secrets: &str) -> String {
    format!(
        r#"
name: paid
on:
  - webhook: payments
    verify: {{ scheme: standard, secret: {secrets} }}
nodes:
  - {{ id: done, type: output, config: {{ value: "${{{{ input.n }}}}" }} }}
"#
    )
}

/// One delivery, as Standard Webhooks signs it.
struct Delivery {
    id: String,
    body: Vec<u8>,
    at: String,
    signature: String,
}

impl Delivery {
    fn new(id: &str, secret: &[u8], body: Vec<u8>) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at = since.as_secs().to_string();
        let signed = [format!("{id}.{at}.").as_bytes(), &body].concat();
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &signed);
        let signature = format!("v1,{}", STANDARD.encode(signature));
        Self { id: id.to_owned(), body, at, signature }
    }

    async fn send(&self, client: &Client, port: u16) -> Answer {
        let request = client
            .post(format!("http://127.0.0.1:{port}/v1/hooks/paid/payments"))
            .header("content-type", "application/json")
            .header("webhook-id", &self.id)
            .header("webhook-timestamp", &self.at)
            .header("webhook-signature", &self.signature)
            .body(self.body.clone());
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body = response.text().await.unwrap();
        Answer { status, body: serde_json::from_str(&body).unwrap_or(Value::String(body)) }
    }
}

/// A cluster whose settings have both secrets, and a client.
fn start(with: With) -> (Cluster, Client, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::new();
    for (name, secret) in [("old", OLD), ("new", NEW)] {
        let value = folder.path().join(name);
        std::fs::write(&value, format!("whsec_{}", STANDARD.encode(secret))).unwrap();
        let value = value.display();
        table += &format!(
            "[secrets.{name}]\nfrom = \"file:{value}\"\nworkflows = [\"paid\"]\nverify = true\n"
        );
    }
    let settings = folder.path().join("waypost.toml");
    std::fs::write(&settings, table).unwrap();
    let settings = settings.display().to_string();
    let cluster = Cluster::start_with(3, with, &["--config", &settings]);
    let tls = waypost_nodes::tls::client_config();
    let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().timeout(LONG);
    (cluster, client.build().unwrap(), folder)
}

fn port(cluster: &Cluster, at: usize) -> u16 {
    cluster.instances[at % cluster.instances.len()].port
}

#[test]
fn delivery_that_many_send_at_once_starts_one_execution_whose_id_all_get() {
    With::both(|with| {
        let (cluster, client, _folder) = start(with);
        cluster.deploy(&definition("[new, old]"));
        let count = scaled(DELIVERIES);
        for n in 0..count {
            let body = json!({ "n": n }).to_string().into_bytes();
            let delivery = Delivery::new(&format!("msg_{n}"), NEW, body);
            let send = |at| delivery.send(&client, port(&cluster, at));
            let answers = cluster.block_on(join_all((0..SENDERS).map(send)));
            let ids: Vec<&str> =
                answers.iter().filter_map(|answer| answer.body["id"].as_str()).collect();
            assert!(ids.len() == SENDERS && ids.iter().all(|id| *id == ids[0]), "{answers:?}");
            let started = answers.iter().filter(|answer| answer.body["outcome"] == "started");
            assert_eq!(started.count(), 1, "{answers:?}");
        }
        cluster.all_have_completed("paid", count);
        cluster.check();
    });
}

#[test]
fn secret_that_was_rotated_out_and_bodies_that_are_too_large_or_never_come_start_nothing() {
    let (cluster, client, _folder) = start(With::Postgres);
    let sent = |at: usize, delivery: &Delivery| {
        cluster.block_on(delivery.send(&client, port(&cluster, at)))
    };
    let delivery = |id: &str, secret| Delivery::new(id, secret, b"{\"n\": 1}".to_vec());
    cluster.deploy(&definition("[new, old]"));
    // Every instance has seen the trigger.
    for at in 0..3 {
        for (name, secret) in [("old", OLD), ("new", NEW)] {
            let answer = sent(at, &delivery(&format!("msg_{name}_{at}"), secret));
            assert_eq!(answer.status, 202, "{answer:?}");
        }
    }
    // The deploy is answered by one of them; from then on the others refuse the old secret, too.
    cluster.deploy(&definition("new"));
    for at in 0..3 {
        let answer = sent(at, &delivery(&format!("msg_late_{at}"), OLD));
        let code = &answer.body["code"];
        assert_eq!((answer.status, code), (401, &json!("bad_signature")), "{answer:?}");
        assert_eq!(sent(at, &delivery(&format!("msg_good_{at}"), NEW)).status, 202);
    }
    let large = Delivery::new("msg_large", NEW, vec![b' '; TOO_LARGE]);
    for at in 0..3 {
        let answer = sent(at, &large);
        assert_eq!((answer.status, &answer.body["code"]), (413, &json!("body_too_large")));
    }
    let dribbling: Vec<TcpStream> = (0..30).map(|at| dribble(port(&cluster, at))).collect();
    // The others are served meanwhile.
    for at in 0..30 {
        assert_eq!(sent(at, &delivery(&format!("msg_beside_{at}"), NEW)).status, 202);
    }
    for mut connection in dribbling {
        connection.write_all(b"1").unwrap();
        let mut answer = [0; 64];
        let timeout = Duration::from_millis(10);
        connection.set_read_timeout(Some(timeout)).unwrap();
        assert!(connection.read(&mut answer).is_err(), "half a body is not answered");
    }
    cluster.all_have_completed("paid", 6 + 3 + 30);
    cluster.check();
}

/// A request whose body does not come.
fn dribble(port: u16) -> TcpStream {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let head = format!(
        "POST /v1/hooks/paid/payments HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         webhook-id: msg_slow\r\nContent-Length: 100\r\n\r\n{{\"n\""
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection
}
