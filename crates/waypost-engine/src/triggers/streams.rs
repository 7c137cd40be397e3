//! Streams and tables of the settings' sources: reads pages, fires their entries, and moves the cursor when all
//! of a page are dealt with.
//!
//! ```text
//!   due ─▶ mark what has fired ─▶ read ─▶ fire ─▶ store ─▶ more? again : a watch until it is due again
//! ```
//!
//! A read never waits for entries. Where a source has nothing new, a watch reads it again and again without
//! a place among the triggers that are worked on, and without writing anything.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use waypost_core::failure::Failure;
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{
    Payload, StreamCursor, StreamSource, StreamTrigger, TableSafety, TriggerCursor, TriggerKind,
};
use waypost_ports::source::{StreamEntry, StreamFault, StreamPage, StreamReader, StreamRequest};
use waypost_ports::triggers::{FireOutcome, SettledFire, Settlement, TriggerNo, TriggerRow};

use super::items::{GOES_ON, PageEnd, PageItem, READ_TIMEOUT, failed, key_of, settlement, wrong};
use super::polling::TURN_MAX;
use super::wakeups::TriggerName;
use super::work::TriggerWork;
use super::{FireError, Occurrence};

/// How long the instance that found nothing new watches a source before any instance may take it over.
const WATCH_MAX: Millis = Millis::from_secs(10);
/// Sources that one instance watches at once. Others are due again instead.
pub const WATCHES_MAX: usize = 1_000;
/// How long the number of entries behind a cursor counts that this instance has read.
const BEHIND_KEPT: Duration = Duration::from_secs(30);

/// What the work on streams shares.
pub(super) struct Streams {
    reader: Arc<dyn StreamReader>,
    watches: Arc<Semaphore>,
    /// Entries that the triggers which this instance reads are behind.
    behind: Mutex<BTreeMap<TriggerNo, (u64, Instant)>>,
}

/// What follows from the work on a trigger: when it is due again, and who watches its source until then.
#[derive(Default)]
pub(super) struct StreamEnd {
    pub(super) due: Option<Timestamp>,
    pub(super) watch: Option<Box<StreamWatch>>,
    /// Nothing was done: this build cannot read the definition.
    pub(super) unreadable: bool,
}

/// A source with nothing new, watched.
pub(super) struct StreamWatch {
    reader: Arc<dyn StreamReader>,
    request: StreamRequest,
    every: Duration,
    until: Instant,
    found: StreamNews,
    /// Its place among the watches of the instance.
    _place: OwnedSemaphorePermit,
}

/// A trigger whose source has something new since it was at this seq.
pub(super) struct StreamNews {
    pub(super) trigger: TriggerNo,
    pub(super) name: TriggerName,
    pub(super) seq: u64,
}

/// A stream that is worked on.
struct StreamTurn<'a> {
    row: TriggerRow,
    stream: &'a StreamTrigger,
    now: Timestamp,
}

impl Streams {
    pub(super) fn new(reader: Arc<dyn StreamReader>) -> Self {
        let watches = Arc::new(Semaphore::new(WATCHES_MAX));
        Self { reader, watches, behind: Mutex::default() }
    }

    /// Entries that the triggers which this instance has read of late are behind.
    pub(super) fn behind(&self) -> u64 {
        let mut behind = self.behind.lock();
        behind.retain(|_, (_, at)| at.elapsed() < BEHIND_KEPT);
        behind.values().map(|(count, _)| count).sum()
    }

    async fn read(&self, turn: &StreamTurn<'_>) -> Result<StreamPage, StreamFault> {
        let Some(mut request) = turn.request() else {
            return Err(wrong("the cursor is not that of a stream".to_owned()).into());
        };
        // Rows that have fired must not be read again: not even when their items are forgotten.
        if !request.cursor.unmarked.is_empty() {
            self.reader.mark(request.clone()).await?;
            request.cursor.unmarked.clear();
        }
        let page = self.reader.read(request).await?;
        if let Some(behind) = page.cursor.behind {
            self.behind.lock().insert(turn.row.number, (behind, Instant::now()));
        }
        Ok(page)
    }

    /// Who watches the source until it is due again, if that is worthwhile and there is room.
    fn watch(&self, turn: &StreamTurn<'_>) -> Option<Box<StreamWatch>> {
        if turn.stream.every >= WATCH_MAX {
            return None;
        }
        let place = Arc::clone(&self.watches).try_acquire_owned().ok()?;
        let (workflow, name) = (Arc::clone(&turn.row.workflow), Arc::clone(&turn.row.name));
        Some(Box::new(StreamWatch {
            reader: Arc::clone(&self.reader),
            request: turn.request()?,
            every: turn.stream.every.to_std(),
            until: Instant::now() + WATCH_MAX.to_std(),
            found: StreamNews {
                trigger: turn.row.number,
                name: TriggerName { workflow, name },
                seq: turn.row.seq,
            },
            _place: place,
        }))
    }
}

impl StreamWatch {
    /// Waits for something new; `None` where there was nothing until others may look. A failure is something
    /// new: the turn that follows records it.
    pub(super) async fn run(self) -> Option<StreamNews> {
        loop {
            sleep(self.every).await;
            if Instant::now() >= self.until {
                return None;
            }
            match self.reader.read(self.request.clone()).await {
                Ok(page) if page.entries.is_empty() && page.removed == 0 => {}
                _ => return Some(self.found),
            }
        }
    }
}

impl TriggerWork {
    /// Reads the entries of a stream that are there now.
    pub(super) async fn on_stream(
        &self,
        row: TriggerRow,
        now: Timestamp,
    ) -> Result<StreamEnd, FireError> {
        let planned = self.firing.planned(&row).await?;
        let TriggerKind::Stream(stream) = &planned.trigger.kind else {
            return Ok(StreamEnd::default());
        };
        let mut turn = StreamTurn { row, stream, now };
        let until = self.firing.now().plus(TURN_MAX);
        loop {
            let next = match self.streams.read(&turn).await {
                Ok(page) => self.on_stream_page(&turn, page).await?,
                Err(StreamFault::Failed(failure)) => {
                    Some(turn.failed((&failure, self.firing.engine.jitter())))
                }
                Err(StreamFault::WentBack(reason)) => Some(turn.broken(&reason)),
            };
            let is_idle = matches!(&next, Some((end, false)) if end.failures == 0);
            match self.after_page(&mut turn.row, next, until).await? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(None) => return Ok(StreamEnd::default()),
                ControlFlow::Break(due) => {
                    let watch = if is_idle { self.streams.watch(&turn) } else { None };
                    return Ok(StreamEnd { due, watch, unreadable: false });
                }
            }
        }
    }

    /// Fires the entries of a page.
    async fn on_stream_page(
        &self,
        turn: &StreamTurn<'_>,
        page: StreamPage,
    ) -> Result<Option<PageEnd>, FireError> {
        let StreamPage { entries, mut cursor, more, removed } = page;
        let items = entries.iter().map(|entry| turn.item(entry)).collect();
        let dead_before = cursor.dead_in_a_row;
        let Some(fired) = self.fire_page(&turn.row, items, dead_before).await? else {
            return Ok(None);
        };
        cursor.dead_in_a_row = fired.dead_in_a_row;
        cursor.removed = cursor.removed.saturating_add(removed);
        if removed > 0 {
            self.firing.engine.metrics().trigger_entries_removed_total.add(removed);
        }
        let gap = (removed > 0).then(|| turn.gap(removed, &cursor));
        // What has fired is marked at once.
        let more = more || !cursor.unmarked.is_empty();
        let wait = match (more, turn.stream.every) {
            (true, _) => GOES_ON,
            (false, every) if self.streams.watches.available_permits() > 0 => every.max(WATCH_MAX),
            (false, every) => every,
        };
        let TriggerCursor::Stream(before) = &turn.row.cursor else { return Ok(None) };
        // A broken trigger reads the page again when it is resumed: not all of it was fired.
        let cursor = if fired.broken.is_some() { before.clone() } else { cursor };
        let settlement = Settlement {
            fires: gap.into_iter().chain(fired.settled).collect(),
            broken: fired.broken,
            ..turn.settlement(cursor, turn.now.max(self.firing.now()).plus(wait))
        };
        Ok(Some((settlement, more)))
    }
}

impl StreamTurn<'_> {
    fn request(&self) -> Option<StreamRequest> {
        let TriggerCursor::Stream(cursor) = &self.row.cursor else { return None };
        Some(StreamRequest {
            workflow: Arc::clone(&self.row.workflow),
            source: self.stream.source.clone(),
            cursor: cursor.clone(),
            start: self.stream.from.clone(),
            timeout: READ_TIMEOUT,
        })
    }

    fn item(&self, entry: &StreamEntry) -> PageItem {
        let (item, unreadable) = match &entry.item {
            Ok(item) => (item.clone(), None),
            Err(reason) => (Json::from_value(&json!({ "id": entry.key })), Some(reason)),
        };
        let key = match (&self.stream.key, unreadable) {
            (Some(key), None) => key_of(key, &item),
            _ => Ok(entry.key.clone()),
        };
        let mut found = PageItem::new(key, &item, Payload::item(&item, &Json::null()));
        found.fault = found.fault.or_else(|| unreadable.cloned());
        let details = Json::from_value(&json!({ "source": &**self.stream.source.name() }));
        found.occurrence = found.occurrence.with_details(details);
        found
    }

    /// The record of entries that were removed before they were read.
    fn gap(&self, removed: u64, after: &StreamCursor) -> SettledFire {
        let before = match &self.row.cursor {
            TriggerCursor::Stream(StreamCursor { place: Some(place), .. }) => place,
            _ => "the beginning",
        };
        let position = after.position.unwrap_or_default();
        let key = format!("gap after {before}, up to entry {position}");
        let entries = if removed == 1 { "entry was" } else { "entries were" };
        let reason = format!("{removed} {entries} removed from the source before they were read");
        let occurrence = Occurrence::new(&key, Payload::nothing());
        occurrence.settled(&self.row, FireOutcome::Gap, Some(&reason))
    }

    fn failed(&self, failure: (&Failure, u32)) -> PageEnd {
        (failed(&self.row, self.row.cursor.clone(), self.now, failure), false)
    }

    fn broken(&self, reason: &str) -> PageEnd {
        let TriggerRow { workflow, name, cursor, .. } = &self.row;
        let named = format!("{workflow}/{name}");
        let resume = format!("`waypost triggers resume {named}`");
        let reason = match &self.stream.source {
            StreamSource::Postgres { safety: TableSafety::Mark { .. }, .. } => {
                format!("{reason}; {resume} lets it go on with the rows without the mark")
            }
            StreamSource::Redis { .. } | StreamSource::Postgres { .. } => format!(
                "{reason}; `waypost triggers rewind {named} --cursor '\"beginning\"'` and then {resume} let it go \
                 on with the oldest entry"
            ),
        };
        let end = settlement(&self.row, cursor.clone(), self.now);
        (Settlement { broken: Some(reason.into()), ..end }, false)
    }

    fn settlement(&self, cursor: StreamCursor, next_due: Timestamp) -> Settlement {
        settlement(&self.row, TriggerCursor::Stream(cursor), next_due)
    }
}
