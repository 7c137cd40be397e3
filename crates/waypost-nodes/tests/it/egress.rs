//! The egress guard: which targets are denied, which an allowance opens, and when names are judged.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::json;
use url::Url;
use waypost_nodes::Settings;
use waypost_nodes::egress::{Allowance, Egress, Lookup, ResolveError};

use crate::server::Server;
use crate::support::{run_with, settings, task};

fn egress(allowed: &[&str]) -> Egress {
    Egress::new(allowed.iter().map(|entry| entry.parse::<Allowance>().unwrap()))
}

/// Answers each name with the next of its lists of addresses, the last one for ever.
pub(crate) struct Names {
    answers: Mutex<BTreeMap<&'static str, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn new<const N: usize>(names: [(&'static str, &[&[&str]]); N]) -> Arc<Self> {
        let parse = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let answers = names
            .into_iter()
            .map(|(name, lists)| (name, lists.iter().map(|list| parse(list)).collect()))
            .collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let answer = match self.answers.lock().unwrap().get_mut(name.as_str()) {
            Some(lists) if lists.len() > 1 => Ok(lists.remove(0)),
            Some(lists) => Ok(lists[0].clone()),
            None => Err(io::Error::other("no such name")),
        };
        self.asked.lock().unwrap().push(name);
        Box::pin(async move { answer })
    }
}

/// What the guard makes of a URL: checked, and resolved where it has a name.
async fn judge(egress: &Egress, url: &str) -> Result<(), String> {
    let url = Url::parse(url).unwrap();
    let port = egress.check_url(&url).map_err(|denied| denied.to_string())?;
    match url.domain() {
        None => Ok(()),
        Some(name) => match egress.resolver(port).addresses(name).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_denied_in_every_spelling() {
    let guard = egress(&[]);
    for (url, word) in [
        // Loopback, in all the ways that browsers understand.
        ("http://127.0.0.1/", "loopback"),
        ("http://127.0.0.1:8080/", "loopback"),
        ("http://127.255.255.254/", "loopback"),
        ("http://127.1/", "loopback"),
        ("http://127.0.1/", "loopback"),
        ("http://2130706433/", "loopback"),
        ("http://0x7f000001/", "loopback"),
        ("http://0x7f.0.0.1/", "loopback"),
        ("http://0177.0.0.1/", "loopback"),
        ("http://017700000001/", "loopback"),
        ("http://127.0.0.1./", "loopback"),
        ("http://１２７.0.0.1/", "loopback"),
        ("http://①②⑦.0.0.1/", "loopback"),
        ("http://%31%32%37.0.0.1/", "loopback"),
        ("http://127。0。0。1/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("http://[0:0:0:0:0:0:0:1]:80/", "loopback"),
        ("http://localhost/", "loopback"),
        ("http://LOCALHOST:9000/", "loopback"),
        ("http://localhost./", "loopback"),
        ("http://api.localhost/", "loopback"),
        // Metadata services and link-local.
        ("http://169.254.169.254/latest/meta-data/", "metadata"),
        ("http://2852039166/", "metadata"),
        ("http://0xa9fea9fe/", "metadata"),
        ("http://0251.0376.0251.0376/", "metadata"),
        ("http://[fe80::1]/", "link-local"),
        ("http://[fd00:ec2::254]/", "unique local"),
        ("http://100.100.100.200/", "carrier-grade"),
        ("http://168.63.129.16/", "cloud"),
        ("http://192.0.0.192/", "protocol"),
        // Private networks.
        ("http://10.0.0.1/", "private"),
        ("http://172.16.0.1/", "private"),
        ("http://172.31.255.255/", "private"),
        ("http://192.168.1.1/", "private"),
        ("http://[fc00::1]/", "unique local"),
        ("http://[fec0::1]/", "site-local"),
        ("http://100.64.0.1/", "carrier-grade"),
        ("http://100.127.255.255/", "carrier-grade"),
        // Unspecified, broadcast, multicast, reserved, for documents and benchmarks.
        ("http://0.0.0.0/", "unspecified"),
        ("http://0/", "unspecified"),
        ("http://0.1.2.3/", "unspecified"),
        ("http://[::]/", "unspecified"),
        ("http://255.255.255.255/", "reserved|broadcast"),
        ("http://240.0.0.1/", "reserved"),
        ("http://224.0.0.1/", "multicast"),
        ("http://239.255.255.255/", "multicast"),
        ("http://[ff02::1]/", "multicast"),
        ("http://192.0.2.1/", "documentation"),
        ("http://198.51.100.1/", "documentation"),
        ("http://203.0.113.1/", "documentation"),
        ("http://[2001:db8::1]/", "documentation"),
        ("http://[3fff::1]/", "documentation"),
        ("http://198.18.0.1/", "benchmarking"),
        ("http://198.19.255.255/", "benchmarking"),
        ("http://[100::1]/", "global unicast"),
        ("http://[4000::1]/", "global unicast"),
        // IPv6 forms that carry an IPv4 address.
        ("http://[::ffff:127.0.0.1]/", "loopback"),
        ("http://[::ffff:7f00:1]/", "loopback"),
        ("http://[::ffff:a9fe:a9fe]/", "metadata"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://[::127.0.0.1]/", "compatible"),
        ("http://[::a00:1]/", "compatible"),
        ("http://[2002:7f00:1::]/", "6to4"),
        ("http://[2002:a9fe:a9fe::1]/", "6to4"),
        ("http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "Teredo"),
        ("http://[64:ff9b::7f00:1]/", "loopback"),
        ("http://[64:ff9b::169.254.169.254]/", "metadata"),
        ("http://[64:ff9b:1::a00:1]/", "NAT64"),
        // What is not an address at all.
        ("file:///etc/passwd", "http and https"),
        ("ftp://8.8.8.8/", "http and https"),
        ("gopher://8.8.8.8/", "http and https"),
        ("unix:/var/run/docker.sock", "http and https"),
        ("data:text/plain,x", "http and https"),
        ("http://user@8.8.8.8/", "user name"),
        ("http://user:secret@8.8.8.8/", "user name"),
        ("http://8.8.8.8:80@127.0.0.1/", "user name"),
    ] {
        let message = judge(&guard, url).await.expect_err(url);
        assert!(word.split('|').any(|word| message.contains(word)), "{url}: {message}");
        assert!(!message.contains("secret"), "{url}: {message}");
    }
}

#[tokio::test]
async fn public_addresses_need_no_allowance() {
    let guard = egress(&[]);
    for url in [
        "http://8.8.8.8/",
        "https://1.1.1.1:8443/",
        "http://172.15.255.255/",
        "http://172.32.0.1/",
        "http://100.63.255.255/",
        "http://100.128.0.1/",
        "http://192.0.1.1/",
        "http://223.255.255.255/",
        "http://[2606:4700:4700::1111]/",
        "http://[::ffff:8.8.8.8]/",
        "http://[64:ff9b::808:808]/",
    ] {
        assert_eq!(judge(&guard, url).await, Ok(()), "{url}");
    }
}

#[tokio::test]
async fn allowances_open_what_they_name_and_nothing_else() {
    let names = Names::new([
        ("api.internal", &[&["10.1.2.3"]]),
        ("deep.api.internal", &[&["10.1.2.3"]]),
        ("internal", &[&["10.1.2.3"]]),
        ("evilinternal", &[&["10.1.2.3"]]),
        ("api.internal.evil.example", &[&["10.1.2.3"]]),
    ]);
    for (allowed, url, opens) in [
        ("api.internal", "http://api.internal/", true),
        ("api.internal", "http://API.Internal:9000/", true),
        ("API.internal.", "http://api.internal/", true),
        ("api.internal", "http://api.internal./", false), // not a name that is known here
        ("api.internal", "http://deep.api.internal/", false),
        ("api.internal", "http://10.1.2.3/", false),
        ("api.internal", "http://api.internal.evil.example/", false),
        ("api.internal:9000", "http://api.internal:9000/", true),
        ("api.internal:9000", "http://api.internal/", false),
        ("api.internal:443", "https://api.internal/", true),
        ("*.internal", "http://api.internal/", true),
        ("*.internal", "http://deep.api.internal/", true),
        ("*.internal", "http://internal/", false),
        ("*.internal", "http://evilinternal/", false),
        ("*.internal:80", "http://api.internal:81/", false),
        ("10.1.0.0/16", "http://api.internal/", true),
        ("10.1.0.0/16", "http://10.1.255.255:1234/", true),
        ("10.1.0.0/16", "http://10.2.0.1/", false),
        ("10.1.0.0/16:80", "http://10.1.2.3/", true),
        ("10.1.0.0/16:80", "http://10.1.2.3:81/", false),
        ("10.1.2.3", "http://10.1.2.3/", true),
        ("10.1.2.3:81", "http://10.1.2.3:81/", true),
        ("10.1.2.3:81", "http://10.1.2.3/", false),
        ("127.0.0.1", "http://localhost/", true),
        ("localhost", "http://localhost:3000/", true),
        ("localhost", "http://127.0.0.1/", false),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/", true),
        ("127.0.0.0/8", "http://0x7f.1/", true),
        ("127.0.0.0/8", "http://[::1]/", false),
        ("::1", "http://[::1]/", true),
        ("[::1]:80", "http://[::1]/", true),
        ("[::1]:80", "http://[::1]:81/", false),
        ("[fd00::/8]:443", "https://[fd12::1]/", true),
        ("fd00::/8", "http://[fd12::1]:8080/", true),
        ("0.0.0.0/0", "http://169.254.169.254/", true),
        ("0.0.0.0/0", "file:///etc/passwd", false),
        ("0.0.0.0/0", "http://user@10.0.0.1/", false),
    ] {
        let guard = egress(&[allowed]).with_lookup(Arc::clone(&names) as Arc<dyn Lookup>);
        let found = judge(&guard, url).await;
        assert_eq!(found.is_ok(), opens, "{allowed} for {url}: {found:?}");
    }
}

#[test]
fn allowances_are_read_strictly_and_written_back() {
    for (entry, shown) in [
        ("api.internal", "api.internal"),
        (" API.Internal:80 ", "api.internal:80"),
        ("*.internal:443", "*.internal:443"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.0.0.0/8:80", "10.0.0.0/8:80"),
        ("fd00::/8", "fd00::/8"),
        ("[fd00::1]:443", "[fd00::1/128]:443"),
        ("bücher.example", "xn--bcher-kva.example"),
    ] {
        let read: Allowance = entry.parse().unwrap();
        assert_eq!(read.to_string(), shown);
        assert_eq!(shown.parse::<Allowance>().unwrap(), read, "{shown}");
    }
    for (entry, word) in [
        ("", "host name"),
        ("http://api.internal", "URL"),
        ("api.internal/path", "range"),
        ("10.0.0.0/33", "range"),
        ("api.internal:0", "port"),
        ("api.internal:http", "port"),
        ("api.internal:70000", "port"),
        ("[::1", "closed"),
        ("[::1]80", "port"),
        ("*", "start"),
        ("a.*.internal", "start"),
        ("*.10.0.0.1", "names"),
        ("api internal", "host name"),
    ] {
        let message = entry.parse::<Allowance>().unwrap_err().to_string();
        assert!(message.contains(word), "{entry:?}: {message}");
        assert!(message.contains(&format!("{entry:?}")), "{message}");
    }
}

#[tokio::test]
async fn only_addresses_that_pass_are_handed_out() {
    let names = Names::new([
        ("mixed.example", &[&["10.0.0.1", "8.8.8.8", "::1", "2606:4700::1"]]),
        ("inside.example", &[&["10.0.0.1", "127.0.0.1"]]),
        ("empty.example", &[&[]]),
    ]);
    let guard = egress(&[]).with_lookup(names);
    let found = guard.resolver(443).addresses("mixed.example").await.unwrap();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["8.8.8.8:443", "[2606:4700::1]:443"]);
    let resolver = guard.resolver(80);
    assert!(matches!(resolver.addresses("inside.example").await, Err(ResolveError::Denied(_))));
    assert!(matches!(resolver.addresses("empty.example").await, Err(ResolveError::Nothing(_))));
    assert!(matches!(resolver.addresses("x.example").await, Err(ResolveError::Lookup { .. })));
}

#[tokio::test]
async fn call_to_a_name_with_a_private_address_is_denied_with_a_hint() {
    let server = Server::fixed("200 OK", &[], "inside").await;
    let port = server.address.port();
    let names = Names::new([("rebind.example", &[&["127.0.0.1"]]), ("gone.example", &[&[]])]);
    let config = json!({"url": format!("http://rebind.example:{port}/")});
    let guard = egress(&[]).with_lookup(Arc::clone(&names) as Arc<dyn Lookup>);
    let closed = Settings { egress: guard, ..settings() };
    let failure = run_with(&closed, task("api-call", &config)).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("egress_denied", false));
    for part in [
        "loopback",
        "127.0.0.0/8",
        &format!("--allow-egress rebind.example:{port}"),
        "WAYPOST_ALLOW_EGRESS",
    ] {
        assert!(failure.message.contains(part), "{}", failure.message);
    }
    assert!(server.requests().is_empty());

    let allowed = format!("rebind.example:{port}");
    let guard = egress(&[&allowed]).with_lookup(Arc::clone(&names) as Arc<dyn Lookup>);
    let open = Settings { egress: guard, ..settings() };
    run_with(&open, task("api-call", &config)).await.unwrap();
    assert_eq!(server.request().header("host"), Some(&*allowed));

    let config = json!({"url": "http://gone.example/"});
    let failure = run_with(&closed, task("api-call", &config)).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("connection", true));
}

#[tokio::test]
async fn resolver_name_with_changing_addresses_is_checked_each_time() {
    let server = Server::fixed("200 OK", &[], "inside").await;
    let port = server.address.port();
    // The second look-up, if there were one, would lead inside.
    let names = Names::new([("flip.example", &[&["2606:4700::dead"], &["127.0.0.1"]])]);
    let guard = egress(&[]).with_lookup(Arc::clone(&names) as Arc<dyn Lookup>);
    let first = guard.resolver(port).addresses("flip.example").await.unwrap();
    assert!(!first[0].ip().is_loopback());
    let config = json!({"url": format!("http://flip.example:{port}/")});
    let closed = Settings { egress: guard, ..settings() };
    let failure = run_with(&closed, task("api-call", &config)).await.unwrap_err();
    assert_eq!(failure.kind, "egress_denied");
    assert_eq!(names.asked.lock().unwrap().len(), 2, "one look-up a connection");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn an_allowance_for_one_port_does_not_open_another_on_the_same_handler() {
    let open = Server::fixed("200 OK", &[], "open").await;
    let shut = Server::fixed("200 OK", &[], "shut").await;
    let names = Names::new([("two.example", &[&["127.0.0.1"]])]);
    let entry = format!("two.example:{}", open.address.port());
    let guard = egress(&[&entry]).with_lookup(names);
    let caller = crate::support::handler(&Settings { egress: guard, ..settings() }, "api-call");
    for (server, allowed) in [(&open, true), (&shut, false), (&open, true), (&shut, false)] {
        let url = format!("http://two.example:{}/", server.address.port());
        let task = task("api-call", &json!({"url": url}));
        let outcome = caller.run(task, tokio_util::sync::CancellationToken::new()).await;
        assert_eq!(outcome.is_ok(), allowed);
    }
    assert!(shut.requests().is_empty());
}
