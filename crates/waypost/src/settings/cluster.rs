//! Settings of the cluster: the database that instances share, and the Redis that makes them faster.

use std::fmt;

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
pub(super) const NAMES: &[&str] =
    &["database_url", "database_schema", "database_connections", "redis_url", "redis_prefix"];

pub(super) fn decide(flags: &Flags, lease: Millis, sources: &mut Sources<'_>) -> Result<Cluster> {
    let url = sources.pick_url("database_url", flags.database_url.clone());
    let schema = sources.pick("database_schema", flags.database_schema.clone(), "waypost");
    let connections = sources.pick("database_connections", text(flags.database_connections), "16");
    let redis = sources.pick_url("redis_url", flags.redis_url.clone());
    let prefix = sources.pick("redis_prefix", flags.redis_prefix.clone(), "waypost:");
    let connections: u32 = parse("database_connections", &connections)?;
    if connections == 0 {
        bail!("database_connections must be at least 1");
    }
    if let Some(wrong) = schema.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '_') {
        bail!("setting database_schema: {wrong:?} is neither a letter, a digit nor _");
    }
    checked("database_url", &url, &["postgres", "postgresql"])?;
    checked("redis_url", &redis, &["redis", "rediss", "redis+cluster", "rediss+cluster"])?;
    if url.is_empty() && !redis.is_empty() {
        bail!(
            "redis_url is for a cluster, which needs database_url as well: Redis alone is no home"
        );
    }
    let database = (!url.is_empty()).then_some(Database { url, schema, connections, lease });
    let redis = (!redis.is_empty()).then_some(Redis { url: redis, prefix });
    Ok(Cluster { database, redis })
}

fn checked(name: &str, url: &str, schemes: &[&str]) -> Result<()> {
    if url.is_empty() {
        return Ok(());
    }
    // Never with the URL in the message: there may be a password in it.
    let parsed = Url::parse(url).with_context(|| format!("setting {name}: not a URL"))?;
    if !schemes.contains(&parsed.scheme()) {
        bail!("setting {name}: it begins with {}://", schemes.join(":// or "));
    }
    Ok(())
}

/// A URL as it may be shown.
pub(crate) fn without_password(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) if url.password().is_some() => match url.set_password(Some("***")) {
            Ok(()) => url.to_string(),
            Err(()) => "***".to_owned(),
        },
        Ok(url) => url.to_string(),
        Err(_) => "***".to_owned(),
    }
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
        assert_eq!(without_password("redis://:canary@h"), "redis://:***@h");
        assert_eq!(without_password("::: canary"), "***");
    }
}
