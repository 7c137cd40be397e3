//! Blobs: payloads are put and fetched, the blob store fails and is slow, and the sweep deletes.

use std::sync::Arc;

use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::command::Outcome;
use waypost_core::expr::Wanted;
use waypost_core::id::ExecutionNo;
use waypost_core::json::{Json, references};
use waypost_core::planted::{Bug, is_planted};
use waypost_engine::driver::Input;
use waypost_ports::store::{Append, LEASE, StoredFrame};

use super::{Simulation, WorldEvent};
use crate::fault::Fault;
use crate::process::Life;

/// How long the shell waits before it calls the blob store again.
pub(super) const AGAIN_MS: u64 = 500;

impl Simulation {
    /// Does a fault of the blob store strike?
    pub(super) fn strikes_blobs(&mut self, fault: Fault) -> bool {
        self.store.inner().weather.strikes_apart(fault, &mut self.blobs.random)
    }

    /// The blob store may stop answering.
    pub(super) fn shake_blobs(&mut self) {
        if self.strikes_blobs(Fault::BlobFails) {
            let ms = self.blobs.random.between(100, LEASE.0);
            self.note("blobs fail", &[ms], || format!("{ms} ms"));
            self.blobs.failing = true;
            self.after(ms, WorldEvent::BlobsAnswer);
        }
    }

    /// The payload as the log has it; `None` while the blob store does not answer.
    pub(super) fn keep(&mut self, life: Option<Life>, payload: &Json) -> Option<Json> {
        // What was kept before is a reference.
        if self.blobs.is_inline(payload) || payload.as_reference().is_some() {
            return Some(payload.clone());
        }
        if is_planted(Bug::BlobAfterCommit) {
            let content = payload.text().as_bytes();
            let blob = BlobRef { digest: BlobDigest::of(content), bytes: content.len() as u64 };
            let later = self.blobs.random.below(2_000);
            self.after(later, WorldEvent::PutBlob { life, payload: payload.clone() });
            return Some(Json::reference(blob));
        }
        self.blobs.put(payload).ok().map(Json::reference)
    }

    /// The outcome of an attempt as its worker keeps it; `None` while the blob store does not answer.
    pub(super) fn keep_outcome(
        &mut self,
        life: Option<Life>,
        outcome: &Outcome,
    ) -> Option<Outcome> {
        match outcome {
            Outcome::Completed(output) => self.keep(life, output).map(Outcome::Completed),
            other => Some(other.clone()),
        }
    }

    /// A put that comes late; not from a process that has died.
    pub(super) fn put_blob(&mut self, life: Option<Life>, payload: &Json) {
        if life.is_none_or(|life| self.is_alive(life)) {
            drop(self.blobs.put(payload));
        }
    }

    /// A process has put this payload, and may die before any frame names it.
    pub(super) fn dies_with_blob(&mut self, life: Life, payload: &Json) -> bool {
        let dies =
            payload.as_reference().is_some() && self.strikes_blobs(Fault::BlobLostBeforeCommit);
        if dies {
            self.kill(life);
        }
        dies
    }

    /// Reads what a decision needs, as soon as the stores answer.
    pub(super) fn fetch(&mut self, life: Life, execution: ExecutionNo, wanted: Wanted) {
        let Some(store_calls) = self.store_calls.get(&life).map(Arc::clone) else { return };
        if !self.is_alive(life) {
            return;
        }
        match self.blobs.read(&store_calls, execution, wanted) {
            Ok(content) => {
                let late = match self.strikes_blobs(Fault::BlobSlow) {
                    true => self.blobs.random.between(50, 2 * LEASE.0),
                    false => 0,
                };
                let inputs = vec![Input::Fetched { execution, wanted, content }];
                match late {
                    0 => self.inputs(life, inputs),
                    late => self.after(late, WorldEvent::Inputs(life, inputs)),
                }
            }
            Err(error) => {
                self.note("failed", &[life.into()], || format!("p{life} fetch: {error}"));
                self.after(AGAIN_MS, WorldEvent::Fetch { life, execution, wanted });
            }
        }
    }

    /// The sweep, at any moment.
    pub(super) fn sweep_blobs(&mut self) {
        let next = match self.faults_over {
            true => self.blobs.random.between(5_000, 40_000),
            false => self.blobs.random.between(50, 2_000),
        };
        self.after(next, WorldEvent::SweepBlobs);
        if !self.faults_over && !self.strikes_blobs(Fault::GcRuns) {
            return;
        }
        let before = self.blobs.list().len();
        if let Err(error) = self.blobs.sweep(&self.store) {
            self.note("failed", &[], || format!("sweep: {error}"));
        }
        let swept = before - self.blobs.list().len();
        if swept > 0 {
            self.note("swept", &[swept as u64], || format!("{swept} blobs"));
        }
    }

    /// Every blob that a frame names was put before it.
    pub(super) fn check_blobs_of(&mut self, append: &Append) {
        let body = String::from_utf8_lossy(&append.body);
        let missing = references(&body).find(|blob| !self.blobs.has(&blob.digest));
        if let Some(blob) = missing {
            let header = append.header;
            let what = format!(
                "x{} {} names blob {}, which is not there",
                header.execution.0, header.first_seq, blob.digest
            );
            self.fail("G12", what);
        }
    }

    /// In the end: the sweep takes what no execution names, and nothing that a kept frame names.
    pub(super) fn check_blobs(&mut self) {
        if let Err(error) = self.blobs.sweep_all(&self.store) {
            self.fail("G12", format!("the sweep fails: {error}"));
        }
        let frames: Vec<StoredFrame> = self.store.with(|tables, _| {
            let frames = |execution| tables.frames_from(execution, 0).cloned().collect::<Vec<_>>();
            tables.executions().into_iter().flat_map(frames).collect()
        });
        for frame in &frames {
            let body = frame.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            for BlobRef { digest, .. } in references(&body) {
                if !self.blobs.has(&digest) {
                    let execution = frame.header.execution.0;
                    return self
                        .fail("G12", format!("x{execution} names blob {digest}: it is gone"));
                }
            }
        }
        let stored: Vec<BlobDigest> = self.blobs.list().iter().map(|blob| blob.digest).collect();
        let named = self.store.with(|tables, _| tables.referenced(&stored));
        if let Some(left) = stored.iter().find(|digest| !named.contains(digest)) {
            self.fail("G12", format!("no execution names blob {left}, and the sweep leaves it"));
        }
    }
}
