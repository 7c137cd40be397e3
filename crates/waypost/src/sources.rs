//! The sources that stream triggers may read: the tables `[sources.<name>]` of the settings file.
//!
//! ```toml
//! [sources.shop]
//! kind = "redis"
//! url = "env:SHOP_REDIS"
//! streams = ["orders", "returns-*"]
//! workflows = ["fulfil"]
//! ```
//!
//! Definitions name a source, and never have an address or a password. An operator says which workflows may read
//! which streams or tables of it; what Waypost itself keeps in Redis or PostgreSQL cannot be read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use waypost_core::failure::{Failure, kind};
use waypost_core::limits::SOURCE_NAME_CHARS_MAX;
use waypost_core::trigger::StreamSource;
use waypost_lang::{Severity, SourceFault};
use waypost_ports::secret::NamePattern;
use waypost_ports::source::{StreamFault, StreamPage, StreamReader, StreamRequest};
use waypost_postgres::{PostgresTables, SourceTable};
use waypost_redis::{RedisConfig, RedisStreams};

use crate::secrets::{Origin, patterns};
use crate::settings::SecretUrl;

/// The sources of a settings file.
#[derive(Clone)]
pub struct Sources {
    entries: Arc<BTreeMap<String, SourceEntry>>,
    environment: fn(&str) -> Option<OsString>,
    /// What the keys of Waypost in Redis begin with.
    own_prefix: String,
    /// What has been read from, by the name of the source.
    open: Arc<Mutex<BTreeMap<String, OpenSource>>>,
}

/// One source: where it is, and who may read what of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SourceEntry {
    kind: SourceKind,
    url: SourceUrl,
    /// Of Redis: the certificate, PEM, of the authority that signed the server's.
    authority: Option<PathBuf>,
    /// Streams, or tables with their schemas.
    names: Vec<NamePattern>,
    workflows: Vec<NamePattern>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceKind {
    Redis,
    Postgres,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum SourceUrl {
    /// One without a password.
    Plain(SecretUrl),
    From(Origin),
}

/// A table as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSource {
    kind: SourceKind,
    url: String,
    workflows: Vec<String>,
    #[serde(default)]
    streams: Vec<String>,
    #[serde(default)]
    tables: Vec<String>,
    authority: Option<PathBuf>,
}

/// A source that has been read.
#[derive(Clone)]
enum OpenSource {
    Redis(RedisStreams),
    Postgres(PostgresTables),
}

impl Default for Sources {
    /// None.
    fn default() -> Self {
        Self {
            entries: Arc::default(),
            environment: |name| std::env::var_os(name),
            own_prefix: waypost_redis::PREFIX.to_owned(),
            open: Arc::default(),
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl Sources {
    /// Reads the table `sources` of a settings file.
    pub fn read(table: toml::Value) -> Result<Self> {
        let toml::Value::Table(tables) = table else {
            bail!("`sources` must be a table: write [sources.name]");
        };
        let entry = |(name, table): (String, toml::Value)| {
            let entry =
                SourceEntry::read(&name, table).with_context(|| format!("source {name:?}"))?;
            Ok((name, entry))
        };
        let entries: BTreeMap<_, _> = tables.into_iter().map(entry).collect::<Result<_>>()?;
        Ok(Self { entries: Arc::new(entries), ..Self::default() })
    }

    /// With the prefix of the keys that Waypost has in Redis.
    #[must_use]
    pub fn with_own_prefix(self, own_prefix: String) -> Self {
        Self { own_prefix, ..self }
    }

    /// Names and grants, in words.
    pub fn described(&self) -> impl Iterator<Item = (&str, String)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.to_string()))
    }

    /// What is wrong with a source that a definition names. `fires` says that this process fires triggers:
    /// otherwise others may know more sources.
    pub fn check(&self, workflow: &str, source: &StreamSource, fires: bool) -> Option<SourceFault> {
        let (message, hint) = self.granted(workflow, source).err()?;
        let severity = match fires || self.entries.contains_key(&**source.name()) {
            true => Severity::Error,
            false => Severity::Warning,
        };
        Some(SourceFault { severity, message, hint })
    }

    /// The source that a workflow may read; otherwise why not, and what to do.
    fn granted(
        &self,
        workflow: &str,
        source: &StreamSource,
    ) -> Result<&SourceEntry, (String, String)> {
        let name = &**source.name();
        let Some(entry) = self.entries.get(name) else {
            let message = format!("the settings of this instance have no source {name:?}");
            return Err((message, format!("write [sources.{name}] in the settings file")));
        };
        let (kind, field, wanted) = match source {
            StreamSource::Redis { stream, .. } => {
                (SourceKind::Redis, "streams", stream.to_string())
            }
            StreamSource::Postgres { table, .. } => {
                (SourceKind::Postgres, "tables", table.to_string())
            }
        };
        if entry.kind != kind {
            let message = format!("the source {name:?} of the settings is of kind {}", entry.kind);
            return Err((message, format!("write `{}: {name}`", entry.kind)));
        }
        let may = |patterns: &[NamePattern], name: &str| {
            patterns.iter().any(|pattern| pattern.covers(name))
        };
        if !may(&entry.workflows, workflow) {
            let message = format!(
                "the workflow {workflow:?} may not read the source {name:?} of the settings"
            );
            return Err((message, format!("name it in `workflows` of [sources.{name}]")));
        }
        let is_own = kind == SourceKind::Redis
            && !self.own_prefix.is_empty()
            && wanted.starts_with(&self.own_prefix);
        if is_own {
            let message = format!("the stream {wanted:?} is one of Waypost's own");
            let hint = format!("streams of yours must not begin with {:?}", self.own_prefix);
            return Err((message, hint));
        }
        if !may(&entry.names, &wanted) {
            let message =
                format!("{wanted:?} may not be read from the source {name:?} of the settings");
            return Err((message, format!("name it in `{field}` of [sources.{name}]")));
        }
        Ok(entry)
    }

    fn open(&self, request: &StreamRequest) -> Result<OpenSource, Failure> {
        let entry = self
            .granted(&request.workflow, &request.source)
            .map_err(|(message, hint)| unusable(format!("{message}: {hint}")))?;
        let name = &**request.source.name();
        if let Some(open) = self.open.lock().get(name) {
            return Ok(open.clone());
        }
        let open = entry
            .open(self.environment)
            .map_err(|error| unusable(format!("the source {name:?} cannot be used: {error:#}")))?;
        self.open.lock().insert(name.to_owned(), open.clone());
        Ok(open)
    }

    /// Another read opens it anew: its address or password may have changed.
    fn forget(&self, source: &StreamSource, fault: StreamFault) -> StreamFault {
        if matches!(fault, StreamFault::Failed(_)) {
            self.open.lock().remove(&**source.name());
        }
        fault
    }
}

fn unusable(message: String) -> Failure {
    Failure::transient(kind::CONNECTION, message)
}

impl StreamReader for Sources {
    fn read(&self, request: StreamRequest) -> BoxFuture<'static, Result<StreamPage, StreamFault>> {
        let (sources, start) = (self.clone(), request.beginning());
        let read = async move {
            let open = sources.open(&request)?;
            let StreamRequest { source, cursor, .. } = request;
            let page = match (&open, &source) {
                (OpenSource::Redis(redis), StreamSource::Redis { stream, .. }) => {
                    redis.read(stream, cursor, &start).await
                }
                (
                    OpenSource::Postgres(postgres),
                    StreamSource::Postgres { table, key, safety, .. },
                ) => {
                    let table = SourceTable { table, key, safety };
                    postgres.read(table, cursor, &start).await
                }
                _ => Err(unusable("the source is of another kind".to_owned()).into()),
            };
            page.map_err(|fault| sources.forget(&source, fault))
        };
        read.boxed()
    }

    fn mark(&self, request: StreamRequest) -> BoxFuture<'static, Result<(), StreamFault>> {
        let sources = self.clone();
        let mark = async move {
            let open = sources.open(&request)?;
            let StreamRequest { source, cursor, .. } = request;
            let marked = match (&open, &source) {
                (
                    OpenSource::Postgres(postgres),
                    StreamSource::Postgres { table, key, safety, .. },
                ) => postgres.mark(SourceTable { table, key, safety }, &cursor).await,
                // Streams have no marks.
                _ => Ok(()),
            };
            marked.map_err(|fault| sources.forget(&source, fault))
        };
        mark.boxed()
    }
}

impl SourceEntry {
    fn read(name: &str, table: toml::Value) -> Result<Self> {
        if !StreamSource::is_name(name) {
            bail!(
                "its name must be up to {SOURCE_NAME_CHARS_MAX} letters, digits, `_` and `-`, and begin with \
                 a letter or `_`"
            );
        }
        // An error about a wrong type could quote a password that was written here by mistake.
        let toml::Value::Table(table) = table else {
            bail!("give a table with `kind`, `url`, `workflows`, and `streams` or `tables`");
        };
        let written: WrittenSource = table.try_into()?;
        let (field, names, other) = match written.kind {
            SourceKind::Redis => ("streams", &written.streams, &written.tables),
            SourceKind::Postgres => ("tables", &written.tables, &written.streams),
        };
        if names.is_empty() || !other.is_empty() {
            bail!("a source of kind {} has `{field}`: what may be read of it", written.kind);
        }
        if written.workflows.is_empty() {
            bail!("`workflows` must name who may read it");
        }
        if written.kind == SourceKind::Postgres && written.authority.is_some() {
            bail!("`authority` is for Redis; a URL of PostgreSQL has `sslrootcert`");
        }
        // Tables are named with their schemas where they are compared.
        let with_schema = |name: &String| match written.kind {
            SourceKind::Postgres if !name.contains(['.', '*']) => format!("public.{name}"),
            SourceKind::Postgres | SourceKind::Redis => name.clone(),
        };
        let names: Vec<String> = names.iter().map(with_schema).collect();
        Ok(Self {
            kind: written.kind,
            url: SourceUrl::parse(&written.url)?,
            authority: written.authority,
            names: patterns(&names, "a name")?,
            workflows: patterns(&written.workflows, "a workflow's name")?,
        })
    }

    fn open(&self, environment: fn(&str) -> Option<OsString>) -> Result<OpenSource> {
        let url = match &self.url {
            SourceUrl::Plain(SecretUrl(url)) => url.clone(),
            SourceUrl::From(origin) => origin.read(environment).map_err(anyhow::Error::msg)?,
        };
        Ok(match self.kind {
            SourceKind::Redis => {
                let read = |path: &PathBuf| {
                    let text = std::fs::read(path);
                    text.with_context(|| format!("`authority` {} cannot be read", path.display()))
                };
                let authority = self.authority.as_ref().map(read).transpose()?;
                let config = RedisConfig { authority, ..RedisConfig::new(url) };
                OpenSource::Redis(RedisStreams::new(&config)?)
            }
            SourceKind::Postgres => OpenSource::Postgres(PostgresTables::new(&url)?),
        })
    }
}

impl SourceUrl {
    fn parse(text: &str) -> Result<Self> {
        if text.starts_with("env:") || text.starts_with("file:") {
            return Origin::parse(text).map(Self::From);
        }
        let url = SecretUrl(text.to_owned());
        // The text is not repeated: it may have a password in it.
        if url.to_string() != text {
            bail!(
                "`url` must not have a password: write \"env:VARIABLE\" or \"file:/path\", which say where the \
                 URL is"
            );
        }
        Ok(Self::Plain(url))
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        })
    }
}

impl fmt::Display for SourceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |patterns: &[NamePattern]| {
            patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let Self { kind, names, workflows, .. } = self;
        match &self.url {
            SourceUrl::Plain(url) => write!(f, "{kind} {url}")?,
            SourceUrl::From(origin) => write!(f, "{kind} {origin}")?,
        }
        write!(f, ": {} for {}", list(names), list(workflows))
    }
}

#[cfg(test)]
mod tests;
