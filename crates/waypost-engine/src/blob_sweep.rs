//! The sweep of blobs: deletes those that no execution names and that were not put or touched for a day.
//!
//! ```text
//!   pass 1: unreferenced and old ─▶ candidate        an hour or more later
//!   pass 2: still unreferenced, still old ─▶ deleted ─▶ [`Blobs::delete`] looks at its age once more
//! ```
//!
//! A blob is put, and then a frame or mail that names it is committed. A put makes the blob young, so the
//! commit has a day. The second pass covers a store whose references were read from a copy that was behind,
//! or that was restored: an hour in which the sweep can be stopped by stopping the instance.
//!
//! In a cluster one instance sweeps, by a lease in the store. Candidates are in its memory: another one that
//! takes the lease starts with pass 1.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use waypost_core::blob::BlobDigest;
use waypost_core::id::InstanceId;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::blobs::{BlobError, BlobRefs, Blobs, ListedBlob};

use crate::metrics::EngineMetrics;

/// How long a blob is kept after it was put or touched, though no execution names it.
pub const UNTOUCHED: Millis = Millis::from_secs(24 * 3_600);
/// The least time between the pass that finds a blob unreferenced and the one that deletes it.
pub const BETWEEN_PASSES: Millis = Millis::from_secs(3_600);

/// What a blob that no execution names is protected by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepSpans {
    /// How long it is kept after it was put or touched.
    pub untouched: Millis,
    /// The least time between the pass that finds it and the one that deletes it.
    pub between_passes: Millis,
}

impl Default for SweepSpans {
    fn default() -> Self {
        Self { untouched: UNTOUCHED, between_passes: BETWEEN_PASSES }
    }
}

/// How often to take or renew the lease, and to see whether a pass is due.
const TICK: Duration = Duration::from_secs(5 * 60);
/// Three ticks: a holder may miss one. A pass renews it with every page.
const LEASE: Millis = Millis::from_secs(15 * 60);
/// Blobs whose references are read at once.
const PAGE: usize = 500;
/// Candidates in memory, about 40 MB. The others are found by a later pass.
const CANDIDATES_MAX: usize = 1_000_000;

/// What is to become of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlobVerdict {
    Keep,
    /// Deleted by a later pass, unless it is named or touched until then.
    Candidate,
    Delete,
}

/// Decides about one blob.
fn judge(
    touched_at: Timestamp,
    is_referenced: bool,
    candidate_since: Option<Timestamp>,
    (now, spans): (Timestamp, SweepSpans),
) -> BlobVerdict {
    if is_referenced || now.since(touched_at) < spans.untouched {
        return BlobVerdict::Keep;
    }
    match candidate_since {
        // Touched since then, and old again: it is a candidate anew.
        Some(since) if touched_at < since && now.since(since) >= spans.between_passes => {
            BlobVerdict::Delete
        }
        _ => BlobVerdict::Candidate,
    }
}

/// The sweep of one instance.
pub struct BlobSweep {
    blobs: Arc<dyn Blobs>,
    refs: Arc<dyn BlobRefs>,
    instance: InstanceId,
    metrics: Arc<EngineMetrics>,
    /// Since when each is one.
    candidates: BTreeMap<BlobDigest, Timestamp>,
    last_pass: Option<Timestamp>,
    spans: SweepSpans,
}

impl BlobSweep {
    /// A sweep without candidates.
    pub fn new(
        blobs: Arc<dyn Blobs>,
        refs: Arc<dyn BlobRefs>,
        instance: InstanceId,
        metrics: Arc<EngineMetrics>,
    ) -> Self {
        let (candidates, spans) = (BTreeMap::new(), SweepSpans::default());
        Self { blobs, refs, instance, metrics, candidates, last_pass: None, spans }
    }

    /// With other spans, for tests.
    #[must_use]
    pub fn with_spans(self, spans: SweepSpans) -> Self {
        Self { spans, ..self }
    }

    fn spans(&self) -> SweepSpans {
        match is_planted(Bug::GcTakesFresh) {
            true => SweepSpans { untouched: Millis(0), between_passes: Millis(0) },
            false => self.spans,
        }
    }

    /// Makes a pass if one is due and this instance holds the lease. Ends early if `stopped`.
    pub fn tick(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), BlobError> {
        if !self.take_lease()? {
            self.candidates.clear();
            self.last_pass = None;
            return Ok(());
        }
        let now = self.blobs.now()?;
        if self.last_pass.is_some_and(|last| now.since(last) < self.spans().between_passes) {
            return Ok(());
        }
        self.last_pass = Some(now);
        self.pass(now, stopped)
    }

    fn take_lease(&self) -> Result<bool, BlobError> {
        Ok(self.refs.take_blob_sweep(self.instance, LEASE)?)
    }

    fn pass(&mut self, now: Timestamp, stopped: &dyn Fn() -> bool) -> Result<(), BlobError> {
        let discarded = self.blobs.discard_uploads(now.minus(self.spans().untouched))?;
        if discarded > 0 {
            tracing::info!(uploads = discarded, "discarded uploads that were never completed");
        }
        let before = std::mem::take(&mut self.candidates);
        let (mut after, mut swept) = (None, 0_u64);
        loop {
            let page = self.blobs.list(after.as_ref(), PAGE)?;
            swept += self.sweep_page(&page, &before, now)?;
            after = page.last().map(|blob| blob.digest);
            if page.len() < PAGE || stopped() || !self.take_lease()? {
                break;
            }
        }
        if swept > 0 {
            tracing::info!(blobs = swept, "deleted blobs that no execution names");
        }
        Ok(())
    }

    fn sweep_page(
        &mut self,
        page: &[ListedBlob],
        before: &BTreeMap<BlobDigest, Timestamp>,
        now: Timestamp,
    ) -> Result<u64, BlobError> {
        let spans = self.spans();
        let old: Vec<&ListedBlob> =
            page.iter().filter(|blob| now.since(blob.touched_at) >= spans.untouched).collect();
        if old.is_empty() {
            return Ok(0);
        }
        let digests: Vec<BlobDigest> = old.iter().map(|blob| blob.digest).collect();
        let mut referenced = self.refs.referenced(&digests)?;
        referenced.sort_unstable();
        let mut swept = 0;
        for blob in old {
            let since = before.get(&blob.digest).copied();
            let is_referenced = referenced.binary_search(&blob.digest).is_ok();
            match judge(blob.touched_at, is_referenced, since, (now, spans)) {
                BlobVerdict::Keep => {}
                BlobVerdict::Candidate if self.candidates.len() < CANDIDATES_MAX => {
                    let since = since.filter(|since| blob.touched_at < *since).unwrap_or(now);
                    self.candidates.insert(blob.digest, since);
                }
                BlobVerdict::Candidate => {}
                BlobVerdict::Delete => {
                    if self.blobs.delete(&blob.digest, now.minus(spans.untouched))? {
                        swept += 1;
                        self.metrics.blobs_swept_total.add(1);
                        self.metrics.blob_bytes_swept_total.add(blob.stored_bytes);
                    }
                }
            }
        }
        Ok(swept)
    }
}

/// The thread that sweeps; dropping it ends it.
pub struct BlobSweeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BlobSweeper {
    /// Starts the thread.
    pub fn start(mut sweep: BlobSweep) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            // Nothing is ever sent: it is disconnected when the sweeper is dropped.
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let is_stopped = || stopped.try_recv() == Err(mpsc::TryRecvError::Disconnected);
                if let Err(error) = sweep.tick(&is_stopped) {
                    tracing::warn!(%error, "could not sweep blobs; trying again later");
                }
            }
        };
        let thread = std::thread::Builder::new().name("waypost-blobs".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for BlobSweeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the sweep of blobs has panicked");
        }
    }
}

#[cfg(test)]
mod tests;
