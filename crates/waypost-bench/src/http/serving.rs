//! The server that is measured: a `waypost serve` of our own in a process of its own, or one that the
//! user named.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::client::{Client, ServerAddress};
use crate::committed::Committed;
use crate::{DataLocation, NamedServer, disk};

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

impl Serving {
    /// The server that the user named, or else a fresh one, which has this secret for webhook triggers.
    pub(super) fn open(
        named: Option<&NamedServer>,
        hook_secret: Option<&str>,
        place: &DataLocation,
    ) -> Result<Self> {
        if let Some(NamedServer { url, key }) = named {
            let target = ServerAddress::new(url, key.as_deref())?;
            return Ok(Self { target, own: None });
        }
        let (own, url) = Own::start(hook_secret, place)?;
        Ok(Self { target: ServerAddress::new(&url, None)?, own: Some(own) })
    }

    pub(super) async fn committed(&self) -> Result<Committed> {
        let mut client = Client::connect(&self.target).await?;
        let reply = client.ask(&self.target.get("/metrics")).await?;
        Committed::read(&reply.text(), self.process().as_deref())
    }

    /// The process of a server of our own.
    fn process(&self) -> Option<String> {
        self.own.as_ref().map(|own| own.process.id().to_string())
    }

    /// The most memory that the server has used.
    pub(super) fn peak_rss(&self) -> Option<u64> {
        disk::peak_rss(&self.process()?)
    }

    /// Has the most memory of a server of our own counted from now on, where the system can do that.
    pub(super) fn forget_peak_rss(&self) {
        if let Some(process) = self.process() {
            std::fs::write(format!("/proc/{process}/clear_refs"), "5").ok();
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
    fn start(hook_secret: Option<&str>, place: &DataLocation) -> Result<(Self, String)> {
        let folder = place.fresh_folder()?;
        let mut command = serve_command(&folder)?;
        command.envs(hook_secret.map(|secret| (HOOK_SECRET, secret)));
        let mut process = command.spawn().context("cannot start a server")?;
        let stdout = process.stdout.take();
        let own = Self { process, folder, keep: place.keep };
        let stdout = BufReader::new(stdout.context("the server has no output")?);
        let mut announced =
            serde_json::Deserializer::from_reader(stdout).into_iter::<Announcement>();
        match announced.next() {
            Some(Ok(announcement)) => Ok((own, announcement.listening)),
            _ => bail!("the server ended before it was ready"),
        }
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

/// Has the secret of the webhook trigger.
const HOOK_SECRET: &str = "BENCH_HOOK_SECRET";
/// So many senders on one machine are one load here.
const SETTINGS: &str = "hook_rate_limit = 1000000

[secrets.bench_hook]
from = \"env:BENCH_HOOK_SECRET\"
workflows = [\"bench-hook\"]
verify = true
";

/// `waypost serve` on any free port with the default settings, whatever this user has set; only the rate of
/// webhooks has no limit.
fn serve_command(folder: &Path) -> Result<Command> {
    let settings = folder.join("settings.toml");
    std::fs::write(&settings, SETTINGS)?;
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
