//! What handlers do with secrets: send them where they may go, and nowhere else.

use serde_json::{Value, json};
use waypost_core::failure::Failure;
use waypost_ports::handler::Task;
use waypost_ports::secret::{Grant, SecretText};

use crate::server::{Server, reply};
use crate::support::{call_err, run_with, settings, task};

const CANARY: &str = "canary-7f3a";

pub(crate) fn grant(name: &str, value: &str, hosts: &[&str]) -> Grant {
    Grant {
        name: name.into(),
        value: SecretText::new(value).unwrap(),
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        shell: false,
        workers: Default::default(),
        verify: false,
    }
}

/// Makes a call whose config has these secrets in it already, as the worker hands it over.
async fn call_with(secrets: &[Grant], config: &Value) -> Result<Value, Failure> {
    let task = Task { secrets: secrets.to_vec(), ..task("api-call", config) };
    assert!(!format!("{task:?}").contains(CANARY));
    run_with(&settings(), task).await.map(|output| output.to_value().unwrap())
}

fn host_of(server: &Server) -> String {
    server.address.to_string()
}

#[tokio::test]
async fn a_secret_goes_into_every_part_of_a_request() {
    let server = Server::fixed("200 OK", &[], "").await;
    let key = grant("key", CANARY, &[&host_of(&server)]);
    let config = json!({
        "url": server.url(&format!("/{CANARY}/x")), "method": "POST",
        "query": {"key": CANARY}, "headers": {"x-key": format!("Bearer {CANARY}")},
        "body": {"key": CANARY},
    });
    call_with(&[key], &config).await.unwrap();
    let request = server.request();
    assert_eq!(request.target, format!("/{CANARY}/x?key={CANARY}"));
    assert_eq!(request.header("x-key"), Some("Bearer canary-7f3a"));
    assert_eq!(request.body, r#"{"key":"canary-7f3a"}"#);
}

#[tokio::test]
async fn basic_authentication_is_made_by_the_handler() {
    let server = Server::fixed("200 OK", &[], "").await;
    let key = grant("key", "open\nsesame", &[&host_of(&server)]);
    let auth = |username: &str| json!({"username": username, "password": "open\nsesame"});
    let config = json!({"url": server.url("/"), "basicAuth": auth("ada")});
    call_with(std::slice::from_ref(&key), &config).await.unwrap();
    // A line break is no harm there: it is encoded.
    let expected = "Basic YWRhOm9wZW4Kc2VzYW1l";
    assert_eq!(server.request().header("authorization"), Some(expected));
    let config = json!({"url": server.url("/"), "basicAuth": auth("a:b")});
    let failure = call_with(&[key], &config).await.unwrap_err();
    assert_eq!(failure.kind, "invalid_config");
}

#[tokio::test]
async fn a_secret_stays_where_it_was_granted_to() {
    let server = Server::fixed("200 OK", &[], "").await;
    let here = host_of(&server);
    let granted = grant("granted", "granted-value", &[&here]);
    for (secrets, part) in [
        (
            vec![grant("key", CANARY, &["api.example.com"])],
            "it is only allowed for api.example.com",
        ),
        (vec![grant("key", CANARY, &[])], "no host is allowed for it"),
        // Without a port it is the scheme's own.
        (vec![grant("key", CANARY, &["127.0.0.1"])], "it is only allowed for 127.0.0.1"),
        // Each secret counts by itself.
        (vec![granted.clone(), grant("key", CANARY, &["127.0.0.2"])], "127.0.0.2"),
    ] {
        let config = json!({"url": server.url("/"), "headers": {"x-key": CANARY}});
        let failure = call_with(&secrets, &config).await.unwrap_err();
        assert_eq!((&*failure.kind, failure.retryable), ("secret_host", false));
        let expected = format!("secret `key` may not be sent to http://{here}: ");
        assert!(failure.message.starts_with(&expected), "{}", failure.message);
        assert!(failure.message.contains(part), "{}", failure.message);
    }
    assert!(server.requests().is_empty());
    call_with(&[granted], &json!({"url": server.url("/")})).await.unwrap();
}

#[tokio::test]
async fn a_secret_does_not_follow_a_redirect_to_another_host() {
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let other = Server::fixed("200 OK", &[], "other").await;
        let target = other.url("/");
        let first = Server::start(move |request| match request.target.as_str() {
            "/away" => reply(status, &[("location", &target)], ""),
            "/near" => reply(status, &[("location", "/there")], ""),
            _ => reply("200 OK", &[], "there"),
        })
        .await;
        let key = grant("key", CANARY, &[&host_of(&first)]);
        let config = |path: &str| {
            let headers = json!({"x-key": CANARY, "authorization": CANARY});
            json!({"url": first.url(path), "headers": headers})
        };
        let failure = call_with(std::slice::from_ref(&key), &config("/away")).await.unwrap_err();
        assert_eq!((&*failure.kind, failure.retryable), ("secret_host", false), "{status}");
        assert!(other.requests().is_empty(), "{status}");
        let output = call_with(std::slice::from_ref(&key), &config("/near")).await.unwrap();
        assert_eq!(output["body"], "there");
        // Where it may go to both, the redirect is followed, without it.
        let both = grant("key", CANARY, &[&host_of(&first), &host_of(&other)]);
        assert_eq!(call_with(&[both], &config("/away")).await.unwrap()["body"], "other");
        assert_eq!(other.request().header("x-key"), None);
    }
}

#[tokio::test]
async fn redirect_to_another_origin_carries_no_header_that_a_secret_went_into() {
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let other = Server::fixed("200 OK", &[], "other").await;
        let target = other.url("/");
        let first = Server::start(move |_| reply(status, &[("location", &target)], "")).await;
        let hosts = [host_of(&first), host_of(&other)];
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let (key, quoted) = (grant("key", CANARY, &hosts), grant("quoted", "a\"b\\ü", &hosts));
        let headers = json!({
            "x-api-key": CANARY, "x-long": format!("v1 {CANARY};q"), "cookie": "a=b",
            "private-token": "a\"b\\ü", "x-canary-7f3a": "1", "x-trace": "1", "user-agent": CANARY,
        });
        let config =
            json!({"url": first.url("/"), "method": "PUT", "body": "b", "headers": headers});
        let secrets = [key.clone(), quoted.clone()];
        call_with(&secrets, &config).await.unwrap();
        let seen = other.request();
        let text = format!("{seen:?}");
        assert!(!text.contains("canary") && !text.contains("ü"), "{status}: {text}");
        assert_eq!(seen.header("x-trace"), Some("1"), "{status}");
        assert_eq!(seen.header("idempotency-key"), Some("exe_test/profile/1"));
        assert_eq!(first.request().header("x-api-key"), Some(CANARY));
    }
}

#[tokio::test]
async fn redirect_to_another_origin_with_a_secret_in_the_body_is_refused() {
    for (part, value) in [("body", json!({"k": "a\"b\\"})), ("text", json!("k=a\"b\\"))] {
        for (status, refused) in
            [("307 Temporary", true), ("308 Permanent", true), ("303 See Other", false)]
        {
            let other = Server::fixed("200 OK", &[], "other").await;
            let target = other.url("/");
            let first = Server::start(move |request| match request.target.as_str() {
                "/near" => reply(status, &[("location", "/there")], ""),
                "/there" => reply("200 OK", &[], "there"),
                _ => reply(status, &[("location", &target)], ""),
            })
            .await;
            let key = grant("key", "a\"b\\", &[&host_of(&first), &host_of(&other)]);
            let config =
                |path: &str| json!({"url": first.url(path), "method": "POST", part: value});
            let called = call_with(std::slice::from_ref(&key), &config("/")).await;
            if refused {
                let failure = called.unwrap_err();
                assert_eq!((&*failure.kind, failure.retryable), ("secret_host", false), "{status}");
                assert!(failure.message.contains("a body that holds secret `key`"), "{failure:?}");
                assert!(other.requests().is_empty(), "{status}");
            } else {
                assert_eq!(called.unwrap()["body"], "other");
                assert_eq!(other.request().body, "");
            }
            // On the same origin the body goes along, as the status says.
            assert_eq!(call_with(&[key], &config("/near")).await.unwrap()["body"], "there");
        }
    }
}

#[tokio::test]
async fn a_secret_that_does_not_fit_a_header_is_named() {
    let server = Server::fixed("200 OK", &[], "").await;
    for value in ["can\r\nx-evil: 1", "can\nary", "can\0ary"] {
        let key = grant("key", value, &[&host_of(&server)]);
        let config = json!({"url": server.url("/"), "headers": {"x-key": format!("a {value}")}});
        let failure = call_with(&[key], &config).await.unwrap_err();
        assert_eq!((&*failure.kind, failure.retryable), ("secret", false));
        assert!(failure.message.contains("secret `key` contains a line break"), "{failure:?}");
        assert!(!failure.message.contains("can\0") && !failure.message.contains("x-evil"));
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn messages_omit_query_fragment_and_credentials_of_a_url() {
    let server = Server::fixed("500 Oops", &[], "").await;
    let url = format!("{}?key={CANARY}#{CANARY}", server.url("/"));
    let failure = call_err(json!({"url": url})).await;
    assert!(!failure.message.contains(CANARY), "{}", failure.message);
    let target = format!("http://ada:{CANARY}@127.0.0.1/");
    let again = Server::start(move |_| reply("302 Found", &[("location", &target)], "")).await;
    let failure = call_err(json!({"url": again.url("/")})).await;
    assert!(!failure.message.contains(CANARY), "{}", failure.message);
}

#[tokio::test]
async fn commands_need_a_grant_of_their_own() {
    let config = json!({"command": "printf %s \"$TOKEN\"", "env": {"TOKEN": CANARY}});
    let with = |shell: bool| {
        let key = Grant { shell, ..grant("key", CANARY, &["*.example.com"]) };
        Task { secrets: vec![key], ..task("shell", &config) }
    };
    let output = run_with(&settings(), with(true)).await.unwrap().to_value().unwrap();
    assert_eq!(output["stdout"], CANARY);
    let failure = run_with(&settings(), with(false)).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("secret", false));
    assert_eq!(failure.message, "secret `key` is not granted to commands");
}

#[tokio::test]
async fn a_secret_is_no_part_of_a_host() {
    for (url, value, kind) in [
        ("http://3141592653/", "3141592653", "secret"),
        ("https://geheim-schlüssel.example.org/", "geheim-schlüssel", "secret"),
        ("http://example.org:8443/", "8443", "secret"),
        ("http://user.example.org/", "user", "secret"),
        ("no url at all", "no url", "invalid_config"),
    ] {
        let key = grant("key", value, &["*.example.org", "187.64.230.77"]);
        let failure = call_with(&[key], &json!({ "url": url })).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{url}: {}", failure.message);
        for shown in [value, "187.64", "xn--"] {
            assert!(!failure.message.contains(shown), "{url}: {}", failure.message);
        }
    }
}

#[tokio::test]
async fn a_path_with_a_secret_in_it_is_not_shown() {
    let server = Server::fixed("404 Not Found", &[], "").await;
    let key = grant("key", "dom\\canary\nuser", &[&host_of(&server)]);
    let config = json!({ "url": server.url("/x/dom\\canary\nuser/y") });
    let failure = call_with(&[key], &config).await.unwrap_err();
    assert_eq!(failure.message, format!("GET {} answered 404 Not Found", server.url("/")));
}
