//! Settings of the cluster: the database that instances share, and the Redis that makes them faster.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use reqwest::Url;
use waypost_core::time::Millis;

use super::{Flags, Sources, parse, text};

/// The database that instances share.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    /// `postgres://user:password@host:port/name?sslmode=verify-full`
    pub url: String,
    /// The schema that holds the tables.
    pub schema: String,
    /// Connections for requests of people; the engine has its own.
    pub connections: u32,
    /// The engine's lease: its renewals must not wait longer for an answer than it lasts.
    pub lease: Millis,
}

/// The Redis that makes them faster.
#[derive(Clone, PartialEq, Eq)]
pub struct Redis {
    /// `redis://user:password@host:port/0`, or `rediss://` for TLS.
    pub url: String,
    /// What all keys begin with.
    pub prefix: String,
    /// The certificate, in PEM, of the authority that signed the server's, where the system does not
    /// know it.
    pub authority: Option<PathBuf>,
}

/// What instances share; nothing where executions live in a folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cluster {
    /// The judge.
    pub database: Option<Database>,
    /// Speed.
    pub redis: Option<Redis>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("url", &without_password(&self.url))
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .finish()
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = without_password(&self.url);
        f.debug_struct("Redis").field("url", &url).field("prefix", &self.prefix).finish()
    }
}

/// Names that the settings file may use.
pub(super) const NAMES: &[&str] = &[
    "database_url",
    "database_schema",
    "database_connections",
    "redis_url",
    "redis_prefix",
    "redis_authority",
];

pub(super) fn decide(flags: &Flags, lease: Millis, sources: &mut Sources<'_>) -> Result<Cluster> {
    let url = sources.pick_url("database_url", flags.database_url.clone());
    let schema = sources.pick("database_schema", flags.database_schema.clone(), "waypost");
    let connections = sources.pick("database_connections", text(flags.database_connections), "16");
    let redis = sources.pick_url("redis_url", flags.redis_url.clone());
    let prefix = sources.pick("redis_prefix", flags.redis_prefix.clone(), "waypost:");
    let authority = flags.redis_authority.as_ref().map(|path| path.display().to_string());
    let authority = sources.pick("redis_authority", authority, "");
    let connections: u32 = parse("database_connections", &connections)?;
    if connections == 0 {
        bail!("database_connections must be at least 1");
    }
    if let Some(wrong) = schema.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '_') {
        bail!("setting database_schema: {wrong:?} is neither a letter, a digit nor _");
    }
    check_database(&url)?;
    check_redis(&redis)?;
    if url.is_empty() && !redis.is_empty() {
        bail!(
            "redis_url is for a cluster, which needs database_url as well: Redis alone is no backend"
        );
    }
    let database = (!url.is_empty()).then_some(Database { url, schema, connections, lease });
    let authority = (!authority.is_empty()).then(|| PathBuf::from(authority));
    let redis = (!redis.is_empty()).then_some(Redis { url: redis, prefix, authority });
    Ok(Cluster { database, redis })
}

fn check_database(url: &str) -> Result<()> {
    if url.is_empty() {
        return Ok(());
    }
    // Never with the URL in the message: there may be a password in it.
    let parsed = Url::parse(url).context("setting database_url: not a URL")?;
    if !["postgres", "postgresql"].contains(&parsed.scheme()) {
        bail!("setting database_url: it begins with postgres:// or postgresql://");
    }
    Ok(())
}

/// A cluster of Redis is several hosts, which makes no URL that others would read.
fn check_redis(url: &str) -> Result<()> {
    if url.is_empty() {
        return Ok(());
    }
    waypost_redis::RedisConfig::new(url).check().context("setting redis_url")
}

/// A URL as it may be shown. By the text alone: what cannot be read may have a password in it, too.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    // Up to the last one: a password may hold another, by mistake.
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
        let database = Database {
            url: "postgres://u:canary@h:5432/d?sslmode=require".to_owned(),
            schema: "waypost".to_owned(),
            connections: 1,
            lease: Millis(15_000),
        };
        let shown = format!("{database:?}");
        assert!(
            !shown.contains("canary") && shown.contains("postgres://u:***@h:5432/d"),
            "{shown}"
        );
        for (url, shown) in [
            ("redis://:canary@h", "redis://:***@h"),
            ("redis://u:ca@na/ry@h:1/0", "redis://u:***@h:1/0"),
            ("redis+cluster://u:canary@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
            ("redis://u@h", "redis://u@h"),
            ("postgres://h/d?user=u&password=canary", "postgres://h/d?user=u&password=***"),
            ("::: canary", "***"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn addresses_of_redis_are_those_that_redis_takes() {
        for url in ["", "redis://h", "rediss://u:p@h:1/2", "redis+cluster://a:6379,b:6379"] {
            check_redis(url).unwrap();
        }
        for url in ["h:6379", "http://u:canary@h", "redis://u:canary@a:1,b:2", "redis://"] {
            let error = format!("{:#}", check_redis(url).unwrap_err());
            assert!(
                error.starts_with("setting redis_url: ") && !error.contains("canary"),
                "{error}"
            );
        }
    }
}
