//! How much an engine has committed since it was started: by its metrics, and by the bytes that its
//! thread for commits has written.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The thread of an engine that commits.
const STORE_THREAD: &str = "waypost-store";

#[derive(Clone, Copy)]
pub(super) struct Committed {
    pub(super) commits: u64,
    pub(super) frames: u64,
    /// Unknown for a server on another machine.
    bytes: Option<u64>,
}

impl Committed {
    /// Reads the metrics of an engine, and the counters of its process (`self`, or a process id).
    pub(super) fn read(metrics: &str, process: Option<&str>) -> Result<Self> {
        Ok(Self {
            commits: metric(metrics, "waypost_append_seconds_count")?,
            frames: metric(metrics, "waypost_append_frames_sum")?,
            bytes: process.and_then(bytes_written),
        })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let bytes = self.bytes.zip(before.bytes).map(|(now, before)| now.saturating_sub(before));
        Self {
            commits: self.commits.saturating_sub(before.commits),
            frames: self.frames.saturating_sub(before.frames),
            bytes,
        }
    }

    pub(super) fn bytes_per_commit(&self) -> usize {
        let mean = self.bytes.unwrap_or_default() / self.commits.max(1);
        usize::try_from(mean).unwrap_or(usize::MAX)
    }
}

/// Bytes that the thread that commits has handed to the system's write calls.
fn bytes_written(process: &str) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut threads = threads.flatten().map(|thread| thread.path());
    let commits = |thread: &PathBuf| {
        let name = std::fs::read_to_string(thread.join("comm"));
        name.is_ok_and(|name| name.trim_end() == STORE_THREAD)
    };
    let io = std::fs::read_to_string(threads.find(commits)?.join("io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}

/// The value of a metric without labels.
fn metric(page: &str, name: &str) -> Result<u64> {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value: f64 = value.with_context(|| format!("the server has no metric {name}"))?.parse()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    Ok(value as u64)
}
