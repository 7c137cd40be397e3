//! Command-line arguments that become data: payloads, labels, counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::builder::RangedU64ValueParser;
use waypost_core::json::Json;
use waypost_core::limits::{OUTPUT_BYTES_MAX, PAYLOAD_BYTES_MAX};
use waypost_server::wire;
use waypost_server::wire::payload::{Labels, OwnId, Payload, Short};

use super::Usage;

/// Reads a payload: JSON, `@file`, or `-` for standard input. `what` it is for is named in errors.
pub(super) fn payload(what: &str, text: &str) -> Result<Json> {
    let payload = read(text, PAYLOAD_BYTES_MAX);
    payload.map_err(|error| Usage(format!("{what} cannot be used: {error:#}")).into())
}

/// Reads events to publish.
pub(super) fn events(text: &str) -> Result<Json> {
    let events = read(text, waypost_server::cloud_events::EVENTS_BYTES_MAX);
    events.map_err(|error| Usage(format!("the events cannot be used: {error:#}")).into())
}

/// Reads the input of a new execution, which the engine keeps as a blob if it is large.
pub(super) fn of_execution(text: &str) -> Result<Json> {
    let input = read(text, OUTPUT_BYTES_MAX);
    input.map_err(|error| Usage(format!("the input cannot be used: {error:#}")).into())
}

fn read(text: &str, limit: usize) -> Result<Json> {
    let bytes = match text.strip_prefix('@') {
        Some(path) => std::fs::read(path).with_context(|| format!("cannot read {path}"))?,
        None if text == "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
            bytes
        }
        None => text.as_bytes().to_vec(),
    };
    if bytes.len() > limit {
        bail!("it has {} bytes; at most {limit} are kept", bytes.len());
    }
    Json::parse_bytes(&bytes).map_err(|error| anyhow::anyhow!("it is not JSON: {error}"))
}

/// A definition that the user named: a file, or `-` for standard input.
pub(super) struct Source {
    /// Its name in messages.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl Source {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
        // The compiler rejects one byte too many; more need not be read.
        let max = waypost_core::limits::DEFINITION_BYTES_MAX as u64 + 1;
        let mut bytes = Vec::new();
        let read = match stdin {
            true => std::io::stdin().take(max).read_to_end(&mut bytes),
            false => File::open(path).and_then(|file| file.take(max).read_to_end(&mut bytes)),
        };
        match read {
            Ok(_) => Ok(Self { name, bytes }),
            Err(error) => Err(Usage(format!("cannot read {name}: {error}")).into()),
        }
    }

    /// Reads all of them, before anything is done with any.
    pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>> {
        if paths.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            return Err(Usage("`-` is standard input, which can be read once".to_owned()).into());
        }
        paths.iter().map(|path| Self::read(path)).collect()
    }
}

/// Reads labels, `name=value` each.
pub(super) fn labels(texts: &[String]) -> Result<BTreeMap<String, String>> {
    texts
        .iter()
        .map(|text| match text.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Usage(format!("--label {text:?} has no value: write NAME=VALUE")).into()),
        })
        .collect()
}

/// A start of a workflow that is still to be named.
pub(super) fn start(input: Json, id: Option<&str>, labels: &[String]) -> Result<wire::Start> {
    let labels = Labels(self::labels(labels)?);
    id.map_or(Ok(()), check_id)?;
    let id = id.map(|id| OwnId(id.to_owned()));
    let workflow = Short(String::new());
    Ok(wire::Start { workflow, version: None, input: Payload(input), id, labels, signal: None })
}

/// Checks an execution id that the user chose.
fn check_id(id: &str) -> Result<()> {
    if waypost_server::http::parameter::is_id(id) && id != "last" {
        return Ok(());
    }
    let message = format!(
        "id {id:?} must be 1 to 128 letters, digits, '_', '-', ':' or, after the first, '.'"
    );
    Err(Usage(message).into())
}

/// A count of rows: at least one.
pub(super) fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
