//! The disk's own performance, and the resources that the process used.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Probes taken, at most; the median is reported.
const PROBES_MAX: usize = 200;
/// Probes of large commits are fewer, and together write about this much.
const PROBED_BYTES: usize = 128 << 20;
/// Probes taken, however large they are.
const PROBES_MIN: usize = 5;

/// A file that is only there to be appended to and synced. Removed when dropped.
pub(super) struct Probe {
    path: PathBuf,
    file: File,
}

impl Probe {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("disk-probe");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file })
    }

    /// The time of appending so many bytes and syncing them.
    pub(super) fn append_and_sync(&mut self, bytes: usize) -> Result<Duration> {
        let block = vec![0x5a; bytes.max(1)];
        let start = Instant::now();
        self.file.write_all(&block)?;
        self.file.sync_data()?;
        Ok(start.elapsed())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A file that is left behind is removed with its folder.
        std::fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// The median time of appending `bytes` to a file in `folder` and syncing it.
pub(super) fn append_and_sync(folder: &Path, bytes: usize) -> Result<Duration> {
    let mut probe = Probe::open(folder)?;
    let probes = (PROBED_BYTES / bytes.max(1)).clamp(PROBES_MIN, PROBES_MAX);
    let mut times =
        (0..probes).map(|_| probe.append_and_sync(bytes)).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    times.get(probes / 2).copied().context("no probe was taken")
}

/// Bytes of all files in a folder.
pub(super) fn bytes_in(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.is_file() {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// The peak memory of a process (`self`, or a process id), in bytes; `None` where the system does
/// not report it.
pub(super) fn peak_rss(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
