//! Secrets: values that exist only in a task, and what a task may do with them.
//!
//! ```text
//!   definition: secrets.stripe ─▶ rendered config: a place ─▶ worker: Secrets::resolve ─▶ handler
//!                                                              the only step that knows the value
//! ```
//!
//! Where the values come from is the implementation's business. The holder of a value keeps it out
//! of everything that is stored or shown: [`SecretText`] does not print itself and cannot be
//! serialised.

mod hosts;

use std::fmt;
use std::sync::Arc;

use waypost_core::failure::{Failure, kind};

pub use hosts::{BadHost, HostPattern, Target};

/// Characters that a secret must have at least. A shorter one would occur by chance in too many
/// outputs to be scrubbed, and be easy to guess.
pub const SECRET_CHARS_MIN: usize = 4;
/// Bytes that a secret may have.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Where the secrets of tasks come from.
pub trait Secrets: Send + Sync {
    /// A secret as it is now, for a task of this workflow. May block.
    fn resolve(&self, name: &str, workflow: &str) -> Result<Grant, SecretRefused>;
}

/// No secrets at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn resolve(&self, name: &str, _workflow: &str) -> Result<Grant, SecretRefused> {
        Err(SecretRefused::Unknown(name.into()))
    }
}

/// A secret in the hands of a task, and what may be done with it.
#[derive(Clone, Debug)]
pub struct Grant {
    pub name: Arc<str>,
    pub value: SecretText,
    /// Where it may be sent.
    pub hosts: Arc<[HostPattern]>,
    /// May it be put into the environment of commands?
    pub shell: bool,
    /// Which remote workers may have it.
    pub workers: WorkerGrants,
    /// May requests to webhook triggers be verified with it? Then it is for nothing else.
    pub verify: bool,
}

impl Grant {
    /// May it be sent there?
    pub fn allows(&self, target: &Target<'_>) -> bool {
        self.hosts.iter().any(|host| host.covers(target))
    }
}

/// The remote workers that may have a secret; the default is none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerGrants {
    /// Handlers whose tasks may carry it.
    pub handlers: Arc<[NamePattern]>,
    /// Names of the API keys with which their workers may poll; empty for all keys.
    pub keys: Arc<[NamePattern]>,
}

impl WorkerGrants {
    /// May tasks of this handler carry it, for some worker?
    pub fn serve(&self, handler: &str) -> bool {
        self.handlers.iter().any(|pattern| pattern.covers(handler))
    }

    /// May a worker have it that polls with this key?
    pub fn poll_with(&self, key: Option<&str>) -> bool {
        let covers = |key: &str| self.keys.iter().any(|pattern| pattern.covers(key));
        self.keys.is_empty() || key.is_some_and(covers)
    }
}

/// A name, or the beginning of one and a star.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamePattern(Arc<str>);

impl NamePattern {
    /// Reads a pattern: `*` may stand only at its end.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_suffix('*').unwrap_or(text);
        (!text.is_empty() && !name.contains('*')).then(|| Self(text.into()))
    }

    /// Is it this name, or a beginning of it?
    pub fn covers(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == &*self.0,
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a secret. `Debug` does not print it; only [`SecretText::reveal`] returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(Arc<str>);

impl SecretText {
    /// Takes a value that can be a secret.
    pub fn new(text: &str) -> Result<Self, BadSecret> {
        if text.chars().take(SECRET_CHARS_MIN).count() < SECRET_CHARS_MIN {
            return Err(BadSecret::TooShort);
        }
        if text.len() > SECRET_BYTES_MAX {
            return Err(BadSecret::TooLong);
        }
        Ok(Self(text.into()))
    }

    /// The value itself. Nothing derived from it may be stored, logged or shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(***)")
    }
}

/// Why a text is not taken as a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadSecret {
    #[error("it is too short to be kept secret: it needs at least {SECRET_CHARS_MIN} characters")]
    TooShort,
    #[error("it has more than {SECRET_BYTES_MAX} bytes")]
    TooLong,
}

/// Why a task does not get a secret. Never contains anything of a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretRefused {
    #[error(
        "there is no secret `{0}` here: define it in the settings file of the process that runs \
         this task, as a table [secrets.{0}] with from = \"env:VARIABLE\" or \"file:/path\", \
         workflows = [\"…\"], and hosts = [\"…\"], shell = true, workers = [\"…\"] or verify = true; `waypost \
         config` lists the secrets that there are"
    )]
    Unknown(Arc<str>),
    #[error("secret `{name}` is not granted to workflow `{workflow}`")]
    NotGranted { name: Arc<str>, workflow: Arc<str> },
    #[error(
        "secret `{name}` is not granted to workers of handler `{handler}`{}: an operator can list \
         the {} of [secrets.{name}]",
        key.as_ref().map_or(String::new(), |key| format!(" that poll with the API key `{key}`")),
        key.as_ref().map_or("handler in `workers`", |_| "key in `worker_keys`"),
    )]
    NotForWorker {
        name: Arc<str>,
        handler: Arc<str>,
        /// The key, where it is granted to the handler, and workers with another key may have it.
        key: Option<Arc<str>>,
    },
    /// It cannot be had, or its value cannot be used.
    #[error("secret `{name}` cannot be used: {reason}")]
    Unusable { name: Arc<str>, reason: String },
}

impl From<SecretRefused> for Failure {
    fn from(refused: SecretRefused) -> Self {
        let kind = match &refused {
            SecretRefused::NotForWorker { .. } => kind::SECRET_NOT_GRANTED,
            SecretRefused::Unknown(_)
            | SecretRefused::NotGranted { .. }
            | SecretRefused::Unusable { .. } => kind::SECRET,
        };
        // A secret is needed before anything is done with it.
        Self { unsent: true, ..Self::permanent(kind, refused.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_does_not_show_itself() {
        let value = SecretText::new("canary-7f3a").unwrap();
        let grant = Grant {
            name: "key".into(),
            value,
            hosts: [].into(),
            shell: false,
            workers: WorkerGrants::default(),
            verify: false,
        };
        let shown = format!("{grant:?} {grant:#?}");
        assert!(shown.contains("key") && !shown.contains("canary"), "{shown}");
        assert_eq!(grant.value.reveal(), "canary-7f3a");
    }

    #[test]
    fn values_that_cannot_be_kept_are_refused() {
        for (text, expected) in [
            (String::new(), Err(BadSecret::TooShort)),
            ("äöü".to_owned(), Err(BadSecret::TooShort)),
            ("äöüß".to_owned(), Ok(())),
            ("x".repeat(SECRET_BYTES_MAX), Ok(())),
            ("x".repeat(SECRET_BYTES_MAX + 1), Err(BadSecret::TooLong)),
        ] {
            assert_eq!(SecretText::new(&text).map(|_| ()), expected, "{} bytes", text.len());
        }
    }
}
