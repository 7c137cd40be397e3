//! Settings: flag > `WAYPOST_*` > file > default, each value with where it came from.

mod cluster;
mod engine;
mod server;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_nodes::egress::{Allowance, Egress};

use crate::secrets::GrantedSecrets;

pub(crate) use cluster::without_password;
pub use cluster::{Cluster, Database, Redis};
pub use server::ServerFlags;

/// Settings that may be given on any command line.
#[derive(Args, Clone, Debug, Default)]
pub struct Flags {
    /// Folder where executions live
    #[arg(long, global = true, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Database of a cluster, postgres://user:password@host/name: executions live there, not in a folder
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// Redis of a cluster, redis://host, which makes it faster
    #[arg(long, global = true, value_name = "URL")]
    pub redis_url: Option<String>,
    /// Schema of the database that holds the tables
    #[arg(long, global = true, value_name = "NAME", hide = true)]
    pub database_schema: Option<String>,
    /// Connections to the database for requests of people
    #[arg(long, global = true, value_name = "N", hide = true)]
    pub database_connections: Option<u32>,
    /// What all keys in Redis begin with
    #[arg(long, global = true, value_name = "TEXT", hide = true)]
    pub redis_prefix: Option<String>,
    /// Certificate of the authority that signed that of Redis, PEM
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    pub redis_authority: Option<PathBuf>,
    /// The server to talk to, for example http://127.0.0.1:7070; found by the data folder where
    /// none is named. Its key is taken from WAYPOST_KEY
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Settings file
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Attempts that run at once
    #[arg(long, global = true, value_name = "N")]
    pub slots: Option<u32>,
    /// Let api-call reach this host, host:port, *.suffix or network, besides the public internet
    /// (may be repeated)
    #[arg(long, global = true, value_name = "TARGET")]
    pub allow_egress: Vec<String>,
    /// May definitions run commands on this machine? (servers: only where this says so)
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub enable_shell: Option<bool>,
    /// Executions held in memory at once
    #[arg(long, global = true, value_name = "N", hide = true)]
    pub active_max: Option<usize>,
    /// An execution whose next due time is further away than this leaves memory
    #[arg(long, global = true, value_name = "DURATION", hide = true)]
    pub park_after: Option<String>,
    /// One of the engine's intervals and limits, as the reference lists them (may be repeated)
    #[arg(long, global = true, value_name = "NAME=VALUE", hide = true)]
    pub set: Vec<String>,
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The command line.
    Flag,
    /// An environment variable.
    Environment,
    /// The settings file.
    File,
    /// Not configured.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

/// One setting as `waypost config` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Its name in the file and, with dashes, on the command line.
    pub name: Cow<'static, str>,
    /// Its value; of a secret, where it comes from and what it may be used for.
    pub value: String,
    /// Where the value came from.
    pub source: Source,
    /// Its environment variable; empty where it has none.
    pub variable: String,
}

/// Every setting, decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder where executions live, unless they live in a database.
    pub data: PathBuf,
    /// What instances of a cluster share.
    pub cluster: Cluster,
    /// The engine's config.
    pub engine: Config,
    /// The handlers' settings.
    pub nodes: waypost_nodes::Settings,
    /// The server's config.
    pub server: waypost_server::config::Config,
    /// The server that commands talk to, where one is named.
    pub remote: Remote,
    /// The secrets of tasks. In the file alone: a grant is not something to pass along by hand.
    pub secrets: Arc<GrantedSecrets>,
    /// The same, for `waypost config`.
    pub shown: Vec<Shown>,
}

/// The server that commands talk to.
#[derive(Clone, Default)]
pub struct Remote {
    /// Its URL; found by the data folder where none is named.
    pub url: Option<String>,
    /// The key to show it.
    pub key: Option<String>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "***");
        f.debug_struct("Remote").field("url", &self.url).field("key", &key).finish()
    }
}

/// Names that the settings file may use.
const NAMES: &[&str] =
    &["data", "slots", "allow_egress", "enable_shell", "active_max", "park_after", "server"];

impl Settings {
    /// Reads all sources.
    pub fn load(flags: &Flags, server: &ServerFlags) -> Result<Self> {
        Self::decide(flags, server, &|name| std::env::var(name).ok())
    }

    /// Where a setting's value came from.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.shown.iter().find(|shown| shown.name == name).map(|shown| &shown.source)
    }

    fn decide(
        flags: &Flags,
        server: &ServerFlags,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let (file, named) =
            match flags.config.clone().or_else(|| environment("WAYPOST_CONFIG").map(PathBuf::from))
            {
                Some(path) => (path, true),
                None => (
                    user_folder(environment, "XDG_CONFIG_HOME", ".config").join("config.toml"),
                    false,
                ),
            };
        let (file, secrets) = read_file(&file, named)?;
        let mut sources = Sources { environment, file, shown: Vec::new() };
        let defaults = Config::default();

        let data_default = user_folder(environment, "XDG_DATA_HOME", ".local/share");
        let data = flags.data.as_ref().map(|path| path.display().to_string());
        let data = sources.pick("data", data, &data_default.display().to_string());
        let slots = sources.pick("slots", text(flags.slots), &defaults.slots.to_string());
        let egress = (!flags.allow_egress.is_empty()).then(|| flags.allow_egress.join(","));
        let egress = sources.pick("allow_egress", egress, "");
        let shell = sources.pick("enable_shell", text(flags.enable_shell), "true");
        let active =
            sources.pick("active_max", text(flags.active_max), &defaults.active_max.to_string());
        let park =
            sources.pick("park_after", flags.park_after.clone(), &defaults.park_after.to_string());

        let allowances = egress.split(',').map(str::trim).filter(|part| !part.is_empty());
        let allowances = allowances
            .map(|part| part.parse::<Allowance>().with_context(|| format!("allow_egress {part:?}")))
            .collect::<Result<Vec<_>>>()?;
        let mut engine = Config {
            slots: parse("slots", &slots)?,
            active_max: parse("active_max", &active)?,
            park_after: Millis::parse(&park)
                .with_context(|| format!("setting park_after: {park:?}"))?,
            ..defaults
        };
        if engine.slots == 0 || engine.active_max == 0 {
            bail!("slots and active_max must be at least 1");
        }
        engine::decide(&mut engine, &flags.set, &mut sources)?;
        let nodes = waypost_nodes::Settings {
            egress: Egress::new(allowances),
            shell_enabled: parse("enable_shell", &shell)?,
            ..waypost_nodes::Settings::default()
        };
        let url = sources.pick("server", flags.server.clone(), "");
        let remote = Remote {
            url: (!url.is_empty()).then_some(url),
            // Not a setting that is shown, and not one for a file that others read.
            key: environment("WAYPOST_KEY").filter(|key| !key.is_empty()),
        };
        let server = server::decide(server, &mut sources)?;
        let cluster = cluster::decide(flags, engine.lease, &mut sources)?;
        let mut shown = sources.shown;
        shown.extend(secrets.described().map(|(name, value)| Shown {
            name: format!("secrets.{name}").into(),
            value,
            source: Source::File,
            variable: String::new(),
        }));
        let (data, secrets) = (PathBuf::from(data), Arc::new(secrets));
        Ok(Self { data, cluster, engine, nodes, server, remote, secrets, shown })
    }
}

struct Sources<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    file: BTreeMap<String, String>,
    shown: Vec<Shown>,
}

impl Sources<'_> {
    /// The first source that names the setting.
    fn pick(&mut self, name: &'static str, flag: Option<String>, default: &str) -> String {
        let variable = format!("WAYPOST_{}", name.to_uppercase());
        let (value, source) = if let Some(value) = flag {
            (value, Source::Flag)
        } else if let Some(value) = (self.environment)(&variable) {
            (value, Source::Environment)
        } else if let Some(value) = self.file.get(name) {
            (value.clone(), Source::File)
        } else {
            (default.to_owned(), Source::Default)
        };
        self.shown.push(Shown { name: name.into(), value: value.clone(), source, variable });
        value
    }

    /// The same for a URL, which may hold a password: that is not shown.
    fn pick_url(&mut self, name: &'static str, flag: Option<String>) -> String {
        let url = self.pick(name, flag, "");
        if let Some(shown) = self.shown.last_mut().filter(|_| !url.is_empty()) {
            shown.value = without_password(&url);
        }
        url
    }
}

fn text(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn parse<T: std::str::FromStr>(name: &str, value: &str) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    value.parse().with_context(|| format!("setting {name}: {value:?}"))
}

fn user_folder(
    environment: &dyn Fn(&str) -> Option<String>,
    variable: &str,
    below_home: &str,
) -> PathBuf {
    let base = environment(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || PathBuf::from(environment("HOME").unwrap_or_else(|| ".".to_owned()));
    base.unwrap_or_else(|| home().join(below_home)).join("waypost")
}

/// Reads the settings file. One that was named must exist; the default one may not.
fn read_file(path: &Path, named: bool) -> Result<(BTreeMap<String, String>, GrantedSecrets)> {
    let source = match std::fs::read_to_string(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
            return Ok(Default::default());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut table: toml::Table =
        source.parse().with_context(|| format!("{} is not valid TOML", path.display()))?;
    let secrets = table.remove("secrets").map(GrantedSecrets::read).transpose();
    let secrets = secrets.with_context(|| path.display().to_string())?.unwrap_or_default();
    let mut values = BTreeMap::new();
    for (name, value) in table {
        let names = [NAMES, engine::NAMES, server::NAMES, cluster::NAMES].concat();
        if !names.contains(&name.as_str()) {
            let known = names.join(", ") + ", secrets";
            bail!("{}: unknown setting {name:?}; known are: {known}", path.display());
        }
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Array(items) => {
                let items = items.iter().map(|item| item.as_str().unwrap_or_default());
                items.collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        values.insert(name, value);
    }
    Ok((values, secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &Flags, environment: &[(&str, &str)]) -> Result<Settings> {
        let environment: BTreeMap<String, String> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::decide(flags, &ServerFlags::default(), &|name| environment.get(name).cloned())
    }

    fn source_of(settings: &Settings, name: &str) -> Source {
        settings.shown.iter().find(|shown| shown.name == name).unwrap().source.clone()
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("w.toml");
        std::fs::write(&file, "slots = 7\nactive_max = 9\nallow_egress = [\"a.test\", \"b.test\"]")
            .unwrap();
        let flags = Flags { config: Some(file), data: Some("/d".into()), ..Flags::default() };
        let environment = [("WAYPOST_SLOTS", "5"), ("WAYPOST_DATA", "/e"), ("HOME", "/h")];
        let settings = settings(&flags, &environment).unwrap();
        assert_eq!(settings.data, PathBuf::from("/d"));
        assert_eq!((settings.engine.slots, settings.engine.active_max), (5, 9));
        assert_eq!(source_of(&settings, "data"), Source::Flag);
        assert_eq!(source_of(&settings, "slots"), Source::Environment);
        assert_eq!(source_of(&settings, "active_max"), Source::File);
        assert_eq!(source_of(&settings, "park_after"), Source::Default);
    }

    #[test]
    fn the_default_folder_is_the_users() {
        let found = settings(&Flags::default(), &[("HOME", "/h")]).unwrap();
        assert_eq!(found.data, PathBuf::from("/h/.local/share/waypost"));
        let found = settings(&Flags::default(), &[("XDG_DATA_HOME", "/x")]).unwrap();
        assert_eq!(found.data, PathBuf::from("/x/waypost"));
    }

    #[test]
    fn secrets_are_in_the_file_and_shown_without_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("w.toml");
        let table = "[secrets.key]\nfrom = \"env:KEY\"\nworkflows = [\"a\"]\nshell = true";
        std::fs::write(&file, format!("slots = 7\n{table}")).unwrap();
        let flags = Flags { config: Some(file.clone()), ..Flags::default() };
        let settings = settings(&flags, &[("HOME", "/h"), ("KEY", "canary")]).unwrap();
        assert_eq!(source_of(&settings, "secrets.key"), Source::File);
        assert!(!format!("{settings:?}").contains("canary"));
        assert_eq!(settings.engine.slots, 7);
        std::fs::write(&file, "[secrets.key]\nfrom = \"canary\"").unwrap();
        let error = super::tests::settings(&flags, &[("HOME", "/h")]).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("w.toml") && error.contains("secret \"key\""), "{error}");
    }

    #[test]
    fn wrong_values_are_named() {
        for (variable, value, part) in [
            ("WAYPOST_SLOTS", "many", "slots"),
            ("WAYPOST_SLOTS", "0", "at least 1"),
            ("WAYPOST_PARK_AFTER", "soon", "park_after"),
            ("WAYPOST_ENABLE_SHELL", "perhaps", "enable_shell"),
            ("WAYPOST_ALLOW_EGRESS", "http://x", "allow_egress"),
            ("WAYPOST_CONFIG", "/nowhere/at/all.toml", "cannot read"),
        ] {
            let error = settings(&Flags::default(), &[(variable, value)]).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{variable}: {error:#}");
        }
    }
}
