//! The calls of a poll: reads pages, fires their items, and moves the cursor when all of a page are dealt with.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;
use uuid::Uuid;
use waypost_core::failure::Failure;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{PollCursor, PollTrigger, TriggerCursor, TriggerKind};
use waypost_ports::source::PageRequest;
use waypost_ports::triggers::{
    Advance, FireOutcome, SettledFire, Settlement, TriggerRow, TriggerState,
};

use super::polls::{DEAD_IN_A_ROW_MAX, PageItem, PageItems, page_request, poll_backoff, read_page};
use super::runner::TriggerWork;
use super::scheduling::rejected;
use super::{FireError, FireResult};

/// How long a read may take: less than a claim.
const READ_TIMEOUT: Millis = Millis::from_secs(20);
/// How long a poll reads page after page before others have their turn.
const TURN_MAX: Duration = Duration::from_secs(20);
/// Items that are fired at once.
const ITEMS_AT_ONCE: usize = 16;
/// How soon a poll goes on that has more pages.
const GOES_ON: Millis = Millis(1);

/// A poll that is worked on.
struct PollTurn<'a> {
    row: TriggerRow,
    poll: &'a PollTrigger,
    now: Timestamp,
}

/// What became of an item.
enum ItemFired {
    Started,
    Known,
    Nothing(FireOutcome, Option<String>),
}

/// What became of the items of a page.
struct PageFired {
    settled: Vec<SettledFire>,
    /// Items in a row that could not be started, up to the last one.
    dead_in_a_row: u32,
    /// Why the trigger is to stop.
    broken: Option<Arc<str>>,
}

impl TriggerWork {
    /// Reads the pages of a poll that are there now.
    pub(super) async fn on_poll(
        &self,
        row: TriggerRow,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, FireError> {
        let planned = self.firing.planned(&row).await?;
        let TriggerKind::Poll(poll) = &planned.trigger.kind else { return Ok(None) };
        let mut turn = PollTurn { row, poll, now };
        let until = Instant::now() + TURN_MAX;
        loop {
            let TriggerCursor::Poll(cursor) = turn.row.cursor.clone() else { return Ok(None) };
            let next = match self.read(&turn, &cursor).await {
                Ok(Some(page)) => self.on_page(&turn, page).await?,
                Ok(None) => Some(turn.unchanged(cursor)),
                Err(failure) => Some(turn.failed(cursor, &failure)),
            };
            // Some items are to be fired later, or the trigger has changed: the page is read again.
            let Some((settlement, more)) = next else { return Ok(None) };
            let advance = settlement.advance.clone();
            if settlement.failures > 0 {
                self.firing.engine.metrics().trigger_reads_failed_total.add(1);
            }
            let broken = settlement.broken.is_some();
            if !self.firing.store(settlement).await? || broken {
                return Ok(None);
            }
            let Some(Advance { cursor, next_due, .. }) = advance else { return Ok(None) };
            if !more || Instant::now() > until {
                return Ok(next_due);
            }
            turn.row.seq += 1;
            turn.row.cursor = cursor;
            turn.row.state = TriggerState::Active;
        }
    }

    /// The items of the next page; `None` where nothing has changed.
    async fn read(
        &self,
        turn: &PollTurn<'_>,
        cursor: &PollCursor,
    ) -> Result<Option<PageItems>, Failure> {
        let rendered = page_request(turn.poll, cursor)?;
        let request = PageRequest {
            workflow: Arc::clone(&turn.row.workflow),
            trigger: Arc::clone(&turn.row.name),
            config: rendered.config,
            secrets: rendered.secrets,
            etag: cursor.etag.clone(),
            timeout: READ_TIMEOUT,
        };
        let page = self.pages.read(request).await?;
        if cursor.etag.is_some() && page.is_unchanged() {
            return Ok(None);
        }
        read_page(turn.poll, cursor, &page).map(Some)
    }

    /// Fires the items of a page; what is to be stored after it, and whether there is another page.
    async fn on_page(
        &self,
        turn: &PollTurn<'_>,
        page: PageItems,
    ) -> Result<Option<(Settlement, bool)>, FireError> {
        let PageItems { items, mut cursor, more } = page;
        let items = self.unknown(&turn.row, items).await?;
        let Some(fired) = self.fire_items(&turn.row, items, cursor.dead_in_a_row).await? else {
            return Ok(None);
        };
        cursor.dead_in_a_row = fired.dead_in_a_row;
        let wait = if more { GOES_ON } else { turn.poll.every };
        let TriggerCursor::Poll(before) = &turn.row.cursor else { return Ok(None) };
        // A broken trigger reads the page again when it is resumed: not all of it was fired.
        let cursor = match fired.broken {
            Some(_) => PollCursor { etag: None, ..before.clone() },
            None => cursor,
        };
        let settlement = Settlement {
            fires: fired.settled,
            broken: fired.broken,
            ..turn.settlement(cursor, turn.now.max(self.firing.now()).plus(wait))
        };
        Ok(Some((settlement, more)))
    }

    /// Those that have not fired yet.
    async fn unknown(
        &self,
        row: &TriggerRow,
        items: Vec<PageItem>,
    ) -> Result<Vec<PageItem>, FireError> {
        if items.is_empty() {
            return Ok(items);
        }
        let digests: Vec<_> = items.iter().map(|item| item.occurrence.item(row).digest()).collect();
        let number = row.number;
        let known = self.firing.call(move |triggers| triggers.fired(number, &digests)).await?;
        let unknown = items.into_iter().zip(known).filter(|(_, known)| known.is_none());
        Ok(unknown.map(|(item, _)| item).collect())
    }

    /// Fires items, several at once. `None` where some are to be fired later.
    async fn fire_items(
        &self,
        row: &TriggerRow,
        items: Vec<PageItem>,
        dead_before: u32,
    ) -> Result<Option<PageFired>, FireError> {
        let (mut settled, mut dead_in_a_row, mut broken) = (Vec::new(), dead_before, None);
        let firing: Vec<BoxFuture<'_, _>> =
            items.iter().map(|item| self.fire_item(row, item).boxed()).collect();
        let mut fired = stream::iter(firing).buffered(ITEMS_AT_ONCE);
        for item in &items {
            let Some(outcome) = fired.next().await else { break };
            match outcome? {
                None => return Ok(None),
                Some(ItemFired::Started) => dead_in_a_row = 0,
                Some(ItemFired::Known) => {}
                Some(ItemFired::Nothing(outcome, reason)) => {
                    let is_dead = outcome == FireOutcome::Dead;
                    dead_in_a_row = if is_dead { dead_in_a_row + 1 } else { 0 };
                    settled.push(item.occurrence.settled(row, outcome, reason.as_deref()));
                    if dead_in_a_row >= DEAD_IN_A_ROW_MAX {
                        let reason = reason.unwrap_or_default();
                        let text = format!(
                            "{dead_in_a_row} items in a row could not be started; the last one: {reason}"
                        );
                        broken = Some(text.into());
                        break;
                    }
                }
            }
        }
        Ok(Some(PageFired { settled, dead_in_a_row, broken }))
    }

    /// Fires an item; `None` where it is to be fired later.
    async fn fire_item(
        &self,
        row: &TriggerRow,
        item: &PageItem,
    ) -> Result<Option<ItemFired>, FireError> {
        if let Some(fault) = &item.fault {
            return Ok(Some(ItemFired::Nothing(FireOutcome::Dead, Some(fault.clone()))));
        }
        Ok(Some(match self.firing.fire(row, &item.occurrence, None, None).await? {
            FireResult::Started(_) => ItemFired::Started,
            FireResult::Known(_) => ItemFired::Known,
            FireResult::Filtered => ItemFired::Nothing(FireOutcome::Filtered, None),
            FireResult::Dead { reason } => ItemFired::Nothing(FireOutcome::Dead, Some(reason)),
            FireResult::Rejected { holding } => {
                ItemFired::Nothing(FireOutcome::Skipped, Some(rejected(holding)))
            }
            FireResult::Stale => return Ok(None),
            FireResult::Retry { why } => {
                tracing::warn!(%why, trigger = %row.name, workflow = %row.workflow, "an item is fired later");
                return Ok(None);
            }
        }))
    }
}

impl PollTurn<'_> {
    fn unchanged(&self, cursor: PollCursor) -> (Settlement, bool) {
        (self.settlement(cursor, self.now.plus(self.poll.every)), false)
    }

    fn failed(&self, cursor: PollCursor, failure: &Failure) -> (Settlement, bool) {
        let failures = self.row.failures.saturating_add(1);
        let [a, b, c, d, ..] = *Uuid::new_v4().as_bytes();
        let wait = poll_backoff(failures, failure, u32::from_be_bytes([a, b, c, d]));
        // A page that may have been the reason is read in full.
        let cursor = PollCursor { etag: None, ..cursor };
        let settlement = Settlement {
            failures,
            failure: Some(format!("{}: {}", failure.kind, failure.message).into()),
            ..self.settlement(cursor, self.now.plus(wait))
        };
        (settlement, false)
    }

    fn settlement(&self, cursor: PollCursor, next_due: Timestamp) -> Settlement {
        let cursor = TriggerCursor::Poll(cursor);
        Settlement {
            at: self.row.at(),
            advance: Some(Advance { seq: self.row.seq, cursor, next_due: Some(next_due) }),
            group: None,
            fires: Vec::new(),
            failures: 0,
            failure: None,
            broken: None,
            cancel: Vec::new(),
        }
    }
}
