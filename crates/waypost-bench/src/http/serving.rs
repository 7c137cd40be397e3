//! The server that is measured: a `waypost serve` of our own in a process of its own, or one that the
//! user named.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::client::{Client, ServerAddress};
use crate::{DataLocation, NamedServer, disk};

/// The thread of a server that commits.
const STORE_THREAD: &str = "waypost-store";

/// A server that is measured.
pub(super) struct Serving {
    pub(super) target: ServerAddress,
    own: Option<Own>,
}

/// A server in a child process. It dies with this value, and so does its folder.
struct Own {
    process: Child,
    folder: PathBuf,
    keep: bool,
}

/// A server's announcement that it is ready.
#[derive(Deserialize)]
struct Announcement {
    listening: String,
}

/// How much a server has committed since it was started.
#[derive(Clone, Copy, Default)]
pub(super) struct Committed {
    pub(super) commits: u64,
    pub(super) frames: u64,
    /// Bytes that were written for them; only known of a server of our own.
    bytes: Option<u64>,
}

impl Committed {
    pub(super) fn since(&self, before: &Self) -> Self {
        let bytes = self.bytes.zip(before.bytes).map(|(now, before)| now.saturating_sub(before));
        Self {
            commits: self.commits.saturating_sub(before.commits),
            frames: self.frames.saturating_sub(before.frames),
            bytes,
        }
    }

    fn bytes_per_commit(&self) -> usize {
        let mean = self.bytes.unwrap_or_default() / self.commits.max(1);
        usize::try_from(mean).unwrap_or(usize::MAX)
    }
}

impl Serving {
    /// The server that the user named, or else a fresh one.
    pub(super) fn open(named: Option<&NamedServer>, place: &DataLocation) -> Result<Self> {
        if let Some(NamedServer { url, key }) = named {
            let target = ServerAddress::new(url, key.as_deref())?;
            return Ok(Self { target, own: None });
        }
        let (own, url) = Own::start(place)?;
        Ok(Self { target: ServerAddress::new(&url, None)?, own: Some(own) })
    }

    pub(super) async fn committed(&self) -> Result<Committed> {
        let mut client = Client::connect(&self.target).await?;
        let reply = client.ask(&self.target.get("/metrics")).await?;
        let page = reply.text();
        Ok(Committed {
            commits: metric(&page, "waypost_append_seconds_count")?,
            frames: metric(&page, "waypost_append_frames_sum")?,
            bytes: self.own.as_ref().and_then(Own::bytes_committed),
        })
    }

    /// The most memory that the server has used.
    pub(super) fn peak_rss(&self) -> Option<u64> {
        disk::peak_rss(&self.own.as_ref()?.process.id().to_string())
    }

    /// Has the most memory of a server of our own counted from now on, where the system can do that.
    pub(super) fn forget_peak_rss(&self) {
        if let Some(own) = &self.own {
            std::fs::write(format!("/proc/{}/clear_refs", own.process.id()), "5").ok();
        }
    }

    /// Stops a server of our own, and measures what such commits cost on its disk.
    pub(super) fn close(self, committed: &Committed) -> Result<Option<Duration>> {
        let Some(mut own) = self.own else { return Ok(None) };
        own.stop();
        disk::append_and_sync(&own.folder, committed.bytes_per_commit()).map(Some)
    }
}

impl Own {
    fn start(place: &DataLocation) -> Result<(Self, String)> {
        let folder = place.fresh_folder()?;
        let mut process = serve_command(&folder)?.spawn().context("cannot start a server")?;
        let stdout = process.stdout.take();
        let own = Self { process, folder, keep: place.keep };
        let stdout = BufReader::new(stdout.context("the server has no output")?);
        let mut said = serde_json::Deserializer::from_reader(stdout).into_iter::<Announcement>();
        match said.next() {
            Some(Ok(announcement)) => Ok((own, announcement.listening)),
            _ => bail!("the server ended before it was ready"),
        }
    }

    /// Bytes that the thread that commits has handed to the system's write calls.
    fn bytes_committed(&self) -> Option<u64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).ok()?;
        let mut threads = threads.flatten().map(|thread| thread.path());
        let commits = |thread: &PathBuf| {
            let name = std::fs::read_to_string(thread.join("comm"));
            name.is_ok_and(|name| name.trim_end() == STORE_THREAD)
        };
        disk::bytes_written(&threads.find(commits)?)
    }

    /// Nothing is lost by an end without warning, and nothing is wanted of the server any more.
    fn stop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            tracing::warn!(%error, "the server could not be ended");
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.stop();
        if !self.keep
            && let Err(error) = std::fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(%error, folder = %self.folder.display(), "could not remove the folder");
        }
    }
}

/// `waypost serve` on any free port with the default settings, whatever this user has set.
fn serve_command(folder: &Path) -> Result<Command> {
    let settings = folder.join("settings.toml");
    std::fs::write(&settings, "")?;
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut command = Command::new(program);
    let set = std::env::vars_os().map(|(name, _)| name);
    for name in set.filter(|name| name.to_string_lossy().starts_with("WAYPOST_")) {
        command.env_remove(name);
    }
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--output", "json", "--data"])
        .arg(folder.join("data"))
        .arg("--config")
        .arg(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Ok(command)
}

/// The value of a metric without labels.
fn metric(page: &str, name: &str) -> Result<u64> {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value: f64 = value.with_context(|| format!("the server has no metric {name}"))?.parse()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    Ok(value as u64)
}
