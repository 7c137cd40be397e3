//! Settings of `waypost serve`, and of those who talk to a server.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use reqwest::Url;
use waypost_core::time::Millis;
use waypost_server::config::{Config, Tls};

use super::{Sources, parse, text};

/// Settings that only a server has.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerFlags {
    /// Where to listen; anything but loopback needs API keys
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Where others reach this server, for example http://10.0.0.7:7070; where it listens if absent
    #[arg(long, value_name = "URL")]
    pub advertise_url: Option<String>,
    /// Further host names that requests to loopback may name (may be repeated)
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Ask for a key on loopback, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub require_keys: Option<bool>,
    /// Certificate chain, PEM; with --tls-key the server speaks TLS
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Requests a second that one key may make
    #[arg(long, value_name = "N")]
    pub rate_limit: Option<u32>,
    /// Bytes of replies and streams that may be on their way to clients at once
    #[arg(long, value_name = "BYTES")]
    pub reply_bytes_max: Option<usize>,
    /// How long attempts that run may take to end after SIGTERM
    #[arg(long, value_name = "DURATION")]
    pub drain_timeout: Option<String>,
}

/// What `reply_bytes_max` may be: a few of the largest payloads at least, and what one lock can count.
const REPLY_BYTES_LEAST: usize = 4 << 20;
const REPLY_BYTES_MOST: usize = 2 << 30;

/// Names that the settings file may use.
pub(super) const NAMES: &[&str] = &[
    "listen",
    "advertise_url",
    "hosts",
    "require_keys",
    "tls_certificate",
    "tls_key",
    "rate_limit",
    "reply_bytes_max",
    "drain_timeout",
];

pub(super) fn decide(flags: &ServerFlags, sources: &mut Sources<'_>) -> Result<Config> {
    let defaults = Config::default();
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let listen = sources.pick("listen", flags.listen.clone(), &defaults.address.to_string());
    let advertised = sources.pick("advertise_url", flags.advertise_url.clone(), "");
    let hosts = (!flags.hosts.is_empty()).then(|| flags.hosts.join(","));
    let hosts = sources.pick("hosts", hosts, "");
    let keys = sources.pick("require_keys", text(flags.require_keys), "false");
    let certificate = sources.pick("tls_certificate", path(&flags.tls_certificate), "");
    let key = sources.pick("tls_key", path(&flags.tls_key), "");
    let rate = defaults.requests_per_second.to_string();
    let rate = sources.pick("rate_limit", text(flags.rate_limit), &rate);
    let reply_bytes = defaults.reply_bytes_max.to_string();
    let reply_bytes = sources.pick("reply_bytes_max", text(flags.reply_bytes_max), &reply_bytes);
    let drain = format!("{}s", defaults.drain_timeout.as_secs());
    let drain = sources.pick("drain_timeout", flags.drain_timeout.clone(), &drain);

    let tls = match (certificate.as_str(), key.as_str()) {
        ("", "") => None,
        ("", _) | (_, "") => bail!("tls_certificate and tls_key go together; one is missing"),
        (certificate, key) => Some(Tls { certificate: certificate.into(), key: key.into() }),
    };
    let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
    let requests_per_second = parse("rate_limit", &rate)?;
    if requests_per_second == 0 {
        bail!("rate_limit must be at least 1");
    }
    let reply_bytes_max = parse("reply_bytes_max", &reply_bytes)?;
    if !(REPLY_BYTES_LEAST..=REPLY_BYTES_MOST).contains(&reply_bytes_max) {
        bail!("reply_bytes_max must be between {REPLY_BYTES_LEAST} and {REPLY_BYTES_MOST}");
    }
    let drain =
        Millis::parse(&drain).with_context(|| format!("setting drain_timeout: {drain:?}"))?;
    Ok(Config {
        address: address(&listen)?,
        advertise_url: advertised_url(&advertised)?,
        hosts: hosts.map(str::to_owned).collect(),
        require_keys: parse("require_keys", &keys)?,
        tls,
        requests_per_second,
        reply_bytes_max,
        drain_timeout: Duration::from_millis(drain.0),
        ..defaults
    })
}

/// `127.0.0.1:7070`, `localhost:7070`, `[::1]:7070` or `:7070`.
fn address(text: &str) -> Result<SocketAddr> {
    let whole = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
    let wrong = || format!("setting listen: {text:?} is not an address like 127.0.0.1:7070");
    let mut found = whole.to_socket_addrs().with_context(wrong)?;
    found.next().with_context(wrong)
}

/// `http://10.0.0.7:7070`: the address of a server, and nothing else.
fn advertised_url(text: &str) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    let whole = || {
        format!(
            "setting advertise_url: {text:?} is not a URL like http://10.0.0.7:7070 or \
             https://a.example.com, without user, path or query"
        )
    };
    let url = Url::parse(text).with_context(whole)?;
    let bare = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && (url.username(), url.password()) == ("", None)
        && (url.path(), url.query(), url.fragment()) == ("/", None, None)
        // What the parser reads over: `http:/host`, line ends, a user that is empty.
        && text.contains("://")
        && !text.contains(|char: char| char == '@' || char == '\\' || char.is_whitespace() || char.is_control());
    match bare {
        true => Ok(Some(url.as_str().trim_end_matches('/').to_owned())),
        false => bail!(whole()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertised_url_is_an_address_and_nothing_else() {
        for (text, expected) in [
            ("http://10.0.0.7:7070", "http://10.0.0.7:7070"),
            ("https://a.example.com/", "https://a.example.com"),
            ("http://[fd00::7]:7070", "http://[fd00::7]:7070"),
        ] {
            assert_eq!(advertised_url(text).unwrap().as_deref(), Some(expected));
        }
        assert_eq!(advertised_url("").unwrap(), None);
        for wrong in [
            "10.0.0.7:7070",
            "a.example.com",
            "/path",
            "ftp://a.example.com",
            "http://",
            "http://ann:secret@a.example.com",
            "http://ann@a.example.com",
            "http://@a.example.com",
            "http://a.example.com/waypost",
            "http://a.example.com?x=1",
            "http://a.example.com/#top",
            "http:a.example.com",
            "http://a.example.com\n",
            "http:\\\\a.example.com",
            "http://a b",
        ] {
            let error = advertised_url(wrong).unwrap_err().to_string();
            assert!(error.contains("advertise_url"), "{wrong:?}: {error}");
        }
    }
}
