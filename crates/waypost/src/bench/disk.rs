//! What the disk itself can do, and what the process used.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Probes taken; the median is reported.
const PROBES: usize = 200;

/// The median time of appending `bytes` to a file in `folder` and syncing it.
pub(super) fn append_and_sync(folder: &Path, bytes: usize) -> Result<Duration> {
    let path = folder.join("disk-probe");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let block = vec![0x5a; bytes.max(1)];
    let mut times = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let start = Instant::now();
        file.write_all(&block)?;
        sync(&file)?;
        times.push(start.elapsed());
    }
    std::fs::remove_file(&path)?;
    times.sort_unstable();
    times.get(PROBES / 2).copied().context("no probe was taken")
}

fn sync(file: &File) -> Result<()> {
    Ok(file.sync_data()?)
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

/// Bytes that this thread has handed to the system's write calls so far.
pub(super) fn bytes_written_by_thread() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}

/// The most memory this process has used, in bytes; `None` where the system does not tell.
pub(super) fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
