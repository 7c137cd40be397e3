//! Where a value is that the settings file must not have: an environment variable, or a file.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use waypost_ports::secret::SECRET_BYTES_MAX;

/// Where a value is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Variable(String),
    File(PathBuf),
}

impl Origin {
    pub(crate) fn parse(from: &str) -> Result<Self> {
        match from.split_once(':') {
            Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
                Ok(Self::Variable(name.to_owned()))
            }
            Some(("file", path)) if Path::new(path).is_absolute() => Ok(Self::File(path.into())),
            Some(("file", _)) => bail!("the path in `from` must be absolute"),
            // The text is not repeated: it may be the secret itself.
            _ => bail!(
                "`from` must say where the value is: \"env:VARIABLE\" or \"file:/path\"; it is \
                 not the place for the value itself"
            ),
        }
    }

    /// The value, or why there is none, without revealing anything about it.
    pub(crate) fn read(&self, environment: fn(&str) -> Option<OsString>) -> Result<String, String> {
        let not_utf8 = || "it is not UTF-8".to_owned();
        match self {
            Self::Variable(name) => environment(name)
                .ok_or("its environment variable is not set")?
                .into_string()
                .map_err(|_| not_utf8()),
            Self::File(path) => {
                let bytes = read_file(path).map_err(|error| format!("its file: {error}"))?;
                let mut text = String::from_utf8(bytes).map_err(|_| not_utf8())?;
                // Editors and `echo` end a file with one.
                if text.ends_with('\n') {
                    text.pop();
                    if text.ends_with('\r') {
                        text.pop();
                    }
                }
                Ok(text)
            }
        }
    }
}

/// The beginning of a file, a little more than a secret may have. Anything but a regular file, which
/// might never end or never answer, is refused.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let words = |error: std::io::Error| error.kind().to_string();
    if !std::fs::metadata(path).map_err(words)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(words)?;
    let enough = SECRET_BYTES_MAX as u64 + 3;
    file.take(enough).read_to_end(&mut bytes).map_err(words)?;
    Ok(bytes)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}
