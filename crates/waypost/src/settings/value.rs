//! The types of settings: how each is read from text and shown.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use ipnet::IpNet;
use waypost_core::time::Millis;

/// A type of settings. An empty text is an absent value where the type has one.
pub(super) trait SettingValue: Sized {
    fn parse(text: &str) -> Result<Self>;

    fn show(&self) -> String;

    /// What bounds are compared with.
    fn size(&self) -> u64 {
        0
    }

    /// A given text as it may be shown.
    fn mask(text: &str) -> String {
        text.to_owned()
    }
}

/// `type: how it is read, how it is shown, its size;`
macro_rules! values {
    ($($Type:ty: |$text:ident| $parsed:expr, |$value:ident| $shown:expr, $size:expr;)*) => {
        $(impl SettingValue for $Type {
            fn parse($text: &str) -> Result<Self> {
                Ok($parsed)
            }

            fn show(&self) -> String {
                let $value = self;
                $shown
            }

            fn size(&self) -> u64 {
                let $value = self;
                $size
            }
        })*
    };
}

values! {
    bool: |text| text.parse()?, |value| value.to_string(), u64::from(*value);
    u32: |text| text.parse()?, |value| value.to_string(), u64::from(*value);
    u64: |text| text.parse()?, |value| value.to_string(), *value;
    usize: |text| text.parse()?, |value| value.to_string(), *value as u64;
    Millis: |text| Self::parse(text)?, |value| value.to_string(), value.0;
    Duration: |text| Millis::parse(text)?.to_std(), |value| millis(value).to_string(), millis(value).0;
    String: |text| text.to_owned(), |value| value.clone(), value.len() as u64;
    PathBuf: |text| text.into(), |value| value.display().to_string(), value.as_os_str().len() as u64;
    Vec<String>: |text| items(text), |value| value.join(","), value.len() as u64;
    Vec<IpNet>: |text| networks(text)?, |value| networks_text(value), value.len() as u64;
    SocketAddr: |text| address(text)?, |value| value.to_string(), u64::from(value.port());
}

fn millis(span: &Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// Items are separated by commas.
fn items(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_owned).collect()
}

/// Addresses and networks: `10.0.0.0/8`, `::1`.
fn networks(text: &str) -> Result<Vec<IpNet>> {
    const WRONG: &str = "not an address or a network like 10.0.0.0/8";
    let network = |item: String| {
        let address = item.parse::<IpAddr>().map(IpNet::from);
        address.or_else(|_| item.parse()).context(WRONG)
    };
    items(text).into_iter().map(network).collect()
}

fn networks_text(networks: &[IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// `127.0.0.1:7070`, `localhost:7070`, `[::1]:7070` or `:7070`.
fn address(text: &str) -> Result<SocketAddr> {
    const WRONG: &str = "not an address like 127.0.0.1:7070";
    let whole = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
    whole.to_socket_addrs().context(WRONG)?.next().context(WRONG)
}

impl<T: SettingValue> SettingValue for Option<T> {
    fn parse(text: &str) -> Result<Self> {
        (!text.is_empty()).then(|| T::parse(text)).transpose()
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }
}

/// A URL that may contain a password, which is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretUrl(pub String);

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl SettingValue for SecretUrl {
    fn parse(text: &str) -> Result<Self> {
        Ok(Self(text.to_owned()))
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn mask(text: &str) -> String {
        without_password(text)
    }
}

/// Works on the text alone: a URL that cannot be parsed may contain a password, too.
fn without_password(url: &str) -> String {
    if url.is_empty() {
        return String::new();
    }
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    // Up to the last `@`: a password may contain another, by mistake.
    let place = match rest.rsplit_once('@') {
        None => rest.to_owned(),
        Some((who, host)) => match who.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => rest.to_owned(),
        },
    };
    let masked = |option: &str| match option.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}=***"),
        _ => option.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(masked).collect::<Vec<_>>().join("&"));
    format!("{scheme}://{place}{}", query.map(|query| format!("?{query}")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for (url, shown) in [
            ("postgres://u:canary@h:5432/d?sslmode=x", "postgres://u:***@h:5432/d?sslmode=x"),
            ("redis://:canary@h", "redis://:***@h"),
            ("redis://u:ca@na/ry@h:1/0", "redis://u:***@h:1/0"),
            ("redis+cluster://u:canary@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
            ("redis://u@h", "redis://u@h"),
            ("postgres://h/d?user=u&password=canary", "postgres://h/d?user=u&password=***"),
            ("::: canary", "***"),
            ("", ""),
        ] {
            let url = SecretUrl(url.to_owned());
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
        }
    }
}
