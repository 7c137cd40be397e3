//! Which server commands talk to, and where its address came from: an error about an unreachable
//! server says why it was tried.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use reqwest::Url;

use crate::cli::Usage;
use crate::settings::{Settings, Source};

/// A server's address.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    url: Url,
    origin: Origin,
}

/// Where a server's address came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// `WAYPOST_SERVER`.
    Variable,
    /// The settings file.
    File,
    /// The lock of a data folder: the server runs its engine.
    Folder(PathBuf),
}

impl Address {
    /// The server that the settings name.
    pub(crate) fn named(settings: &Settings) -> Result<Option<Self>> {
        let Some(text) = &settings.remote.url else { return Ok(None) };
        let origin = match settings.source("server") {
            Some(Source::Environment) => Origin::Variable,
            Some(Source::File) => Origin::File,
            _ => Origin::Flag,
        };
        Self::parse(text, origin).map(Some)
    }

    /// The server that runs the engine of a folder.
    pub(crate) fn found_by(folder: &Path) -> Result<Option<Self>> {
        let process = waypost_sqlite::engine_of(folder);
        match process.and_then(|process| process.address) {
            Some(text) => Self::parse(&text, Origin::Folder(folder.to_owned())).map(Some),
            None => Ok(None),
        }
    }

    fn parse(text: &str, origin: Origin) -> Result<Self> {
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        match Url::parse(&whole) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                Ok(Self { url, origin })
            }
            _ => {
                let wrong = format!("{text:?} is not a URL like http://127.0.0.1:7070 ({origin})");
                Err(Usage(wrong).into())
            }
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Where it came from.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The current address: a server that was found by its folder may have restarted on another
    /// port.
    pub(super) fn again(&self) -> Self {
        let found = match &self.origin {
            Origin::Folder(folder) => Self::found_by(folder).ok().flatten(),
            Origin::Flag | Origin::Variable | Origin::File => None,
        };
        found.unwrap_or_else(|| self.clone())
    }

    /// Is it on this machine?
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("named by --server"),
            Self::Variable => f.write_str("named by WAYPOST_SERVER"),
            Self::File => f.write_str("named by the settings file"),
            Self::Folder(folder) => write!(f, "found by the data folder {}", folder.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_or_hosts() {
        for (text, shown, loopback) in [
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070", true),
            ("localhost:7070", "http://localhost:7070", true),
            ("http://[::1]:7070/", "http://[::1]:7070", true),
            ("https://flows.example.com/waypost/", "https://flows.example.com/waypost", false),
        ] {
            let address = Address::parse(text, Origin::Flag).unwrap();
            assert_eq!((address.to_string().as_str(), address.is_loopback()), (shown, loopback));
        }
        for wrong in ["", "ftp://x", "http://", "a b"] {
            let error = Address::parse(wrong, Origin::Variable).unwrap_err();
            assert!(error.to_string().contains("WAYPOST_SERVER"), "{error}");
        }
    }
}
