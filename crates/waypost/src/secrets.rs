//! The secrets that an operator grants: the tables `[secrets.<name>]` of the settings file.
//!
//! ```toml
//! [secrets.stripe]
//! from = "env:STRIPE_KEY"
//! workflows = ["orders", "billing-*"]
//! hosts = ["api.stripe.com"]
//! ```
//!
//! This module has sources and grants only. A value is read when a task needs it and handed over at
//! once, so that a rotated secret needs no restart, and nothing here could print one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use waypost_core::limits::SECRET_NAME_CHARS_MAX;
use waypost_ports::secret::{
    Grant, HostPattern, NamePattern, SecretRefused, SecretText, Secrets, WorkerGrants,
};

mod origin;

pub(crate) use origin::Origin;

/// The secrets of a settings file.
#[derive(Clone, Debug)]
pub struct GrantedSecrets {
    entries: BTreeMap<String, SecretEntry>,
    environment: fn(&str) -> Option<OsString>,
}

/// One secret: where it comes from, and who may do what with it.
#[derive(Clone, Debug)]
struct SecretEntry {
    from: Origin,
    workflows: Vec<NamePattern>,
    hosts: Arc<[HostPattern]>,
    shell: bool,
    workers: WorkerGrants,
    verify: bool,
}

/// A table as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    from: String,
    workflows: Vec<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    shell: bool,
    #[serde(default)]
    verify: bool,
    #[serde(default)]
    workers: Vec<String>,
    #[serde(default)]
    worker_keys: Vec<String>,
}

impl Default for GrantedSecrets {
    /// None.
    fn default() -> Self {
        Self { entries: BTreeMap::new(), environment: |name| std::env::var_os(name) }
    }
}

impl GrantedSecrets {
    /// Reads the table `secrets` of a settings file.
    pub fn read(table: toml::Value) -> Result<Self> {
        let toml::Value::Table(tables) = table else {
            bail!("`secrets` must be a table: write [secrets.name]");
        };
        let entry = |(name, table): (String, toml::Value)| {
            let entry =
                SecretEntry::read(&name, table).with_context(|| format!("secret {name:?}"))?;
            Ok((name, entry))
        };
        let entries = tables.into_iter().map(entry).collect::<Result<_>>()?;
        Ok(Self { entries, ..Self::default() })
    }

    /// Names and grants, in words.
    pub fn described(&self) -> impl Iterator<Item = (&str, String)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.to_string()))
    }
}

impl Secrets for GrantedSecrets {
    fn resolve(&self, name: &str, workflow: &str) -> Result<Grant, SecretRefused> {
        let name: Arc<str> = name.into();
        let Some(entry) = self.entries.get(&*name) else {
            return Err(SecretRefused::Unknown(name));
        };
        if !entry.workflows.iter().any(|pattern| pattern.covers(workflow)) {
            return Err(SecretRefused::NotGranted { name, workflow: workflow.into() });
        }
        let value = entry
            .from
            .read(self.environment)
            .and_then(|text| SecretText::new(&text).map_err(|error| error.to_string()));
        match value {
            Ok(value) => Ok(Grant {
                name,
                value,
                hosts: Arc::clone(&entry.hosts),
                shell: entry.shell,
                workers: entry.workers.clone(),
                verify: entry.verify,
            }),
            Err(reason) => Err(SecretRefused::Unusable { name, reason }),
        }
    }
}

impl SecretEntry {
    fn read(name: &str, table: toml::Value) -> Result<Self> {
        let is_name = name.len() <= SECRET_NAME_CHARS_MAX
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            bail!(
                "its name must be up to {SECRET_NAME_CHARS_MAX} letters, digits and `_`, and not \
                 begin with a digit"
            );
        }
        // An error about a wrong type could quote a secret value that was written here by mistake.
        let toml::Value::Table(table) = table else {
            bail!(
                "give a table with `from`, `workflows`, and `hosts`, `shell`, `workers` or `verify`"
            );
        };
        let written: Written = table.try_into()?;
        if written.workflows.is_empty() {
            bail!("`workflows` must name who may use it");
        }
        let is_for_tasks =
            !written.hosts.is_empty() || written.shell || !written.workers.is_empty();
        if !is_for_tasks && !written.verify {
            bail!(
                "neither `hosts` nor `shell` nor `workers` nor `verify` is given, so it could not be \
                 used for anything"
            );
        }
        if is_for_tasks && written.verify {
            bail!(
                "`verify` goes with neither `hosts` nor `shell` nor `workers`: a secret that verifies \
                 requests is for nothing else"
            );
        }
        if written.workers.is_empty() && !written.worker_keys.is_empty() {
            bail!("`worker_keys` limits `workers`, which is missing: list the handlers there");
        }
        Ok(Self {
            from: Origin::parse(&written.from)?,
            workflows: patterns(&written.workflows, "a workflow's name")?,
            hosts: written.hosts.iter().map(|host| Ok(host.parse()?)).collect::<Result<_>>()?,
            shell: written.shell,
            verify: written.verify,
            workers: WorkerGrants {
                handlers: patterns(&written.workers, "a handler's name")?.into(),
                keys: patterns(&written.worker_keys, "the name of an API key")?.into(),
            },
        })
    }
}

pub(crate) fn patterns(written: &[String], what: &str) -> Result<Vec<NamePattern>> {
    let pattern = |text: &String| {
        let parsed = NamePattern::parse(text);
        parsed.with_context(|| format!("{text:?} is not {what}; `*` may stand only at its end"))
    };
    written.iter().map(pattern).collect()
}

impl fmt::Display for SecretEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        let names = |patterns: &[NamePattern]| {
            patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut places: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        places.extend(self.shell.then(|| "shell".to_owned()));
        places.extend(self.verify.then(|| "verify requests".to_owned()));
        let WorkerGrants { handlers, keys } = &self.workers;
        if !handlers.is_empty() {
            let keys =
                if keys.is_empty() { String::new() } else { format!(" with key {}", names(keys)) };
            places.push(format!("workers of {}{keys}", names(handlers)));
        }
        write!(f, " for {} to {}", names(&self.workflows), places.join(", "))
    }
}

#[cfg(test)]
mod tests;
