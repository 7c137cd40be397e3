//! Requests that a browser was tricked into. Any page on the web can have a browser send requests
//! to a server on its user's own machine, and with a name of its own that resolves to 127.0.0.1 it
//! can even read the responses. So on loopback the `Host` must be a name of this machine, and an
//! `Origin` must be this server; bodies are JSON or YAML, which no page can send without a
//! preflight. An empty body needs no type, so `Sec-Fetch-Site` is checked as well: every browser
//! sends it.

use std::net::{IpAddr, SocketAddr};

use hyper::{HeaderMap, Uri, header};

use crate::problem::{Code, Problem};

/// Where requests may come from.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Does the server listen on loopback alone?
    loopback: bool,
    /// Names besides those of the loopback, as `host` or `host:port`.
    hosts: Vec<String>,
    /// The name that links have, as `host` or `host:port`. Only links: where a proxy publishes them, the
    /// API of a server on loopback may need no keys.
    public: Option<String>,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Anything but a link.
    Api,
    /// A link.
    Link,
    /// A webhook trigger: under the names of links, but never from a page.
    Hook,
}

impl Guard {
    /// The guard of a server at an address, with further names that it is known by.
    pub fn new(address: SocketAddr, hosts: Vec<String>) -> Self {
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { loopback: address.ip().is_loopback(), hosts, public: None }
    }

    /// Takes requests for links also under the name of this URL.
    #[must_use]
    pub fn publishing(mut self, url: Option<&str>) -> Self {
        let authority =
            |url: &str| Some(url.parse::<Uri>().ok()?.authority()?.as_str().to_ascii_lowercase());
        self.public = url.and_then(authority);
        self
    }

    /// Does only this machine reach the server, and does this request have a name of this machine? A proxy that
    /// publishes links is on this machine, too, but others send what it passes on.
    pub fn is_for_this_machine(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        self.loopback && host.is_none_or(|host| self.is_ours(&host.to_ascii_lowercase()))
    }

    /// Rejects requests from foreign hosts and origins.
    pub fn check(
        &self,
        headers: &HeaderMap,
        authority: Option<&str>,
        reach: Reach,
    ) -> Result<(), Problem> {
        let refuse = |detail: &'static str| {
            Problem::new(Code::ForeignOrigin, detail)
                .hint("the setting `hosts` names further hosts that this server is known by")
        };
        let mut named = headers.get_all(header::HOST).iter();
        let host = match (named.next().map(|value| value.to_str()), named.next(), authority) {
            // A host in the request line must equal the `Host` header.
            (Some(Ok(host)), None, named)
                if named.is_none_or(|named| named.eq_ignore_ascii_case(host)) =>
            {
                host
            }
            (None, None, Some(authority)) => authority,
            _ => return Err(Problem::new(Code::BadRequest, "the request must name one host")),
        };
        let host = host.to_ascii_lowercase();
        let published = reach != Reach::Api && self.public.as_deref() == Some(&*host);
        if self.loopback && !published && !self.is_ours(&host) {
            return Err(refuse("the request is for another host"));
        }
        // The token of a link is all its authority, and no page has it that was not given it. People come
        // from other sites, such as their mail; a page that names no referrer posts from origin `null`.
        if reach == Reach::Link {
            return Ok(());
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            // Host and port of the request itself: a page of this server.
            if rest != Some(host.as_str()) {
                return Err(refuse("the request comes from another site"));
            }
        }
        for site in headers.get_all("sec-fetch-site") {
            if !matches!(site.as_bytes(), b"same-origin" | b"none") {
                return Err(refuse("the request comes from another site"));
            }
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        let loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback
            || name == "localhost"
            || self.hosts.iter().any(|ours| ours == host || ours == name)
    }
}

/// The host without its port: `[::1]:7070` is `::1`. `None` where that is not all there is.
fn name_of(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = rest.strip_prefix(':').unwrap_or(rest);
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, host: &str, origin: Option<&str>) -> bool {
        let guard = Guard::new(address.parse().unwrap(), vec!["Flow.example".to_owned()]);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.check(&headers, None, Reach::Api).is_ok()
    }

    #[test]
    fn name_of_public_url_is_for_links_alone() {
        let guard = Guard::new("127.0.0.1:7070".parse().unwrap(), Vec::new())
            .publishing(Some("https://Flow.example/waypost"));
        let check = |host: &str, reach| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            guard.check(&headers, None, reach).is_ok()
        };
        assert!(check("flow.example", Reach::Link));
        assert!(!check("flow.example", Reach::Api));
        assert!(!check("evil.example", Reach::Link));
        assert!(check("localhost:7070", Reach::Api) && check("localhost:7070", Reach::Link));
        assert!(check("flow.example", Reach::Hook) && !check("evil.example", Reach::Hook));
    }

    #[test]
    fn loopback_is_for_this_machine_alone() {
        for host in ["localhost", "localhost:7070", "127.0.0.1:7070", "[::1]:7070", "LOCALHOST:1"] {
            assert!(check("127.0.0.1:7070", host, None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:7070",
            "localhost:7070@evil.example",
            "[::1]evil.example",
            "169.254.169.254",
            "",
            "[::1",
        ] {
            assert!(!check("127.0.0.1:7070", host, None), "{host}");
        }
        assert!(check("127.0.0.1:7070", "flow.example:443", None));
        assert!(check("0.0.0.0:7070", "evil.example", None), "keys protect what is not loopback");
    }

    #[test]
    fn an_origin_must_be_this_server() {
        for (origin, fine) in [
            ("http://127.0.0.1:7070", true),
            ("https://127.0.0.1:7070", true),
            ("http://127.0.0.1:8080", false),
            ("http://evil.example", false),
            ("null", false),
        ] {
            assert_eq!(check("127.0.0.1:7070", "127.0.0.1:7070", Some(origin)), fine, "{origin}");
            assert_eq!(check("0.0.0.0:7070", "127.0.0.1:7070", Some(origin)), fine, "{origin}");
        }
    }
}
