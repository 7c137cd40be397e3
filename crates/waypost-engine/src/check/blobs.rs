//! Are all blobs that executions name there, and do their bytes hash to their digests?

use waypost_core::check::Invariant;
use waypost_core::id::ExecutionNo;
use waypost_ports::blobs::{BlobError, BlobRefs, Blobs};

use super::Finding;

/// Blobs whose digests are read at once.
const PAGE: usize = 500;

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlobTally {
    pub blobs: u64,
    pub bytes: u64,
}

/// Reads every blob that an execution names. Calls `progress` with how far it got. Fails where the blobs or
/// the references cannot be read now, which says nothing about them.
pub fn check_blobs(
    blobs: &dyn Blobs,
    refs: &dyn BlobRefs,
    progress: &dyn Fn(&BlobTally),
) -> Result<(BlobTally, Vec<Finding>), BlobError> {
    let (mut tally, mut findings) = (BlobTally::default(), Vec::new());
    let mut after = None;
    loop {
        let page = refs.named_blobs(after.as_ref(), PAGE)?;
        for digest in &page {
            let read = blobs.open(digest).and_then(|reader| {
                tally.bytes += reader.bytes();
                reader.read(..).try_for_each(|piece| piece.map(drop))
            });
            tally.blobs += 1;
            match read {
                Ok(()) => {}
                Err(error @ (BlobError::NotFound(_) | BlobError::Corrupt { .. })) => {
                    let execution = refs.named_by(digest)?.unwrap_or(ExecutionNo(0));
                    let rule = Invariant::BlobsStored;
                    findings.push(Finding::new(execution, rule, error.to_string(), None));
                }
                Err(error) => return Err(error),
            }
            progress(&tally);
        }
        after = page.last().copied();
        if page.len() < PAGE {
            return Ok((tally, findings));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use waypost_core::blob::BlobDigest;
    use waypost_ports::blobs::MemoryBlobs;
    use waypost_ports::clock::SystemClock;
    use waypost_ports::conformance::rig::{Hand, ONE};
    use waypost_ports::memory::MemoryStore;
    use waypost_ports::store::Store as _;

    use super::*;

    #[test]
    fn missing_and_damaged_blobs_are_found_with_an_execution_that_names_them() {
        let blobs = MemoryBlobs::new(Arc::new(SystemClock));
        let store = MemoryStore::new(Arc::new(SystemClock));
        let put = |content: &[u8]| blobs.put(&mut &*content, 100).unwrap().digest;
        let (whole, damaged) = (put(b"whole"), put(b"damaged"));
        let missing = BlobDigest::of(b"missing");
        blobs.damage(&damaged);
        // Damaged, and named by nothing.
        blobs.damage(&put(b"unnamed"));
        for (number, digest) in [(1, whole), (2, damaged), (3, missing)] {
            let frame = Hand::new(ExecutionNo(number), ONE).next(1).blobs(&[digest]);
            store.append(&[frame.into()]).unwrap();
        }
        let (tally, findings) = check_blobs(&blobs, &store, &|_| {}).unwrap();
        assert_eq!(tally.blobs, 3);
        let mut found: Vec<_> = findings.iter().map(|it| it.violation.execution.0).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3]);
        let text = format!("{findings:?}");
        assert!(text.contains(&damaged.to_string()) && text.contains(&missing.to_string()));
    }
}
