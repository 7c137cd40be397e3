//! Where Redis is and how far it is trusted to answer: read once, checked before anything connects.
//!
//! Addresses hold passwords. Nothing here prints one: not `Debug`, not an error.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};
use waypost_core::time::Millis;
use waypost_ports::clock::{Clock, SystemClock};

/// The default prefix of all keys.
pub const PREFIX: &str = "waypost:";

/// Bytes that a prefix may have: it is part of every key.
const PREFIX_BYTES_MAX: usize = 64;

/// How to reach Redis.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://`, `rediss://`, `redis+cluster://` or `rediss+cluster://`, with
    /// `user:password@host:port/database`. A cluster may be given several hosts, with commas.
    pub url: String,
    pub prefix: String,
    /// The certificate of the authority that signed the server's, in PEM, if the system does not
    /// have it.
    pub authority: Option<Vec<u8>>,
    pub limits: Limits,
    pub clock: Arc<dyn Clock>,
}

/// Every limit and interval of this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How long a command may take. After that the caller continues without Redis, as do later ones
    /// until Redis answers again.
    pub response: Duration,
    pub connect: Duration,
    /// How long to wait before the second attempt to connect; doubles up to `backoff_max`.
    pub backoff_min: Duration,
    /// The longest wait between two attempts to connect.
    pub backoff_max: Duration,
    /// Tasks that may wait in Redis for one handler. Those above wait in the store beneath.
    pub stream_entries_max: u64,
    /// Bytes that one task or one piece of mail may have to go through Redis.
    pub entry_bytes_max: usize,
    /// Bytes that a state may have to be stored in Redis.
    pub context_bytes_max: usize,
    /// Bytes that may wait to be copied.
    pub copies_bytes_max: usize,
    /// After how long a task that was taken and not acknowledged is given to others.
    pub stale_after: Millis,
    /// How often the streams are scanned for such tasks.
    pub scan_every: Millis,
    /// How long after a task was taken it is acknowledged: by then its taker has passed it on.
    pub acknowledge_after: Millis,
    /// How often the store beneath is polled for tasks if nothing suggests that it has any.
    pub look_beneath_every: Millis,
    /// How long it is polled every time after something may have been left there.
    pub look_beneath_for: Millis,
    /// How often a worker's sign of life is forwarded to the store beneath.
    pub tell_beneath_every: Millis,
    /// How long a sender of mail waits for an answer.
    pub answer: Duration,
    /// How long nudges are gathered before they are sent as one.
    pub debounce: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response: Duration::from_millis(300),
            connect: Duration::from_secs(1),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            stream_entries_max: 100_000,
            entry_bytes_max: 2 << 20,
            context_bytes_max: 2 << 20,
            copies_bytes_max: 64 << 20,
            stale_after: Millis::from_secs(30),
            scan_every: Millis::from_secs(15),
            acknowledge_after: Millis::from_secs(1),
            look_beneath_every: Millis::from_secs(1),
            look_beneath_for: Millis::from_secs(120),
            tell_beneath_every: Millis::from_secs(4),
            answer: Duration::from_secs(2),
            debounce: Duration::from_millis(5),
        }
    }
}

/// Why a configuration cannot be used. The address is not repeated, except for its fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadConfig {
    #[error("the address of Redis cannot be used: {0}")]
    Url(String),
    #[error("a prefix of keys has at most 64 of A-Z a-z 0-9 _ . : / -, and {0:?} is not one")]
    Prefix(String),
    #[error("the certificate for Redis cannot be used: {0}")]
    Authority(String),
    #[error("cannot start a thread for Redis: {0}")]
    Thread(String),
}

impl RedisConfig {
    /// The defaults with this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: PREFIX.to_owned(),
            authority: None,
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// Checks the address without connecting.
    pub fn check(&self) -> Result<(), BadConfig> {
        self.servers().map(drop)
    }

    /// Checks the prefix: it must not change how a cluster reads the braces of a key, nor match more
    /// than itself where an operator lists keys or limits a user to them.
    pub(crate) fn check_prefix(&self) -> Result<(), BadConfig> {
        let good = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
        if self.prefix.len() <= PREFIX_BYTES_MAX && self.prefix.chars().all(good) {
            return Ok(());
        }
        Err(BadConfig::Prefix(self.prefix.chars().take(PREFIX_BYTES_MAX).collect()))
    }

    pub(crate) fn servers(&self) -> Result<Servers, BadConfig> {
        Servers::read(&self.url)
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.servers();
        f.debug_struct("RedisConfig")
            .field("servers", &servers.as_ref().map_or("unusable".to_owned(), Servers::to_string))
            .field("prefix", &self.prefix)
            .field("authority", &self.authority.as_ref().map(Vec::len))
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(crate) struct Servers {
    /// At least one.
    pub(crate) all: Vec<ConnectionInfo>,
    /// Are they a Redis Cluster?
    pub(crate) cluster: bool,
}

impl Servers {
    fn read(url: &str) -> Result<Self, BadConfig> {
        let bad = |why: &str| BadConfig::Url(why.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it has no scheme"))?;
        let (scheme, mut cluster) = match scheme {
            "redis" | "valkey" => ("redis", false),
            "rediss" | "valkeys" => ("rediss", false),
            "redis+cluster" | "valkey+cluster" => ("redis", true),
            "rediss+cluster" | "valkeys+cluster" => ("rediss", true),
            _ => return Err(bad("its scheme is not redis, rediss, redis+cluster, rediss+cluster")),
        };
        // A fragment could turn off the verification of certificates, so it is rejected.
        if rest.contains('#') {
            return Err(bad("it has a fragment; a `#` in a password is written %23"));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option {
                "cluster=true" => cluster = true,
                "cluster=false" => cluster = false,
                _ => return Err(bad("its only option is cluster=true or cluster=false")),
            }
        }
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let hosts: Vec<&str> = hosts.split(',').collect();
        match (cluster, path, hosts.len()) {
            (true, "" | "0", _) | (false, _, 1) => {}
            (true, _, _) => return Err(bad("a cluster has no database but 0")),
            (false, _, _) => return Err(bad("only a cluster has several hosts")),
        }
        let info = |host: &&str| {
            let url = format!("{scheme}://{user}{host}/{path}");
            url.into_connection_info().map_err(|error| bad(error.category()))
        };
        let all = hosts.iter().map(info).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { all, cluster })
    }
}

/// Hosts and ports, and nothing that is secret.
impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, server) in self.all.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}", server.addr())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_strictly() {
        for (url, hosts, cluster) in [
            ("redis://localhost", "localhost:6379", false),
            ("rediss://u:p%40q@r.example:7000/3", "r.example:7000", false),
            ("redis+cluster://u:p@a:1,b:2", "a:1,b:2", true),
            ("redis://a:1?cluster=true", "a:1", true),
            ("redis://[::1]:7/0", "::1:7", false),
        ] {
            let servers = Servers::read(url).unwrap();
            assert_eq!((servers.to_string().as_str(), servers.cluster), (hosts, cluster), "{url}");
        }
        for url in [
            "",
            "localhost:6379",
            "http://a",
            "rediss://a/#insecure",
            "redis://a:1,b:2",
            "redis+cluster://a/4",
            "redis://a/x",
            "redis://a:99999",
            "redis://a?timeout=1",
            "redis://",
            "redis+cluster://a,,b",
        ] {
            assert!(Servers::read(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn the_database_and_the_user_reach_the_server() {
        let servers = Servers::read("redis://me:se%2Fcret@a:1/7").unwrap();
        let settings = servers.all[0].redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("me"), Some("se/cret")));
        assert_eq!(settings.db(), 7);
    }

    #[test]
    fn nothing_prints_a_password() {
        for url in ["redis://me:hunter2@a:1", "redis://:hunter2@a:x", "http://me:hunter2@a"] {
            let config = RedisConfig::new(url);
            assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
            let error = config.servers().err().map(|error| format!("{error} {error:?}"));
            assert!(!error.unwrap_or_default().contains("hunter2"));
        }
    }

    #[test]
    fn prefixes_that_would_mislead_are_refused() {
        let check = |prefix: &str| {
            RedisConfig { prefix: prefix.to_owned(), ..RedisConfig::new("redis://a") }
                .check_prefix()
        };
        for prefix in ["", "waypost:", "team-a/prod.1_"] {
            assert_eq!(check(prefix), Ok(()), "{prefix:?}");
        }
        for prefix in ["{a}", "a{", "}", "a b", "*", "a?", "[a]", "\r\nFLUSHALL\r\n", "é", "\0"] {
            assert!(check(prefix).is_err(), "{prefix:?}");
        }
        assert!(check(&"a".repeat(65)).is_err());
    }
}
