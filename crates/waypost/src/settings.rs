//! Settings: flag > `WAYPOST_*` > file > default, each value with where it came from. `table.rs` has one
//! line for each; nothing here names one.

mod draft;
mod flags;
mod table;
mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use waypost_engine::config::Config;

use crate::secrets::GrantedSecrets;
use crate::sources::Sources;

use draft::Draft;

pub use draft::{BlobPlace, Cluster, Database, RedisSettings, S3Settings};
pub use flags::{Flags, ServerFlags};
pub use table::{Flag, Must, SECTIONS, Setting};
pub use value::SecretUrl;

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
pub struct ShownSetting {
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
    /// Where blobs are.
    pub blobs: BlobPlace,
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
    /// What stream triggers may read. In the file alone, too.
    pub sources: Sources,
    /// All of them, for `waypost config`.
    pub shown: Vec<ShownSetting>,
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

impl Settings {
    /// Reads all sources.
    pub fn load(flags: &Flags) -> Result<Self> {
        Self::decide(flags, &|name| std::env::var(name).ok())
    }

    /// Where a setting's value came from.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.shown.iter().find(|shown| shown.name == name).map(|shown| &shown.source)
    }

    fn decide(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let named = flags.config.clone().or_else(|| environment("WAYPOST_CONFIG").map(Into::into));
        let path = named.clone().unwrap_or_else(|| {
            user_folder(environment, "XDG_CONFIG_HOME", ".config").join("config.toml")
        });
        let SettingsFile { values: file, secrets, sources } = read_file(&path, named.is_some())?;
        let mut draft = Draft::new(user_folder(environment, "XDG_DATA_HOME", ".local/share"));
        let mut shown = Vec::new();
        for setting in table::all() {
            let (name, variable) = (setting.name, setting.variable());
            let flag = flags.values.get(name).map(|value| (value.clone(), Source::Flag));
            let given = flag
                .or_else(|| Some((environment(&variable)?, Source::Environment)))
                .or_else(|| Some((file.get(name)?.clone(), Source::File)));
            let (value, source) = match given {
                Some((value, source)) => ((setting.assign)(&mut draft, &value)?, source),
                None => ((setting.show)(&draft), Source::Default),
            };
            shown.push(ShownSetting { name: name.into(), value, source, variable });
        }
        shown.extend(secrets.described().map(|(name, value)| ShownSetting {
            name: format!("secrets.{name}").into(),
            value,
            source: Source::File,
            variable: String::new(),
        }));
        shown.extend(sources.described().map(|(name, value)| ShownSetting {
            name: format!("sources.{name}").into(),
            value,
            source: Source::File,
            variable: String::new(),
        }));
        let sources = sources.with_own_prefix(draft.redis.prefix.clone());
        // Not a setting that is shown, and not one for a file that others read.
        draft.remote.key = environment("WAYPOST_KEY").filter(|key| !key.is_empty());
        Ok(Self { secrets: Arc::new(secrets), sources, shown, ..draft.finish()? })
    }
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

/// The content of a settings file.
#[derive(Default)]
struct SettingsFile {
    values: BTreeMap<String, String>,
    secrets: GrantedSecrets,
    sources: Sources,
}

/// Reads the settings file. One that was named must exist; the default one may not.
fn read_file(path: &Path, named: bool) -> Result<SettingsFile> {
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
    let sources = table.remove("sources").map(Sources::read).transpose();
    let sources = sources.with_context(|| path.display().to_string())?.unwrap_or_default();
    let mut values = BTreeMap::new();
    for (name, value) in table {
        if !table::all().any(|setting| setting.name == name) {
            let known: String = table::all().map(|setting| format!("{}, ", setting.name)).collect();
            let known = known + "secrets, sources";
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
    Ok(SettingsFile { values, secrets, sources })
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use waypost_core::time::Millis;

    use super::*;

    fn settings(flags: &Flags, environment: &[(&str, &str)]) -> Result<Settings> {
        let environment: BTreeMap<String, String> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::decide(flags, &|name| environment.get(name).cloned())
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
        let flags = Flags { config: Some(file), ..Flags::default() }.with("data", "/d");
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
    fn wrong_values_are_rejected_with_name_and_range() {
        for (variable, value, part) in [
            ("WAYPOST_SLOTS", "many", "setting slots: \"many\": invalid digit"),
            ("WAYPOST_SLOTS", "0", "setting slots must be at least 1, not 0"),
            ("WAYPOST_PARK_AFTER", "soon", "setting park_after: \"soon\": not a duration"),
            ("WAYPOST_ENABLE_SHELL", "perhaps", "setting enable_shell"),
            ("WAYPOST_ALLOW_EGRESS", "http://x", "setting allow_egress"),
            ("WAYPOST_CONFIG", "/nowhere/at/all.toml", "cannot read"),
            ("WAYPOST_LEASE", "1s", "setting lease must be between 3s and 10m, not 1s"),
            ("WAYPOST_CLAIM_BATCH", "0", "between 1 and 10000"),
            ("WAYPOST_CLAIM_BATCH", "-1", "setting claim_batch"),
            ("WAYPOST_OFFER_AGAIN", "10m", "offer_again_max must be at least offer_again, 10m"),
            ("WAYPOST_REMOTE_MAX", "10000001", "at most 10000000"),
            ("WAYPOST_REPLY_BYTES_MAX", "1", "between 4194304 and 2147483648"),
            ("WAYPOST_LISTEN", "here", "setting listen: \"here\": not an address"),
            ("WAYPOST_ADVERTISE_URL", "here", "setting advertise_url: \"here\": not a URL"),
            ("WAYPOST_TLS_KEY", "k.pem", "tls_certificate and tls_key go together"),
            ("WAYPOST_DATABASE_SCHEMA", "a-b", "setting database_schema: \"a-b\": '-' is neither"),
            ("WAYPOST_DATABASE_URL", "mysql://u:canary@h", "database_url: \"mysql://u:***@h\""),
            ("WAYPOST_DATABASE_URL", "canary", "setting database_url: \"***\": not a URL"),
            ("WAYPOST_REDIS_URL", "http://u:canary@h", "redis_url: \"http://u:***@h\""),
            ("WAYPOST_REDIS_URL", "redis://h", "needs database_url as well"),
        ] {
            let error = settings(&Flags::default(), &[(variable, value)]).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(part) && !error.contains("canary"), "{variable}: {error}");
        }
    }

    #[test]
    fn defaults_are_valid_and_those_of_the_engine() {
        let found = settings(&Flags::default(), &[("HOME", "/h")]).unwrap();
        assert_eq!(format!("{:?}", found.engine), format!("{:?}", Config::default()));
        for ShownSetting { name, value, variable, .. } in &found.shown {
            let given = settings(&Flags::default(), &[("HOME", "/h"), (variable, value)]).unwrap();
            assert_eq!(source_of(&given, name), Source::Environment);
            assert_eq!(format!("{:?}", given.engine), format!("{:?}", found.engine), "{name}");
            assert_eq!(format!("{:?}", given.server), format!("{:?}", found.server), "{name}");
            assert_eq!(given.cluster, found.cluster, "{name}");
        }
    }

    #[test]
    fn set_takes_the_last_value_and_heartbeats_follow_the_lease() {
        let parsed = |args: &[&str]| {
            let command = Flags::augment_args(clap::Command::new("waypost"));
            let matches = command.try_get_matches_from([&["waypost"], args].concat())?;
            Flags::from_arg_matches(&matches)
        };
        let args = ["--set", "lease=30s", "--set", "claim_batch=7", "--set", "lease=6s"];
        let engine = settings(&parsed(&args).unwrap(), &[]).unwrap().engine;
        assert_eq!((engine.lease, engine.claim_batch), (Millis(6_000), 7));
        assert_eq!(engine.heartbeat_every, Millis(2_000));
        for (args, part) in [
            (["--set", "lease"], "NAME=VALUE"),
            (["--set", "leese=5s"], "no such setting"),
            (["--set", "lease=soon"], "not a duration"),
            (["--set", "lease=1s"], "lease must be between 3s and 10m"),
            (["--slots", "0"], "slots must be at least 1"),
        ] {
            let error = parsed(&args).unwrap_err().to_string();
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }
}
