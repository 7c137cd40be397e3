//! How much an engine has committed since it was started: by its metrics, and by the bytes that its
//! threads have written.

use anyhow::{Context, Result};

/// The threads of an engine that commit; a frame that is alone is appended by the engine's own.
const THREADS: [&str; 2] = ["waypost-store", "waypost-engine"];

#[derive(Clone, Copy)]
pub(super) struct Committed {
    pub(super) commits: u64,
    pub(super) frames: u64,
    /// The longest time for which one execution occupied the decision thread, in milliseconds.
    pub(super) decide_max_ms: f64,
    /// Unknown for a server on another machine.
    bytes: Option<u64>,
}

impl Committed {
    /// Reads the metrics of an engine, and the counters of its process (`self`, or a process id).
    pub(super) fn read(metrics: &str, process: Option<&str>) -> Result<Self> {
        Ok(Self {
            commits: metric(metrics, "waypost_append_seconds_count")?,
            frames: metric(metrics, "waypost_append_frames_sum")?,
            decide_max_ms: value(metrics, "waypost_decide_seconds_max")? * 1_000.0,
            bytes: process.and_then(bytes_written),
        })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let bytes = self.bytes.zip(before.bytes).map(|(now, before)| now.saturating_sub(before));
        Self {
            commits: self.commits.saturating_sub(before.commits),
            frames: self.frames.saturating_sub(before.frames),
            decide_max_ms: self.decide_max_ms,
            bytes,
        }
    }

    pub(super) fn bytes_per_commit(&self) -> usize {
        let mean = self.bytes.unwrap_or_default() / self.commits.max(1);
        usize::try_from(mean).unwrap_or(usize::MAX)
    }
}

/// Bytes that the threads that commit have handed to the system's write calls.
fn bytes_written(process: &str) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let bytes = threads.flatten().filter_map(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let io = std::fs::read_to_string(thread.path().join("io")).ok()?;
        let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: "))?;
        THREADS.contains(&name.trim_end()).then(|| bytes.trim().parse::<u64>().ok())?
    });
    bytes.reduce(|one, other| one + other)
}

/// The value of a metric without labels, which is a count.
fn metric(page: &str, name: &str) -> Result<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    Ok(value(page, name)? as u64)
}

fn value(page: &str, name: &str) -> Result<f64> {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.with_context(|| format!("the server has no metric {name}"))?.parse()?)
}
