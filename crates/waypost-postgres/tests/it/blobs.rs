//! Blobs in the database keep the promises of every place for blobs; and what becomes of uploads that are
//! never completed.

use std::io::{self, Read};
use std::sync::Arc;

use waypost_core::blob::BlobDigest;
use waypost_core::time::Millis;
use waypost_ports::blobs::format::PART_BYTES;
use waypost_ports::blobs::{BlobError, Blobs};
use waypost_ports::clock::{Clock, ManualClock};
use waypost_ports::conformance::blobs::BlobsBackend;
use waypost_ports::conformance::tasks::still_clock;
use waypost_postgres::{Options, PostgresBlobs};

use crate::support::Database;

struct Table {
    database: Database,
    clock: Arc<ManualClock>,
}

impl Table {
    fn new() -> Self {
        Self { database: Database::new(), clock: still_clock() }
    }
}

impl BlobsBackend for Table {
    type Blobs = PostgresBlobs;

    fn open(&self) -> PostgresBlobs {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let options = Options { clock: Some(clock), ..Options::default() };
        PostgresBlobs::new(Arc::new(self.database.open_with(options)))
    }

    fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }

    fn damage(&self, digest: &BlobDigest) {
        self.database.intruder().run(&format!(
            "UPDATE blob_parts AS p SET body = set_byte(body, length(body) - 1,
                 get_byte(body, length(body) - 1) # 1)
             FROM blobs AS b WHERE b.digest = '\\x{digest}' AND b.upload = p.upload
               AND p.n = (SELECT max(n) FROM blob_parts WHERE upload = b.upload)"
        ));
    }

    fn stored(&self) -> usize {
        let rows = self.database.intruder().number(
            "SELECT (SELECT count(*) FROM blobs) + (SELECT count(*) FROM blob_parts)
                  + (SELECT count(*) FROM blob_uploads)",
        );
        usize::try_from(rows).unwrap()
    }
}

waypost_ports::blobs_conformance_tests!(Table::new);

/// Content that does something before its second part.
struct Paused<F>(usize, Option<F>);

impl<F: FnOnce()> Read for Paused<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == PART_BYTES
            && let Some(action) = self.1.take()
        {
            action();
        }
        let bytes = buffer.len().min(self.0);
        self.0 -= bytes;
        Ok(bytes)
    }
}

#[test]
fn upload_whose_process_died_is_discarded_when_it_is_old() {
    let table = Table::new();
    let blobs = table.open();
    let blob = blobs.put(&mut &b"kept"[..], u64::MAX).unwrap();
    table.database.intruder().run(&format!(
        "INSERT INTO blob_uploads VALUES (gen_random_uuid(), {});
         INSERT INTO blob_parts SELECT upload, n, 'x' FROM blob_uploads, generate_series(0, 99) AS n",
        table.clock.now().0
    ));
    let hour = Millis::from_secs(3_600);
    assert_eq!(blobs.discard_uploads(table.clock.now()), Ok(0));
    table.pass(hour);
    assert_eq!(table.stored(), 2 + 101);
    assert_eq!(blobs.discard_uploads(table.clock.now()), Ok(1));
    assert_eq!(table.stored(), 2);
    assert_eq!(blobs.get(&blob.digest, 10), Ok(b"kept".to_vec()));
}

#[test]
fn upload_discarded_while_it_goes_on_fails_and_leaves_nothing() {
    let table = Table::new();
    let blobs = table.open();
    let discard = || {
        table.pass(Millis::from_secs(3_600));
        assert_eq!(blobs.discard_uploads(table.clock.now()), Ok(1));
    };
    let put = blobs.put(&mut Paused(2 * PART_BYTES, Some(discard)), u64::MAX);
    assert!(matches!(put, Err(BlobError::Interrupted(_))), "{put:?}");
    assert_eq!(table.stored(), 0);
}

#[test]
fn blob_deleted_while_it_is_read_is_not_found() {
    let table = Table::new();
    let blobs = table.open();
    let blob = blobs.put(&mut io::repeat(7).take(2 * PART_BYTES as u64), u64::MAX).unwrap();
    let mut pieces = blobs.open(&blob.digest).unwrap().read(..);
    assert!(pieces.next().unwrap().is_ok());
    table.pass(Millis::from_secs(3_600));
    assert_eq!(blobs.delete(&blob.digest, table.clock.now()), Ok(true));
    assert_eq!(pieces.next(), Some(Err(BlobError::NotFound(blob.digest))));
}
