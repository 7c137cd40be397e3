//! The tests that every store must pass.
//!
//! A backend's test binary implements [`StoreUnderTest`] and calls [`conformance_tests!`], which makes one
//! test per case, so that a report names the promise that is broken:
//!
//! ```ignore
//! waypost_ports::conformance_tests!(Folder::new);
//! ```
//!
//! | file | promises about |
//! | --- | --- |
//! | `chain` | the log: parent links, repeats, batches, bytes, time |
//! | `names` | submissions, numbers, definitions |
//! | `births` | executions and mail that come with another one's frame |
//! | `ownership` | control rows, claims, leases, holding |
//! | `crashes` | deaths of owners, and what was in hand at them |
//! | `mail` | the inbox and waking up |
//! | `permits`, `permit_queues` | the queues of concurrency keys; a checker's view of them |
//! | `pages` | logs and inboxes that are longer than a page |
//! | `reading` | loads, snapshots, lists, events |
//! | `lists` | filters and pages |
//! | `feed` | all frames in the order of commits |
//! | `definitions`, `instances` | lists of them |
//! | `access` | API keys and the audit log |
//! | `outbox`, `deliveries`, `awaited` | webhook endpoints and their messages; claims and results of these; messages that nodes wait for |
//! | `triggers`, `settlements`, `fires`, `windows`, `throttles` | triggers: deploys and changes; claims and lists; executions that begin with a fire; groups of events; events that wait for their turn |
//! | `breakers` | circuit breakers |
//! | `hostile` | text that would do harm if it were more than text |
//! | `inspect`, `inspect_triggers` | a checker's reads, and its repairs; those of triggers |
//! | `blob_refs` | which executions name a blob |
//! | `blobs` | places for blobs; its own list: [`blobs_conformance_tests!`] |
//! | `cases` | the list of all cases |
//! | `tasks` | tasks for remote workers; its own list: [`tasks_conformance_tests!`] |
//!
//! [`conformance_tests!`]: crate::conformance_tests
//! [`blobs_conformance_tests!`]: crate::blobs_conformance_tests
//! [`tasks_conformance_tests!`]: crate::tasks_conformance_tests

pub mod access;
pub mod awaited;
pub mod births;
pub mod blob_refs;
pub mod blobs;
pub mod breakers;
mod cases;
pub mod chain;
pub mod crashes;
pub mod definitions;
pub mod deliveries;
pub mod feed;
pub mod fires;
pub mod hostile;
pub mod inspect;
pub mod inspect_triggers;
pub mod instances;
pub mod lists;
pub mod mail;
pub mod names;
pub mod outbox;
pub mod ownership;
pub mod pages;
pub mod permit_queues;
pub mod permits;
pub mod reading;
pub mod rig;
pub mod settlements;
pub mod tasks;
pub mod throttles;
pub mod topics;
pub mod triggers;
pub mod windows;

use std::sync::Arc;

use crate::access::Access;
use crate::blobs::BlobRefs;
use crate::clock::Clock;
use crate::inspect::InspectTriggers;

/// Implemented by a backend's test binary: some data, empty at first.
pub trait StoreUnderTest {
    /// The store under test.
    type Store: InspectTriggers + Access + BlobRefs;

    /// Opens the data. Called again after the store was dropped, for the same data.
    fn open(&self, clock: Arc<dyn Clock>) -> Self::Store;

    /// Returns when lists show everything that was appended.
    fn settle(&self, store: &Self::Store);
}
